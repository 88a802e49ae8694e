"""A small collaboration to check a protocol in: a task, everybody's records, and the way messages are mixed."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie import topologies
from coterie.problems.losses import Loss, logistic
from coterie.problems.models import linear
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Shards
from coterie.protocols.task import Task
from coterie.units import RECORD, Unit

SIZES, BUDGETS = (24, 9, 15), (0.6, 2.0, 1.0)  # uneven on purpose: padding and order would show
PADDING = 7.0  # visible in any result that forgets the mask


class World(NamedTuple):
    """A task and records that fit it."""

    task: Task
    records: Shards


def small_world(
    *,
    topology: str = "ring",
    loss: Loss | None = None,
    dim: int = 3,
    seed: int = 0,
    unit: Unit = RECORD,
) -> World:
    """Three uneven owners with budgets of their own, a linear model, records of norm one with a linear signal.

    With a `unit`, the owners have as many units, of one record up to its cap.
    """
    loss = loss or logistic()
    task = Task(
        problem=Problem(linear(dim, loss.outputs), loss, l2(0.01)),
        sizes=SIZES,
        clip_norm=min(loss.lipschitz, 2.0),
        epsilon=BUDGETS,
        delta=1e-4,
        topology=topologies.build(topology, len(SIZES)),
        params=jnp.zeros((dim, loss.outputs), jnp.float32),
        unit=unit,
    )
    rng, rows = np.random.default_rng(seed), max(SIZES)
    shape = (len(SIZES), rows) if unit == RECORD else (len(SIZES), rows, unit.records)
    x = rng.standard_normal((*shape, dim)).astype(np.float32)
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    scores = x @ rng.standard_normal((dim, max(loss.outputs, 2)))
    y = (
        np.sign(scores[..., 0]).astype(np.float32)
        if loss.outputs == 1
        else scores.argmax(-1).astype(np.int32)
    )
    x[np.arange(rows) >= np.array(SIZES)[:, None]] = PADDING
    records = Shards(jnp.asarray(x), jnp.asarray(y), jnp.asarray(SIZES, jnp.int32))
    if unit == RECORD:
        return World(task, records)
    within = rng.integers(1, unit.records, shape[:2], endpoint=True).astype(np.int32)
    x[np.arange(unit.records) >= within[..., None]] = PADDING
    return World(task, records._replace(x=jnp.asarray(x), within=jnp.asarray(within)))


def with_other_padding(records: Shards) -> Shards:
    """The same records among other padding."""
    real = jnp.arange(records.x.shape[1])[None, :] < records.counts[:, None]
    if records.within is not None:
        places = jnp.arange(records.x.shape[2])[None, None, :]
        real = real[:, :, None] & (places < records.within[:, :, None])
    mask = real.reshape(real.shape + (1,) * (records.x.ndim - real.ndim))
    return records._replace(
        x=jnp.where(mask, records.x, -1e6), y=jnp.where(real, records.y, jnp.zeros_like(records.y))
    )


def with_other_record(records: Shards, owner: int, row: int = 0) -> Shards:
    """The neighbour in which one record, or every record of one unit, has its features negated and another label."""
    label = records.y[owner, row]
    changed = -label if jnp.issubdtype(label.dtype, jnp.floating) else jnp.where(label > 0, 0, 1)
    return records._replace(
        x=records.x.at[owner, row].multiply(-1.0),
        y=records.y.at[owner, row].set(changed.astype(records.y.dtype)),
    )


def leaves_of(tree: object) -> list[tuple[str, np.ndarray]]:
    """Every array of a tree with its place in it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path), np.asarray(leaf)) for path, leaf in leaves]


def differing(left: object, right: object) -> list[str]:
    """Places where two trees of the same shape differ in any bit that counts."""
    return [
        place
        for (place, first), (_, second) in zip(leaves_of(left), leaves_of(right))
        if not np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
    ]
