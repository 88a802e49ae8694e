"""Run cells: those that fit together go through one compiled program side by side (`engines.sweep`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.accounting import Certificate
from coterie.accounting.plans import certificates_of
from coterie.engines.sweep import Lane, alike, sweep
from coterie.problems.problem import Problem, objective
from coterie.problems.reference import central_optimum, objective_value
from coterie.program import Batch, Program
from coterie.protocols import Task, build
from coterie.topologies import aggregate, gossip_steps_for, mixer
from papers.reproductions.cases import Case, task
from papers.reproductions.spec import Cell
from papers.scoring import accuracy, mse

LANES = 15  # runs side by side: enough to share every pass over the records, few enough to save often
_SLOPE_ROWS = 5_000  # of the training rows, for networks

Steps = Callable[[int, int], None]


def measure(
    cells: list[Cell], case: Case, progress: Steps | None = None
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Each cell with its result, as soon as it is there. All cells have the same data."""
    groups: dict[Any, list[tuple[Cell, Lane]]] = {}
    for cell in cells:
        lane = _lane(cell, task(cell, case), case)
        groups.setdefault((alike(lane, case.shards), cell.looks, cell.objective), []).append((cell, lane))
    for group in groups.values():
        for first in range(0, len(group), LANES):
            yield from _together(group[first : first + LANES], case, progress)


def _lane(cell: Cell, task: Task, case: Case) -> Lane:
    settings = dict(cell.settings)
    if cell.protocol == "async_learner" and math.isfinite(case.curvature):
        settings.setdefault("smoothness", case.curvature)
    program = build(cell.protocol, task, settings, cell.calibration)
    if program.aggregate is not None:
        return Lane(program, aggregate(program.aggregate), cell.seed)
    if not isinstance(program.schedule, int):
        return Lane(program, None, cell.seed)
    gossip = gossip_steps_for(task.topology) if cell.gossip is None else cell.gossip
    return Lane(program, mixer(task.topology, gossip), cell.seed)


def _together(
    group: list[tuple[Cell, Lane]], case: Case, progress: Steps | None
) -> list[tuple[Cell, dict[str, Any]]]:
    started = time.perf_counter()
    cell, lane = group[0]
    schedule = lane.program.schedule
    total = schedule if isinstance(schedule, int) else len(schedule)
    lanes = [lane for _, lane in group]
    look = _look(case, cell.objective)
    steps, seen = sweep(lanes, case.shards, every=_every(total, cell.looks), probe=look, progress=progress)
    optimum = case.optimum() if cell.objective and case.problem.model.is_linear else None
    worst: dict[str, Certificate] = {}  # certifying takes longer than many a run, and no seed changes it
    for one, lane in group:
        if (key := _seedless(one)) not in worst:
            worst[key] = max(certificates_of(lane.program.plan, one.delta), key=lambda found: found.epsilon)
    alone = _alone(case) if cell.objective and case.regression and case.problem.model.is_linear else None
    seconds = round((time.perf_counter() - started) / len(group), 3)
    visitors = None if isinstance(schedule, int) else np.asarray(schedule).tolist()
    shared = {
        "visitors": visitors if cell.clocks else None,
        "optimum": optimum,
        "alone": alone,
        "records": sum(case.sizes),
        "seconds": seconds,
    }
    return [
        (one, _curves(at, steps, seen) | _privacy(lane.program, one, worst[_seedless(one)]) | shared)
        for at, (one, lane) in enumerate(group)
    ]


def _seedless(cell: Cell) -> str:
    return repr(replace(cell, seed=0))


def _every(total: int, looks: int) -> int:
    """Steps between looks: a divisor where there is one nearby, for a last piece of another length compiles again."""
    fits = [total // k for k in range(looks, 2 * looks) if total % k == 0]
    return fits[0] if fits else math.ceil(total / looks)


def _look(case: Case, with_objective: bool) -> Callable[[PyTree], dict[str, np.ndarray]]:
    """(lanes, owners, ...) models -> (lanes,) numbers."""
    metric = mse if case.regression else accuracy
    x_test = jnp.asarray(case.x_test)
    some = slice(None) if case.problem.model.is_linear else slice(_SLOPE_ROWS)
    batch = Batch(
        jnp.asarray(case.x[some]), jnp.asarray(case.y[some]), jnp.ones(len(case.y[some]), jnp.float32)
    )

    def look(models: PyTree) -> dict[str, np.ndarray]:
        lanes = jax.tree.leaves(models)[0].shape[0]
        each = [jax.tree.map(lambda leaf, at=at: leaf[at], models) for at in range(lanes)]
        scores = (np.asarray(_scores(case.problem, model, x_test)) for model in each)
        found = {"metric": np.array([np.mean([metric(own, case.y_test) for own in one]) for one in scores])}
        if with_objective:
            heights = [_height_and_slope(case.problem, model, batch) for model in each]
            found["slope"] = np.array([float(slope) for _, slope in heights])
            found["objective"] = np.array([float(height) for height, _ in heights])
            if case.problem.model.is_linear:  # in double precision: suboptimality is a small difference
                means = [np.asarray(model).mean(0) for model in each]
                found["objective"] = np.array(
                    [objective_value(case.problem, w, case.x, case.y) for w in means]
                )
        return found

    return look


@jax.jit
def _mean(models: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf.mean(0), models)


def _scores_of(problem: Problem, models: PyTree, x: Array) -> Array:
    return jax.vmap(problem.model.scores, (0, None))(models, x)


def _height_and_slope_of(problem: Problem, models: PyTree, batch: Batch) -> tuple[Array, Array]:
    height, slope = jax.value_and_grad(objective, argnums=1)(problem, _mean(models), batch)
    return height, jnp.sqrt(sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(slope)), jnp.float32(0)))


_scores = jax.jit(_scores_of, static_argnums=0)
_height_and_slope = jax.jit(_height_and_slope_of, static_argnums=0)


def _alone(case: Case) -> list[float]:
    """Oracle: the joint objective at each owner's own non-private optimum."""
    models = [central_optimum(case.problem, case.x[rows], case.y[rows]) for rows in case.owner_rows]
    return [objective_value(case.problem, model, case.x, case.y) for model in models]


def _curves(at: int, steps: np.ndarray, seen: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    return {"step": steps.tolist()} | {name: [plain(look[name][at]) for look in seen] for name in seen[0]}


def _privacy(program: Program, cell: Cell, worst: Certificate) -> dict[str, Any]:
    """The paper's claim is for its own noise only; the certificate is the worst owner's."""
    claimed = program.claim.epsilon if cell.calibration == "paper" else None
    return {
        "claimed": None if claimed is None else float(claimed),
        "certified": plain(worst.epsilon),
        "view": worst.view,
        "relation": worst.relation,
        "reason": worst.reason,
    }


def plain(value: float) -> float | str:
    """JSON has neither infinity nor NaN, which a model that diverged scores: they are written as text."""
    return float(value) if np.isfinite(value) else str(float(value))
