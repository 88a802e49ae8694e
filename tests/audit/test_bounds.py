"""Bounds on mechanisms whose ε is known: below the truth, within 20 % of it, and valid for any score."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent

from coterie.accounting import certify
from coterie.audit.bounds import clopper_pearson, gaussian, one_run
from coterie.errors import InputError

SURE = 1 - 1e-7  # a correct bound exceeds the truth less than once in ten million runs
GAMES = 400_000


def normal_scores(mu: float, games: int = GAMES, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(games), rng.standard_normal(games) + mu


def laplace_scores(epsilon: float, games: int = GAMES, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The likelihood ratio of Laplace noise of scale 1/ε on a value that is 0 or 1."""
    rng = np.random.default_rng(seed)
    seen = rng.laplace(scale=1 / epsilon, size=(2, games)) + np.array([[0.0], [1.0]])
    ratio = epsilon * (np.abs(seen) - np.abs(seen - 1))
    ratio = np.round(
        ratio, 6
    )  # the last bits of (1 + noise) − 1 tell the worlds apart, as they do in practice
    return ratio[0], ratio[1]


def true_epsilon(mu: float, delta: float) -> float:
    return certify(GaussianDpEvent(1 / mu), delta=delta, relation="add_or_remove_one").epsilon


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("mu", "delta"), [(1.0, 0.1), (2.0, 0.05)])
def test_gaussian_mechanism(mu, delta, seed):
    truth, scores = true_epsilon(mu, delta), normal_scores(mu, seed=seed)
    assert 0.8 * truth <= clopper_pearson(*scores, delta=delta, confidence=SURE) <= truth
    assert 0.8 * truth <= gaussian(*scores, delta=delta, confidence=SURE) <= truth


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_laplace_mechanism(epsilon, seed):
    scores = laplace_scores(epsilon, seed=seed)
    assert 0.8 * epsilon <= clopper_pearson(*scores, delta=0.0, confidence=SURE) <= epsilon


def test_small_delta_needs_many_games_and_gaussian_does_not():
    truth, scores = true_epsilon(0.268, 1e-5), normal_scores(0.268, 350_000)
    assert 0.5 * truth <= clopper_pearson(*scores, delta=1e-5, confidence=0.999) <= truth
    few = tuple(one[:20_000] for one in scores)
    assert clopper_pearson(*few, delta=1e-5, confidence=0.999) < 0.5 * truth
    assert gaussian(*few, delta=1e-5, confidence=0.999) > 0.5 * truth


@pytest.mark.parametrize("bound", [clopper_pearson, gaussian, one_run])
def test_equal_worlds_give_nothing(bound):
    for seed in range(5):
        without, with_ = normal_scores(0.0, 5000, seed)
        assert bound(without, with_, delta=1e-5, confidence=SURE) == 0.0


def test_what_only_happens_without_the_record_counts_as_well():
    without, with_ = normal_scores(0.0, 40_000)
    without[::10] = -10.0  # a tenth of the games, never seen with the record
    assert clopper_pearson(without, with_, delta=0.0, confidence=SURE) > 4.0


def test_one_run_agrees_where_it_has_power():
    truth = true_epsilon(4.0, 1e-5)
    assert 0.1 * truth <= one_run(*normal_scores(4.0, 20_000), delta=1e-5, confidence=0.999) <= truth


def test_perfect_games_are_limited_by_their_number():
    """No finite number of games shows more than about ln(games / 7.6) at this confidence."""
    without, with_ = np.zeros(4000), np.ones(4000)
    found = clopper_pearson(without, with_, delta=0.0, confidence=0.999)
    assert np.log(3000 / 7.7) < found < np.log(3000 / 7.5)


def test_thresholds_are_judged_on_other_games():
    """A threshold made for the choosing games alone, a quarter of all, must not win."""
    rng = np.random.default_rng(1)
    without, with_ = rng.standard_normal((2, 4000))
    without[:1000] -= 10.0
    assert clopper_pearson(without, with_, delta=0.0, confidence=0.999) == 0.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delta": 1.0}, "delta=1.0"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"without": np.zeros(3)}, "games=3"),
        ({"without": np.full(100, np.nan)}, "NaN"),
    ],
)
def test_bad_input_is_one_line(changes, words):
    given = {"without": np.zeros(100), "with_": np.ones(100), "delta": 1e-5, "confidence": 0.99} | changes
    with pytest.raises(InputError, match=words) as caught:
        clopper_pearson(given.pop("without"), given.pop("with_"), **given)
    assert "\n" not in str(caught.value)
