"""One owner's side against the simulator: with the same keys, the same messages and models, for every protocol."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import worlds
from dp_accounting import ComposedDpEvent, NoOpDpEvent

from coterie import topologies
from coterie.accounting import certify
from coterie.accounting.ledger import Ledger, data_hash
from coterie.accounting.plans import certificates_of, charges_of
from coterie.engines.simulate import simulate
from coterie.errors import BudgetError, InputError
from coterie.federation.releases import side as sides
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.randomness import injected, source
from coterie.federation.releases.release import Outlet, OwnRun
from coterie.federation.releases.side import OwnRecords, RegisterSide, RoundsSide, VisitSide
from coterie.program import Program, Rounds
from coterie.protocols import PROTOCOLS, build

SIZES, DIM, SEED, DELTA = (12, 7, 9), 3, 5, 1e-4
ROWS: dict[str, dict[str, Any]] = {
    "async_learner": {"ticks": 9},
    "average_erm": {},
    "central_erm": {},
    "deep_q": {"policy": "coin"},
    "dual_averaging": {"rounds": 3},
    "push_sum": {"rounds": 3},
    "random_walk": {},
    "weighted_erm": {},
    "wor_sgd": {},
}


SAMPLED = {"push_sum": {"rounds": 3, "rate": 0.5}}


def program_of(name: str, rows: dict[str, dict[str, Any]] = ROWS) -> Program:
    task = worlds.task(SIZES, DIM, epsilon=(0.7, 2.0, 1.0), delta=DELTA)
    return build(name, task, rows[name], "certified")


def records_of(owner: int) -> OwnRecords:
    everyone = worlds.shards(SIZES, DIM)
    count = SIZES[owner]
    return OwnRecords(np.asarray(everyone.x)[owner, :count], np.asarray(everyone.y)[owner, :count])


def mixer_of(program: Program) -> topologies.Mixer:
    if program.aggregate is not None:
        return topologies.aggregate(program.aggregate)
    return topologies.mixer(topologies.build("ring", len(SIZES)))


def messages_of(program: Program, owner: int) -> int:
    return int(program.schedule) if isinstance(program.functions, Rounds) else program.plan.releases[owner]


def close(got: Any, expected: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), got, expected)


@pytest.mark.parametrize("name", ["dual_averaging", "wor_sgd"])
def test_what_is_compiled_and_kept_on_the_disk_is_the_same_for_any_records(name):
    """Records, noise and keys are arguments of what is compiled: none is a constant in it."""
    program, texts = program_of(name), set()
    for seed, records in enumerate((records_of(0), records_of(0)._replace(x=records_of(0).x[::-1] / 3))):
        drawn = injected(program.plan, seed, 0)
        noise, sample = drawn.noise(1), drawn.sample(program.plan.sampler, len(records.x), 1)
        now = sides._at(sides._context(program, 0), 1, 0)._replace(key=drawn.coin_key(1))
        if isinstance(program.functions, Rounds):
            one = RoundsSide(program, 0, records, drawn)
            before = (one.start(),)
        else:
            one, shared = VisitSide(program, 0, records, drawn), RegisterSide(program)
            before = (one.start(), shared.ask(shared.open(), 0, 1, 0))
        lowered = sides._said.lower(one._static, before, one._held, noise, now, sample)
        texts.add(lowered.as_text())
    assert len(texts) == 1


def test_every_protocol_has_a_row():
    assert set(ROWS) == set(PROTOCOLS)


@pytest.mark.parametrize(("name", "rows"), [*((name, ROWS) for name in ROWS), ("push_sum", SAMPLED)])
def test_an_owner_says_what_the_simulator_says(name, rows):
    program = program_of(name, rows)
    trace = simulate(program, worlds.shards(SIZES, DIM), mixer_of(program), seed=SEED, transcript=True)
    play = _rounds if isinstance(program.functions, Rounds) else _visits
    messages, model = play(program)
    close(messages, jax.tree.map(lambda leaf: np.asarray(leaf)[: len(messages)], _listed(trace.messages)))
    close(model, jax.tree.map(lambda leaf: np.asarray(leaf)[0], trace.model))


def _listed(messages: Any) -> list:
    steps = len(jax.tree.leaves(messages)[0])
    return [jax.tree.map(lambda leaf, at=at: np.asarray(leaf)[at], messages) for at in range(steps)]


def _rounds(program: Program) -> tuple[list, Any]:
    sides = [
        RoundsSide(program, owner, records_of(owner), injected(program.plan, SEED, owner))
        for owner in range(len(SIZES))
    ]
    states, said, mix = [side.start() for side in sides], [], mixer_of(program)
    for step in range(1, int(program.schedule) + 1):
        spoken = [side.emit(state, step, step - 1) for side, state in zip(sides, states)]
        together = jax.tree.map(lambda *leaves: np.stack(leaves), *[message for message, _ in spoken])
        mixed = mix.apply(mix.arrays, jax.tree.map(jax.numpy.asarray, together), np.int32(step))
        said.append(together)
        states = [
            state._replace(
                public=side.absorb(
                    state.public, own, jax.tree.map(lambda leaf, at=at: np.asarray(leaf)[at], mixed), step
                ),
                private=private,
            )
            for at, (side, state, (own, private)) in enumerate(zip(sides, states, spoken))
        ]
    return said, sides[0].model(states[0].public)


def _visits(program: Program) -> tuple[list, Any]:
    sides = [
        VisitSide(program, owner, records_of(owner), injected(program.plan, SEED, owner))
        for owner in range(len(SIZES))
    ]
    register_side = RegisterSide(program)
    register, privates, turns, said = register_side.open(), [side.start() for side in sides], [0] * 3, []
    for step, owner in enumerate(np.asarray(program.schedule).tolist(), start=1):
        turn = turns[owner]
        turns[owner] += 1
        if turn >= program.plan.releases[owner]:
            said.append(jax.tree.map(np.zeros_like, said[-1]))
            continue
        query = register_side.ask(register, owner, step, turn)
        message, privates[owner] = sides[owner].emit(privates[owner], query, step, turn)
        register = register_side.settle(register, message, owner, step, turn)
        said.append(message)
    return said, register_side.model(register)


@pytest.mark.parametrize("name", ROWS)
def test_charges_of_messages_add_up_to_the_plan(name):
    program = program_of(name)
    for owner, whole in enumerate(certificates_of(program.plan, DELTA)):
        messages = messages_of(program, owner)
        charges = charges_of(program.plan, owner, messages)
        passes = -(-messages // charges.parts) if charges.parts else messages
        together = ComposedDpEvent([charges.upfront or NoOpDpEvent(), *[charges.each] * passes])
        found = certify(together, delta=DELTA, relation=program.plan.relation, size=SIZES[owner])
        assert found.epsilon == pytest.approx(whole.epsilon, rel=1e-6)


@pytest.mark.parametrize("name", ["dual_averaging", "wor_sgd", "weighted_erm"])
def test_a_ledger_of_the_budget_takes_exactly_the_run(name, tmp_path):
    program, owner = program_of(name), 1
    with _ledger(tmp_path, 2.0) as ledger, Journal.open(tmp_path / "journal") as journal:
        outlet = Outlet(ledger, journal, OwnRun("run", program.plan, owner, messages_of(program, owner)))
        assert outlet.affordable
        for step in range(1, messages_of(program, owner) + 1):
            assert outlet.release(step, step - 1, b"%d" % step) == b"%d" % step
        with pytest.raises(BudgetError, match="releases of run"):
            outlet.release(99, 98, b"more")
        assert outlet.release(1, 0, b"again") == b"1"
        assert ledger.spent().epsilon <= 2.0 + 1e-9
    with _ledger(tmp_path, 2.0) as ledger, Journal.open(tmp_path / "journal") as journal:
        again = Outlet(ledger, journal, OwnRun("run", program.plan, owner, messages_of(program, owner)))
        assert (again.turns(), again.stored(1)) == (messages_of(program, owner), b"1")
        other = Outlet(
            ledger, journal, OwnRun("another run", program.plan, owner, messages_of(program, owner))
        )
        assert not other.affordable


def test_a_smaller_budget_stops_the_run_half_way(tmp_path):
    program = program_of("dual_averaging")
    with _ledger(tmp_path, 1.3) as ledger, Journal.open(tmp_path / "journal") as journal:
        outlet = Outlet(ledger, journal, OwnRun("run", program.plan, 1, 3))
        assert not outlet.affordable
        outlet.release(1, 0, b"one")
        with pytest.raises(BudgetError, match="would bring epsilon"):
            outlet.release(2, 1, b"two")
        assert (outlet.turns(), outlet.stored(2)) == (1, None)
        assert ledger.spent().epsilon <= 1.3


def test_own_noise_is_as_wide_as_the_plan_says():
    program = program_of("dual_averaging")
    plan, state = program.plan, None
    for generator in ("exact", "stream"):
        side = RoundsSide(program, 0, records_of(0), source(generator, plan, 0))
        state = side.start()
        drawn = np.concatenate([side.emit(state, 1, 0)[0].ravel() for _ in range(400)])
        spread = drawn.std() / (float(plan.noise_scale[0]) * float(program.numbers.weight[0]))
        assert 0.9 < spread < 1.1  # 1,200 numbers: 2σ/3 and 3σ/2 are twelve standard errors and more away


def test_the_wrong_number_of_records_is_refused():
    program = program_of("dual_averaging")
    with pytest.raises(InputError, match="12"):
        RoundsSide(program, 0, records_of(1), injected(program.plan, SEED, 0))


def _ledger(folder, epsilon: float) -> Ledger:
    return Ledger.open(folder / "ledger", data_hash=data_hash(np.zeros(1)), epsilon=epsilon, delta=DELTA)
