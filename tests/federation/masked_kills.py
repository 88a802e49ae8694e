"""Parties of masked sums, killed during attempts: real processes over mutual TLS, and another reading of their files.

    cd tests/federation; PYTHONPATH=..:../../src python -m masked_kills 50 FOLDER    half over an aggregator, half trees

The reading knows ledgers and journals as SQLite files, and none of the code that wrote them.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import struct
import sys
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from parties import Trial, until

from coterie.federation.transport.machine import Patience

SIZES = (12, 7, 9, 10, 8)
LABEL = 32  # bytes
PATIENCE = Patience(wait=15.0, retry=0.2)


class Found(NamedTuple):
    """What files say of a run."""

    rounds: int
    charges: dict[str, int]  # releases of each owner
    marks: int  # of releases that peers have
    lost: int | None  # attempts that the loss of an owner cost the others, where one was lost for good


def founded(folder: Path, aggregator: bool, rounds: int) -> Trial:
    settings = {"view": "masked", "steps": rounds, "step_size": 0.5, "spare": 6 * rounds}
    return Trial(
        folder, SIZES, protocol="weighted_erm", settings=settings, topology="ring", aggregator=aggregator,
        patience=PATIENCE,
    )  # fmt: skip


def drill(trial: Trial, kills: int, seed: int, lose: bool = False) -> Found:
    """Kill so often who was charged last, or the aggregator, in the middle of an attempt; `lose`: then one for good."""
    chance = random.Random(seed)
    for name in trial.names:
        trial.start(name, injected=False)
    for _ in range(kills):
        victim = charged_next(trial, chance)
        if trial.planned.hub and chance.random() < 1 / len(trial.names):
            victim = trial.planned.hub
        time.sleep(0.05 * chance.random())  # somewhere in an attempt
        trial.kill(victim, signal.SIGKILL)
        trial.start(victim, injected=False)
    last = lost = None
    if lose:
        all_back(trial)
        lost = charged_next(trial, chance)
        trial.kill(lost, signal.SIGKILL)
        last = max(max(released(trial, name), default=0) for name in trial.planned.agreement.owners)
        del trial.processes[lost]
    trial.finish(600.0)
    return read(trial, last, lost)


def all_back(trial: Trial) -> None:
    """Wait until everybody takes part again: what the next loss costs is then its own."""
    before = {name: len(released(trial, name)) for name in trial.planned.agreement.owners}
    until(lambda: all(len(released(trial, name)) > count + 2 for name, count in before.items()), 300.0)


def charged_next(trial: Trial, chance: random.Random) -> str:
    """Wait until anybody is charged for one more message: one of those who were."""
    owners = trial.planned.agreement.owners
    before = {name: len(released(trial, name)) for name in owners}

    def grown() -> list[str]:
        return [name for name in owners if len(released(trial, name)) > before[name]]

    until(lambda: bool(grown()), 300.0)
    return chance.choice(grown())


def released(trial: Trial, name: str) -> list[int]:
    """The tickets that an owner has been charged for."""
    file = trial.place(name) / "ledger.sqlite"
    query = f"SELECT round FROM ledger WHERE run = '{trial.planned.agreement.run}'"
    return [ticket for (ticket,) in rows(file, query)] if file.exists() else []


def rows(file: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def read(trial: Trial, last: int | None, lost: str | None) -> Found:
    """Assert what must hold, whoever died when."""
    planned = trial.planned
    run, rounds, owners = planned.agreement.run, int(planned.program.schedule), planned.agreement.owners
    ledgers: dict[str, dict[int, bytes]] = {}
    for name in owners:
        found = rows(
            trial.place(name) / "ledger.sqlite", f"SELECT round, message FROM ledger WHERE run = '{run}'"
        )
        assert all(message is not None for _, message in found)  # every charge has its message
        ledgers[name] = dict(found)
        assert len(ledgers[name]) == len(found)
        assert len({message[:LABEL] for _, message in found}) == len(found)  # and every label one message
    marks = 0
    for name in trial.names:
        for owner, ticket, digest in _marks(trial.place(name) / f"journal-{run}.sqlite"):
            assert (
                sha256(ledgers[owner][ticket]).digest() == digest
            )  # what others saw was charged, and is this
            marks += 1
    each = 1 + rounds + planned.sums.spare  # attempts of a round
    for step, attempt, members, total in _sums(trial, run):
        parts = [ledgers[owners[at]][(step - 1) * each + attempt + 1][LABEL:] for at in members]
        count = len(total) // 8
        numbers = [struct.unpack(f"<{count}Q", part) for part in parts]
        assert [sum(column) % 2**64 for column in zip(*numbers)] == list(struct.unpack(f"<{count}Q", total))
    more = None
    if last is not None:
        needed = rounds - ((last - 1) // each + 1)  # one attempt for every round after that one
        more = max(sum(ticket > last for ticket in ledgers[name]) - needed for name in owners if name != lost)
    return Found(rounds, {name: len(ledger) for name, ledger in ledgers.items()}, marks, more)


def _marks(journal: Path) -> list[tuple[str, int, bytes]]:
    """(owner, ticket, hash of the message) of everything that a party was told to be released."""
    assert not rows(journal, "SELECT key FROM entries WHERE key LIKE 'barred/%'")
    found = rows(journal, "SELECT key, body FROM entries WHERE key LIKE 'witness/%'")
    return [(key.split("/")[1], int(key.split("/")[2]), body[8:40]) for key, body in found]


def _sums(trial: Trial, run: str) -> list[tuple[int, int, list[int], bytes]]:
    """(round, attempt, members, sum) of all sums that the last party of the chain has."""
    hub = trial.planned.hub
    place = trial.place(hub or next(iter(trial.processes)))
    journal, wide = place / f"journal-{run}.sqlite", -(-len(SIZES) // 8)
    found = []
    for key, body in rows(journal, "SELECT key, body FROM entries WHERE key LIKE 'sum/%' ORDER BY key"):
        step, head = int(key.split("/")[1]), b""
        if hub:
            head, body = body[:8], body[8:]
        else:
            ((head,),) = rows(journal, f"SELECT body FROM entries WHERE key = 'past/{step:012d}'")
        bits = int.from_bytes(body[:wide], "little")
        members = [at for at in range(len(SIZES)) if bits >> at & 1]
        found.append((step, int.from_bytes(head[:8]), members, body[wide:]))
    assert [step for step, *_ in found] == list(range(1, len(found) + 1))
    return found


def main(kills: int, folder: Path) -> None:
    """Both shapes, one after the other."""
    for aggregator in (True, False):
        place = folder / ("hub" if aggregator else "tree")
        place.mkdir(parents=True)
        trial = founded(place, aggregator, rounds=12 * kills)
        began = time.monotonic()
        try:
            found = drill(trial, kills // 2, seed=kills, lose=True)
        finally:
            trial.stop()
        print(
            f"{place.name}: {kills // 2} kills in {time.monotonic() - began:.0f} s, then one for good: {found}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
