"""Neighbours as witnesses, in every shape: a ledger that is behind, and one certificate that runs twice."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import gossip_world
import numpy as np
import pytest
import visit_world
from in_memory import Link, Network
from joined import AGREEMENT, TWIN, files, hand
from toy_world import Toys

from coterie.errors import LedgerError
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.marks import Hand, Marks
from coterie.federation.releases.randomness import source
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Patience
from coterie.federation.transport.wire import Kind, Message

PATIENCE = Patience(wait=3.0, retry=0.3)
ME = "owner-1"
SPOKEN = (Kind.VALUE, Kind.ANSWER, Kind.HANDOVER, Kind.ANNOUNCE, Kind.RELEASED)  # what is made of releases
SHAPES = ("rounds", "hub", "walk", "learner")


class Scene(NamedTuple):
    """A world of one of the four shapes, whose owners draw noise of their own."""

    world: Any
    network: Callable[..., Network]

    def released(self, process: str = ME) -> list[int]:
        """The steps in an owner's ledger, while its process does not run."""
        with self.world.ledger(process) as ledger:
            return ledger.rounds("run")


def scene(folder: Path, shape: str) -> Scene:
    world: Any
    if shape in ("rounds", "hub"):
        protocol = "dual_averaging" if shape == "rounds" else "average_erm"
        settings = {"steps": 8, "step_size": 0.5} if shape == "hub" else None
        world = gossip_world.World(
            folder, protocol, rounds=8, owners=3, settings=settings, patience=PATIENCE, topology="complete"
        )
        network = world.network
    else:
        protocol = "wor_sgd" if shape == "walk" else "async_learner"
        settings = {"batch": 2} if shape == "walk" else {"ticks": 24}
        world = visit_world.World(folder, protocol, owners=3, settings=settings, patience=PATIENCE)
        network = world.walk if shape == "walk" else world.visits
    world.witnessed, world.keys = True, lambda plan, seed, owner: source("stream", plan, owner)
    return Scene(world, lambda **options: network(link=Link(delay=0.1), **options))


def after(network: Network, made: int, process: str = ME) -> None:
    """Run until an owner has made so many releases."""
    network.run(
        network.now + 400.0,
        lambda: process in network.machines and len(network.machines[process]._releases.steps) >= made,  # type: ignore[attr-defined]
    )


def kept(folder: Path, name: str = ME) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files(folder, name)}


def put_back(folder: Path, content: dict[str, bytes], name: str = ME) -> None:
    for file in files(folder, name):
        file.unlink()
    for file, body in content.items():
        (folder / file).write_bytes(body)


def spoken(network: Network, since: float, process: str = ME) -> list[Any]:
    sent = (frame for frame in network.sent if frame.sender == process and frame.time >= since)
    return [frame for frame in sent if frame.message.kind in SPOKEN]


def versions(network: Network, name: str = ME) -> set[int]:
    """The steps of which more than one release left a name, whichever process said it."""
    found: dict[int, set[bytes]] = defaultdict(set)
    for frame in network.sent:
        message = frame.message
        release = message.kind == Kind.ANSWER or (message.kind == Kind.VALUE and not message.sub)
        if frame.sender.startswith(name) and (release or message.kind == Kind.RELEASED):
            digest = message.body[:32] if message.kind == Kind.RELEASED else sha256(message.body).digest()
            found[message.step].add(digest)
    return {step for step, digests in found.items() if len(digests) > 1}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_owner_put_back_to_an_older_state_draws_nothing_that_a_neighbour_holds(tmp_path, shape):
    """Ledger and journal agree with each other; the others, who were restarted themselves, know better."""
    stage = scene(tmp_path, shape)
    with stage.network() as network:
        after(network, 1)
        network.crash(ME)
        old, steps = kept(tmp_path), stage.released()
        network.restart(ME)
        after(network, len(steps) + 2)
        for name in list(network.machines):
            network.crash(name)
        newest = kept(tmp_path)
        put_back(tmp_path, old)
        for name in network._parties:
            network.restart(name)
        network.run(network.now + 30.0, lambda: ME in network.stopped)
        error = network.stopped[ME]
        assert isinstance(error, LedgerError)
        assert error.exit_status == 3
        assert f"ends at step {steps[-1]} of this run" in str(error)
        assert "Restore the newest copy" in str(error)
        assert stage.released() == steps  # nothing was drawn
        assert not spoken(network, network.now - 0.05)
        put_back(tmp_path, newest)
        network.restart(ME)
        network.run(network.now + 400.0)
        assert not network.stopped
        assert all(machine.done for machine in network.machines.values())
    assert not versions(network)


