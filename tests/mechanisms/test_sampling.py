"""Samplers draw what their events say."""

from __future__ import annotations

from fractions import Fraction

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom, chi2

from coterie.errors import InputError
from coterie.mechanisms import (
    FixedSize,
    FullBatch,
    Gaussian,
    Laplace,
    NoNoise,
    OnePass,
    Poisson,
    ReleasePlan,
    normals,
)
from coterie.mechanisms.discrete import words
from coterie.mechanisms.noise import spec, unit_noise
from coterie.mechanisms.sampling import Draw

ROWS, COUNT, DRAWS = 12, 9, 4000
GAUSSIAN = dp.GaussianDpEvent(2.0)


def draws(sampler, real=False):
    """(draws, rows) how often each row was drawn in each of many draws; `real`: as real owners draw."""
    if real:
        found = Draw(*map(np.stack, zip(*(sampler.exact(COUNT, words) for _ in range(DRAWS)))))
    else:
        keys = jax.random.split(jax.random.key(0), DRAWS)
        found = jax.vmap(lambda key: sampler.draw(key, ROWS, jnp.int32(COUNT), jnp.int32(0)))(keys)
    hits = np.zeros((DRAWS, ROWS))
    np.add.at(hits, (np.arange(DRAWS)[:, None], np.asarray(found.positions)), np.asarray(found.mask))
    return hits


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("batch", [1, 3, 9])
def test_fixed_size_is_uniform_without_replacement(batch, real):
    hits = draws(FixedSize(batch), real)
    assert (hits.sum(1) == batch).all()
    assert hits.max() == 1
    assert hits[:, COUNT:].sum() == 0
    share = batch / COUNT
    spread = np.sqrt(share * (1 - share) / DRAWS)
    assert np.abs(hits[:, :COUNT].mean(0) - share).max() <= 6 * spread


@pytest.mark.parametrize("real", [False, True])
def test_poisson_rows_are_independent_with_the_stated_rate(real):
    hits = draws(Poisson(0.3, ROWS), real)[:, :COUNT]
    counts = np.bincount(hits.sum(1).astype(int), minlength=COUNT + 1)
    expected = DRAWS * binom.pmf(np.arange(COUNT + 1), COUNT, 0.3)
    merged = expected > 5
    statistic = np.sum((counts[merged] - expected[merged]) ** 2 / expected[merged])
    assert statistic < chi2.ppf(1 - 1e-7, merged.sum())
    assert np.abs(np.corrcoef(hits.T) - np.eye(COUNT)).max() < 6 / np.sqrt(DRAWS)
    off = DRAWS * binom.pmf(np.arange(COUNT + 1), COUNT, 0.45)  # the test can fail
    assert np.sum((counts[merged] - off[merged]) ** 2 / off[merged]) > chi2.ppf(1 - 1e-7, merged.sum())


@pytest.mark.parametrize("real", [False, True])
def test_poisson_cap_keeps_a_uniform_subset(real):
    hits = draws(Poisson(0.9, 2), real)
    assert hits.sum(1).max() == 2
    share = hits[:, :COUNT].mean(0)
    assert np.abs(share - share.mean()).max() <= 6 * np.sqrt(share.mean() / DRAWS)


@pytest.mark.parametrize("sampler", [FixedSize(3), Poisson(0.4, 5), Poisson(0.4, ROWS)])
def test_a_draw_does_not_depend_on_padding(sampler):
    """So that an owner draws the same records beside larger owners as alone."""
    for seed in range(20):
        near, far = (
            sampler.draw(jax.random.key(seed), rows, jnp.int32(COUNT), jnp.int32(0)) for rows in (COUNT, 64)
        )
        chosen = [set(np.asarray(one.positions)[np.asarray(one.mask) > 0].tolist()) for one in (near, far)]
        assert chosen[0] == chosen[1]


@pytest.mark.parametrize(("rate", "drawn"), [(1e-10, 0), (1.5 * 2.0**-30, 1), (2.5 * 2.0**-30, 2), (1.0, 8)])
def test_poisson_never_draws_more_often_than_it_is_charged_for(monkeypatch, rate, drawn):
    """The smallest eight of 2^30 lots: those below the rate, rounded down, so at most rate × 2^30 of them."""
    monkeypatch.setattr(normals, "words", lambda key, count: jnp.arange(count, dtype=jnp.uint32) << 2)
    found = Poisson(rate, 8).draw(jax.random.key(0), 8, jnp.int32(8), jnp.int32(0))
    assert float(found.mask.sum()) == drawn <= max(rate * 2.0**30, 0)


@pytest.mark.parametrize(("rate", "drawn"), [(1.0, [0, 1, 2, 3]), (0.5, [0, 1]), (2**-64, [0]), (2**-65, [])])
def test_real_owners_decide_by_64_bits_of_each_record(rate, drawn):
    """Lots that the 30 bits of a simulation, or a double, could not tell apart; the rate is rounded down."""
    lots = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    found = Poisson(rate, 4).exact(4, lambda count: lots[:count])
    assert sorted(found.positions[found.mask > 0]) == drawn
    alike = np.array([2**50 + 2, 2**50 + 1, 2**50], np.uint64)
    assert FixedSize(1).exact(3, lambda count: alike[:count]).positions.tolist() == [2]


