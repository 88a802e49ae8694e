"""Small worlds that tests share: a task, its records, and ways to change one record."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from coterie.problems.holdings import filled, grouped, places, to_shards
from coterie.problems.losses import Loss, logistic
from coterie.problems.models import linear
from coterie.problems.penalties import Penalty, l2
from coterie.problems.problem import Problem
from coterie.program import Groups, Holdings, Shards
from coterie.protocols.task import Task
from coterie.topologies import build as build_topology
from coterie.units import RECORD, Unit


def shards(sizes: tuple[int, ...], dim: int, seed: int = 0, classes: int = 2) -> Shards:
    """Records of norm one with a linear signal; owner i has sizes[i] of them, the rest is padding."""
    rng = np.random.default_rng(seed)
    owners, rows = len(sizes), max(sizes)
    x = rng.standard_normal((owners, rows, dim)).astype(np.float32)
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    scores = x @ rng.standard_normal((dim, max(classes, 2)))
    y = np.sign(scores[..., 0]).astype(np.float32) if classes == 2 else scores.argmax(2).astype(np.int32)
    padding = np.arange(rows) >= np.array(sizes)[:, None]
    x[padding] = 7.0  # visible in any result that forgets the mask
    return Shards(jnp.asarray(x), jnp.asarray(y), jnp.asarray(sizes, jnp.int32))


def holdings(sizes: tuple[int, ...], dim: int, seed: int = 0) -> Holdings:
    """The records of `shards`, as an experiment holds them."""
    each = [shards(sizes, dim, seed).of(owner) for owner in range(len(sizes))]
    x, y = (np.concatenate(part) for part in zip(*each))
    rows = np.split(np.arange(len(y)), np.cumsum(sizes)[:-1])
    return to_shards(x, y, rows)


def units(sizes: tuple[int, ...], dim: int, most: int, seed: int = 0) -> Shards:
    """The like, where owner i has sizes[i] units of one record up to `most`."""
    rows = shards((most * max(sizes),) * len(sizes), dim, seed)
    shape = len(sizes), max(sizes), most
    x, y = np.array(rows.x).reshape(*shape, dim), np.array(rows.y).reshape(shape)
    within = np.random.default_rng(seed).integers(1, most, shape[:2], endpoint=True).astype(np.int32)
    x[np.arange(most) >= within[..., None]] = 7.0
    x[np.arange(max(sizes)) >= np.array(sizes)[:, None]] = 7.0
    return Shards(jnp.asarray(x), jnp.asarray(y), jnp.asarray(sizes, jnp.int32), jnp.asarray(within))


def units_held(sizes: tuple[int, ...], dim: int, most: int, seed: int = 0) -> Holdings:
    """The units of `units`, owners of like size in one array."""
    one = units(sizes, dim, most, seed)
    assert one.within is not None
    groups = grouped(sizes, most * dim)
    like = tuple(np.asarray(each[0, :1]) for each in (one.x, one.y, one.within))
    parts = tuple(filled(like, group.rows, group.owners[0].tolist(), one.rows) for group in groups)
    return parts[0] if len(parts) == 1 else Groups(parts, *places(groups, 0))  # type: ignore[arg-type]


def task(
    sizes: tuple[int, ...],
    dim: int,
    *,
    loss: Loss | None = None,
    penalty: Penalty | None = None,
    epsilon: float | tuple[float, ...] = 1.0,
    delta: float = 1e-5,
    topology: str = "ring",
    unit: Unit = RECORD,
) -> Task:
    """A task on records of norm at most one, linear model, logistic loss unless told otherwise."""
    loss = loss or logistic()
    model = linear(dim, loss.outputs)
    owners = len(sizes)
    return Task(
        problem=Problem(model, loss, penalty or l2(0.01)),
        sizes=sizes,
        clip_norm=min(loss.lipschitz, 2.0),
        epsilon=epsilon if isinstance(epsilon, tuple) else (epsilon,) * owners,
        delta=delta,
        topology=build_topology(topology, owners),
        params=jnp.zeros((dim, loss.outputs)),
        unit=unit,
    )


def with_record(records: Shards, owner: int, row: int, x: np.ndarray, y: float) -> Shards:
    """The neighbouring data set in which one record of one owner is replaced."""
    return records._replace(x=records.x.at[owner, row].set(x), y=records.y.at[owner, row].set(y))
