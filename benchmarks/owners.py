"""From 10 to 10,000 owners on sparse graphs: what one owner's step costs, and how much memory all of them take."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import Row
from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.problems.losses import logistic
from coterie.problems.models import linear
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Shards
from coterie.protocols.dual_averaging import Settings, build
from coterie.protocols.task import Task

DIM, RECORDS, COUNTS = 50, 10, (10, 100, 1_000, 10_000)
GRAPHS: dict[str, dict] = {"ring": {}, "exponential": {"directed": False}, "random_regular": {}}
LIMIT = 60.0  # seconds that 10,000 owners × 100 rounds may take


def rows() -> list[Row]:
    """One row for each graph and number of owners; each is measured in a process of its own, for its memory."""
    found = []
    for graph in GRAPHS:
        few = None
        for owners in COUNTS:
            one = _alone(graph, owners)
            step = one["seconds"] / one["rounds"] / owners
            few = few or step
            large = owners == max(COUNTS)
            whole = one["setup"] + one["first"] * 100 / one["rounds"]
            found.append(
                Row(
                    case=f"an owner's step, {owners:,} owners on a {graph} graph, d = {DIM}, {RECORDS} records",
                    work=f"{DIM} normals; peak memory of the process {one['peak'] / 2**20:,.0f} MiB",
                    floor=None,
                    ours=step,
                    wanted=f"at most 2 × the step of 10 owners; 100 rounds under {LIMIT:.0f} s"
                    if large
                    else "",
                    met=(step <= 2 * few and whole < LIMIT) if large else None,
                    note=f"{step / few:.2f} × the step of 10 owners; graph, compilation and 100 rounds {whole:.1f} s",
                )
            )
    return found


def _alone(graph: str, owners: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.owners", graph, str(owners)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(graph: str, owners: int) -> dict[str, float]:
    """Seconds for building, for the first run with compilation, and for the best of three; bytes at the peak."""
    rounds = max(100, 200_000 // owners)
    started = time.perf_counter()
    topology = topologies.build(graph, owners, **GRAPHS[graph])
    rng = np.random.default_rng(0)
    x = rng.standard_normal((owners, RECORDS, DIM), dtype=np.float32) / 7
    y = np.sign(rng.standard_normal((owners, RECORDS))).astype(np.float32)
    task = Task(
        problem=Problem(linear(DIM, 1), logistic(), l2(0.01)),
        sizes=(RECORDS,) * owners,
        clip_norm=1.0,
        epsilon=(1.0,) * owners,
        delta=0.01,
        topology=topology,
        params=jnp.zeros((DIM, 1)),
    )
    program = build(task, Settings(rounds=rounds), "paper")
    shards = Shards(jnp.asarray(x), jnp.asarray(y), jnp.full(owners, RECORDS, jnp.int32))
    mixer = topologies.mixer(topology)
    setup = time.perf_counter() - started
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        jax.block_until_ready(simulate(program, shards, mixer, seed=1).model)
        seconds.append(time.perf_counter() - started)
    return {
        "setup": setup,
        "first": seconds[0],
        "seconds": min(seconds[1:]),
        "rounds": rounds,
        "peak": _peak(),
    }


def _peak() -> float:
    """Bytes: the most memory that this process held. Not `ru_maxrss`, which starts from the parent's on Linux."""
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) * 1024
    import resource

    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
