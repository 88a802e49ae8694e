"""AdaD²P on CIFAR-10: ResNet-18, 20 owners × 2,500 records, one-peer directed exponential graph, 3,500 iterations.

The paper's policies as published (γ = 0.05, σ given, G = 8.5), by the engine and program of every other run. Its batch
is unpublished: one record a step, as its algorithm says, and 32. Training needs JAX and NumPy alone; certificates are
computed by `certify`, where dp-accounting is, from the same settings.

    python papers/resnet_cifar.py bench [--out FILE]                   rates of the chip, times of a step
    python papers/resnet_cifar.py train NAME … [--out FILE]            runs of RUNS, curves as JSON
    python papers/resnet_cifar.py certify FILE                         claimed and certified ε of every run
    python papers/resnet_cifar.py draw FILE                            docs/images/gpu-*.png
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.engines.simulate import simulate
from coterie.problems.losses import softmax
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clipped, objective
from coterie.problems.resnet import resnet
from coterie.program import Batch, Program, Shards
from coterie.protocols import Task, build
from coterie.topologies import Topology, mixer
from coterie.topologies.weights import Edges

OWNERS, SIZE, ROUNDS, STEP, G, DELTA = 20, 2500, 3500, 0.05, 8.5, 1e-5
LOOK = 250  # iterations between two looks
PROBLEM = Problem(resnet(10, precision="bfloat16"), softmax(10), none())


class Run(NamedTuple):
    """One curve."""

    policy: str
    sigma: float
    batch: int
    clip: float = 3.0  # the paper tries 2, 3 and 5
    seed: int = 0


def _runs() -> dict[str, Run]:
    found = {}
    for batch in (1, 8, 32):
        found[f"none-b{batch}"] = Run("none", 0.04, batch)
        for sigma in (0.002, 0.04):
            for policy in ("adaptive", "constant", "clipped"):
                found[f"{policy}-{sigma:g}-b{batch}"] = Run(policy, sigma, batch)
    return found


RUNS = _runs()


class Images(NamedTuple):
    """Pixels in [0, 1] and classes."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def images() -> Images:
    """CIFAR-10 below COTERIE_DATA."""
    from coterie.problems.datasets import load

    table = load("cifar10")
    return Images(table.x, table.y, table.x_test, table.y_test)


def one_peer_exponential() -> Topology:
    """As `topologies.build` makes it, without networkx: owner i keeps half and sends half to i + 2^k mod n."""
    peers, schedule = np.arange(OWNERS, dtype=np.int32), []
    for k in range(int(math.log2(OWNERS - 1)) + 1):
        source = np.stack([peers, (peers - 2**k) % OWNERS], axis=1).ravel()
        target, weight = np.repeat(peers, 2), np.full(2 * OWNERS, 0.5)
        order = np.lexsort((source, target))
        schedule.append(Edges(source[order], target[order], weight))
    return Topology("one_peer_exponential", OWNERS, tuple(schedule), directed=True)


def program(run: Run, rounds: int = ROUNDS) -> tuple[Program, Topology]:
    """The protocol with the paper's settings."""
    task = Task(
        problem=PROBLEM,
        sizes=(SIZE,) * OWNERS,
        clip_norm=run.clip,
        epsilon=(1.0,) * OWNERS,  # not read: σ is given
        delta=DELTA,
        topology=one_peer_exponential(),
        params=jax.jit(PROBLEM.model.init)(jax.random.key(run.seed)),
    )
    options: dict[str, Any] = {
        "policy": run.policy,
        "rounds": rounds,
        "step": STEP,
        "batch": run.batch,
        "sigma": run.sigma,
        "gradient_bound": G,
    }
    return build("push_sum", task, options, "paper"), task.topology


def shards(data: Images, seed: int) -> Shards:
    """Shuffled even shares."""
    order = np.random.default_rng(seed).permutation(len(data.y))[: OWNERS * SIZE].reshape(OWNERS, SIZE)
    return Shards(jnp.asarray(data.x[order]), jnp.asarray(data.y[order]), jnp.full(OWNERS, SIZE, jnp.int32))


class Watch:
    """What the researcher sees (an oracle), and how long training took between two looks."""

    def __init__(self, data: Images) -> None:
        self.test = (
            jnp.asarray(data.x_test.reshape(-1, 500, 32, 32, 3)),
            jnp.asarray(data.y_test).reshape(-1, 500),
        )
        some = slice(0, 500)
        self.some = Batch(jnp.asarray(data.x[some]), jnp.asarray(data.y[some]), jnp.ones(500, jnp.float32))
        self.seconds: list[float] = []
        self.ended = time.perf_counter()

    def __call__(self, models: PyTree) -> dict[str, Array]:
        jax.block_until_ready(models)
        self.seconds.append(time.perf_counter() - self.ended)
        seen = jax.block_until_ready(_look(models, self.test, self.some))
        print(f"{len(self.seconds)}: {seen['accuracy']:.2%}, loss {seen['loss']:.3f}", flush=True)
        self.ended = time.perf_counter()
        return seen


