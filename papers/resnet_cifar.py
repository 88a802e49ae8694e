"""AdaD²P on CIFAR-10: ResNet-18, 20 owners × 2,500 records, one-peer directed exponential graph, 3,500 iterations.

The paper's policies as published (γ = 0.05, σ given, G = 8.5), by the programs of every other run. Its batch is
unpublished: one record a step, as its algorithm says, and eight. Runs of one policy, batch and seed that differ in
numbers alone (σ, C, G) go side by side (`engines.sweep`). Training needs JAX and NumPy alone; certificates are
computed by `certify`, where dp-accounting is, from the same settings.

    python -m papers.resnet_cifar bench [NAME …] [--out FILE]          rates of the chip, times of a step
    python -m papers.resnet_cifar train GROUP … [--seeds 0 1 2] [--out FILE]       runs of GROUPS, curves as JSON
    python -m papers.resnet_cifar choose                               the certified run's step, on training rows
    python -m papers.resnet_cifar certified [--seeds 0 1 2] [--out FILE]           clipped record by record, at ε = 8
    python -m papers.resnet_cifar merge FILE … --out FILE              all runs in one file
    python -m papers.resnet_cifar certify FILE                         claimed and certified ε of every run
    python -m papers.resnet_cifar draw FILE                            docs/images/gpu-*.png, and the page's tables
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.engines.sweep import Lane, sweep
from coterie.errors import InputError
from coterie.problems.losses import softmax
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clipped_mean, objective
from coterie.program import Batch, Program, Shards
from coterie.protocols import Task, build
from coterie.topologies import Topology, mixer
from coterie.topologies.weights import Edges
from papers.resnet import resnet

OWNERS, SIZE, ROUNDS, STEP, DELTA = 20, 2500, 3500, 0.05, 1e-5
LOOK = 350  # iterations between two looks
SEEDS = (0, 1, 2)
EPSILON = 8.0  # of the certified run
# A third of the records that a certified run's sampler can draw, at once.
PROBLEM = Problem(resnet(10, precision="bfloat16"), softmax(10), none(), microbatch=117)


class Run(NamedTuple):
    """One curve. `rate` and what follows: the certified run alone."""

    policy: str
    sigma: float
    batch: int
    clip: float = 3.0  # the paper tries 2, 3 and 5
    bound: float | None = 8.5  # G; None: the largest norm that the runs without noise showed
    seed: int = 0
    rate: float | None = None
    rounds: int = ROUNDS
    step: float = STEP

    @property
    def label(self) -> str:
        """What differs from the policy's first run of the table."""
        if self.policy == "constant":
            return "G = 8.5" if self.bound == 8.5 else "G measured"
        return f"C = {self.clip:g}" if self.policy == "clipped" else ""


def _groups() -> dict[str, list[Run]]:
    """Runs that go side by side."""
    found = {}
    for batch, sigmas in ((1, (0.04,)), (8, (0.04, 0.01))):
        found[f"none-b{batch}"] = [Run("none", 0.04, batch)]
        found[f"adaptive-b{batch}"] = [Run("adaptive", sigma, batch) for sigma in sigmas]
        found[f"constant-b{batch}"] = [
            *(Run("constant", sigma, batch) for sigma in sigmas),
            Run("constant", 0.04, batch, bound=None),
        ]
        found[f"clipped-b{batch}"] = [
            *(Run("clipped", 0.04, batch, clip=clip) for clip in (2.0, 3.0, 5.0)),
            *(Run("clipped", sigma, batch) for sigma in sigmas[1:]),
        ]
    return found


GROUPS = _groups()
# `sigma` is what `accounting.calibrate` finds for (8, 10⁻⁵), rounded up; the step is the better one of `choose`.
CERTIFIED = Run("clipped", 1.22, 250, clip=1.0, rate=0.1, rounds=100, step=0.5)


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


