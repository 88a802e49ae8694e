"""Real owners on this machine: rounds a second, bytes against the least, memory, and where a round's time goes.

Every owner is a process of its own over mutual TLS, with its ledger on the disk. Rates are read off the nodes' own
status files between a tenth and the end of the run, so that start-up, compilation and handshakes are not in them.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks import node
from coterie.accounting.ledger import Ledger, data_hash
from coterie.engines.simulate import simulate
from coterie.experiments.experiment import Experiment
from coterie.federation import local, network, party
from coterie.federation.agreement import Agreement
from coterie.federation.collaboration import Collaboration
from coterie.federation.releases import randomness
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet, OwnRun
from coterie.federation.releases.side import OwnRecords, RoundsSide
from coterie.federation.transport import wire
from coterie.problems.datasets.schema import Schema
from coterie.program import Shards
from coterie.topologies import mixer

ROWS = 40  # records of an owner: the network is measured here, not the gradient
JOINED = 30.0  # seconds wanted


class Case(NamedTuple):
    """A network and how its noise is made."""

    name: str
    owners: int
    columns: int
    classes: int
    rounds: int
    generator: randomness.Generator


CASES = (
    Case("20 owners, ring, d = 200, exact noise", 20, 199, 2, 120, "exact"),
    Case("20 owners, ring, d = 200, stream noise", 20, 199, 2, 400, "stream"),
    Case("32 owners, ring, d = 10,000, stream noise", 32, 99, 100, 100, "stream"),
)


def table() -> list[str]:
    """The section of RESULTS.md."""
    lines = [
        "One process each, mutual TLS, ledgers on the disk. Dual averaging, one gossip step a round. Least bytes: the "
        "model's numbers to each neighbour. Bytes are frames as handed to the transport; TLS adds about 30 to each. "
        "Rounds a second are by the clock of a machine that may be shared: its load was "
        f"{os.getloadavg()[0]:.0f} before. Processor time is the owners' own, their readers of files included.",
        "",
        "| network | parameters | rounds a second | processor time of an owner's round | bytes sent / least |",
        "|---|---:|---:|---:|---:|",
    ]
    starts = [
        "How long the same took to begin, with no compiled program kept from an earlier run. All have joined when each "
        f"was greeted by all of its neighbours; wanted: 32 owners on two cores within {JOINED:g} s, and a node's "
        f"memory at most {node.MEGABYTES:g} MB at its worst. Measured at a load of {os.getloadavg()[0]:.0f}.",
        "",
        "| network | all have joined after | of processor time, over the cores | first round of all after "
        "| of processor time, over the cores | memory of a node at its worst |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            for rows, row in zip((lines, starts), _measured(case, Path(folder))):
                rows.append(row)
    return [*lines, "", *starts, "", *_parts()]


def _measured(case: Case, folder: Path) -> tuple[str, str]:
    """The rows about its rounds and about its start."""
    planned = _found(case, folder)
    nothing_kept = mock.patch.dict(os.environ, COTERIE_CACHE=str(folder / "cache"))
    with nothing_kept, local.started(folder / "net", folder) as running:
        seen = _watched(running, case)
    outcome = running.outcome()
    assert outcome["finished"], local.words(outcome)
    sent = np.mean([one["result"]["traffic"]["bytes out"] for one in outcome["parties"]])
    least = 2 * 4 * planned.task.dimension * case.rounds
    return (
        f"| {case.name} | {planned.task.dimension:,} | {seen.rate:.1f} | {1e3 * seen.processor / case.owners:.2f} ms "
        f"| {sent / least:.3f} |",
        f"| {case.name} | {_both(seen.joined)} | {_both(seen.first)} | {seen.memory / 1e6:.0f} MB |",
    )


def _both(start: Start) -> str:
    return f"{start.clock:.0f} s | {start.processor / (os.cpu_count() or 1):.0f} s"


def _found(case: Case, folder: Path) -> Collaboration:
    rng = np.random.default_rng(0)
    names = [f"owner-{at:02}" for at in range(case.owners)]
    classes = tuple(str(one) for one in range(case.classes))
    for name in names:
        x = rng.uniform(-1, 1, (ROWS, case.columns)).astype(np.float32)
        np.savez(folder / f"{name}.npz", x=x, y=rng.integers(0, case.classes, ROWS))
    agreement = Agreement(
        name="bench",
        experiment=Experiment(gossip_steps=1, settings={"rounds": case.rounds}, delta=1e-5),
        schema=Schema(
            target="y", columns={f"x{at}": (-1.0, 1.0) for at in range(case.columns)}, classes=classes
        ),
        sizes=dict.fromkeys(names, ROWS),
    )
    planned = network.found(folder / "net", agreement, _addresses(names), None)
    for name in names:
        own = folder / "net" / "parties" / name / party.NAME
        own.write_text(own.read_text().replace('"exact"', f'"{case.generator}"'))
    return planned


def _addresses(names: list[str]) -> dict[str, str]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    found = {name: f"127.0.0.1:{one.getsockname()[1]}" for name, one in zip(names, held)}
    for one in held:
        one.close()
    return found


class Start(NamedTuple):
    """Seconds from the start to some moment."""

    clock: float
    processor: float  # of all owners


class Seen(NamedTuple):
    """What a whole run took."""

    rate: float  # rounds a second of the slowest owner
    processor: float  # seconds of processor time of all owners, a round
    joined: Start  # until all had been greeted by their neighbours
    first: Start  # until everyone had taken a step
    memory: float  # bytes, the most that a node ever had resident


class _Moment(NamedTuple):
    time: float
    step: int  # of the slowest owner
    joined: bool  # everybody
    processor: float


def _watched(running: local.LocalNetwork, case: Case) -> Seen:
    seen: list[_Moment] = []
    took: dict[int, float] = {}  # also of those who have ended
    memory, began = 0.0, time.monotonic()
    while running.running():
        said = local.status(running.folder)
        step = min(one.get("step", 0) for one in said)
        joined = all("peers" in one and {*one["peers"]} == {*one["clocks"]} for one in said)
        for process in running.processes.values():
            if process.poll() is None:
                took[process.pid] = max(took.get(process.pid, 0.0), node.processor(process.pid))
                memory = max(memory, 1e6 * node.highest(process.pid))
        seen.append(_Moment(time.monotonic(), step, joined, sum(took.values())))
        time.sleep(0.1)
    joined = next(one for one in seen if one.joined)
    stepped = next(one for one in seen if one.step >= 1)
    first = next(one for one in seen if one.step >= case.rounds // 10)
    last = next(one for one in seen if one.step == case.rounds)
    rounds = last.step - first.step
    return Seen(
        rounds / (last.time - first.time),
        (last.processor - first.processor) / rounds,
        Start(joined.time - began, joined.processor),
        Start(stepped.time - began, stepped.processor),
        memory,
    )


def _parts() -> list[str]:
    """What one owner's round is made of, alone on the machine, against a round of `simulate`."""
    lines = [
        "Where an owner's round goes, measured one part at a time in one process (µs):",
        "",
        "| d | noise, exact | noise, stream | emit and absorb | charge on the disk | journal | frame there and back "
        "| simulate, an owner-round |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for case in (CASES[1], CASES[2]):
        with tempfile.TemporaryDirectory() as folder:
            lines.append(_taken_apart(case, Path(folder)))
    return lines


def _taken_apart(case: Case, folder: Path) -> str:
    planned = _found(case._replace(owners=4, rounds=50), folder)
    program, plan = planned.program, planned.program.plan
    rows = planned.agreement.schema.read(folder / "owner-00.npz")
    records = OwnRecords(planned.features.apply(rows.x), rows.y)
    exact, stream = (randomness.source(kind, plan, 0) for kind in randomness.GENERATORS)
    side = RoundsSide(program, 0, records, stream)
    state = side.start()
    message, _ = side.emit(state, 1, 0)
    body = wire.pack(message)
    drawing = _micros(lambda at: stream.noise(at))

    def round_(at: int) -> None:
        own, _ = side.emit(state, 1, 0)
        side.absorb(state.public, own, own, 1)

    with (
        Ledger.open(folder / "ledger", data_hash=data_hash(rows.x), epsilon=1.0, delta=1e-5) as ledger,
        Journal.open(folder / "journal") as journal,
    ):
        outlet = Outlet(ledger, journal, OwnRun("bench", plan, 0, 50))
        charging = _micros(lambda at: outlet.release(at + 1, at, body), 50)
        noting = _micros(lambda at: journal.put({"public": body, f"x/{at}": body}), 50)
    frame = wire.encode(wire.Message(wire.Kind.VALUE, 1, 0, body), planned.agreement.digest)
    framing = _micros(
        lambda at: wire.unpack(
            wire.decode(
                wire.encode(wire.Message(wire.Kind.VALUE, at, 0, body), planned.agreement.digest),
                planned.agreement.digest,
                2 * len(frame),
            ).body,
            side.layout,
        )
    )
    cells = (
        _micros(lambda at: exact.noise(at), 5),
        drawing,
        _micros(round_) - drawing,
        charging,
        noting,
        framing,
    )
    return (
        f"| {planned.task.dimension:,} | "
        + " | ".join(f"{cell:,.0f}" for cell in (*cells, _simulated(planned, records)))
        + " |"
    )


def _simulated(planned: Collaboration, records: OwnRecords) -> float:
    """Microseconds of one owner's round when all owners run in one process."""
    import jax.numpy as jnp

    owners = len(planned.task.sizes)
    everyone = Shards(
        jnp.asarray(np.stack([records.x] * owners)),
        jnp.asarray(np.stack([records.y] * owners)),
        jnp.full(owners, len(records.y), jnp.int32),
    )
    mix = mixer(planned.task.topology)
    best = np.inf
    for seed in range(4):
        began = time.perf_counter()
        simulate(planned.program, everyone, mix, seed=seed)
        best = min(best, time.perf_counter() - began)
    return 1e6 * best / (owners * int(planned.program.schedule))


def _micros(work, times: int = 30) -> float:
    """Microseconds of one call: the median, after a first one that may compile."""
    taken = []
    for at in range(times):
        began = time.perf_counter()
        work(at)
        taken.append(time.perf_counter() - began)
    return 1e6 * float(np.median(taken[1:]))


if __name__ == "__main__":
    print("\n".join(table()))
