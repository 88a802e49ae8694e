"""One process against two on a model of 20,000 and more numbers: dual averaging on a ring, one record a step.

Every line of the table is a group of fresh processes, timed by its first one after a run that compiles. "Half of the
cores" is what each of two processes gets, so the third line is what two processes would halve if talking were free.

    python -m benchmarks.spmd ENGINE PROCESS PROCESSES PORT CORES DIM    one process of a group
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np

from coterie.cli._supervise import cores, here
from coterie.topologies import Edges, Topology

OWNERS, RECORDS = 20, 8
ROUNDS = {20_000: 400, 100_000: 120}  # for each dimension; enough that a run's start does not count
REPEATS = 3  # the best of them: other people use the machine too
# what the table calls it: engine, processes, into how many parts the cores are cut
GROUPS = {
    "`simulate`, all cores": ("simulate", 1, 1),
    "`spmd`, 1 process, all cores": ("spmd", 1, 1),
    "`spmd`, 1 process, half of the cores": ("spmd", 1, 2),
    "`spmd`, 2 processes, half of the cores each": ("spmd", 2, 2),
}


def table() -> list[str]:
    """One line for each group, in Markdown."""
    lines = [
        f"One trust domain over processes: dual averaging, {OWNERS} owners on a ring, one record a step, noise.",
        "",
        "| group | "
        + " | ".join(f"d = {dim:,}: ms a round | against 1 process, all cores" for dim in ROUNDS)
        + " |",
        "|---|" + "---:|---:|" * len(ROUNDS),
    ]
    found = {name: [measure(*group, dim) for dim in ROUNDS] for name, group in GROUPS.items()}
    alone = found["`spmd`, 1 process, all cores"]
    for name, seconds in found.items():
        cells = [f"{one * 1e3:.2f} | {base / one:.2f} ×" for one, base in zip(seconds, alone)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def measure(engine: str, processes: int, parts: int, dim: int) -> float:
    """Seconds a round of the group."""
    port = here().rpartition(":")[2]
    group = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.spmd", engine, str(process), str(processes), port),
                *(json.dumps(cores(process, parts)), str(dim)),
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
    return float(said[0].split()[-1])


def main(engine: str, process: int, processes: int, port: str, own: str, dim: int) -> None:
    """Take part; the first process prints the best seconds a round."""
    os.sched_setaffinity(0, json.loads(own))  # before JAX makes its threads
    import jax

    from coterie.engines.processes import Place, join
    from coterie.engines.simulate import simulate
    from coterie.engines.spmd import spmd

    if processes > 1:
        join(Place(f"127.0.0.1:{port}", process, processes, 120.0))
    given = _case(dim)
    best = float("inf")
    for turn in range(REPEATS + 1):
        started = time.perf_counter()
        jax.block_until_ready((simulate if engine == "simulate" else spmd)(*given, seed=1).model)
        best = min(best, time.perf_counter() - started) if turn else best
    if process == 0:
        print(best / ROUNDS[dim])


def _case(dim: int) -> tuple:
    import jax.numpy as jnp

    from coterie import topologies
    from coterie.problems.losses import hinge
    from coterie.problems.models import linear
    from coterie.problems.penalties import l2
    from coterie.problems.problem import Problem
    from coterie.program import Shards
    from coterie.protocols.dual_averaging import Settings, build
    from coterie.protocols.task import Task

    rng = np.random.default_rng(0)
    x = rng.standard_normal((OWNERS, RECORDS, dim), dtype=np.float32)
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    y = np.sign(rng.standard_normal((OWNERS, RECORDS))).astype(np.float32)
    task = Task(
        problem=Problem(linear(dim, 1), hinge(), l2(0.0005)),
        sizes=(RECORDS,) * OWNERS,
        clip_norm=1.0,
        epsilon=(1.0,) * OWNERS,
        delta=0.01,
        topology=_ring(),
        params=jnp.zeros((dim, 1)),
    )
    program = build(task, Settings(rounds=ROUNDS[dim]), "paper")
    records = Shards(jnp.asarray(x), jnp.asarray(y), jnp.full(OWNERS, RECORDS, jnp.int32))
    return program, records, topologies.mixer(task.topology)


def _ring() -> Topology:
    """Made of edges, so that a machine without networkx can measure too."""
    target = np.repeat(np.arange(OWNERS, dtype=np.int32), 3)
    source = np.sort(np.add(target.reshape(-1, 3), [-1, 0, 1]) % OWNERS, axis=1).ravel().astype(np.int32)
    return Topology("ring", OWNERS, (Edges(source, target, np.full(3 * OWNERS, 1 / 3)),), directed=False)


if __name__ == "__main__":
    engine, process, processes, port, own, dim = sys.argv[1:]
    main(engine, int(process), int(processes), port, own, int(dim))
