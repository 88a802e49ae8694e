"""What the chip does at best, what a convolution costs by four ways, what clipping and what a step of ResNet-18 cost.

python -m papers.resnet_cifar bench [NAME …] [--out FILE]          all, or only these of STEPS, and "clipping"
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.engines.simulate import simulate
from coterie.engines.sweep import Lane, sweep
from coterie.problems.problem import Problem, clipped, clipped_mean
from coterie.program import Batch
from coterie.topologies import mixer
from papers.resnet_cifar import CERTIFIED, OWNERS, PROBLEM, Images, Run, program, shards

# Name: the runs side by side, and how many iterations.
STEPS: dict[str, tuple[list[Run], int]] = {
    "b1": ([Run("adaptive", 0.04, 1)], 60),
    "b8": ([Run("adaptive", 0.04, 8)], 60),
    "b32": ([Run("adaptive", 0.04, 32)], 60),
    "b1, five runs side by side": ([Run("clipped", 0.04, 1, clip) for clip in (1.0, 2.0, 3.0, 4.0, 5.0)], 60),
    "b8, five runs side by side": ([Run("clipped", 0.04, 8, clip) for clip in (1.0, 2.0, 3.0, 4.0, 5.0)], 60),
    "record by record": ([CERTIFIED], 9),
    "record by record, gradients formed": ([CERTIFIED], 9),
}
FORMED = PROBLEM._replace(model=PROBLEM.model._replace(factors=None), microbatch=16)


def bench(names: Sequence[str] = ()) -> dict[str, Any]:
    """Rates, layers and steps, on made-up records."""
    rng = np.random.default_rng(0)
    pixels, classes = rng.uniform(size=(50_000, 32, 32, 3)).astype(np.float32), rng.integers(0, 10, 50_000)
    data = Images(pixels, classes.astype(np.int32), pixels[:10_000], classes[:10_000].astype(np.int32))
    found: dict[str, Any] = {"device": jax.devices()[0].device_kind, "jax": jax.__version__, "steps": {}}
    if not names:
        found["rates"] = rates()
        found["layers"] = [
            layer
            for side, channels in ((32, 64), (16, 128), (8, 256))
            for layer in layers(side, channels, 32)
        ]
        print(found, flush=True)
    if not names or "clipping" in names:
        found["clipping"] = clipping()
    for name in [name for name in names or STEPS if name != "clipping"]:
        problem = FORMED if "formed" in name else PROBLEM
        found["steps"][name] = pace(*STEPS[name], data, problem)
        print(name, found["steps"][name], flush=True)
    return found


def clipping() -> list[dict[str, Any]]:
    """Sums of gradients of all owners' records: not clipped, clipped in closed form, and clipped one by one.

    Of a hidden sample of 250 records on average, 351 are the most that are drawn: all of them are worked on.
    """
    split = jax.random.split(jax.random.key(0), OWNERS)
    params, found = jax.jit(jax.vmap(PROBLEM.model.init))(split), []
    for rows in (32, 351):
        x = jax.random.uniform(jax.random.key(1), (OWNERS, rows, 32, 32, 3))
        y = jax.random.randint(jax.random.key(2), (OWNERS, rows), 0, 10)
        batch = Batch(x, y, jnp.ones((OWNERS, rows), jnp.float32))
        formed = _clipping(lambda p, b: clipped(FORMED, p, b, 1.0), params, batch)
        found.append({"rows": rows, "way": "gradients formed, 16 at once", **formed[0]})
        for size in sorted({min(rows, size) for size in (16, 64, 117, 351)}):
            closed = _clipping(lambda p, b, size=size: clipped(PROBLEM, p, b, 1.0, 2, size), params, batch)
            ratio = float(jnp.median(closed[1] / formed[1]))
            found.append({"rows": rows, "way": f"closed form, {size} at once", **closed[0], "norms": ratio})
        plain = _clipping(lambda p, b: clipped_mean(PROBLEM, p, b, jnp.inf), params, batch)
        found.append({"rows": rows, "way": "not clipped", **plain[0]})
    print(*found, sep="\n", flush=True)
    return found


def _clipping(clip: Callable, params: PyTree, batch: Batch) -> tuple[dict[str, float], Array]:
    """Time, memory beside the arguments, and the norms of the records or of their mean."""
    compiled = jax.jit(jax.vmap(clip)).lower(params, batch).compile()
    memory = compiled.memory_analysis()
    held = memory.temp_size_in_bytes if memory else float("nan")
    took = seconds(compiled, params, batch, repeats=5)
    return {"ms": 1e3 * took, "GB": held / 1e9}, compiled(params, batch).norms


def pace(runs: list[Run], rounds: int, data: Images, problem: Problem) -> dict[str, float]:
    """Seconds of a third of the runs with compilation, of one run's iteration without, and what that is worth."""
    made, ends = [program(run, rounds, problem=problem) for run in runs], [time.perf_counter()]
    records = shards(data, 0)

    def mark(done: int, total: int) -> None:
        ends.append(time.perf_counter())

    if len(runs) == 1:
        simulate(made[0][0], records, mixer(made[0][1]), seed=0, every=rounds // 3, progress=mark)
    else:
        lanes = [Lane(ready, mixer(topology), 0) for ready, topology in made]
        sweep(lanes, records, every=rounds // 3, probe=jax.block_until_ready, progress=mark)
    took = (ends[3] - ends[1]) / (rounds - rounds // 3) / len(runs)
    return {
        "first_chunk_seconds": ends[1] - ends[0],
        "seconds_an_iteration": took,
        "owner_steps_a_second": OWNERS / took,
        "records_a_second": OWNERS * runs[0].batch / took,
        "teraflops": OWNERS * runs[0].batch * operations() / took / 1e12,
        "peak_gb": _peak(),
    }


def _peak() -> float:
    """The most memory that this process held so far: of one case, if it is the only one."""
    return jax.devices()[0].memory_stats()["peak_bytes_in_use"] / 1e9


def operations() -> float:
    """Floating-point operations of one record's gradient: twice the products of the forward pass, three times."""
    products, pixels, channels = 32 * 32 * 27 * 64, 32, 64
    for stage in range(4):
        outputs = 64 * 2**stage
        pixels = 32 // 2**stage
        products += pixels**2 * 9 * (channels * outputs + 3 * outputs * outputs)
        products += pixels**2 * channels * outputs if channels != outputs else 0
        channels = outputs
    return 6.0 * (products + 5120)


def rates(side: int = 8192) -> dict[str, float]:
    """Teraflops of a square matrix product, and terabytes a second of a copy."""
    found = {}
    a, b = (jax.random.normal(jax.random.key(k), (side, side), jnp.float32) for k in (0, 1))
    for name, dtype, precision in (
        ("bfloat16", jnp.bfloat16, None),
        ("float32, default", jnp.float32, None),
        ("float32, highest", jnp.float32, "highest"),
    ):
        product = jax.jit(lambda a, b, precision=precision: jnp.matmul(a, b, precision=precision))
        found[name] = 2 * side**3 / seconds(product, a.astype(dtype), b.astype(dtype)) / 1e12
    big = jnp.concatenate([a] * 4)
    found["copy, TB/s"] = 2 * big.nbytes / seconds(jax.jit(lambda a: a + 1.0), big) / 1e12
    return found


def seconds(function: Any, *arguments: Any, repeats: int = 20) -> float:
    """Of one call, among `repeats` in a row."""
    jax.block_until_ready(function(*arguments))
    start = time.perf_counter()
    jax.block_until_ready([function(*arguments) for _ in range(repeats)][-1])
    return (time.perf_counter() - start) / repeats


def layers(side: int, channels: int, batch: int) -> list[dict[str, Any]]:
    """Forward and backward of one 3 × 3 convolution with each owner's own weights, by four ways."""
    from papers.resnet import _by_rows, _neighbourhoods

    x = jax.random.normal(jax.random.key(0), (OWNERS, batch, side, side, channels), jnp.bfloat16)
    w = jax.random.normal(jax.random.key(1), (OWNERS, 3, 3, channels, channels), jnp.bfloat16)

    def product(x: Array, w: Array) -> Array:
        return jnp.tensordot(_neighbourhoods(x, 3, 1), w.reshape(-1, channels), 1)

    def direct(x: Array, w: Array) -> Array:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def both(one: Callable) -> Callable:
        def gradient(x: Array, w: Array, dy: Array) -> PyTree:
            y, back = jax.vjp(one, x, w)
            return y, back(dy)

        return gradient

    ways = {
        "product of neighbourhoods": jax.vmap(both(product)),
        "product of rows": jax.vmap(both(_by_rows)),
        "grouped convolution": jax.vmap(both(direct)),
        "owner by owner": lambda x, w, dy: jax.lax.map(lambda each: both(direct)(*each), (x, w, dy)),
    }
    work = 6 * OWNERS * batch * side**2 * 9 * channels**2  # one product forward and two back
    found = []
    for name, way in ways.items():
        took = seconds(jax.jit(way), x, w, x)
        found.append({"side": side, "channels": channels, "way": name, "ms": 1e3 * took,
                      "teraflops": work / took / 1e12})  # fmt: skip
    return found