@pytest.mark.parametrize("shape", SHAPES)
def test_of_two_processes_with_one_certificate_the_second_is_refused_and_both_are_told(tmp_path, shape):
    world, network_of = scene(tmp_path, shape)
    twin = ME + TWIN
    with network_of(twins={twin: ME}) as network:
        after(network, 1)
        network.restart(twin)
        network.run(network.now + 60.0, lambda: twin in network.stopped)
        assert isinstance(network.stopped[twin], LedgerError)
        assert "another process runs under this name" in str(network.stopped[twin])
        network.run(network.now + 400.0, lambda: all(machine.done for machine in network.machines.values()))
        assert ME in network.machines
        assert network.machines[ME].done
    assert any(name == ME and "came under this name" in line for name, line in world.log)
    assert any(name != ME and f"{ME} runs twice" in line for name, line in world.log)
    assert not spoken(network, 0.0, twin)
    assert not versions(network)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_process_that_stood_still_while_another_took_its_place_says_nothing_any_more(tmp_path, shape):
    """The second one passed for the first, restarted, and has released; when the first one wakes, both stop."""
    stage, twin = scene(tmp_path, shape), ME + TWIN
    with stage.network(twins={twin: ME}) as network:
        after(network, 1)
        network.freeze(ME)
        network.restart(twin)
        after(network, len(network.machines[ME]._releases.steps) + 1, twin)  # type: ignore[attr-defined]
        network._thaw(ME)
        network.run(network.now + 60.0, lambda: {ME, twin} <= network.stopped.keys())
        network.run(network.now + 2.0, lambda: False)
        assert {type(network.stopped[one]) for one in (ME, twin)} == {LedgerError}
        network.restart(ME)  # and it cannot come back
        network.run(network.now + 30.0, lambda: ME in network.stopped)
        assert isinstance(network.stopped[ME], LedgerError)
    assert not versions(network)


# Toy owners: what does not depend on the shape.


def toys(folder: Path, **options: Any) -> Toys:
    found = Toys(folder, **{"owners": 4, "rounds": 30, "wait": 2.0} | options)
    found.witnessed = True
    return found


def step(network: Network, name: str = ME) -> int:
    return network.machines[name].status.step if name in network.machines else 0


def test_nothing_is_charged_before_everyone_has_come(tmp_path):
    world = toys(tmp_path)
    with world.network() as network:
        network.cut([(ME, name) for name in world.names if name != ME], until=20.0)
        network.run(19.0)
        assert world.ledgers[ME] == {}
        assert network.machines[ME].status.waiting_for == ("owner-0", "owner-2")
        assert "asks the others what they have of it" in network.machines[ME].status.note
        network.run(1000.0)
        assert all(machine.done for machine in network.machines.values())
    world.check(network)


def test_an_owner_that_comes_back_goes_on_without_a_neighbour_that_is_away(tmp_path):
    world = toys(tmp_path)
    with world.network() as network:
        network.run(200.0, lambda: step(network) >= 5)
        network.crash("owner-0")
        network.crash(ME)
        network.restart(ME)
        network.run(1000.0)
        assert network.machines[ME].done
    world.check(network)


def test_a_neighbour_that_was_away_is_asked_before_anything_is_said_to_it(tmp_path):
    """It alone holds the later releases: the owner stops when it comes, and has told it nothing new."""
    world = toys(tmp_path, rounds=200)
    with world.network() as network:
        network.run(200.0, lambda: step(network) >= 4)
        network.cut([(ME, "owner-0")])  # from here on owner-2 is the only witness
        network.crash(ME)
        old, ledger = kept(tmp_path), dict(world.ledgers[ME])
        network.restart(ME)
        network.run(200.0, lambda: len(world.ledgers[ME]) >= len(ledger) + 3)
        network.run(network.now + 1.0, lambda: False)  # until owner-2 has heard of it
        for name in (ME, "owner-2"):
            network.crash(name)
        put_back(tmp_path, old)
        world.ledgers[ME] = dict(ledger)
        network._cut.clear()
        network.restart(ME)
        since = network.now
        network.run(since + 10.0, lambda: False)
        assert ME in network.machines  # nobody who is there knows better
        network.restart("owner-2")
        network.run(since + 30.0, lambda: ME in network.stopped)
        assert "owner-2 holds" in str(network.stopped[ME])
    assert not [frame for frame in spoken(network, since) if frame.receiver == "owner-2"]


OTHER = wire.pack({"w": np.ones(1), "x": np.full(3, 7.0)})
VERSIONS = {
    "a message that is not the marked one": Message(Kind.VALUE, 3, 0, OTHER),
    "a second mark": Message(Kind.RELEASED, 3, 0, hand(ME).mark(3, OTHER).body()),
}


@pytest.mark.parametrize("second", VERSIONS)
def test_two_versions_end_an_owners_part_at_those_who_see_them(tmp_path, second):
    """Also after a restart. The others go on without it and say why; where the second one is its own, it stops."""
    world = toys(tmp_path)
    with world.network() as network:
        network.run(200.0, lambda: step(network) >= 4)
        network.inject(ME, "owner-0", wire.encode(VERSIONS[second], AGREEMENT))
        network.crash("owner-0", at=network.now + 1.0)
        network.restart("owner-0", at=network.now + 2.0)
        network.run(network.now + 20.0, lambda: False)
        if second == "a second mark":
            assert isinstance(network.stopped[ME], LedgerError)
            assert "another release of step 3 than owner-0 holds" in str(network.stopped[ME])
        else:
            assert ME in network.machines
        words = f"{ME} has sent two versions of its release of step 3"
        assert words in network.machines["owner-0"].status.note
        assert network.refused["owner-0", "has released two messages for one step"] > 0
        network.run(2000.0)
        assert all(machine.done for machine in network.machines.values())
    assert sum(name == "owner-0" and words in line for name, line in world.log) == 2  # once in each life