@jax.jit
def _look(models: PyTree, test: tuple[Array, Array], some: Batch) -> dict[str, Array]:
    mean = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), models)
    apart = sum(jnp.sum(jnp.var(leaf, axis=0)) for leaf in jax.tree.leaves(models))
    few = jax.tree.map(lambda leaf: leaf[:128], some)
    loss, slope = jax.value_and_grad(lambda params: objective(PROBLEM, params, some))(mean)
    return {
        "accuracy": jnp.mean(_right(mean, test)),
        "owners": jax.lax.map(
            lambda one: jnp.mean(_right(one, jax.tree.map(lambda leaf: leaf[:2], test))), models
        ),
        "loss": loss,
        "slope": jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(slope))),
        "norms": clipped(PROBLEM, mean, few, jnp.inf, microbatch=16).norms,
        "apart": jnp.sqrt(apart),
    }


def _right(params: PyTree, test: tuple[Array, Array]) -> Array:
    def part(rows: tuple[Array, Array]) -> Array:
        return jnp.argmax(PROBLEM.model.scores(params, rows[0]), axis=1) == rows[1]

    return jax.lax.map(part, test).astype(jnp.float32)


def train(name: str, data: Images, rounds: int = ROUNDS, look: int = LOOK) -> dict[str, Any]:
    """One run: curves over iterations, and times without compilation and without looks."""
    run = RUNS[name]
    ready, topology = program(run, rounds)
    watch = Watch(data)
    trace = simulate(ready, shards(data, run.seed), mixer(topology), seed=run.seed, every=look, probe=watch)
    pace = float(np.median(watch.seconds[1:] or watch.seconds)) / look
    rows = {key: np.asarray(value, float) for key, value in trace.probes.items()}
    found = {
        "run": name,
        "settings": run._asdict(),
        "rounds": rounds,
        "step": trace.step.tolist(),
        "accuracy": rows["accuracy"].round(4).tolist(),
        "owner_mean": rows["owners"].mean(axis=1).round(4).tolist(),
        "owner_worst": rows["owners"].min(axis=1).round(4).tolist(),
        "loss": rows["loss"].round(4).tolist(),
        "slope": rows["slope"].round(4).tolist(),
        "largest_norm": rows["norms"].max(axis=1).round(2).tolist(),
        "apart": rows["apart"].round(3).tolist(),
        "seconds_an_iteration": pace,
        "owner_steps_a_second": OWNERS / pace,
        "teraflops": OWNERS * run.batch * operations() / pace / 1e12,
        "first_chunk_seconds": watch.seconds[0],
    }
    print(
        json.dumps({key: found[key] for key in ("run", "accuracy", "owner_steps_a_second", "teraflops")}),
        flush=True,
    )
    return found


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


def bench() -> dict[str, Any]:
    """What the chip does at best, what a convolution costs by three ways, and what a step costs."""
    rng = np.random.default_rng(0)
    pixels, classes = rng.uniform(size=(50_000, 32, 32, 3)).astype(np.float32), rng.integers(0, 10, 50_000)
    data = Images(pixels, classes.astype(np.int32), pixels[:10_000], classes[:10_000].astype(np.int32))
    found: dict[str, Any] = {"device": jax.devices()[0].device_kind, "jax": jax.__version__, "rates": rates()}
    print(found, flush=True)
    found["layers"] = [
        layer for side, channels in ((32, 64), (8, 256)) for layer in layers(side, channels, 32)
    ]
    for layer in found["layers"]:
        print(layer, flush=True)
    for name in ("adaptive-0.04-b1", "adaptive-0.04-b32"):
        found[name] = pace(name, data)
        print(name, found[name], flush=True)
    return found


