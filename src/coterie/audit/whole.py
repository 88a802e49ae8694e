"""A run as it was: its own releases, noise, sampling and numbers of one owner, on a record at its worst.

The program is the run's, with a model of one dimension and a loss that is linear in the score, so that one record's
gradient is ±clip_norm in every release. The other owners' messages say nothing of that record once they are seen, so
they are left out, unless the view is of a sum of all.

Where public samples are released with Gaussian noise the likelihood ratio of a whole run is one normal number. How far
each release moves, in units of its noise, is measured on runs of the engine; then millions of games draw that number.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie import topologies
from coterie.audit import attack, scores
from coterie.audit.attack import Audit
from coterie.audit.neighbours import (
    Attacked,
    Side,
    canary,
    honest,
    keeps_private,
    least_options,
    steady,
)
from coterie.engines.owners import context_of
from coterie.errors import InputError
from coterie.mechanisms import noise as noises
from coterie.mechanisms.noise import NoiseSpec
from coterie.mechanisms.normals import WIDE
from coterie.problems.losses import Loss, huber
from coterie.problems.models import linear
from coterie.problems.problem import Problem
from coterie.program import Program, Rounds
from coterie.protocols import Task, build
from coterie.protocols.mixing import mixer_of
from coterie.units import RECORD

DRAWN_GAMES = 32_000_000  # where a game is one number
MOST_GAMES, FEWEST_GAMES = 100_000, 2_000  # where a game is a run of the engine
_WORK = 1 << 31  # numbers that those games may draw and read in all
_RUNS = 64  # of the engine in each world, on which releases are measured
_AT_ONCE = 1 << 20  # numbers drawn at a time
_UNLIKELY = 5.5  # standard deviations that measured noise may be off: once in ten million
# settings that speak of owners who are left out here
_OF_ALL = ("missing", "cap", "absent", "degree", "colluding")
_PINNED = ("average_erm", "central_erm", "weighted_erm")  # the number of steps shapes their noise


class PlayedRun(NamedTuple):
    """The run that is audited."""

    protocol: str
    options: dict[str, Any]
    calibration: str
    task: Task
    program: Program


class MeasuredReleases(NamedTuple):
    """What runs of the engine showed of each release."""

    shifts: np.ndarray  # (releases,) the least distance between the worlds' means, in standard deviations
    is_normal: bool  # whether the noise on it was standard normal, as far as its mean and variance tell


def of_run(run: PlayedRun, owner: int) -> Attacked:
    """The run, as far as it is about one owner, with a worst-case record of that owner."""
    task, program = run.task, run.program
    seen = np.flatnonzero(scores.view(program, owner)) if program.plan.quorum else honest(program, owner)
    who = [owner, *(int(peer) for peer in seen if peer != owner)]
    own, mixer = _reduced(run, who)
    pair = canary(own.plan.sizes, task.clip_norm, own)
    without = None
    if not program.plan.relation.sizes_are_public:
        sizes = tuple(size - (at == owner) for at, size in enumerate(task.sizes))
        fewer = replace(task, sizes=sizes)
        built = build(run.protocol, fewer, run.options, run.calibration)
        built = built._replace(plan=replace(built.plan, **program.plan.tables, view=program.plan.view))
        run_without = run._replace(task=fewer, program=built)
        without = Side(*_reduced(run_without, who))
    return Attacked(own, pair, mixer, without)


def _reduced(run: PlayedRun, who: list[int]) -> Side:
    """The program of some owners, in one dimension: what the run's plan and numbers say of them, and no more."""
    task, program = run.task, run.program
    options = least_options(run.protocol, run.calibration) | run.options
    if run.options.get("clip") == "once":
        raise InputError("clip='once': no worst record is known for it. Audit a run with clip='visit'.")
    options = {key: value for key, value in options.items() if key not in _OF_ALL}
    if program.plan.colluding is not None:
        options["colluding"] = 0  # those who do are left out already
    if run.protocol in _PINNED:
        options["steps"] = program.plan.releases[who[0]]
    penalty = task.problem.penalty
    loss = huber() if run.protocol == "deep_q" else _alike(task.problem.loss)
    small = replace(
        task,
        problem=Problem(linear(1, 1), loss, penalty),
        sizes=tuple(task.sizes[owner] for owner in who),
        epsilon=tuple(task.epsilon[owner] for owner in who),
        topology=topologies.build("complete", len(who)),
        params=jnp.zeros((1, 1), jnp.float32),
        owners_per_person=1,  # the noise is the run's own, whatever this form would have
    )
    form = build(run.protocol, small, options, run.calibration)
    schedule = program.schedule
    if not isinstance(program.functions, Rounds):
        visits = int(np.sum(np.asarray(schedule) == who[0]))
        schedule = np.zeros(min(visits, program.plan.releases[who[0]]), np.int32)
    reduced = program._replace(
        functions=form.functions,
        plan=replace(program.plan.among(who), noise_like=form.plan.noise_like),
        numbers=jax.tree.map(lambda leaf: leaf[np.array(who)], program.numbers),
        params=small.params,
        schedule=schedule,
        aggregate=None if program.aggregate is None else program.aggregate[who],
    )
    return Side(reduced, mixer_of(small, reduced))


@lru_cache(maxsize=64)
def _alike(loss: Loss) -> Loss:
    """`steady`, with the constants that a protocol reads off the run's loss."""
    return steady()._replace(
        lipschitz=loss.lipschitz, smoothness=loss.smoothness, strong_convexity=loss.strong_convexity
    )


