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
from coterie.audit import bounds, hidden, scores, trained
from coterie.audit.neighbours import Attacked, Neighbours, keeps_private
from coterie.audit.opinions import Opinions, opinions
from coterie.audit.table import with_table
from coterie.engines.simulate import play
from coterie.program import Program

_MEMORY = 1 << 24  # numbers that the games of one call may hold at a time
_MOST_AT_ONCE = 1 << 14
_LAST_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an attack found, beside what was claimed and certified. The finding is the Clopper-Pearson bound."""

    finding: Finding
    opinions: Opinions
    score: str  # what the attacker judged by
    claim: Claim
    certificate: Certificate
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {
            "audited_epsilon": self.finding.epsilon,
            "finding": self.finding.to_json(),
            **self.opinions.to_json(),
            "score": self.score,
            "claimed_epsilon": self.claim.epsilon,
            "claim": self.claim.to_json(),
            "certified_epsilon": self.certificate.to_json()["epsilon"],
            "certificate": self.certificate.to_json(),
            "seconds": round(self.seconds, 3),
        }


def audit(
    setting: Attacked,
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
    check_effort(games, confidence)
    ratios, score = _scored(setting, games, seed, progress or (lambda what, done, of: None))
    if setting.table and score.startswith("likelihood ratio"):
        ratios = with_table(ratios, setting.table, seed)
        score = f"{score}, that of the table of scores included"
    return judged(setting, ratios, score, (delta, confidence), time.perf_counter() - started)


def check_effort(games: int, confidence: float) -> None:
    """Refuse settings from which no bound follows, before anything is played."""
    _check.count("games", games, least=32)
    _check.probability("confidence", confidence)


def judged(
    setting: Attacked,
    ratios: tuple[np.ndarray, np.ndarray],
    score: str,
    terms: tuple[float, float],
    seconds: float,
) -> Audit:
    """What the scores of both worlds' games show at `terms` = (delta, confidence), beside claim and certificate."""
    (delta, confidence), program = terms, setting.program
    certificate = certificates_of(program.plan, delta)[setting.neighbours.owner]
    return Audit(
        finding=Finding(
            epsilon=bounds.clopper_pearson(*ratios, delta=delta, confidence=confidence),
            delta=delta,
            relation=program.plan.relation,
            unit=certificate.unit,
            view=program.plan.view,
            confidence=confidence,
            games=2 * len(ratios[0]),
        ),
        opinions=opinions(ratios, certificate, confidence),
        score=score,
        claim=program.claim,
        certificate=certificate,
        seconds=seconds,
    )


def _scored(
    setting: Attacked, games: int, seed: int, tell: Callable
) -> tuple[tuple[np.ndarray, np.ndarray], str]:
    """Scores of both worlds, and what they are. A trained statistic is never used on the games it was trained on."""
    half, program, pair = games // 2, setting.program, setting.neighbours
    if not scores.alike(setting.sides[0].program, program):
        return (np.zeros(half), np.ones(half)), "what everybody sees of the program, which follows the record"
    parts = scores.mechanics(program, pair)
    if not keeps_private(program):
        without, with_ = played(setting, half, seed, scores.likelihood_ratio(parts), tell)
        return (without.sum(axis=1), with_.sum(axis=1)), "likelihood ratio"
    if hidden.can_follow(program, parts):
        followed = _followed(program, pair, parts)
        return played(
            setting, half, seed, hidden.notes, tell, followed
        ), "likelihood ratio, hidden steps followed"
    without, with_ = played(setting, half, seed, scores.features, tell)
    without, with_ = (features.reshape(len(features), -1) for features in (without, with_))
    taught = half // 3
    learnt = trained.fit(without[:taught], with_[:taught])
    judging = "quadratic discriminant, trained on a third of the games"
    return (learnt.score(without[taught:]), learnt.score(with_[taught:])), judging


def _followed(program: Program, pair: Neighbours, parts: scores.Mechanics) -> Callable:
    """A function from the notes of games and their seeds to their likelihood ratios."""
    steps, ratio = hidden.own_steps(program, pair.owner), hidden.likelihood_ratio(parts)

    def score(notes: scores.OwnerStep, seeds: jax.Array, known: scores.Known) -> jax.Array:
        own = jax.tree.map(lambda leaf: leaf[:, steps], notes)
        with jax.threefry_partitionable(False):  # as the engine draws
            return ratio(own, seeds, known, program.params)

    return score


def played(
    setting: Attacked,
    games: int,
    seed: int,
    watch: Callable,
    tell: Callable = lambda what, done, of: None,
    after: Callable = lambda notes, seeds, known: notes,
) -> tuple[np.ndarray, np.ndarray]:
    """(games, steps, ...) of what `after` makes of what `watch` keeps, without and with the record, each world with its
    own program; no two games share a seed."""
    sides, pair = setting.sides, setting.neighbours
    known = scores.known(setting.program, pair, sides[0].program)
    at_once = _at_once(setting.program, pair, games)
    collected: tuple[list, list] = ([], [])
    first, done = seed, 0
    for world, shards in enumerate((pair.without, pair.with_)):
        program, mixer = sides[world]
        seen = known._replace(weights=known.believed.weights[world])
        for start in range(0, games, at_once):
            seeds = jnp.asarray((first + np.arange(at_once)) % _LAST_SEED, jnp.uint32)
            outcome = after(play(program, shards, mixer, seeds=seeds, watch=watch, aside=seen), seeds, seen)
            collected[world].append(np.asarray(outcome)[: games - start])
            first, done = first + at_once, done + len(collected[world][-1])
            tell("playing games", done, 2 * games)
    return np.concatenate(collected[0]), np.concatenate(collected[1])


def _at_once(program: Program, pair: Neighbours, games: int) -> int:
    """Games of one call: a power of two, so that nearby numbers of games compile once."""
    owners, rows = pair.without.x.shape[:2]
    numbers = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(program.plan.noise_like))
    steps = program.steps
    sampled = rows if not scores.pairs.is_hidden(program.plan.sampler) else 1
    per_game = owners * (8 * numbers + 2 * sampled) + steps
    fits = min(_MOST_AT_ONCE, max(_MEMORY // per_game, 64), max(games, 1))
    return 1 << (fits.bit_length() - 1)
