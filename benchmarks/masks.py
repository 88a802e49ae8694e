"""What masks cost one of 32 owners in a round: beside its gradient, and in bytes beside a plain message.

    python -m benchmarks.masks      prints the section of RESULTS.md

A linear softmax of 10,000 × 100 numbers on 6,000 records of one owner. A round's gradient is `emit` without masks:
clipped, summed, noised. A masked round is the same in whole numbers, and then one mask for each of the 31 others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import in_turns
from coterie import topologies
from coterie.engines.owners import context_of, everything
from coterie.federation.transport import wire
from coterie.mechanisms import masks
from coterie.problems.losses import softmax
from coterie.problems.models import linear
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Program, Rounds, Shards
from coterie.protocols import Task, build

OWNERS, RECORDS, DIM, CLASSES = 32, 6_000, 10_000, 100
WANTED = 2.1  # times the bytes of a plain message, at most


def table() -> list[str]:
    """The section of RESULTS.md."""
    own = _own()
    numbers = np.arange(DIM * CLASSES, dtype=np.int32)
    label, everyone = bytes(masks.LABEL), range(OWNERS)
    best = in_turns(
        {
            "plain": _emit("untrusted"),
            "masked": _emit("masked"),
            "masks": lambda: own.masked(numbers, label, everyone, 0),
        },
        repeats=4,
    )
    plain = len(_frame(wire.pack(numbers.astype(np.float32))))
    masked = len(_frame(label + own.masked(numbers, label, everyone, 0)))
    cheap = "yes" if best["masks"] < best["plain"] else "**no**"
    small = "yes" if masked <= WANTED * plain else "**no**"
    return [
        f"One of {OWNERS} owners, {DIM * CLASSES:,} numbers, {RECORDS:,} records, all cores for the gradient and one "
        f"for masks (`python -m benchmarks.masks`). Measured on {time.strftime('%Y-%m-%d')} at a load of "
        f"{os.getloadavg()[0]:.0f}.",
        "",
        "| a round | time | of the gradient | bytes of a message | of the plain | wanted | met |",
        "|---|---:|---:|---:|---:|---|---|",
        f"| plain: clip, sum, noise | {1e3 * best['plain']:.0f} ms | 1.00 | {plain:,} | 1.00 | | |",
        f"| masked: the same in whole numbers | {1e3 * best['masked']:.0f} ms "
        f"| {best['masked'] / best['plain']:.2f} | | | | |",
        f"| and {OWNERS - 1} masks | {1e3 * best['masks']:.0f} ms | {best['masks'] / best['plain']:.2f} "
        f"| {masked:,} | {masked / plain:.2f} | masks below the gradient; bytes at most {WANTED} × "
        f"| {cheap}; {small} |",
    ]


def _frame(body: bytes) -> bytes:
    return wire.encode(wire.Message(wire.Kind.VALUE, 1, 0, body), bytes(32))


def _own() -> masks.Masks:
    names = [f"owner-{at:02}" for at in range(OWNERS)]
    secrets = {name: bytes([at + 1]) * masks.KEY for at, name in enumerate(names)}
    publics = {name: masks.public_key(secret) for name, secret in secrets.items()}
    return masks.Masks(names[0], secrets[names[0]], publics, bytes(32))


def _emit(view: str) -> Callable[[], object]:
    """One owner's round, without its noise being drawn: that is the same for both."""
    program = _program(view)
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.random((RECORDS, DIM), dtype=np.float32) / 100)
    y = jnp.asarray(rng.integers(0, CLASSES, RECORDS), jnp.int32)
    context = context_of(program, 0)
    functions = program.functions
    assert isinstance(functions, Rounds)
    state = functions.init(program.params, context)
    noise = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), program.plan.noise_like)

    @jax.jit
    def said(x: jax.Array, y: jax.Array) -> object:
        batch = everything(Shards(x, y, jnp.int32(RECORDS)))
        return functions.emit(state, batch, noise, context)[0]

    return lambda: said(x, y)


def _program(view: str) -> Program:
    task = Task(
        problem=Problem(linear(DIM, CLASSES), softmax(CLASSES), l2(1e-3)),
        sizes=(RECORDS,) * OWNERS,
        clip_norm=1.0,
        epsilon=(1.0,) * OWNERS,
        delta=1e-5,
        topology=topologies.build("complete", OWNERS),
        params=jnp.zeros((DIM, CLASSES)),
    )
    return build("dual_averaging", task, {"view": view, "rounds": 10}, "certified")


if __name__ == "__main__":
    print("\n".join(table()))