def test_nobody_can_stop_an_owner_with_a_release_that_it_never_made(tmp_path):
    world = toys(tmp_path)
    other, numbers = hand("owner-0"), bytes(32)
    with world.network() as network:
        network.run(200.0, lambda: step(network) >= 3)
        process = network.machines[ME]._process  # type: ignore[attr-defined]
        forged = other.mark(25, b"never said")
        frames = [
            Message(Kind.WITNESS, 25, 0, numbers + forged.body()),
            Message(Kind.WITNESS, 25, 0, numbers),
            Message(Kind.WITNESS, 25, 0, b""),
            Message(Kind.JOIN, 0, 3, process + bytes(16) + other.alive(bytes(16), process)),
            Message(Kind.JOIN, 0, 2, bytes(range(64))),
            Message(Kind.JOIN, 0, 9, bytes(64)),
            Message(Kind.JOIN, 0, 0, b"short"),
            Message(Kind.RELEASED, 31, 0, forged.body()),
            Message(Kind.RELEASED, 3, 1, forged.body()),
            Message(Kind.RELEASED, 3, 0, b"short"),
        ]
        for message in frames:
            network.inject("owner-0", ME, wire.encode(message, AGREEMENT))
        network.inject("owner-3", ME, wire.encode(Message(Kind.JOIN, 0, 0, process), AGREEMENT))
        # What the rounds themselves refuse is counted once, too.
        network.inject("owner-0", ME, wire.encode(Message(Kind.VALUE, 4, 99, OTHER), AGREEMENT))
        assert sum(network.refused.values()) == len(frames) + 1
        assert network.machines[ME].status.refused == sum(network.refused.values())
        network.run(1000.0)
        assert not network.stopped
        assert all(machine.done for machine in network.machines.values())
    world.check(network)


def test_faults_lose_nothing_among_witnesses(tmp_path):
    world = toys(tmp_path, wait=1.0)
    with world.network(link=Link(delay=0.05, jitter=0.3, loss=0.2, twice=0.2), seed=4) as network:
        for at, name in enumerate(world.names * 3):
            network.crash(name, at=2.0 + at)
            network.restart(name, at=2.3 + at)
        network.run(2000.0)
        assert not network.stopped
        assert all(machine.done for machine in network.machines.values())
        assert world.drift(network) < 1e-9
    world.check(network)
    assert not any("two versions" in line or "twice" in line for _, line in world.log)


def test_copies_of_files_are_whole(tmp_path):
    """What these tests put back is what was there."""
    (tmp_path / f"{ME}.ledger").write_bytes(b"rows")
    (tmp_path / f"{ME}.journal-wal").write_bytes(b"log")
    content = kept(tmp_path)
    shutil.copy(tmp_path / f"{ME}.ledger", tmp_path / f"{ME}.ledger-wal")
    put_back(tmp_path, content)
    assert kept(tmp_path) == content == {f"{ME}.ledger": b"rows", f"{ME}.journal-wal": b"log"}


def test_marks_outlive_the_process_and_are_bounded(tmp_path):
    with Journal.open(tmp_path / "journal") as journal:
        marks = Marks(journal)
        assert marks.last("owner-1") is None
        for number in range(1, 1301):
            marks.keep("owner-1", hand("owner-1").mark(number, b"%d" % number))
        marks.keep("owner-10", hand("owner-10").mark(2_000, b"another's"))
        assert 1000 <= len(journal.items("witness/owner-1")) <= 1064
    with Journal.open(tmp_path / "journal") as journal:
        marks = Marks(journal)
        assert marks.last("owner-1") == marks.of("owner-1", 1300) == hand("owner-1").mark(1300, b"1300")
        assert marks.of("owner-1", 1) is None
        other = marks.last("owner-10")
        assert other is not None
        assert other.step == 2_000
        assert hand("owner-10").made(other)
        assert not hand("owner-1").made(other)
        assert not hand("owner-10").made(other._replace(step=2_001))
        assert not hand("owner-10").made(other._replace(digest=bytes(32)))
        assert not Hand(b"key of owner-10", bytes(31) + b"1").made(other)  # of another agreement


def test_a_release_that_training_begins_with_is_no_later_one_whatever_its_number(tmp_path):
    """Else nobody would show an owner that was put back what it released since, but for that one, which it has."""
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        marks, own = Marks(journal, 9), hand("peer")
        first, second = own.mark(9, b"sums"), own.mark(1, b"round")
        marks.keep("peer", first)
        assert marks.last("peer") == first
        marks.keep("peer", second)
        assert Marks(journal, 9).last("peer") == second
        assert marks.of("peer", 9) == first
