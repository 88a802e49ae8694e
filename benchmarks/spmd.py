"""One process against two on models of 20,000 and more numbers, 20 owners on a ring, with noise.

A line of the table is a group of fresh processes, timed by its first one after a run that compiles; groups are measured
in turns. "Half of the cores" is what each of two processes gets, so that line over two is what two processes would
take if talking were free.

    python -m benchmarks.spmd ENGINE PROCESS PROCESSES PORT CORES    one process of a group, all cases
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from coterie.cli._supervise import cores, here
from coterie.topologies import Edges, Topology

OWNERS = 20
REPEATS = 3  # of every run, and of every group: the best of them, as other people use the machine too
# what the table calls it: engine, processes, into how many parts the cores are cut
GROUPS = {
    "`simulate`, all cores": ("simulate", 1, 1),
    "`spmd`, 1 process, all cores": ("spmd", 1, 1),
    "`spmd`, 1 process, half of the cores": ("spmd", 1, 2),
    "`spmd`, 2 processes, half of the cores each": ("spmd", 2, 2),
}
ALONE = "`spmd`, 1 process, all cores"


def table() -> list[str]:
    """One line for each group, in Markdown."""
    lines = [
        f"One trust domain over processes: {OWNERS} owners on a ring, with noise. Milliseconds a round, and how many "
        "times as fast as one process with all cores.",
        "",
        "| group | " + " | ".join(f"{case.name} | ×" for case in CASES) + " |",
        "|---|" + "---:|---:|" * len(CASES),
    ]
    found = _in_turns()
    for name, seconds in found.items():
        cells = [f"{one * 1e3:.2f} | {base / one:.2f}" for one, base in zip(seconds, found[ALONE])]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _in_turns() -> dict[str, np.ndarray]:
    turns = [{name: measure(*group) for name, group in GROUPS.items()} for _ in range(REPEATS)]
    return {name: np.min([turn[name] for turn in turns], axis=0) for name in GROUPS}


def measure(engine: str, processes: int, parts: int) -> np.ndarray:
    """Seconds a round of the group, for each case."""
    port = here().rpartition(":")[2]
    group = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.spmd", engine, str(process), str(processes), port),
                json.dumps(cores(process, parts)),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
        )
        for process in range(processes)
    ]
    said = [one.communicate()[0] for one in group]
    if any(one.returncode for one in group):
        raise RuntimeError(f"a process of {engine} x {processes} failed")
    return np.array(json.loads(said[0].splitlines()[-1]))


def main(engine: str, process: int, processes: int, port: str, own: str) -> None:
    """Take part in every case; the first process prints the best seconds a round."""
    os.sched_setaffinity(0, json.loads(own))  # before JAX makes its threads
    from coterie.engines.processes import Place, join
    from coterie.engines.simulate import simulate
    from coterie.engines.spmd import spmd

    if processes > 1:
        join(Place(f"127.0.0.1:{port}", process, processes, 120.0))
    run = simulate if engine == "simulate" else spmd
    best = [_best(run, case.make(case.rounds)) / case.rounds for case in CASES]
    if process == 0:
        print(json.dumps(best))


def _best(run: Callable, given: tuple) -> float:
    import jax

    best = float("inf")
    for turn in range(REPEATS + 1):
        started = time.perf_counter()
        jax.block_until_ready(run(*given, seed=1).model)
        best = min(best, time.perf_counter() - started) if turn else best
    return best


def _dual_averaging(dim: int, rounds: int) -> tuple:
    """The paper's: one record a step. Noise and memory are all of it."""
    from coterie.problems.losses import hinge
    from coterie.problems.models import linear
    from coterie.problems.penalties import l2
    from coterie.problems.problem import Problem
    from coterie.protocols.dual_averaging import Settings, build

    rng = np.random.default_rng(0)
    x = rng.standard_normal((OWNERS, 8, dim), dtype=np.float32)
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    y = np.sign(rng.standard_normal((OWNERS, 8))).astype(np.float32)
    problem = Problem(linear(dim, 1), hinge(), l2(0.0005))
    return _given(problem, x, y, lambda task: build(task, Settings(rounds=rounds), "paper"))


