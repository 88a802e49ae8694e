"""Exact discrete noise: probabilities as they should be, and doubles that decide only where they must be right."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from coterie.errors import InputError
from coterie.mechanisms import discrete

DRAWS = 100_000
CELLS = 40  # of equal probability, as far as whole numbers allow
LAWS = {"gaussian": (discrete.gaussian, 2), "laplace": (discrete.laplace, 1)}
ONES = np.uint64(2**64 - 1)
_REJECT = 1e-7  # p-value below which a sample is called wrong


def p_value(sample: np.ndarray, power: int, scale: float) -> float:
    """Chi-square of the counts, against probabilities summed over every whole number."""
    far = math.ceil(scale * (14 if power == 2 else 90))
    at = np.arange(-far, far + 1)
    chance = np.exp(-(np.abs(at / scale) ** power) / power)  # y²/2σ², or |y|/b
    chance /= chance.sum()
    cell = np.minimum((np.cumsum(chance) * CELLS).astype(int), CELLS - 1)
    expected = np.bincount(cell, chance) * len(sample)
    seen = np.bincount(cell[np.clip(sample, -far, far) + far], minlength=len(expected))
    filled = expected > 0
    return stats.chisquare(seen[filled], expected[filled]).pvalue


@pytest.mark.parametrize("scale", [0.4, 1.0, 2.7, 31.0, 65779.2892928])
@pytest.mark.parametrize("law", LAWS)
def test_probabilities_are_accepted_and_those_of_other_scales_are_not(law, scale):
    draw, power = LAWS[law]
    sample = draw(scale, DRAWS)
    assert (sample.shape, sample.dtype) == ((DRAWS,), np.int64)
    assert p_value(sample, power, scale) > _REJECT
    for factor in (2 / 3, 0.95, 1.05, 3 / 2):
        assert p_value(sample, power, factor * scale) < _REJECT


def test_signs_are_fair_and_zero_counts_once():
    """A zero of each sign would be twice as likely: 0.57 in place of 0.4 at this scale."""
    sample = discrete.gaussian(1.0, DRAWS)
    zeros = 1 / sum(math.exp(-(at**2) / 2) for at in range(-20, 21))
    for seen, chance in (((sample == 0).mean(), zeros), ((sample > 0).mean(), (1 - zeros) / 2)):
        assert abs(seen - chance) < 6 * math.sqrt(chance * (1 - chance) / DRAWS)


def replayed(seed: int) -> discrete.Words:
    """Words for proposals from one stream, single ones from another: the same proposals, however many are settled."""
    many, single = (np.random.Generator(np.random.Philox(key=[seed, at])) for at in (0, 1))
    return lambda count: (single if count == 1 else many).integers(0, 2**64, count, np.uint64)


@pytest.mark.parametrize("scale", [0.4, 3.0, 65536.0, 65779.2892928])
@pytest.mark.parametrize("law", LAWS)
def test_digits_alone_decide_as_doubles_do(law, scale, monkeypatch):
    draw, _ = LAWS[law]
    quick = draw(scale, 300, replayed(7))
    settled = []
    real = discrete._settled
    monkeypatch.setattr(discrete, "_settled", lambda *given: settled.append(given) or real(*given))
    assert np.array_equal(draw(scale, 300, replayed(7)), quick)
    assert not settled
    monkeypatch.setattr(discrete, "_MARGIN", 2.0)
    assert np.array_equal(draw(scale, 300, replayed(7)), quick)
    assert len(settled) > 500


@pytest.mark.parametrize("power", [1, 2])
def test_doubles_are_a_thousand_times_as_close_as_the_margin_asks(power):
    """`_MARGIN` is 2⁻⁴⁰. What doubles find is compared with digits, over all steps that anybody ever sees."""
    rng = np.random.default_rng(0)
    scale = 65779.2892928
    law = discrete._Law(power, (power * Fraction(scale) ** power), math.ceil(scale))
    for _ in range(2000):
        steps = int(rng.integers(0, 12))
        size = law.width * steps + int(rng.integers(0, law.width))
        doubles = np.ldexp(0.8 * np.exp(-(np.float64(size) ** power) / float(law.divisor)), steps)
        exact = Fraction(discrete._chance(117, steps, Fraction(size**power) / law.divisor), 2**117)
        assert exact <= 1
        assert abs(Fraction(float(doubles)) - exact) < Fraction(1, 2**50)


def test_digits_are_within_one_of_the_real_number():
    """Against bounds by exp's series in fractions: partial sums from below, a geometric rest above."""
    for exponent in (Fraction(0), Fraction(1, 3), Fraction(7, 2), Fraction(123457, 10007)):
        terms = [Fraction(1)]
        for at in range(1, 160):
            terms.append(terms[-1] * exponent / at)
        low, high = sum(terms), sum(terms) + 2 * terms[-1]
        for bits, steps in ((117, 0), (181, 3), (245, 9)):
            unit = Fraction(4, 5) * 2 ** (bits + steps)
            assert unit / high - 1 < discrete._chance(bits, steps, exponent) < unit / low + 1


