"""The shipped contract suite: a sound protocol of a user's passes, and every mistake is called by its name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import users_protocol
from users_protocol import Settings, build

from coterie.mechanisms import ReleasePlan
from coterie.protocols import PROTOCOLS
from coterie.protocols.mixing import mixer_of
from coterie.testing import ContractError, World, check_protocol, contract, small_world

WORLD = small_world()


def program(**settings):
    made = build(WORLD.task, Settings(**settings), "certified")
    return made, mixer_of(WORLD.task, made)


@pytest.mark.parametrize("visits", [False, True])
def test_a_sound_protocol_passes(visits):
    found = check_protocol(build, Settings(visits=visits), world=WORLD)
    assert all(0.9 * budget < one <= budget for one, budget in zip(found.epsilon, WORLD.task.epsilon))
    assert 0.9 * found.allowed < found.shift <= found.allowed * (1 + contract.SLACK)
    assert found.compilations == 0


def sensitivity(**settings):
    made, _ = program(**settings)
    return contract.check_sensitivity(build, Settings(**settings), WORLD.task, made, WORLD.records, 0)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("clips at five times", "one record moves a message .* allowed: .* Clip to ctx.clip_norm"),
        ("own clip norm", "one record moves a message .* allowed: .* Clip to ctx.clip_norm"),
        ("half the noise", "one record moves a message .* allowed: "),
        ("carries over", "one record moves a message .* allowed: "),
        ("forgets the mask", "a record whose mask is 0 moves a message; allowed: no effect"),
        (
            "norm without noise",
            "one record moves a number of a message by .* that no noise is on; allowed: 0",
        ),
    ],
)
@pytest.mark.parametrize("visits", [False, True])
def test_a_message_that_moves_too_far_is_caught(mistake, words, visits):
    with pytest.raises(ContractError, match=rf"^sensitivity: {words}[^\n]*$"):
        sensitivity(mistake=mistake, visits=visits)


def test_a_clip_norm_five_times_too_large_is_measured_as_up_to_five_times_too_much():
    with pytest.raises(ContractError) as caught:
        sensitivity(mistake="clips at five times")
    shift, allowed = (float(part.split()[-1].rstrip(".;")) for part in _cut(str(caught.value)))
    assert 3 * allowed < shift <= 5.001 * allowed


def _cut(line: str) -> tuple[str, str]:
    return line.split(" of its scale")[0], line.split("allowed: ")[1].split(" ")[0]


@pytest.mark.parametrize("visits", [False, True])
def test_a_certificate_above_the_budget_is_caught(visits):
    made, _ = program(mistake="quieter plan", visits=visits)
    with pytest.raises(ContractError, match=r"^charge: the plan certifies ε = .* allowed: its budget 0\.6\."):
        contract.check_charges(WORLD.task, made)


def test_charges_that_do_not_add_up_are_caught(monkeypatch):
    made, _ = program()
    ledger = contract.charges_of

    def forgetful(plan: ReleasePlan, owner: int, messages: int):
        charges = ledger(plan, owner, messages)
        return charges._replace(
            each=replace(plan, noise_multiplier=(99.0,) * 3, releases=(1,) * 3).event(owner)
        )

    monkeypatch.setattr(contract, "charges_of", forgetful)
    with pytest.raises(ContractError, match="^charge: a ledger charges owner 0 .* allowed: the plan's"):
        contract.check_charges(WORLD.task, made)


@pytest.mark.parametrize("visits", [False, True])
def test_state_kept_in_python_is_caught(visits):
    made, _ = program(mistake="counts in Python", visits=visits)
    with pytest.raises(ContractError, match="^purity: `emit` traced twice"):
        contract.check_tracing(made, WORLD.records)


@pytest.mark.parametrize(
    ("mistake", "words", "visits"),
    [
        ("remembers outside", "run again with the same seed", False),
        ("remembers outside", "run again with the same seed", True),
        ("forgets the mask", "with other padding", False),
    ],
)
def test_a_run_that_is_not_pure_is_caught(mistake, words, visits):
    made, mixer = program(mistake=mistake, visits=visits)
    with pytest.raises(ContractError, match=rf"^purity: {words}, trace.* differs; allowed: no difference"):
        contract.check_purity(made, WORLD.records, mixer, 0)


@pytest.mark.parametrize("visits", [False, True])
@pytest.mark.parametrize("mistake", ["new functions", "compiled number"])
def test_a_second_compilation_is_caught(mistake, visits):
    made, _ = program(mistake=mistake, visits=visits)
    given = (build, Settings(mistake=mistake, visits=visits), WORLD.task, made, WORLD.records, 0)
    with pytest.raises(ContractError, match="^compilation: .* compiled 1 times; allowed: 0"):
        contract.check_compilations(*given)


def test_a_budget_that_always_changes_the_releases_is_no_way_around_the_check():
    def restless(task, settings, calibration):
        return build(task, replace(settings, rounds=int(1e4 * task.epsilon[0])), calibration)

    made = restless(WORLD.task, Settings(), "certified")
    with pytest.raises(ContractError, match="^compilation: releases change from"):
        contract._with_other_budget(restless, Settings(), WORLD.task, made)


@pytest.mark.parametrize("visits", [False, True])
def test_words_that_know_anothers_record_are_caught(visits):
    """A program that asks Python for what it was told last: by another owner, or in the run before."""
    made, mixer = program(mistake="hears others", visits=visits)
    users_protocol.HEARD[0] = 0.0
    with pytest.raises(ContractError, match="^first words: with a record of owner .* others' messages"):
        contract.check_first_words(made, WORLD.records, mixer, 0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_first_words_are_never_an_empty_slice(name):
    """Also of protocols in which the first owner speaks first."""
    row = PROTOCOLS[name]
    world = small_world(topology="one_peer_exponential" if name == "push_sum" else "ring")
    made = row.build(world.task, row.settings(), "certified")
    owner, heard = contract._last_to_speak(made)
    steps = made.schedule if isinstance(made.schedule, int) else len(made.schedule)
    shape = (steps, 3, 2) if isinstance(made.schedule, int) else (steps, 2)
    assert 0 <= owner < 3
    assert heard({"message": contract.np.zeros(shape)})["message"].size > 0


@pytest.mark.parametrize("visits", [False, True])
def test_a_program_that_prints_its_records_is_caught(visits):
    with pytest.raises(ContractError, match="^leak: .* changed logs, warnings or output; allowed: nothing"):
        check_protocol(build, Settings(mistake="prints", visits=visits), world=WORLD)


def test_a_world_of_ones_own_is_used():
    smaller = World(replace(WORLD.task, epsilon=(0.3, 0.3, 0.3)), WORLD.records)
    found = check_protocol(build, Settings(), world=smaller)
    assert max(found.epsilon) <= 0.3