def pace(name: str, data: Images, rounds: int = 60) -> dict[str, float]:
    """Seconds of a third of the run with compilation, of an iteration without, and what that is worth."""
    run, ends = RUNS[name], [time.perf_counter()]
    ready, topology = program(run, rounds)
    records = shards(data, run.seed)
    simulate(ready, records, mixer(topology), seed=0, every=rounds // 3,
             progress=lambda done, total: ends.append(time.perf_counter()))  # fmt: skip
    took = (ends[3] - ends[1]) / (rounds - rounds // 3)
    return {
        "first_chunk_seconds": ends[1] - ends[0],
        "seconds_an_iteration": took,
        "owner_steps_a_second": OWNERS / took,
        "teraflops": OWNERS * run.batch * operations() / took / 1e12,
    }


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
    found["copy, TB/s"] = 2 * 4 * side**2 / seconds(jax.jit(lambda a: a + 1.0), a) / 1e12
    return found


def seconds(function: Any, *arguments: Any, repeats: int = 20) -> float:
    """Of one call, among `repeats` in a row."""
    jax.block_until_ready(function(*arguments))
    start = time.perf_counter()
    jax.block_until_ready([function(*arguments) for _ in range(repeats)][-1])
    return (time.perf_counter() - start) / repeats


def layers(side: int, channels: int, batch: int) -> list[dict[str, Any]]:
    """Forward and backward of one 3 × 3 convolution with each owner's own weights, by three ways."""
    from coterie.problems.resnet import _neighbourhoods

    x = jax.random.normal(jax.random.key(0), (OWNERS, batch, side, side, channels), jnp.bfloat16)
    w = jax.random.normal(jax.random.key(1), (OWNERS, 3, 3, channels, channels), jnp.bfloat16)

    def product(x: Array, w: Array) -> Array:
        return jnp.tensordot(_neighbourhoods(x, 3, 1), w.reshape(-1, channels), 1)

    def direct(x: Array, w: Array) -> Array:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def both(one: Any) -> Any:
        def gradient(x: Array, w: Array, dy: Array) -> PyTree:
            return jax.vjp(one, x, w)[1](dy)

        return gradient

    ways = {
        "batched product": jax.vmap(both(product)),
        "grouped convolution": jax.vmap(both(direct)),
        "owner by owner": lambda x, w, dy: jax.lax.map(lambda each: both(direct)(*each), (x, w, dy)),
    }
    work = 4 * OWNERS * batch * side**2 * 9 * channels**2  # the two products of the backward pass
    found = []
    for name, way in ways.items():
        took = seconds(jax.jit(way), x, w, x)
        found.append(
            {
                "side": side,
                "channels": channels,
                "way": name,
                "ms": 1e3 * took,
                "teraflops": work / took / 1e12,
            }
        )
    return found


def certify(path: Path) -> None:
    """Add the claim and the certificate of each run to the file."""
    from coterie.accounting.plans import certificates_of

    document = json.loads(path.read_text())
    for entry in document["runs"]:
        run = Run(**entry["settings"])
        ready, _ = program(run, entry["rounds"])
        one = replace(
            ready.plan,
            **{name: getattr(ready.plan, name)[:1] for name in ("sizes", "releases", "noise_multiplier")},
        )
        certificate = certificates_of(one, DELTA)[0]
        entry |= {"claim": ready.claim.to_json(), "certificate": certificate.to_json()}
        print(
            f"{entry['run']:24} {entry['accuracy'][-1]:.2%}  {ready.claim.note}\n{'':24} {certificate}",
            flush=True,
        )
    path.write_text(json.dumps(document, indent=1) + "\n")


NAMES = {
    "none": "SGP, no noise",
    "adaptive": "AdaD²P",
    "constant": "ConstD²P, G = 8.5",
    "clipped": "ClipD²P, C = 3",
}
MEASURES = {
    "accuracy": ("Test accuracy", "accuracy", False, ".1%"),
    "loss": ("Training loss (500 records)", "loss", True, ".3f"),
    "slope": ("Gradient norm (500 records)", "norm", True, ".3f"),
}


def draw(path: Path, folder: Path = Path("docs/images")) -> None:
    """The paper's three curves for each batch, of the mean of the owners' models."""
    from coterie.reports.reproductions import Picture, Point
    from coterie.reports.reproductions import draw as figure

    runs = json.loads(path.read_text())["runs"]
    for batch in sorted({run["settings"]["batch"] for run in runs}):
        for measure, (title, axis, log, form) in MEASURES.items():
            points = [
                Point(NAMES[run["settings"]["policy"]], 0.0, run[measure][-1], 0.0, 1, None, math.inf, None,
                      np.array([run["step"], *[run[measure]] * 3]))
                for run in runs if run["settings"]["batch"] == batch
            ]  # fmt: skip
            words = f"ResNet-18 on CIFAR-10, 20 owners, σ = 0.04, {batch} record{'s' * (batch > 1)} a step"
            figure(points, Picture(title, words, "iteration", axis, log, form)).savefig(
                folder / f"gpu-{measure}-b{batch}.png"
            )


def save(path: Path | None, found: dict[str, Any]) -> None:
    """Merge into the file; a run of the same name is replaced."""
    if path is None:
        return
    old = json.loads(path.read_text()) if path.exists() else {"runs": []}
    names = {run["run"] for run in found.get("runs", [])}
    runs = [run for run in old["runs"] if run["run"] not in names] + found.get("runs", [])
    path.write_text(json.dumps(old | found | {"runs": runs}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["bench", "train", "certify", "draw"])
    parser.add_argument("what", nargs="*", help="train: names of runs")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    if given.command == "bench":
        save(given.out, {"bench": bench()})
    elif given.command == "train":
        data = images()
        for name in given.what:
            save(given.out, {"runs": [train(name, data)]})
    elif given.command == "certify":
        certify(Path(given.what[0]))
    else:
        draw(Path(given.what[0]))


if __name__ == "__main__":
    main()
