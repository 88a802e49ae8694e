"""An owner's table: tallied over its records by its model, and the simulator's noise on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.evaluation.sheet import Sheet
from coterie.mechanisms import Gaussian
from coterie.mechanisms import noise as noises
from coterie.mechanisms.plan import TableNoise
from coterie.problems.problem import Problem
from coterie.program import Program

AT_ONCE = 1 << 16  # records scored at a time


def step_of(program: Program, table: str) -> int:
    """The step at which a table is released: after the last of training, one after the other."""
    schedule = program.schedule
    last = schedule if isinstance(schedule, int) else len(schedule)
    return last + 1 + list(program.plan.tables).index(table)


class Judged(NamedTuple):
    """An owner's records that a model is evaluated on. They never leave it."""

    x: np.ndarray  # (rows, ...)
    y: np.ndarray  # (rows,)
    codes: np.ndarray | None = None  # (rows,) which group each is in, where there are groups
    unit: np.ndarray | None = None  # (rows,) which unit each is of, ascending, where several may be of one


def tallied(sheet: Sheet, problem: Problem, params: PyTree, judged: Judged, most: int = 1) -> np.ndarray:
    """(width,) int64, the table without noise. Reads records: it leaves their owner only with noise, charged.

    `most`: how many records may belong to one unit, which is public.
    """
    total = np.zeros(sheet.width, np.int64)
    for some in pieces(len(judged.y), AT_ONCE, judged.unit, most):
        codes, own = (None if column is None else column[some] for column in (judged.codes, judged.unit))
        own = None if own is None else own - own[0]
        scores = in_places(partial(_scored, problem, params), judged.x[some], own, most)
        total += sheet.tally(scores, judged.y[some], codes, own)
    return total


def pieces(rows: int, at_once: int, unit: np.ndarray | None, most: int = 1) -> Iterator[slice]:
    """Slices of about `at_once` rows; with units, of equally many units each but the last, whatever their sizes.

    >>> list(pieces(5, 4, np.array([0, 1, 1, 1, 2]), most=2))
    [slice(0, 4, None), slice(4, 5, None)]
    """
    starts = np.arange(0, rows, at_once)
    if unit is not None and rows:
        starts = np.searchsorted(unit, np.arange(0, unit[-1] + 1, max(1, at_once // most)))
    return map(slice, starts.tolist(), [*starts[1:].tolist(), rows])


def in_places(
    score: Callable[[np.ndarray], np.ndarray], x: np.ndarray, unit: np.ndarray | None, most: int
) -> np.ndarray:
    """Scores of some records. Of units, each has its own `most` places, whether they hold a record or not.

    Products round by shape and place: were rows side by side, somebody with a record more would move the last bits of
    others' scores, and with them perhaps the bands that many of them are counted in.
    """
    if unit is None:
        return score(x)
    place = unit * most + np.arange(len(unit)) - np.searchsorted(unit, unit)
    spread = np.zeros((int(unit[-1] + 1) * most, *x.shape[1:]), x.dtype)
    spread[place] = x
    return score(spread)[place]


def padded(x: np.ndarray) -> np.ndarray:
    """The rows padded to a power of two of them, so that few sizes are compiled for."""
    rows = 1 << (len(x) - 1).bit_length()
    return np.concatenate([x, np.zeros((rows - len(x), *x.shape[1:]), x.dtype)])


def _scored(problem: Problem, params: PyTree, x: np.ndarray) -> np.ndarray:
    return np.asarray(_scores(problem, params, jnp.asarray(padded(x))))[: len(x)]


_scores = jax.jit(lambda problem, params, x: problem.model.scores(params, x), static_argnums=0)


def simulated_noise(table: TableNoise, seed: int, owner: int, step: int) -> np.ndarray:
    """(width,) int64 from the seed, which whoever has it can take off again: for simulations, and for tests."""
    with jax.threefry_partitionable(False):
        unit = _unit(jnp.uint32(seed), owner, step, table.width)
    return np.rint(np.asarray(unit, np.float64) * table.scale(owner)).astype(np.int64)


@partial(jax.jit, static_argnums=3)
def _unit(seed: Array, owner: int, step: int, width: int) -> Array:
    """Unit noise from the stream that training's noise comes from, at a step that training does not reach."""
    key = jax.random.fold_in(jax.random.key(seed), noises.NOISE)
    return Gaussian().unit(jax.random.fold_in(jax.random.fold_in(key, owner), step), width)
