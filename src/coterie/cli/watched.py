"""One run in a process of its own, as `coterie ui` starts it. It reports in its folder, and nowhere else.

The folder (NAME.running, beside the place of the result) has the experiment, the checkpoint that `coterie run --engine
spmd` writes and goes on from, and where the run stands. The process holds a lock on it for as long as it lives, so that
others can tell. At the end the run's own folder replaces it.

Guarantee: what the folder says of a run in progress is public, or marked as an oracle value; only its user can read it.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from coterie import _files
from coterie.cli._cache import keep_compiled
from coterie.errors import CoterieError, InputError
from coterie.ui.runs import CHECKPOINT, ENDING, EXPERIMENT, JOB, LOCK, LOG, PROGRESS

if TYPE_CHECKING:
    from coterie.experiments.training import Ready

_OFTEN = 0.2  # seconds between two updates in the same phase
_SLOW = 0.5  # seconds beyond which a certificate is not computed again during the run


class Noted:
    """Keeps progress.json up to date, and notices Ctrl-C even if a compiler that runs Python swallowed it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stopped = folder, False
        self._written, self._slow = 0.0, False
        self._seen: float | None = None
        self._made: Ready | None = None
        self.now: dict[str, Any] = {"pid": os.getpid(), "what": "starting", "done": 0, "of": 0}
        self.now |= {"points": self._before(), "spent": None, "about": None, "error": None, "stopped": False}
        self.write()
        signal.signal(signal.SIGINT, self._interrupt)

    def _before(self) -> list[list[float | None]]:
        """The points of the metric before the checkpoint from which a run continues."""
        if not (self.folder / CHECKPOINT).exists():
            return []
        try:
            return json.loads((self.folder / PROGRESS).read_text())["points"]
        except (OSError, ValueError, KeyError):
            return []

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True
        signal.default_int_handler(number, frame)

    def write(self) -> None:
        """Write progress.json atomically."""
        self._written = time.monotonic()
        _files.put(self.folder / PROGRESS, json.dumps(self.now, allow_nan=False).encode())

    def tell(self, what: str, done: int, of: int) -> None:
        """Note the run's progress."""
        if self.stopped:
            raise KeyboardInterrupt
        changed = what != self.now["what"]
        self.now |= {"what": what, "done": done, "of": of}
        if what == "training" and done:
            self._point(done)
        if changed or time.monotonic() - self._written > _OFTEN or done == of:
            self.write()

    def begin(self, made: Ready) -> None:
        """Note the public facts of the run before its first step."""
        from coterie.experiments.describe import network
        from coterie.problems.metrics import METRICS
        from coterie.reports.written import plain

        self._made = made
        prepared, task = made.prepared, made.prepared.task
        metric = METRICS[prepared.judge.metric]
        self.now["about"] = {
            "owner_names": list(prepared.partition.names),
            "sizes": list(task.sizes),
            "budgets": list(task.epsilon),
            "delta": task.delta,
            "metric": prepared.judge.metric,
            "metric_words": metric.words,
            "lower_is_better": metric.lower_is_better,
            "rows": prepared.tested,
            "tested_on": prepared.test_rows.removesuffix(" (oracle)"),
            "unit": task.unit.words,
            "oracle": not prepared.table.test_is_public,
            "sizes_are_private": not made.program.plan.relation.sizes_are_public,
            "step": made.program.step,
            "network": plain(network(task.topology, made.program.hub)),
        }
        self.write()

    def looked(self, joint: float) -> None:
        """Note a value of the metric. Engines report its step right afterwards."""
        self._seen = float(joint) if math.isfinite(joint) else None

    def _point(self, step: int) -> None:
        from coterie.experiments.logs import spent_after

        assert self._made is not None
        self.now["points"].append([step, self._seen])
        if self._slow:
            return
        began = time.monotonic()
        spent = spent_after(self._made.program, self._made.prepared.task.delta, step)
        self.now["spent"] = spent and [epsilon if math.isfinite(epsilon) else None for epsilon in spent]
        self._slow = time.monotonic() - began > _SLOW


def main(folder: Path) -> int:
    """Train, certify, replace the folder by the result's; return the exit status."""
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 1  # somebody else has begun it
        noted = Noted(folder)
        try:
            _run(folder, noted)
            return 0
        except KeyboardInterrupt:
            noted.now["stopped"] = True
        except CoterieError as error:
            noted.now["error"] = str(error)
        except Exception:
            traceback.print_exc()
            noted.now["error"] = f"a bug in coterie: {folder / LOG} has the details."
        noted.write()
        return 1


def _run(folder: Path, noted: Noted) -> None:
    from coterie.experiments import output
    from coterie.experiments.experiment import read_toml
    from coterie.experiments.run import run
    from coterie.experiments.training import Keeping

    data_dir = _data_dir(folder / JOB)
    experiment, checkpoint = read_toml(folder / EXPERIMENT), folder / CHECKPOINT
    keep_compiled()
    keeping = Keeping(checkpoint, resume=checkpoint.exists())
    result = run(experiment, data_dir, noted.tell, keeping, watch=noted)
    noted.tell("drawing", 0, 0)
    output.write(result, folder.with_name(folder.name.removesuffix(ENDING)))
    shutil.rmtree(folder)


def _data_dir(job: Path) -> Path | None:
    try:
        data_dir = json.loads(job.read_text())["data_dir"]
        return None if data_dir is None else Path(data_dir)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{job}: is not there, or of another version. Discard this run and begin it again."
        ) from error


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
