"""From the attacker's scores to lower bounds on ε.

Every function takes the scores of games in both worlds (`without` and `with_` the record, larger meaning "with") and
never judges a threshold on the games it was chosen on. A bound is only as good as the score; it is valid for any.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from coterie import _check
from coterie.accounting.gaussian import epsilon_of
from coterie.errors import InputError

CHOOSING = 0.25  # part of the games on which the threshold is chosen; the rest decide
_CANDIDATES = 400  # thresholds that are compared on the choosing games
_FEWEST = 8  # games of each world: fewer cannot be split
ONE_RUN_MOST = 5000  # games of the one-run estimate: it takes time and memory, and m δ in its bound grows


class Rule(NamedTuple):
    """ "With" above the threshold; or, `flipped`, "without" below it."""

    threshold: float
    flipped: bool


class Rates(NamedTuple):
    """Confidence bounds: at least this often right, at most this often a false alarm."""

    right: float
    wrong: float


def clopper_pearson(without: np.ndarray, with_: np.ndarray, *, delta: float, confidence: float) -> float:
    """Lower bound on ε, by exact binomial intervals; no assumption but that games are independent.

    Guarantee: if the mechanism is (ε, δ)-private, the result exceeds ε with probability at most 1 − confidence.
    Argument: (ε, δ) gives P(right) <= e^ε P(wrong) + δ for any rule fixed beforehand, in both directions; each rate
    misses its interval with at most half of what is allowed.

    >>> scores = np.arange(100_000) % 1000 / 1000
    >>> round(clopper_pearson(scores, scores + 10, delta=1e-5, confidence=0.999), 2)
    9.2
    """
    chosen, judged = _split(without, with_, delta, confidence)
    rule = _best_rule(chosen, lambda rates: _epsilon(rates, delta), confidence)
    return max(0.0, _epsilon(_rates(judged, [rule], confidence)[0], delta))


def gaussian(without: np.ndarray, with_: np.ndarray, *, delta: float, confidence: float) -> float:
    """Lower bound on ε, *assuming* that the two worlds' trade-off is a Gaussian's: μ from one threshold, then ε(δ).

    Guarantee: as for `clopper_pearson`, but only for mechanisms that are exactly μ-Gaussian private. It is sharp with
    few games, as a threshold in the bulk tells μ and the assumption tells the tails.
    """
    chosen, judged = _split(without, with_, delta, confidence)
    rule = _best_rule(chosen, _mu, confidence)
    mu = _mu(_rates(judged, [rule], confidence)[0])
    # That of a release whose noise is 1/μ times what a record moves.
    return epsilon_of(1 / mu, delta) if mu > 0 else 0.0


def one_run(
    without: np.ndarray, with_: np.ndarray, *, delta: float, confidence: float, seed: int = 0
) -> float:
    """Lower bound on ε by the one-run method (Steinke, Nasr & Jagielski 2023), as jax-privacy computes it.

    Each game is one canary of a single large run, in or out by a fair coin. A second opinion: its proof shares
    nothing with Clopper and Pearson's intervals.
    """
    from jax_privacy.auditing import CanaryScoreAuditor, Split

    _checked(without, with_, delta, confidence)
    if delta == 0:
        delta = np.finfo(float).tiny  # the library wants δ > 0; pure privacy implies it
    games = min(len(without), len(with_), ONE_RUN_MOST)
    inside = int(np.random.default_rng(seed).binomial(games, 0.5))
    auditor = CanaryScoreAuditor(with_[:inside], without[: games - inside])
    strategy = Split(threshold_estimation_frac=CHOOSING, seed=seed)
    return float(auditor.epsilon_one_run(1 - confidence, delta, threshold_strategy=strategy))


def _checked(without: np.ndarray, with_: np.ndarray, delta: float, confidence: float) -> None:
    if not 0 <= delta < 1:
        raise InputError(f"delta={delta}: must lie in [0, 1).")
    _check.probability("confidence", confidence)
    fewest = min(len(without), len(with_))
    if fewest < _FEWEST:
        raise InputError(f"games={fewest}: must be >= {_FEWEST} in each world. Play more.")
    if np.isnan(without).any() or np.isnan(with_).any():
        raise InputError("scores: hold NaN, which no threshold can judge. Score such games with a number.")


def _split(
    without: np.ndarray, with_: np.ndarray, delta: float, confidence: float
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Games are independent and alike, so the first of them do as well as a random part."""
    _checked(without, with_, delta, confidence)
    ends = [max(2, int(CHOOSING * len(scores))) for scores in (without, with_)]
    return (without[: ends[0]], with_[: ends[1]]), (without[ends[0] :], with_[ends[1] :])


def _best_rule(games: tuple[np.ndarray, np.ndarray], value, confidence: float) -> Rule:
    """The threshold and direction that would give the largest bound on these games."""
    both = np.concatenate(games)
    # Between scores that were seen; denser in the tails, where small δ needs them.
    tail = np.geomspace(1 / len(both), 0.5, _CANDIDATES // 2)
    places = np.unique(np.quantile(both, np.concatenate([tail, 1 - tail])))
    middles = np.concatenate([(places[1:] + places[:-1]) / 2, places])
    rules = [Rule(float(at), flipped) for at in middles for flipped in (False, True)]
    return rules[int(np.argmax([value(rates) for rates in _rates(games, rules, confidence)]))]


def _counts(ordered: tuple[np.ndarray, np.ndarray], rule: Rule) -> tuple[int, int]:
    """How often the rule spoke up where it was right, and where it was wrong; scores in ascending order."""
    without, with_ = ordered
    if rule.flipped:
        return int(np.searchsorted(without, rule.threshold)), int(np.searchsorted(with_, rule.threshold))
    above = [len(scores) - int(np.searchsorted(scores, rule.threshold)) for scores in (with_, without)]
    return above[0], above[1]


def _rates(games: tuple[np.ndarray, np.ndarray], rules: list[Rule], confidence: float) -> list[Rates]:
    """Clopper and Pearson's bounds for each rule, each with half of the allowed failure."""
    from scipy.stats import beta

    missed, ordered = (1 - confidence) / 2, (np.sort(games[0]), np.sort(games[1]))
    right, wrong = np.array([_counts(ordered, rule) for rule in rules], float).T
    flipped = np.array([rule.flipped for rule in rules])
    of_right = np.where(flipped, len(games[0]), len(games[1]))
    of_wrong = np.where(flipped, len(games[1]), len(games[0]))
    low = np.where(right > 0, beta.ppf(missed, np.maximum(right, 1), of_right - right + 1), 0.0)
    short = np.maximum(of_wrong - wrong, 1)
    high = np.where(wrong < of_wrong, beta.ppf(1 - missed, wrong + 1, short), 1.0)
    return [Rates(float(least), float(most)) for least, most in zip(low, high)]


def _epsilon(rates: Rates, delta: float) -> float:
    return math.log((rates.right - delta) / rates.wrong) if rates.right > delta else -math.inf


def _mu(rates: Rates) -> float:
    from scipy.special import ndtri

    inside = 0 < rates.right < 1 and 0 < rates.wrong < 1
    return float(ndtri(rates.right) - ndtri(rates.wrong)) if inside else -math.inf
