"""What a user waits for: help, and the first result of a linear model where the compilation cache is warm."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import Row

COMMAND = Path(sys.executable).parent / "coterie"


def rows() -> list[Row]:
    """Two rows; times are of whole processes, as a shell sees them."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"COTERIE_CACHE": str(Path(folder) / "cache")}
        run = ["run", "--json", "--out"]
        cold = _seconds([*run, str(Path(folder) / "cold")], environment)
        warm = min(_seconds([*run, str(Path(folder) / f"warm{at}")], environment) for at in range(2))
        aid = min(_seconds(["--help"], environment) for _ in range(3))
    return [
        Row(
            case="`coterie run`, the demonstration, from start to report, warm cache",
            work="a process",
            floor=None,
            ours=warm,
            wanted="start-up and compilation under 5 s",
            met=warm < 5,
            note=f"with a cold cache {cold:.1f} s; all of the run, its baselines and its page are in the time",
        ),
        Row(
            case="`coterie --help`",
            work="a process",
            floor=None,
            ours=aid,
            wanted="under 0.5 s",
            met=aid < 0.5,
        ),
    ]


def _seconds(arguments: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run([COMMAND, *arguments], env=environment, check=True, capture_output=True)
    return time.perf_counter() - started
