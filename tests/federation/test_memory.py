"""The network in memory does to frames and parties what it is told to, the same way every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from in_memory import Killed, Link, Network

from coterie.errors import InputError
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Machine, Out, Status
from coterie.federation.transport.wire import Kind, Message


class Counter(Machine):
    """Sends its peer a number on every tick and keeps what it hears."""

    def __init__(self, peer: str, kept: list, last: int = 10) -> None:
        self.peer, self.kept, self.last, self.count = peer, kept, last, 0
        self.failure: BaseException | None = None

    def start(self, now: float) -> list[Out]:
        self.kept.append(("start", now))
        return []

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        if message.kind != Kind.VALUE:
            raise wire.Refused("no value")
        self.kept.append((sender, message.step, now))
        return []

    def tick(self, now: float) -> list[Out]:
        if self.failure is not None:
            raise self.failure
        self.count += 1
        return [Out(self.peer, Message(Kind.VALUE, self.count))] if self.count <= self.last else []

    @property
    def done(self) -> bool:
        return self.count >= self.last + 5

    @property
    def status(self) -> Status:
        return Status(self.count, self.last)


def pair(last: int = 10, **options) -> tuple[Network, dict[str, list]]:
    kept: dict[str, list] = {"a": [], "b": []}
    other = {"a": "b", "b": "a"}

    @contextmanager
    def process(name: str) -> Iterator[Machine]:
        yield Counter(other[name], kept[name], last)
        kept[name].append(("left",))

    return Network({name: lambda name=name: process(name) for name in kept}, **options), kept


def heard(kept: list) -> list[int]:
    return [entry[1] for entry in kept if len(entry) == 3]


def test_without_faults_everything_arrives_in_order():
    network, kept = pair()
    with network:
        network.run(100.0)
    assert heard(kept["a"]) == heard(kept["b"]) == list(range(1, 11))
    assert len(network.sent) == 20


def test_frames_are_lost_doubled_and_reordered_the_same_way_for_a_seed():
    def play(seed: int) -> list[int]:
        network, kept = pair(30, link=Link(jitter=1.0, loss=0.3, twice=0.5), seed=seed)
        with network:
            network.run(5.0, lambda: False)
        return heard(kept["a"])

    first = play(1)
    assert first == play(1) != play(2)
    assert len(set(first)) < 30
    assert len(set(first)) < len(first)
    assert first != sorted(first)


def test_a_crash_discards_the_machine_and_a_restart_makes_a_new_one():
    network, kept = pair()
    with network:
        network.crash("a", at=0.55)
        network.restart("a", at=1.0)
        network.run(100.0)
    assert [entry[0] for entry in kept["a"] if entry[0] in ("start", "left")] == ["start", "left"] * 2
    assert heard(kept["b"])[:6] == [1, 2, 3, 4, 5, 1] or heard(kept["b"])[:7] == [1, 2, 3, 4, 5, 6, 1]
    assert network.crashes == 1


def test_frozen_parties_hear_what_was_sent_once_they_go_on():
    network, kept = pair()
    with network:
        network.freeze("b", at=0.35, until=5.0)
        network.run(100.0)
    late = [time for _, _, time in [entry for entry in kept["b"] if len(entry) == 3] if time == 5.0]
    assert heard(kept["b"]) == list(range(1, 11))
    assert len(late) >= 6


def test_a_partition_stops_frames_both_ways_until_healed():
    network, kept = pair()
    with network:
        network.cut([("b", "a")], at=0.0, until=0.6)
        network.run(100.0)
    assert min(heard(kept["a"])) > 4
    assert min(heard(kept["b"])) > 4


def test_a_party_killed_in_the_act_comes_back_and_one_that_fails_stops_with_its_reason():
    network, kept = pair(revive=1.0)
    with network:
        network.run(0.3)
        network.machines["a"].failure = Killed()  # type: ignore[attr-defined]
        network.machines["b"].failure = InputError("disk full")  # type: ignore[attr-defined]
        network.run(100.0)
    assert kept["a"].count(("left",)) == 2
    assert str(network.stopped["b"]) == "disk full"
    assert kept["b"].count(("left",)) == 1


def test_unacceptable_frames_are_counted_by_reason():
    network, _ = pair()
    with network:
        network.run(0.0)
        network.inject("b", "a", b"junk")
        network.inject("b", "a", wire.encode(Message(Kind.BYE), bytes(32)))
        network.inject("b", "a", wire.encode(Message(Kind.VALUE), bytes(range(32))))
    counts = {(receiver, reason.partition(":")[0]): n for (receiver, reason), n in network.refused.items()}
    assert counts == {("a", "malformed"): 1, ("a", "no value"): 1, ("a", "another agreement"): 1}
