"""A real owner's noise: the right distribution, whole numbers, and a sum that floating point cannot give away."""

from __future__ import annotations

import os
import secrets

import jax.numpy as jnp
import numpy as np
import pytest
import worlds
from scipy import stats

from coterie.federation.releases import randomness
from coterie.mechanisms import Gaussian, Laplace, Noise
from coterie.mechanisms.noise import LATTICE, noised, rounding_slack
from coterie.protocols import build

DRAWS = 4_000
LAWS = {Gaussian(): stats.norm, Laplace(): stats.laplace}
_REJECT = 1e-7  # p-value below which a sample is called wrong


def draw(generator: str, noise: Noise, scale: float = LATTICE, size: int = DRAWS) -> np.ndarray:
    return randomness.drawn(noise, generator, scale, size)  # type: ignore[arg-type]


def p_value(sample: np.ndarray, noise: Noise, scale: float) -> float:
    law = LAWS[noise](scale=scale)
    return stats.kstest(sample + np.random.default_rng(0).uniform(-0.5, 0.5, len(sample)), law.cdf).pvalue


@pytest.mark.parametrize("generator", randomness.GENERATORS)
@pytest.mark.parametrize("noise", LAWS, ids=str)
def test_the_scale_is_accepted_and_others_are_not(generator, noise):
    sample = draw(generator, noise)
    assert sample.dtype == np.int32
    assert p_value(sample, noise, LATTICE) > _REJECT
    assert p_value(sample, noise, LATTICE * 2 / 3) < _REJECT
    assert p_value(sample, noise, LATTICE * 3 / 2) < _REJECT


@pytest.mark.parametrize("generator", randomness.GENERATORS)
def test_draws_are_independent_of_each_other_and_of_the_last_call(generator):
    first, second = draw(generator, Gaussian()), draw(generator, Gaussian())
    assert not np.array_equal(first, second)
    for shift in (1, 2, DRAWS // 2):  # pairs of Box and Muller lie half a sample apart
        assert abs(np.corrcoef(first[shift:], first[:-shift])[0, 1]) < 6 / np.sqrt(
            DRAWS - shift
        )  # deviations
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / np.sqrt(DRAWS)


def test_the_stream_reaches_far_into_the_tails():
    """Of four million, about 253 lie beyond four standard deviations; a clipped or coarse generator has none."""
    sample = draw("stream", Gaussian(), size=4_000_000)
    assert 150 < (np.abs(sample) > 4 * LATTICE).sum() < 360
    assert abs(sample.mean()) < 6 * LATTICE / 2000


def test_whole_numbers_are_added_as_plain_noise_is():
    total, scale = jnp.asarray([0.3, -7.0, 1000.0]), jnp.float32(0.5)
    unit = np.array([3 * 2**16, -5, 2**18], np.int32)
    exact = noised(total, unit, scale)
    plain = noised(total, unit.astype(np.float32) / np.float32(LATTICE), scale)
    np.testing.assert_allclose(exact, plain, rtol=1e-6, atol=float(scale) / LATTICE)


def test_what_leaves_is_a_cell_whatever_the_sum():
    """Two sums give the same set of possible outputs: the noise that maps one on the other always exists."""
    scale = jnp.float32(0.37)
    cell = float(scale) / LATTICE
    outputs = []
    for total in (0.1234567, 0.1234568, -3.3333333):
        whole = np.round(np.float32(total) / np.float32(cell)).astype(np.int64)
        unit = (12_345 - whole).astype(np.int32)
        outputs.append(np.asarray(noised(jnp.float32(total), unit, scale)))
    assert len({one.tobytes() for one in outputs}) == 1


def test_rounding_neighbours_stays_within_the_slack():
    """Sensitivity in cells, measured on random neighbours, against the declared one widened by the slack."""
    program = build("dual_averaging", worlds.task((50,), 40), {"rounds": 2}, "certified")
    plan = program.plan
    scale, rng = np.float32(plan.noise_scale[0]), np.random.default_rng(0)
    cell = scale / np.float32(LATTICE)
    widest = 0.0
    for _ in range(200):
        first = rng.normal(size=40).astype(np.float32)
        move = rng.normal(size=40)
        second = (first + 2 * plan.clip_norm * move / np.linalg.norm(move)).astype(np.float32)
        rounded = [
            np.asarray(noised(jnp.asarray(one), np.zeros(40, np.int32), scale)) for one in (first, second)
        ]
        widest = max(widest, float(np.linalg.norm((rounded[0] - rounded[1]) / cell)))
    declared = 2 * plan.clip_norm / float(cell)
    assert widest <= declared * (1 + rounding_slack(plan, 0))
    assert widest > declared * 0.999  # the neighbours are as far apart as the plan allows


def test_wider_noise_covers_the_slack():
    program = build("dual_averaging", worlds.task((50,), 40), {"rounds": 2}, "certified")
    own = randomness.source("exact", program.plan, 0)
    assert own.scale == LATTICE * (1 + rounding_slack(program.plan, 0))
    assert 0 < rounding_slack(program.plan, 0) < 0.02


@pytest.mark.parametrize("settings", [{"rate": 0.5}, {}])
def test_which_records_enter_a_release_follows_from_no_short_key(settings, monkeypatch):
    """Each record's lot is 64 bits of a cipher's stream under a key of 256 bits, a new one for each release."""
    program = build("dual_averaging", worlds.task((8,), 3), {"rounds": 2, **settings}, "certified")
    own = randomness.source("exact", program.plan, 0)
    keys: list[int] = []
    monkeypatch.setattr(secrets, "token_bytes", lambda count: keys.append(count) or os.urandom(count))
    drawn = [own.sample(program.plan.sampler, 8, 1) for _ in range(20)]
    assert keys == ([32] * 20 if settings else [])
    if settings:
        assert len({tuple(np.sort(one.positions[one.mask > 0])) for one in drawn if one}) > 2
    else:
        assert drawn == [None] * 20  # all records are in each release
