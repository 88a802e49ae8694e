"""All parties of a network as processes of this machine: a trial of the real thing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie._rounding import upper
from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation import party as parties
from coterie.federation.agreement import HUBS
from coterie.federation.party import Party

LOG = "node.log"
_PATIENCE = 20.0  # seconds that a party gets to finish its step when it is told to stop
_LINES = 3  # of its log that are shown of a party that failed


@dataclass(frozen=True)
class LocalNetwork:
    """Running parties."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]]

    def running(self) -> bool:
        """Whether any party still runs; one that failed stops nobody but itself."""
        return any(process.poll() is None for process in self.processes.values())

    def outcome(self) -> dict[str, Any]:
        """How each party ended. Only results of this run count: older ones may be in the same folder."""
        run, reports = agreements.read(self.folder / "agreement.json").run, []
        for name, process in self.processes.items():
            place = self.folder / "parties" / name
            result = read_status(place / "result" / "result.json") if process.poll() == 0 else None
            result = result if result and result["run"] == run else None
            lines = [] if result else (place / LOG).read_text(errors="replace").splitlines()[-_LINES:]
            reports.append({"name": name, "exit": process.poll(), "result": result, "log": lines})
        return {"finished": all(report["result"] for report in reports), "parties": reports}


@contextmanager
def started(folder: Path, data: Path, injected_seed: int | None = None) -> Iterator[LocalNetwork]:
    """Start every party; all of them are stopped at the end of the block, also after an error."""
    names = _parties(folder)
    commands = {name: _command(folder, data, name, injected_seed) for name in names}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            # For the owner's eyes alone: what a node says at the end has the metric on its own records.
            with open(folder / "parties" / name / LOG, "ab", opener=_own) as log:
                # A session of its own: Ctrl-C reaches this process alone, which then stops them in order.
                processes[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        yield LocalNetwork(folder, processes)
    finally:
        _stop(processes)


def status(folder: Path) -> list[dict[str, Any]]:
    """The last snapshot of each party on this machine; one that never ran has only its name."""
    return [
        read_status(folder / "parties" / name / "status.json") or {"name": name, "state": "not started"}
        for name in _parties(folder)
    ]


def parties_of(folder: Path, data: Path | None) -> list[tuple[Party, Path | None]]:
    """Every party of a network on this machine, with its records where a folder of them is given.

    InputError where an owner has no file.
    """
    members: list[tuple[Party, Path | None]] = []
    for name in _parties(folder):
        own = parties.read(folder / "parties" / name)
        members.append((own, None if data is None or name in HUBS else _file(data, name)))
    return members


def words(outcome: dict[str, Any]) -> str:
    """What became of each party, to read."""
    lines = []
    for report in outcome["parties"]:
        result = report["result"]
        if result is None:
            how = "stopped before the end" if report["exit"] == 0 else f"exit status {report['exit']}"
            lines.append(f"{report['name']}: {how}")
            lines += [f"    {line}" for line in report["log"]]
        elif result["certified_epsilon"] is None:
            lines.append(f"{report['name']}: finished")
        else:
            lines.append(
                f"{report['name']}: finished, ε = {upper(float(result['spent_epsilon']))} of "
                f"{result['budget_epsilon']:g} spent, report in {result['out']}"
            )
    return "\n".join(lines)


def _own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _parties(folder: Path) -> list[str]:
    agreement = agreements.read(folder / "agreement.json")
    hubs = [name for name in HUBS if (folder / "parties" / name / parties.NAME).exists()]
    return [*hubs, *agreement.owners]


def _command(folder: Path, data: Path, name: str, injected_seed: int | None) -> list[str]:
    command = [sys.executable, "-m", "coterie", "node", str(folder / "parties" / name)]
    if name not in HUBS:
        command += ["--data", str(_file(data, name))]
    return command if injected_seed is None else [*command, "--injected-seed", str(injected_seed)]


def _file(data: Path, name: str) -> Path:
    for kind in (".csv", ".parquet", ".npz"):
        if (data / f"{name}{kind}").exists():
            return data / f"{name}{kind}"
    raise InputError(
        f"data={str(data)!r}: has no {name}.csv, .parquet or .npz. Give a folder with each owner's file."
    )


def _stop(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    for process in processes.values():
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _PATIENCE
    for process in processes.values():
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read_status(path: Path) -> dict[str, Any] | None:
    """The status that a party wrote; None where there is none yet."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