def program(
    run: Run, rounds: int | None = None, size: int = SIZE, problem: Problem = PROBLEM
) -> tuple[Program, Topology]:
    """The protocol with the paper's settings, or calibrated, with the noise multiplier that was found before."""
    task = Task(
        problem=problem,
        sizes=(size,) * OWNERS,
        clip_norm=run.clip,
        epsilon=(EPSILON,) * OWNERS,  # of the certified run; the others' σ is given
        delta=DELTA,
        topology=one_peer_exponential(),
        params=jax.jit(problem.model.init)(jax.random.key(run.seed)),
    )
    options: dict[str, Any] = {
        "policy": run.policy,
        "rounds": rounds or run.rounds,
        "step": run.step,
    }
    if run.rate is not None:
        with mock.patch(
            "coterie.accounting.calibrate", return_value=run.sigma
        ):  # no accountant where it trains
            return build("push_sum", task, options | {"rate": run.rate}, "certified"), task.topology
    options |= {"batch": run.batch, "sigma": run.sigma, "gradient_bound": run.bound}
    return build("push_sum", task, options, "paper"), task.topology


def shards(data: Images, seed: int, size: int = SIZE) -> Shards:
    """Shuffled even shares."""
    order = np.random.default_rng(seed).permutation(len(data.y))[: OWNERS * size].reshape(OWNERS, size)
    return Shards(jnp.asarray(data.x[order]), jnp.asarray(data.y[order]), jnp.full(OWNERS, size, jnp.int32))


class Watch:
    """What the researcher sees (an oracle), and how long training took between two looks."""

    def __init__(self, data: Images, batch: int) -> None:
        self.test = (
            jnp.asarray(data.x_test.reshape(-1, 500, 32, 32, 3)),
            jnp.asarray(data.y_test).reshape(-1, 500),
        )
        some = slice(0, 500)
        self.some = Batch(jnp.asarray(data.x[some]), jnp.asarray(data.y[some]), jnp.ones(500, jnp.float32))
        self.batch = min(batch, 32)
        self.seconds: list[float] = []
        self.ended = time.perf_counter()

    def __call__(self, models: PyTree) -> dict[str, np.ndarray]:
        jax.block_until_ready(models)
        self.seconds.append(time.perf_counter() - self.ended)
        seen = jax.tree.map(np.asarray, _look(models, self.test, self.some, self.batch))
        print(f"{len(self.seconds)}: {seen['accuracy'].round(4)}, {self.seconds[-1]:.1f} s", flush=True)
        self.ended = time.perf_counter()
        self.models = models
        return seen

    def owners(self) -> np.ndarray:
        """(lanes, owners) accuracies of the owners' own models after the last look, on the first 1,000 test rows."""
        return np.asarray(_owners(self.models, jax.tree.map(lambda leaf: leaf[:2], self.test)))


def _look(models: PyTree, test: tuple[Array, Array], some: Batch, batch: int) -> dict[str, Array]:
    lanes = jax.tree.leaves(models)[0].shape[0]
    each = [
        _look_at_one(jax.tree.map(lambda leaf, at=at: leaf[at], models), test, some, batch)
        for at in range(lanes)
    ]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


@jax.jit
def _owners(models: PyTree, test: tuple[Array, Array]) -> Array:
    return jax.lax.map(lambda lane: jax.lax.map(lambda one: jnp.mean(_right(one, test)), lane), models)


def _look_at_one(models: PyTree, test: tuple[Array, Array], some: Batch, batch: int) -> dict[str, Array]:
    return _seen(
        models, test, some, jax.tree.map(lambda leaf: leaf[:128].reshape(-1, batch, *leaf.shape[1:]), some)
    )


@jax.jit
def _seen(models: PyTree, test: tuple[Array, Array], some: Batch, steps: Batch) -> dict[str, Array]:
    mean = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), models)
    apart = sum(jnp.sum(jnp.var(leaf, axis=0)) for leaf in jax.tree.leaves(models))
    loss, slope = jax.value_and_grad(lambda params: objective(PROBLEM, params, some))(mean)
    first = jax.tree.map(lambda leaf: leaf[0], models)
    norms = jax.lax.map(lambda one: clipped_mean(PROBLEM, first, one, jnp.inf).norms[0], steps, batch_size=16)
    return {
        "accuracy": jnp.mean(_right(mean, test)),
        "loss": loss,
        "slope": jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(slope))),
        "norm_rms": jnp.sqrt(jnp.mean(jnp.square(norms))),
        "norm_max": jnp.max(norms),
        "apart": jnp.sqrt(apart),
    }


