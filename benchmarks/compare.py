"""A comparison of three protocols against the 15 runs of its slowest one, done as sweeps of the bare engine."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import Row

PROTOCOLS = ("dual_averaging", "weighted_erm", "async_learner")
COMMAND = (sys.executable, "-m", "coterie")

# What the engine alone needs: data, noise, training with runs that fit side by side, a look at the end, certificates.
SWEEP = """
import sys
from coterie.cli._cache import keep_compiled
keep_compiled()
import jax
from coterie.accounting.plans import certificates_of
from coterie.engines.sweep import alike, sweep
from coterie.experiments.comparing.jobs import _look, job_of
from coterie.experiments.comparing.question import Comparison
from coterie.experiments.prepare import prepare

asked = Comparison(protocols=(sys.argv[1],))
prepared = prepare(asked.shared)
jobs = [job_of(asked, asked.series()[0], epsilon, prepared) for epsilon in asked.epsilon]
groups = {}
for job in jobs:
    certificates_of(job.program.plan, asked.shared.delta)
    groups.setdefault(alike(job.lanes[0], prepared.shards), []).extend(job.lanes)
for lanes in groups.values():
    sweep(lanes, prepared.shards, every=10**9, probe=_look(prepared, True))
"""


class Cost(NamedTuple):
    """Of a process: seconds on the clock and of all cores."""

    wall: float
    cpu: float


def rows() -> list[Row]:
    """With nothing compiled before, and with everything."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        found = [_measured(place, turn) for turn in ("cold", "warm")]
    return [_row(*one) for one in zip(("nothing compiled before", "all compiled before"), found)]


def _row(case: str, costs: dict[str, Cost]) -> Row:
    ours = costs["compare"]
    slowest = max(PROTOCOLS, key=lambda one: costs[one].wall)
    ratios = [a / b for a, b in zip(ours, costs[slowest])]
    return Row(
        case=f"`coterie compare`, 3 protocols × 3 budgets × 5 seeds on census, {case}",
        work="45 runs and 15 of owners alone, certificates, table, picture and page; a process",
        floor=None,
        ours=ours.wall,
        peers={f"15 runs of {name}, the bare engine": costs[name].wall for name in PROTOCOLS},
        wanted="less than twice the slowest protocol's 15 runs",
        met=ratios[0] < 2,
        note=f"{ratios[0]:.2f} × {slowest}'s; by processor time {ratios[1]:.2f} ×",
    )


def _measured(folder: Path, turn: str) -> dict[str, Cost]:
    """Each in a process of its own, with a cache of its own that the second turn finds filled."""
    command = [
        *COMMAND,
        "compare",
        "--protocols",
        ",".join(PROTOCOLS),
        "--epsilon",
        "0.5,1,4",
        "--seeds",
        "5",
    ]
    costs = {"compare": _cost([*command, "--out", str(folder / f"out-{turn}")], folder / "compare")}
    return costs | {name: _cost([sys.executable, "-c", SWEEP, name], folder / name) for name in PROTOCOLS}


def _cost(command: list[str], cache: Path) -> Cost:
    environment = os.environ | {"COTERIE_CACHE": str(cache)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
