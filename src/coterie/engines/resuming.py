"""Keeping what a run over devices has reached, and going on from there, on any number of devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils as hosts

from coterie._types import PyTree
from coterie.engines import checkpoint, steps
from coterie.engines.layout import MeshLayout, everyones, models, real, restored
from coterie.engines.steps import PastSteps
from coterie.errors import InputError


def keep(parts: MeshLayout, carry: PyTree, past: PastSteps, file: Path, mark: str) -> None:
    """Gather everyone's states, and write them where the first process runs."""
    whole = everyones(parts, carry, axis=None)
    if jax.process_index() > 0:
        return
    arrays = {
        "points": np.asarray(past.points),
        **checkpoint.flat("carry", real(parts, whole)),
        **checkpoint.flat("looks", steps.joined(past.looks, np.stack) if past.looks else ()),
        **checkpoint.flat(
            "out", (steps.joined(past.infos, np.concatenate), steps.joined(past.messages, np.concatenate))
        ),
    }
    checkpoint.write(file, mark, arrays)


def resume(
    parts: MeshLayout, carry: PyTree, like: PyTree, file: Path | None, mark: str, probe: Callable | None
) -> tuple[PyTree, PastSteps]:
    """What the checkpoint says, in every process; only the first one reads it. `like` is what a chunk leaves behind."""
    stored = _stored(file, mark)
    blank = real(parts, jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), carry))
    points = _broadcast(np.asarray(stored["points"], np.int32))
    carry = restored(
        parts, _broadcast(checkpoint.shaped("carry", stored, blank) if "carry.0" in stored else blank)
    )
    past = PastSteps(points.tolist(), [], [], [])
    seen = None if probe is None else everyones(parts, models(parts, carry))
    if jax.process_index() > 0:
        return carry, past
    info, message = checkpoint.shaped("out", stored, like)
    past.infos.append(info)
    past.messages.append(message)
    if probe is not None:
        looks = checkpoint.shaped("looks", stored, look(probe, seen))
        past.looks.extend(jax.tree.map(lambda leaf, at=at: leaf[at], looks) for at in range(len(points)))
    return carry, past


def look(probe: Callable, everyones_models: PyTree) -> PyTree:
    """What the probe says of all owners' models."""
    return jax.tree.map(np.asarray, probe(jax.tree.map(jnp.asarray, everyones_models)))


def _stored(file: Path | None, mark: str) -> dict[str, np.ndarray]:
    """The checkpoint in the first process; in the others as many blank points. Nobody goes on if it cannot be read."""
    stored, problem = {}, None
    if jax.process_index() == 0:
        try:
            if file is None:
                raise InputError("resume=True: needs a checkpoint. Name its file.")
            stored = checkpoint.read(file, mark)
        except InputError as error:
            problem = error
    points = int(_broadcast(np.asarray(len(stored.get("points", ())), np.int32)))
    if not points:
        raise problem or InputError("resume: process 0 cannot read the checkpoint; its own error says why.")
    return stored or {"points": np.zeros(points, np.int32)}


def _broadcast(tree: PyTree) -> PyTree:
    """What the first process has, in all of them; as bytes, since only these add up whatever the type."""
    raw = jax.tree.map(lambda leaf: np.frombuffer(leaf.tobytes(), np.uint8), tree)
    heard = hosts.broadcast_one_to_all(raw)
    return jax.tree.map(
        lambda leaf, sent: np.frombuffer(np.asarray(sent).tobytes(), leaf.dtype).reshape(leaf.shape),
        tree,
        heard,
    )