def _right(params: PyTree, test: tuple[Array, Array]) -> Array:
    def part(rows: tuple[Array, Array]) -> Array:
        return jnp.argmax(PROBLEM.model.scores(params, rows[0]), axis=1) == rows[1]

    return jax.lax.map(part, test).astype(jnp.float32)


def train(runs: Sequence[Run], data: Images, size: int = SIZE) -> list[dict[str, Any]]:
    """Runs of one policy, batch and seed, side by side: curves over iterations, and times without looks."""
    first, look = runs[0], min(LOOK, runs[0].rounds // 4)
    made = [program(run, size=size) for run in runs]
    lanes = [Lane(ready, mixer(topology), run.seed) for run, (ready, topology) in zip(runs, made)]
    watch = Watch(data, first.batch)
    steps, looks = sweep(lanes, shards(data, first.seed, size), every=look, probe=watch)
    owners = watch.owners()
    pace = float(np.median(watch.seconds[1:] or watch.seconds)) / look / len(runs)
    curves = {key: np.stack([seen[key] for seen in looks]) for key in looks[0]}
    return [
        {
            "settings": run._asdict(),
            "step": steps.tolist(),
            **{key: _short(values[:, at]) for key, values in curves.items()},
            "owner_mean": round(float(owners[at].mean()), 4),
            "owner_worst": round(float(owners[at].min()), 4),
            "seconds_an_iteration": pace,  # of this run's share; the chip may have been shared besides
        }
        for at, run in enumerate(runs)
    ]


def choose(data: Images) -> None:
    """The certified run with two steps on 45,000 training rows, scored on the other 5,000."""
    rows = np.random.default_rng(123).permutation(len(data.y))
    fit, held = rows[:45_000], rows[45_000:]
    trial = Images(data.x[fit], data.y[fit], data.x[held], data.y[held])
    for run in train([CERTIFIED._replace(step=step, seed=7) for step in (0.5, 2.0)], trial, 45_000 // OWNERS):
        print(run["settings"]["step"], run["accuracy"], flush=True)


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def measured(document: dict[str, Any], batch: int) -> float:
    """G as the paper takes it: the largest norm of a step's gradient in the runs without noise."""
    runs = [run for run in document["runs"] if run["settings"]["policy"] == "none"]
    return max(max(run["norm_max"]) for run in runs if run["settings"]["batch"] == batch)


def _filled(run: Run, seed: int, path: Path | None) -> Run:
    """With its seed, and with the measured G, which the file's runs without noise tell, where none is given."""
    if run.bound is None:
        if path is None:
            raise InputError(
                "constant-*: G is measured in runs without noise. Give the file that holds them by --out."
            )
        run = run._replace(bound=measured(json.loads(path.read_text()), run.batch))
    return run._replace(seed=seed)


def save(path: Path | None, found: dict[str, Any]) -> None:
    """Merge into the file; a run with the same settings is replaced."""
    if path is None:
        return
    old = json.loads(path.read_text()) if path.exists() else {"runs": []}
    new = [run["settings"] for run in found.get("runs", [])]
    runs = [run for run in old["runs"] if run["settings"] not in new] + found.get("runs", [])
    path.write_text(json.dumps(old | found | {"runs": runs}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "command", choices=["bench", "train", "choose", "certified", "merge", "certify", "draw"]
    )
    parser.add_argument("what", nargs="*", help="train: names of groups; merge, certify, draw: files")
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    if given.command == "bench":
        from papers.resnet_bench import bench

        save(given.out, {"bench": bench(given.what)})
    elif given.command in ("train", "certified"):
        data = images()
        for runs in [GROUPS[name] for name in given.what] or [[CERTIFIED]]:
            for seed in given.seeds:
                save(given.out, {"runs": train([_filled(run, seed, given.out) for run in runs], data)})
    elif given.command == "choose":
        choose(images())
    elif given.command == "merge":
        for file in given.what:
            save(given.out, json.loads(Path(file).read_text()))
    else:
        from papers import resnet_page

        getattr(resnet_page, given.command)(Path(given.what[0]))


if __name__ == "__main__":
    main()
