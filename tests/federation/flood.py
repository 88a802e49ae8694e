"""Junk while real owners train: how many rounds a second there are before, during and after it.

    cd tests/federation; PYTHONPATH=..:../../src python -m flood FOLDER

Strangers open connections and send what is no TLS; then an owner that left the run, with its own certificate, sends
10,000 frames a second that are none. Everything is on this machine, whose cores the flood shares.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from parties import Trial, until

from coterie.federation import agreement as agreements
from coterie.federation import party
from coterie.federation.collaboration import collaboration
from coterie.federation.connections import transport
from coterie.federation.transport import trust
from coterie.federation.transport.machine import Patience

SECONDS = 10.0
HOSTILE = "owner-3"
JUNK = b"\xc1junk"
BURST, PAUSE = 500, 0.05  # 10,000 a second


def strangers(places: list[Path]) -> None:
    """Ten connections a second to every owner, and junk on each until it is closed."""
    wheres = [party.read(place).listen or "" for place in places]
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        for where in wheres:
            host, _, port = where.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=60) as plain:
                try:
                    plain.sendall(JUNK * 10_000)
                except OSError:
                    continue  # it had enough
        time.sleep(0.1)


def hostile(places: list[Path]) -> None:
    """Frames of one who is admitted, and says nothing that can be understood."""
    own = party.read(places[0].parent / HOSTILE)
    planned = collaboration(agreements.read(own.agreement))
    line = transport(own, planned, trust.identity(own.folder, HOSTILE), announced=False)
    line.open(lambda sender, frame: None, lambda: None)
    until(lambda: len(line.connected()) == len(places), 120.0)
    began, sent = time.monotonic(), 0
    while time.monotonic() - began < SECONDS:
        for at in range(BURST):
            line.send(places[at % len(places)].name, JUNK)
        sent += BURST
        time.sleep(max(0.0, began + PAUSE * sent / BURST - time.monotonic()))
    line.close()
    print(f"    {sent / (time.monotonic() - began):,.0f} frames a second were sent", flush=True)


def rate(place: Path, while_: Callable[[], bool]) -> float:
    """Rounds a second of an owner, by two of its snapshots."""
    first = json.loads((place / "status.json").read_text())
    until(lambda: not while_(), 10 * SECONDS)
    last = json.loads((place / "status.json").read_text())
    return (last["step"] - first["step"]) / (last["time"] - first["time"])


def refused(place: Path) -> int:
    said = json.loads((place / "status.json").read_text())
    return sum(said["refusals"].values()) + sum(said["dropped"].values())


def measured(trial: Trial, what: str, flood: Callable[[list[Path]], None] | None) -> None:
    places = [trial.place(name) for name in trial.names if name != HOSTILE]
    before, over = refused(places[0]), time.monotonic() + SECONDS
    process = mp.get_context("spawn").Process(target=flood, args=(places,)) if flood else None
    if process:
        process.start()
    found = rate(places[0], process.is_alive if process else lambda: time.monotonic() < over)
    print(f"{what}: {found:.1f} rounds a second, {refused(places[0]) - before} refused", flush=True)


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    trial = Trial(
        folder, (12, 7, 9, 10), protocol="dual_averaging", settings={"rounds": 50_000}, topology="complete",
        gossip_steps=1, patience=Patience(wait=3.0, retry=0.2),
    )  # fmt: skip
    status = trial.place("owner-0") / "status.json"
    step = lambda: json.loads(status.read_text())["step"] if status.exists() else 0
    try:
        for name in trial.names:
            trial.start(name, injected=False)
        until(lambda: step() > 50, 200.0)
        trial.kill(HOSTILE)
        gone = step()
        until(lambda: step() > gone + 100, 200.0)  # on without it
        measured(trial, "before", None)
        measured(trial, "strangers' junk", strangers)
        measured(trial, "between", None)
        measured(trial, "an owner's junk", hostile)
        measured(trial, "after", None)
    finally:
        trial.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