def test_events_say_what_is_drawn():
    assert FullBatch().event(GAUSSIAN, 9, 5) == dp.SelfComposedDpEvent(GAUSSIAN, 5)
    single = dp.SampledWithoutReplacementDpEvent(9, 2, GAUSSIAN)
    assert FixedSize(2).event(GAUSSIAN, 9, 5) == dp.SelfComposedDpEvent(single, 5)
    assert Poisson(0.1, 9).event(GAUSSIAN, 9, 5).event == dp.PoissonSampledDpEvent(0.1, GAUSSIAN)
    capped = dp.TruncatedSubsampledGaussianDpEvent(9, 0.1, 4, 2.0)
    assert Poisson(0.1, 4).event(GAUSSIAN, 9, 5).event == capped
    assert OnePass(3).event(GAUSSIAN, 9, 3) == GAUSSIAN


def test_expected_batch_is_public():
    assert [s.expected(200) for s in (FullBatch(), FixedSize(7), Poisson(0.1, 50), OnePass(5))] == [
        200,
        7,
        20,
        5,
    ]


@pytest.mark.parametrize(
    ("sampler", "release", "line"),
    [
        (FixedSize(10), GAUSSIAN, "batch=10: must be <= the owner's 9 records"),
        (Poisson(1.2, 5), GAUSSIAN, "rate=1.2"),
        (Poisson(0.1, 0), GAUSSIAN, "cap=0"),
        (Poisson(0.1, 5), dp.LaplaceDpEvent(1.0), "certified for Gaussian noise only"),
    ],
)
def test_impossible_sampling_is_refused(sampler, release, line):
    with pytest.raises(InputError, match=line):
        sampler.event(release, 9, 5)


def plan(**changes):
    given = {
        "sampler": FullBatch(),
        "clip_norm": 0.5,
        "noise": Gaussian(),
        "noise_multiplier": (2.0, 4.0),
        "releases": (3, 3),
        "sizes": (9, 9),
        "noise_like": {
            "a": jax.ShapeDtypeStruct((2, 3), jnp.float32),
            "b": jax.ShapeDtypeStruct((), jnp.float32),
        },
    }
    return ReleasePlan(**(given | changes))


def test_plan_scales_noise_from_the_one_clip_norm():
    assert plan().noise_scale.tolist() == [1.0, 2.0]


def test_owners_who_are_alike_cost_one_exact_rounding_together(monkeypatch):
    """A hundred thousand of them are planned for in seconds."""
    from coterie.mechanisms import plan as plans

    rounded, exact = [], plans._float32
    monkeypatch.setattr(plans, "_float32", lambda *given: rounded.append(given) or exact(*given))
    many = plan(noise_multiplier=(2.0, 4.0) * 500, releases=(3,) * 1000, sizes=(9,) * 1000)
    assert many.noise_scale.tolist() == [1.0, 2.0] * 500
    assert len(rounded) == 2


def test_what_is_executed_is_never_below_what_is_certified():
    """float32 rounds noise scales up and clip norms down: by one step at most, whatever the numbers are."""
    rng = np.random.default_rng(0)
    lower = 0
    for clip in (1.0, 0.1, 0.7, 2.0**0.5, *rng.lognormal(size=20)):
        multipliers = tuple(rng.lognormal(sigma=3, size=100).tolist())
        made = plan(
            clip_norm=clip,
            noise_multiplier=multipliers,
            releases=(1,) * 100,
            sizes=(9,) * 100,
            noise=Gaussian(),
        )
        executed, clipped = made.noise_scale, made.clip_norms
        assert executed.dtype == clipped.dtype == np.float32
        for z, scale, norm in zip(multipliers, executed.tolist(), clipped.tolist()):
            exact = Fraction(z) * Fraction(clip)
            assert Fraction(scale) >= exact
            assert Fraction(norm) <= Fraction(clip)
            assert scale <= float(exact) * (1 + 2**-22)
            assert norm >= clip * (1 - 2**-22)
            lower += Fraction(float(np.float32(z) * np.float32(clip))) < exact
    assert lower > 800  # so many of 2,400 would have been executed with too little noise


def test_a_plan_without_noise_or_with_a_flaw_is_not_private():
    for changes in (
        {"noise": NoNoise()},
        {"flaw": "scale depends on data"},
        {"noise_multiplier": (0.0, 4.0)},
    ):
        assert plan(**changes).event(0) == dp.NonPrivateDpEvent()


def test_what_else_leaves_is_charged_on_top():
    choice = dp.RandomizedResponseDpEvent(0.1, 2)
    event = plan(extra=(choice, choice)).event(1)
    assert event == dp.ComposedDpEvent([dp.SelfComposedDpEvent(dp.GaussianDpEvent(4.0), 3), choice])


def test_a_plan_for_two_numbers_of_owners_is_refused():
    with pytest.raises(InputError, match="lengths 2, 3 and 2"):
        plan(releases=(1, 1, 1))


@pytest.mark.parametrize(("kind", "fourth"), [(Gaussian(), 3.0), (Laplace(), 6.0)])
def test_unit_noise_has_the_right_spread_and_shape(kind, fourth):
    """Unit normal, or Laplace of scale one (variance 2): power against a scale off by a half or a third."""
    described = spec(plan(noise=kind))
    keys = jax.random.split(jax.random.key(3), 20_000)
    drawn = jax.vmap(lambda key: unit_noise(described, key))(keys)
    assert drawn["a"].shape == (20_000, 2, 3)
    assert drawn["b"].shape == (20_000,)
    flat = np.asarray(drawn["a"], np.float64).ravel()
    variance = kind.spread**2
    spread = 6 * variance * np.sqrt((fourth - 1) / flat.size)
    assert abs(flat.var() - variance) < spread
    assert abs(flat.mean()) < 6 * np.sqrt(variance / flat.size)
    for wrong in (2 / 3, 3 / 2):
        assert abs(flat.var() - variance * wrong**2) > spread
    kurtosis = np.mean(flat**4) / flat.var() ** 2
    assert abs(kurtosis - fourth) < 0.5
