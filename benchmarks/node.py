"""What one party of a linear model takes: processor time until it is ready, memory then and at its worst.

Processor time, not the clock's: the machine may be shared. `python -m benchmarks.node` prints the table alone.
"""

from __future__ import annotations

import csv
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coterie.experiments.experiment import Experiment
from coterie.federation import network
from coterie.federation.agreement import Agreement
from coterie.problems.datasets.schema import Schema

SECONDS, MEGABYTES = 3.0, 250.0  # wanted, for a linear model
ROWS, COLUMNS = 200, 20
LIBRARIES = (
    "jax",
    "scipy.stats",
    "pandas",
    "dp_accounting",
    "networkx",
    "cryptography.x509",
    "zenoh",
)
_IMPORT = """
import importlib, sys, time
import numpy
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
before, began = resident(), time.process_time()
importlib.import_module(sys.argv[1])
print(time.process_time() - began, resident() - before)
"""


class Cost(NamedTuple):
    """Of one process."""

    ready: float  # seconds of processor time until it was ready
    resident: float  # megabytes then
    peak: float  # megabytes at the worst moment
    whole: float  # seconds of processor time until its end


def table() -> list[str]:
    """The section of RESULTS.md."""
    lines = [
        f"`coterie node` of a linear model ({ROWS} records, {COLUMNS} columns, 20 rounds, two owners). Wanted: ready "
        f"after {SECONDS:g} s of processor time, the process that reads its file included, at most {MEGABYTES:g} MB. "
        "Of what is resident, about 20 MB then and 100 MB at the worst are pages of the libraries' files, which nodes "
        "of one machine share. "
        f"Measured at a load of {os.getloadavg()[0]:.0f}. Python's own compiled files must be there, as `pip` leaves "
        "them: where they are stale and may not be written (`PYTHONDONTWRITEBYTECODE`), every start takes 3 s more, "
        "and 30 MB.",
        "",
        "| compiled programs | until it is ready | memory then | memory at the worst | until its end | met |",
        "|---|---:|---:|---:|---:|---|",
        *_twice(),
        "",
        "What a library takes when it is imported into a process that has NumPy:",
        "",
        "| library | processor time | memory |",
        "|---|---:|---:|",
    ]
    for name in LIBRARIES:
        seconds, memory = _imported(name)
        lines.append(f"| {name} | {seconds:.2f} s | {memory:.0f} MB |")
    return lines


def _twice() -> list[str]:
    """With an empty cache of compiled programs, and with what the first run left there."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as cache:
        for what in ("none kept", "kept"):
            with tempfile.TemporaryDirectory() as folder:
                cost = measured(Path(folder), cache)
            lines.append(
                f"| {what} | {cost.ready:.1f} s | {cost.resident:.0f} MB | {cost.peak:.0f} MB | {cost.whole:.1f} s "
                f"| {'yes' if cost.ready <= SECONDS and cost.peak <= MEGABYTES else '**no**'} |"
            )
    return lines


def measured(folder: Path, cache: str) -> Cost:
    """Two owners run to the end; what the first one took."""
    found(folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(300)
        first = _start(folder, "a", {"NOTIFY_SOCKET": str(folder / "notify"), "COTERIE_CACHE": cache})
        other = _start(folder, "b", {"COTERIE_CACHE": cache})
        while b"READY=1" not in manager.recv(4096):
            pass
        ready, resident, peak = processor(first.pid), _resident(first.pid), 0.0
        while not (ended := os.wait4(first.pid, os.WNOHANG))[0]:
            peak = max(peak, highest(first.pid))
            time.sleep(0.02)
        _, status, used = ended
        first.returncode = os.waitstatus_to_exitcode(status)
        assert (first.returncode, other.wait(300)) == (0, 0)
    return Cost(ready, resident, peak, used.ru_utime + used.ru_stime)


def _start(folder: Path, name: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    place, data = folder / "net" / "parties" / name, folder / f"{name}.csv"
    command = [sys.executable, "-m", "coterie", "node", str(place), "--data", str(data), "--json"]
    return subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def processor(process: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf(
        "SC_CLK_TCK"
    )  # its own, and that of children which ended


def _resident(process: int) -> float:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def highest(process: int) -> float:
    """The most that was ever resident. Not `ru_maxrss`, which a process inherits from who started it."""
    found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) * 1024 / 1e6 if found else 0.0  # none: it has just ended


def _imported(name: str) -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-c", _IMPORT, name], check=True, capture_output=True, text=True)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens at."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def found(folder: Path) -> None:
    """Two owners, and records that have no meaning."""
    ports = free_ports(2)
    agreement = Agreement(
        name="bench",
        experiment=Experiment(
            protocol="dual_averaging", settings={"rounds": 20}, gossip_steps=1, topology="ring"
        ),
        schema=Schema(
            target="y", columns={f"x{at}": (-1.0, 1.0) for at in range(COLUMNS)}, classes=("no", "yes")
        ),
        sizes={"a": ROWS, "b": ROWS},
    )
    network.found(
        folder / "net", agreement, {name: f"127.0.0.1:{port}" for name, port in zip("ab", ports)}, None
    )
    random = np.random.default_rng(0)
    for name in "ab":
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"x{at}" for at in range(COLUMNS)), "y"])
            for row in random.uniform(-1, 1, (ROWS, COLUMNS)).round(4).tolist():
                writer.writerow([*row, "yes" if row[0] > 0 else "no"])


if __name__ == "__main__":
    print("\n".join(table()))