def audit_whole(
    setting: Attacked,
    *,
    delta: float,
    games: int | None,
    confidence: float,
    seed: int,
    progress: Callable[[str, int, int], None],
) -> Audit:
    """A lower bound on ε of a whole run; `games` None: as many as fit into about half a minute.

    Guarantee: as `audit`'s. Where games are drawn from measured releases it takes for granted that the noise is normal,
    of which the engine's runs have shown mean and variance, and that no release moves less than in any of these runs.
    """
    started = time.perf_counter()
    program = setting.program
    attack.check_effort(FEWEST_GAMES if games is None else games, confidence)
    measured = None
    if _is_one_number(setting, delta):
        progress("measuring releases", 0, 0)
        measured = measure(setting, seed)
    if measured is not None and measured.is_normal:
        drawn_games = DRAWN_GAMES if games is None else games
        # sums of independent normal numbers are normal
        whole = float(np.sqrt(np.sum(measured.shifts**2) + setting.table**2))
        ratios = drawn(whole, noises.spec(program.plan), drawn_games // 2, seed, progress)
        releases = len(measured.shifts) + len(program.plan.tables)
        words = (
            f"likelihood ratio of the whole run; {releases:,} releases measured on {2 * _RUNS} "
            "runs of the engine, then drawn as one number a game"
        )
        seconds = time.perf_counter() - started
        return attack.judged(setting, ratios, words, (delta, confidence), seconds)
    games = _affordable(setting) if games is None else games
    return attack.audit(
        setting, delta=delta, games=games, confidence=confidence, seed=seed, progress=progress
    )


def _is_one_number(setting: Attacked, delta: float) -> bool:
    """Whether the run is certified as one Gaussian, in two worlds that differ in the record alone."""
    certificate = attack.certificates_of(setting.program.plan, delta)[setting.neighbours.owner]
    plain = certificate.accountant == "exact Gaussian" and setting.without is None
    return plain and not keeps_private(setting.program)


def _affordable(setting: Attacked) -> int:
    """How many games of the engine the work allows, given what one of them takes."""
    program, rows = setting.program, setting.neighbours.without.x.shape[1]
    steps = program.steps
    private = sum(np.size(leaf) for leaf in jax.tree.leaves(_states(program)))
    per_game = steps * len(program.plan.sizes) * (rows + 16 * private + 64)
    return int(np.clip(_WORK // per_game, FEWEST_GAMES, MOST_GAMES))


def _states(program: Program) -> Any:
    return jax.eval_shape(program.functions.init, program.params, context_of(program, 0, step=0))


def measure(setting: Attacked, seed: int) -> MeasuredReleases:
    """How far the record moves each release of the owner, on runs of the engine in both worlds."""
    program, pair = setting.program, setting.neighbours
    watch = scores.separation(scores.mechanics(program, pair))
    worlds = attack.played(setting, _RUNS, seed, watch)
    distance = np.concatenate([world[:, :, 0] for world in worlds])
    noise = np.concatenate([worlds[at][:, :, 1 + at].ravel() for at in (0, 1)])
    noise = noise[np.isfinite(noise)]
    fine = len(noise) > 0 and (
        abs(noise.mean()) < _UNLIKELY / np.sqrt(len(noise))
        and abs(noise.var() - 1) < _UNLIKELY * np.sqrt(2 / len(noise))
    )
    shifts = distance.min(axis=0)
    return MeasuredReleases(shifts[shifts > 0].astype(float), bool(fine))


def drawn(
    shift: float, spec: NoiseSpec, games: int, seed: int, tell: Callable[[str, int, int], None]
) -> tuple[np.ndarray, np.ndarray]:
    """(games,) log likelihood ratios in both worlds: shift (noise ± shift/2), with the engine's generator."""
    at_once = min(games, _AT_ONCE)
    own = spec._replace(tree=jax.tree.structure(0), shapes=((at_once,),))
    ratios = np.empty((2, games), np.float32)
    for world, sign in enumerate((-1, 1)):
        for start in range(0, games, at_once):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), world), start)
            noise = np.asarray(_unit_noise(own, key))[: games - start]
            ratios[world, start : start + len(noise)] = shift * (noise + np.float32(sign * shift / 2))
            tell("playing games", world * games + start + len(noise), 2 * games)
    return ratios[0], ratios[1]


_unit_noise = jax.jit(noises.unit_noise, static_argnums=0, compiler_options=WIDE)


def words(setting: Attacked, name: str) -> str:
    """What was attacked, in a line."""
    plan, schedule = setting.program.plan, setting.program.schedule
    speaks = plan.releases[0] if isinstance(schedule, int) else len(schedule)
    what = "record" if plan.unit == RECORD else "unit"
    size, owners = plan.sizes[0], len(plan.sizes)
    named = {
        "centre": "one vector of features",
        "selection": "one vector of losses",
        "evaluation": "one table of scores",
    }
    table = "".join(f", and {named[name]} with its own noise" for name in plan.tables)
    seen = "messages" if plan.shared is not None else "sum"
    together = f" and the {seen} of {owners} owners" if owners > 1 else ""
    return (
        f"this run: {name}{together}, {speaks:,} release{'s' * (speaks != 1)} of {size:,} {what}s with "
        f"noise of {plan.noise_multiplier[0]:.4g} times the clip norm{table}; one {what} has the largest gradient, or "
        "its opposite"
    )