def _softmax(rounds: int) -> tuple:
    """Ten classes on 2,048 features; about 60 of an owner's 3,000 records a round, drawn in secret."""
    from coterie.problems.losses import softmax
    from coterie.problems.models import linear
    from coterie.problems.penalties import l2
    from coterie.problems.problem import Problem
    from coterie.protocols.dual_averaging import Settings, build

    rng = np.random.default_rng(0)
    x = rng.random((OWNERS, 3_000, 2_048), dtype=np.float32) / 26
    y = rng.integers(0, 10, (OWNERS, 3_000)).astype(np.int32)
    settings = Settings(rounds=rounds, rate=0.02, gamma=20.0)
    problem = Problem(linear(2_048, 10), softmax(10), l2(1e-3))
    return _given(problem, x, y, lambda task: build(task, settings, "certified"))


def _network(rounds: int) -> tuple:
    """A network 784-128-10 and batches of 32."""
    from dataclasses import replace

    from coterie.mechanisms import Passes
    from coterie.problems.losses import softmax
    from coterie.problems.models import two_layer
    from coterie.problems.penalties import none
    from coterie.problems.problem import Problem
    from coterie.protocols.push_sum import Settings, build

    rng = np.random.default_rng(0)
    x = rng.random((OWNERS, 320, 784), dtype=np.float32) / 28
    y = rng.integers(0, 10, (OWNERS, 320)).astype(np.int32)

    def program(task: Any) -> Any:
        made = build(task, Settings(policy="clipped", rounds=rounds, sigma=1.0), "paper")
        return made._replace(plan=replace(made.plan, sampler=Passes(32)))

    return _given(Problem(two_layer(784, 128, 10), softmax(10), none()), x, y, program)


def _given(problem: Any, x: np.ndarray, y: np.ndarray, program: Callable[[Any], Any]) -> tuple:
    """What engines take: program, records and mixer."""
    import jax
    import jax.numpy as jnp

    from coterie import topologies
    from coterie.program import Shards
    from coterie.protocols.task import Task

    rows = x.shape[1]
    task = Task(
        problem=problem,
        sizes=(rows,) * OWNERS,
        clip_norm=1.0,
        epsilon=(1.0,) * OWNERS,
        delta=1e-5,
        topology=_ring(),
        params=problem.model.init(jax.random.key(0)),
    )
    records = Shards(jnp.asarray(x), jnp.asarray(y), jnp.full(OWNERS, rows, jnp.int32))
    return program(task), records, topologies.mixer(task.topology)


def _ring() -> Topology:
    """Made of edges, so that a machine without networkx can measure too."""
    target = np.repeat(np.arange(OWNERS, dtype=np.int32), 3)
    source = np.sort(np.add(target.reshape(-1, 3), [-1, 0, 1]) % OWNERS, axis=1).ravel().astype(np.int32)
    return Topology("ring", OWNERS, (Edges(source, target, np.full(3 * OWNERS, 1 / 3)),), directed=False)


class Case(NamedTuple):
    """A model, and enough rounds that a run's start does not count."""

    name: str
    make: Callable[[int], tuple]  # of the rounds
    rounds: int


CASES = (
    Case("dual averaging, d = 20,000, one record", lambda rounds: _dual_averaging(20_000, rounds), 400),
    Case("dual averaging, d = 100,000, one record", lambda rounds: _dual_averaging(100_000, rounds), 100),
    Case("softmax, d = 20,480, hidden samples of 3,000", _softmax, 100),
    Case("network, d = 101,770, batches of 32", _network, 60),
)

if __name__ == "__main__":
    engine, process, processes, port, own = sys.argv[1:]
    main(engine, int(process), int(processes), port, own)
