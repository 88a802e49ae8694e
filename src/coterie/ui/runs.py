"""Runs by their folders: those that have ended, as `coterie run` wrote them, and those in progress beside them.

Everything about a run is in its folder. So a server that was killed loses nothing, several tabs show the same, and
the command line's runs are shown too. A run in progress is NAME.running, with a lock that its process
holds; when it has ended, the folder NAME takes its place.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from coterie.errors import InputError

EXPERIMENT, CHECKPOINT, PROGRESS, LOCK, LOG, JOB = (
    "experiment.toml", "checkpoint", "progress.json", "lock", "log", "job.json",
)  # fmt: skip
ENDING = ".running"  # suffix of the folder of a run that has not ended
_NAME = re.compile(r"[^/\\\0]{1,200}")


class Runs:
    """The runs of one folder."""

    def __init__(self, folder: Path, data_dir: Path | None = None) -> None:
        self.folder, self.data_dir = folder, data_dir
        self._read: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, given: dict[str, Any]) -> str:
        """Begin a run of the experiment that these keys describe; return its name. InputError at once for wrong keys.

        It uses the engine that writes checkpoints, so that it can be stopped and resumed. Its folder is made in that of
        the runs and nowhere else, under a name that is listed.
        """
        from coterie.experiments.experiment import Experiment, override
        from coterie.protocols import check_settings

        chosen = override(Experiment(), given | {"engine": "spmd"}, "run")
        check_settings(chosen.protocol, chosen.settings)
        place = self._claim(_checked(f"{Path(chosen.data_name).stem}-{chosen.protocol}"))
        (place / EXPERIMENT).write_text(chosen.to_toml(), encoding="utf-8")
        job = {"data_dir": None if self.data_dir is None else str(self.data_dir.absolute())}
        (place / JOB).write_text(json.dumps(job), encoding="utf-8")
        self._begin(place)
        return place.name.removesuffix(ENDING)

    def stop(self, name: str) -> None:
        """Tell its process to stop; its checkpoint stays."""
        place = self._place(name)
        if self._alive(place):
            os.kill(_process_of(place), signal.SIGINT)

    def resume(self, name: str) -> None:
        """Continue from the checkpoint, or begin anew where there is none yet."""
        place = self._place(name)
        if self._alive(place):
            raise InputError(f"run={name!r}: is running.")
        self._begin(place)

    def discard(self, name: str) -> None:
        """Delete a run that did not end."""
        place = self._place(name)
        if self._alive(place):
            raise InputError(f"run={name!r}: is running. Stop it first.")
        shutil.rmtree(place)

    def all(self) -> list[dict[str, Any]]:
        """A summary of every run, the latest first."""
        self._reap()
        runs = []
        for place in self.folder.iterdir() if self.folder.is_dir() else ():
            if place.name.startswith(".") or not place.is_dir():
                continue
            if place.name.endswith(ENDING):
                runs.append((place.stat().st_ctime, self._in_progress(place)))
            elif (place / "result.json").is_file():
                runs.append(((place / "result.json").stat().st_mtime, self._ended(place)))
        return [run for _, run in sorted(runs, key=lambda pair: -pair[0])]

    def folder_of(self, name: str) -> Path:
        """The folder of a run that has ended."""
        place = self.folder / _checked(name)
        if name.endswith(ENDING) or not (place / "result.json").is_file():
            raise InputError(f"run={name!r}: there is no such run in {self.folder}, or it has not ended.")
        return place

    def _claim(self, name: str) -> Path:
        """The first free folder of NAME-1, NAME-2, …; creating it claims the name."""
        number = 1
        while True:
            place = self.folder / f"{name}-{number}"
            try:
                if not place.exists():
                    running = place.with_name(place.name + ENDING)
                    running.mkdir(mode=0o700, parents=True)
                    return running
            except FileExistsError:
                pass
            except OSError as error:
                raise InputError(
                    f"runs={str(self.folder)!r}: cannot be written ({error.strerror})."
                ) from error
            number += 1

    def _begin(self, place: Path) -> None:
        self._reap()
        with (place / LOG).open("ab") as log:
            self._children.append(
                subprocess.Popen(
                    [sys.executable, "-m", "coterie.cli.watched", str(place.absolute())],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # it outlives the server, which finds it again by its folder
                )
            )

    def _reap(self) -> None:
        """Poll child processes, so that none stays a zombie."""
        self._children = [child for child in self._children if child.poll() is None]

    def _place(self, name: str) -> Path:
        place = self.folder / f"{_checked(name)}{ENDING}"
        if not place.is_dir():
            raise InputError(f"run={name!r}: no such run is in progress.")
        return place

    def _alive(self, place: Path) -> bool:
        """Whether a process holds the lock, or was just started and may still take it."""
        mine = str(place.absolute())
        for child in self._children:
            if child.poll() is None and isinstance(child.args, list) and child.args[-1] == mine:
                return True
        try:
            with (place / LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _in_progress(self, place: Path) -> dict[str, Any]:
        alive, now = self._alive(place), _progress(place)
        state = "running" if alive else "failed" if now.get("error") else "stopped"
        name = place.name.removesuffix(ENDING)
        about = {"name": name, "state": state, "kept": (place / CHECKPOINT).exists()}
        return {**_experiment(place), **now, **about}

    def _ended(self, place: Path) -> dict[str, Any]:
        """The summary of an ended run, read again only when the file changes."""
        file = place / "result.json"
        state = file.stat()
        mark = (state.st_mtime_ns, state.st_size)
        if place not in self._read or self._read[place][0] != mark:
            self._read[place] = mark, _summary(place)
        return self._read[place][1]


def _process_of(place: Path) -> int:
    """The number of the run's process. Numbers are reused, so the process's command must name the folder."""
    number = _progress(place).get("pid")
    try:
        command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except OSError:
        command = []
    if not isinstance(number, int) or os.fsencode(place.absolute()) not in command:
        raise InputError(f"run={place.name.removesuffix(ENDING)!r}: is just starting, or ending. Try again.")
    return number


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise InputError(f"run={name!r}: is not the name of a run.")
    return name


def _progress(place: Path) -> dict[str, Any]:
    """The progress that its process wrote last; keys that are missing have their values at the start."""
    start = {"what": "starting", "done": 0, "of": 0, "points": [], "about": None, "error": None}
    try:
        return start | json.loads((place / PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return start


def _experiment(place: Path) -> dict[str, Any]:
    from coterie.experiments.experiment import read_toml

    try:
        chosen = read_toml(place / EXPERIMENT)
    except InputError:
        return {"data": "?", "protocol": "?"}
    return {"data": chosen.data_name, "protocol": chosen.protocol}


def _summary(place: Path) -> dict[str, Any]:
    """A line of the list; for a folder that is no run of this version, one that says so."""
    from coterie.ui.shown import summary

    try:
        return {"name": place.name, "state": "ended", **summary(place)}
    except InputError as error:
        return {"name": place.name, "state": "unreadable", "error": str(error)}