def test_a_uniform_number_too_close_to_call_is_settled_by_its_next_bits():
    """Its first 53 bits are those of p itself: below with zeros after them, above with ones."""
    law = discrete._Law(2, Fraction(2), 1)
    size, steps = np.array([1]), np.array([1])
    head = np.array([float(discrete._chance(53, 1, Fraction(1, 2)))])
    asked = []

    def told(word: np.uint64) -> discrete.Words:
        return lambda count: asked.append(count) or np.full(count, word)

    for shift in (-1.0, 0.0, 1.0):
        answers = [
            bool(discrete._accepted(law, size, steps, head + shift, told(word))[0])
            for word in (np.uint64(0), ONES)
        ]
        assert answers == {-1.0: [True, True], 0.0: [True, False], 1.0: [False, False]}[shift]
    assert asked == [1] * 6


def test_more_bits_are_asked_for_until_it_is_plain():
    """A U that follows p for three words more is settled by the fourth."""
    exponent, asked = Fraction(1, 2), []
    follows = discrete._chance(53 + 4 * 64, 1, exponent)

    def source(count: int) -> np.ndarray:
        asked.append(count)
        word = follows >> (64 * (4 - len(asked))) & int(ONES) if len(asked) < 4 else 0
        return np.full(count, word, np.uint64)

    assert discrete._settled(follows >> 256, 1, exponent, source)
    assert asked == [1] * 4


def test_steps_count_zeros_over_as_many_words_as_it_takes():
    rest = iter([np.uint64(0), np.uint64(2**61)])
    source = lambda count: np.array([next(rest) for _ in range(count)], np.uint64)
    words = np.array([2**63, 2**64 - 1, 2**62, 2**11, 2**11 - 1], np.uint64)
    assert discrete._steps(words, source).tolist() == [0, 0, 1, 52, 53 + 53 + 2]


def test_remainders_are_equally_likely():
    """2⁶⁴ leaves 1 over when divided by 3: the last word would make a remainder of 0 likelier, and is left."""
    law = discrete._Law(2, Fraction(18), 3)
    for word, sizes in ((2**64 - 1, []), (2**64 - 2, [2]), (0, [0])):
        columns = np.array([2**63, word, 0], np.uint64)  # no step, this word, and U = 0 with a plus
        assert discrete._taken(law, 1, lambda count, columns=columns: columns).tolist() == sizes


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**49, 1e-200])
def test_scales_out_of_bounds_are_refused(scale):
    """With 1e-200 nothing was ever taken: its square is no double, and the draw had no end."""
    with pytest.raises(InputError, match=r"^scale=[^\n]*: must be between 3\.55271e-15 and 2\.81475e\+14\.$"):
        discrete.gaussian(scale, 1)


def test_none_are_drawn_where_none_are_asked_for():
    assert discrete.laplace(2.0, 0).tolist() == []
