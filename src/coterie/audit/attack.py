"""Play the distinguishing game against the real `emit` in the real engine, and say what it shows.

In each game the attacker sees the transcript of the stated view and guesses which of two neighbouring data sets was
used. It knows every record but one, every public number, and the program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie.accounting import Certificate, Claim, Finding
from coterie.accounting.plans import certificates_of
from coterie.audit import bounds, scores, trained
from coterie.audit.neighbours import Neighbours
from coterie.engines.simulate import play
from coterie.program import Program
from coterie.topologies.mixing import Mixer

_MEMORY = 1 << 24  # numbers that the games of one call may hold at a time
_MOST_AT_ONCE = 1 << 14
_LAST_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an attack found, beside what was claimed and certified. The finding is the Clopper-Pearson bound."""

    finding: Finding
    gaussian: float  # ε, assuming that the mechanism is exactly Gaussian
    one_run: float  # ε by the one-run method
    score: str  # what the attacker judged by
    claim: Claim
    certificate: Certificate
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {
            "audited_epsilon": self.finding.epsilon,
            "finding": self.finding.to_json(),
            "second_opinions": {"gaussian_assumed": _plain(self.gaussian), "one_run": self.one_run},
            "score": self.score,
            "claimed_epsilon": self.claim.epsilon,
            "claim": self.claim.to_json(),
            "certified_epsilon": self.certificate.to_json()["epsilon"],
            "certificate": self.certificate.to_json(),
            "seconds": round(self.seconds, 3),
        }


def audit(
    program: Program,
    pair: Neighbours,
    mixer: Mixer | None,
    *,
    delta: float,
    games: int = 100_000,
    confidence: float = 0.999,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Audit:
    """A lower bound on ε of any program that follows the contract, from `games` games, half in each world.

    Guarantee: the finding exceeds what the program is at `delta`, under the pair's relation and the plan's view, with
    probability at most 1 − confidence. It says nothing of records worse than the pair's.
    """
    started = time.perf_counter()
    _check.count("games", games, least=32)
    _check.probability("confidence", confidence)
    played, score = _scored(program, pair, mixer, games, seed, progress or (lambda what, done, of: None))
    certificate = certificates_of(program.plan, delta)[pair.owner]
    return Audit(
        finding=Finding(
            epsilon=bounds.clopper_pearson(*played, delta=delta, confidence=confidence),
            delta=delta,
            relation=program.plan.relation,
            unit=certificate.unit,
            view=program.plan.view,
            confidence=confidence,
            games=2 * len(played[0]),
        ),
        gaussian=bounds.gaussian(*played, delta=delta, confidence=confidence),
        one_run=bounds.one_run(*played, delta=delta, confidence=confidence),
        score=score,
        claim=program.claim,
        certificate=certificate,
        seconds=time.perf_counter() - started,
    )


def _scored(
    program: Program, pair: Neighbours, mixer: Mixer | None, games: int, seed: int, tell: Callable
) -> tuple[tuple[np.ndarray, np.ndarray], str]:
    """Scores of both worlds, and what they are. A trained statistic is never used on the games it was trained on."""
    half = games // 2
    if scores.ratio_is_known(program):
        watch = scores.likelihood_ratio(scores.mechanics(program, pair))
        without, with_ = play_both(program, pair, mixer, half, seed, watch, tell)
        return (without.sum(axis=1), with_.sum(axis=1)), "likelihood ratio"
    without, with_ = play_both(program, pair, mixer, half, seed, scores.features, tell)
    without, with_ = (one.reshape(len(one), -1) for one in (without, with_))
    taught = half // 3
    learnt = trained.fit(without[:taught], with_[:taught])
    return (
        learnt.score(without[taught:]),
        learnt.score(with_[taught:]),
    ), "quadratic discriminant, trained on a third of the games"


def play_both(
    program: Program,
    pair: Neighbours,
    mixer: Mixer | None,
    games: int,
    seed: int,
    watch: Callable,
    tell: Callable = lambda what, done, of: None,
) -> tuple[np.ndarray, np.ndarray]:
    """(games, steps, ...) of what `watch` keeps, without and with the record; no two games share a seed."""
    known = scores.known(program, pair)
    at_once = _at_once(program, pair, games)
    kept: tuple[list, list] = ([], [])
    first, done = seed, 0
    for world, shards in enumerate((pair.without, pair.with_)):
        for start in range(0, games, at_once):
            seeds = jnp.asarray((first + np.arange(at_once)) % _LAST_SEED, jnp.uint32)
            found = np.asarray(play(program, shards, mixer, seeds=seeds, watch=watch, aside=known))
            kept[world].append(found[: games - start])
            first, done = first + at_once, done + len(kept[world][-1])
            tell("playing games", done, 2 * games)
    return np.concatenate(kept[0]), np.concatenate(kept[1])


def _at_once(program: Program, pair: Neighbours, games: int) -> int:
    """Games of one call: a power of two, so that nearby numbers of games compile once."""
    owners, rows = pair.without.x.shape[:2]
    numbers = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(program.plan.noise_like))
    steps = program.schedule if isinstance(program.schedule, int) else len(program.schedule)
    sampled = rows if not scores.pairs.is_hidden(program.plan.sampler) else 1
    each = owners * (8 * numbers + 2 * sampled) + steps
    fits = min(_MOST_AT_ONCE, max(_MEMORY // each, 64), max(games, 1))
    return 1 << (fits.bit_length() - 1)


def _plain(value: float) -> float | str:
    return value if np.isfinite(value) else "inf"
