"""Noise for a person whom several owners know: every protocol keeps every budget, and one owner changes nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds

from coterie.accounting.atoms import flatten
from coterie.accounting.plans import certificates_of, person_of
from coterie.engines.owners import context_of, everything
from coterie.errors import InputError
from coterie.protocols import build

DELTA = 1e-4
SIZES = (24, 9, 15, 20)
VIEWS = [
    ("dual_averaging", {"rounds": 6, "view": "masked"}),
    ("dual_averaging", {"rounds": 6, "view": "shared"}),
    ("dual_averaging", {"rounds": 6, "rate": 0.3}),
    ("dual_averaging", {"rounds": 6, "rate": 0.3, "view": "masked"}),
    ("weighted_erm", {"view": "aggregator", "steps": 5}),
    ("weighted_erm", {"relation": "add_or_remove_one", "steps": 5, "step_size": 0.1}),
    ("async_learner", {"noise": "laplace", "ticks": 20}),
    ("deep_q", {"policy": "q"}),
]


def make(name, settings, owners_per_person, epsilon=(0.8,) * 4, calibration="certified"):
    task = worlds.task(SIZES, 3, epsilon=epsilon, delta=DELTA)
    return build(name, replace(task, owners_per_person=owners_per_person), settings, calibration)


@pytest.mark.parametrize(("name", "settings"), VIEWS)
def test_the_budget_is_kept_and_used_for_such_a_person(name, settings):
    plan = make(name, settings, 2).plan
    assert 0.98 * 0.8 <= person_of(plan, DELTA, 2).epsilon <= 0.8


def emitted(program, records, owner, filled: float) -> np.ndarray:
    """An owner's first message with this number in place of all noise, as a vector."""
    context = context_of(program, owner)
    own = jax.tree.map(lambda leaf: leaf[owner], records)
    whole = program.plan.lattice is not None
    noise = jax.tree.map(
        lambda leaf: jnp.full(leaf.shape, filled * (program.plan.lattice[owner] if whole else 1.0),
                              jnp.int32 if whole else leaf.dtype), program.plan.noise_like)  # fmt: skip
    message, _ = program.functions.emit(
        program.functions.init(program.params, context), everything(own), noise, context
    )
    return np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(message)])


def moved(program, owner: int) -> np.ndarray:
    """By how many units of its noise a message moves when a record that is as far out as can be is replaced by its
    opposite: the same record at every owner."""
    far = np.array([1e3, 0.0, 0.0])
    records = worlds.shards(SIZES, 3)
    there, back = (worlds.with_record(records, owner, 1, side * far, 1.0) for side in (1, -1))
    still = emitted(program, there, owner, 0.0)
    scale = np.abs(emitted(program, there, owner, 1.0) - still).max()
    return (emitted(program, back, owner, 0.0) - still) / scale


def covariance(plan) -> np.ndarray:
    """Of everybody's messages, each in units of its own noise; under masks the sum alone is left of them."""
    if plan.masked is not None:
        return np.full((len(SIZES),) * 2, 1e6) * (len(SIZES) * np.eye(len(SIZES)) - 1) + np.eye(len(SIZES))
    return np.eye(len(SIZES)) if plan.shared is None else plan.shared.covariance(len(SIZES))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dual_averaging", {"rounds": 1}),
        ("dual_averaging", {"rounds": 1, "view": "masked", "spare": 0, "colluding": 0, "absent": 0}),
        ("dual_averaging", {"rounds": 1, "view": "shared", "colluding": 0}),
        ("weighted_erm", {"steps": 1, "step_size": 1.0}),
        (
            "weighted_erm",
            {"steps": 1, "step_size": 1.0, "view": "masked", "spare": 0, "colluding": 0, "absent": 0},
        ),
    ],
)
def test_explicit_neighbours_at_two_owners_show_as_much_as_is_certified(name, settings):
    """All messages of one release, whitened: what two data sets that differ in a record at each of two owners move is
    at most what the person's certificate is computed from, and nearly that, as both point the same way."""
    program = make(name, settings, 2)
    shifts, inverse = [moved(program, owner) for owner in range(4)], np.linalg.inv(covariance(program.plan))
    shown = max(
        shifts[i] @ shifts[i] * inverse[i, i] + shifts[j] @ shifts[j] * inverse[j, j]
        + 2 * shifts[i] @ shifts[j] * inverse[i, j]
        for i, j in combinations(range(4), 2)
    )  # fmt: skip
    certified = 4 * flatten(person_of(program.plan, DELTA, 2).event).precision
    assert 0.97 * certified <= shown <= certified * (1 + 1e-3)


@pytest.mark.parametrize(("name", "settings"), VIEWS[:2])
def test_everybody_is_held_to_the_smallest_budget(name, settings):
    """A person at owners i and j was promised ε_i by one and ε_j by the other: both hold, whoever i and j are."""
    budgets = (0.5, 2.0, 1.0, 0.8)
    plan = make(name, settings, 2, budgets).plan
    assert 0.98 * min(budgets) <= person_of(plan, DELTA, 2).epsilon <= min(budgets)


@pytest.mark.parametrize(("name", "settings"), VIEWS[:4])
def test_more_owners_take_more_noise(name, settings):
    least = [min(make(name, settings, owners).plan.noise_multiplier) for owners in (1, 2, 3)]
    assert least[0] < least[1] < least[2]


def test_published_noise_is_what_it_is():
    one, two = (make("dual_averaging", {"rounds": 4}, many, calibration="paper") for many in (1, 2))
    assert one.plan.noise_multiplier == two.plan.noise_multiplier


def test_one_owner_is_the_default_to_the_last_bit():
    task = worlds.task(SIZES, 3, epsilon=(0.8,) * 4, delta=DELTA)
    default = build("dual_averaging", task, {}, "certified")
    said = build("dual_averaging", replace(task, owners_per_person=1), {}, "certified")
    assert default.plan == said.plan
    assert certificates_of(default.plan, DELTA) == certificates_of(said.plan, DELTA)
    for ours, theirs in zip(jax.tree.leaves(default.numbers), jax.tree.leaves(said.numbers)):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("many", [0, 5])
def test_there_are_so_many_owners(many):
    with pytest.raises(InputError, match=f"owners_per_person={many}: must be"):
        make("dual_averaging", {"rounds": 4}, many)
