"""The driver: what it lets through to a machine, what it says, and how it ends. Without sockets."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from wired import LONG, Chorus, until

import coterie
from coterie.errors import BudgetError
from coterie.federation import drive
from coterie.federation.drive import FINISHED, LEAVES, Driver, FrameTerms, Hooks, stopping
from coterie.federation.transport import greeting, wire
from coterie.federation.transport.lines import level_of
from coterie.federation.transport.machine import Out, Status
from coterie.federation.transport.refusals import Refusals
from coterie.federation.transport.wire import Kind, Message

AGREEMENT = bytes(range(32))
TERMS = FrameTerms(AGREEMENT, longest=2_000, linger=LONG)


class Line:
    """A transport to peers that the test plays: frames in by `hear`, frames out in `said`."""

    def __init__(self, name: str = "a", peers: tuple[str, ...] = ("b",)) -> None:
        self.name, self.admitted = name, peers
        self.said: list[tuple[str, Message]] = []
        self.here: frozenset[str] = frozenset()
        self.closed, self.false = False, Counter[str]()

    def open(self, deliver: Callable[[str, bytes], None], changed: Callable[[], None]) -> None:
        self.deliver, self.changed = deliver, changed

    def send(self, peer: str, frame: bytes) -> None:
        assert not self.closed
        self.said.append((peer, wire.decode(frame, AGREEMENT, 2_000)))

    def alive(self) -> frozenset[str]:
        return self.here

    def connected(self) -> frozenset[str]:
        return self.here

    def forged(self) -> dict[str, int]:
        return dict(self.false)

    def close(self) -> None:
        self.closed = True

    def hear(self, sender: str, message: Message, agreement: bytes = AGREEMENT) -> None:
        self.deliver(sender, wire.encode(message, agreement))

    def arrive(self, *peers: str) -> None:
        self.here = frozenset(peers)
        self.changed()

    def kinds(self, peer: str) -> list[tuple[Kind, int]]:
        return [(message.kind, message.sub) for whom, message in self.said if whom == peer]


class Running:
    """A driver in a thread of its own, stopped by the test or by itself."""

    def __init__(self, machine=None, line: Line | None = None, **options) -> None:
        self.line = line or Line()
        self.machine = machine or Chorus(self.line.name, self.line.admitted, 10)
        self.lines: list[str] = []
        self.stopped = False
        self.result: bool | None = None
        terms = options.pop("terms", TERMS)
        hooks = Hooks(self.lines.append, stop=lambda: self.stopped, **options)
        self.driver = Driver(self.machine, self.line, terms, hooks)

    def __enter__(self) -> Running:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert until(lambda: hasattr(self.line, "deliver"))
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped = True
        self.thread.join(LONG)
        assert not self.thread.is_alive()

    def _run(self) -> None:
        self.result = self.driver.run()

    def refused(self, sender: str, reason: str) -> int:
        return self.driver.refusals.counts[sender, reason]


HELLO = Message(Kind.HELLO, body=AGREEMENT)


def test_the_time_that_a_machine_slept_has_passed_for_its_party(monkeypatch):
    """By the system's other clocks a suspended machine wakes up in the moment in which it fell asleep."""
    driver, slept = Driver(Chorus("a", ("b",), 10), Line(), TERMS, Hooks(print)), 3_600.0
    before, clock = driver._now(), time.clock_gettime
    monkeypatch.setattr(
        time, "clock_gettime", lambda which: clock(which) + slept * (which == time.CLOCK_BOOTTIME)
    )
    assert driver._now() - before >= slept


def answers(run: Running, peer: str) -> int:
    return sum(kind == Kind.HELLO and sub != 0 for kind, sub in run.line.kinds(peer))


def test_a_clock_that_is_minutes_off_is_named_once():
    seen: list[dict] = []
    with Running(shown=seen.append) as run:
        for _ in range(3):
            run.line.hear("b", greeting.hello(AGREEMENT, time.time() + 300.0))
        assert until(lambda: bool(seen) and seen[-1]["clocks"].get("b", 0) > 290)
    (said,) = [line for line in run.lines if "clock" in line]
    assert said.startswith("the clock of b is ")
    assert "ahead of this one" in said
    assert level_of(said) == "warning"
    assert seen[-1]["state"] == "stopped"


def test_another_version_is_named_once_and_talked_to(monkeypatch):
    with Running() as run:
        before = HELLO._replace(sub=1)  # an answer as nodes without versions give it
        run.line.hear("b", before)
        monkeypatch.setattr(coterie, "__version__", "7.8.9rc1")
        newer = greeting.hello(AGREEMENT, time.time(), answer=True)
        monkeypatch.undo()
        for _ in range(3):
            run.line.hear("b", newer)
        run.line.hear("b", value(1))
        assert until(lambda: any("7.8.0" in line for line in run.lines))
    said = [line for line in run.lines if "runs coterie" in line]
    assert said[0].startswith("b runs coterie 7.8.0, this is ")
    assert (len(said), level_of(said[0])) == (1, "warning")
    assert not run.driver.refusals.counts


def value(step: int) -> Message:
    return Chorus("b", ["a"], 10)._value(step)


def test_the_first_word_to_everybody_is_the_agreement():
    with Running() as run:
        assert until(lambda: len(run.line.said) > 1)
    peer, message = run.line.said[0]
    assert (peer, message._replace(step=0)) == ("b", HELLO)
    assert message.step / 1000 == pytest.approx(time.time(), abs=60)  # the clock, for people


def test_who_comes_later_is_greeted_and_who_greets_is_answered():
    with Running(line=Line(peers=("b", "c"))) as run:
        before = len(run.line.kinds("c"))
        run.line.arrive("b")
        run.line.hear("b", HELLO)
        assert until(lambda: answers(run, "b") == 1)
        assert until(lambda: run.line.kinds("b").count((Kind.HELLO, 0)) == 2)
        run.line.hear("b", HELLO._replace(sub=1))
        assert until(lambda: run.driver.traffic["frames in"] == 2)
    assert answers(run, "b") == 1
    assert run.line.kinds("c")[before:].count((Kind.HELLO, 0)) == 0


def test_who_comes_while_the_machine_works_is_greeted_before_its_message():
    class Slow(Chorus):
        def start(self, now: float) -> list[Out]:
            line.said.clear()  # the first greeting found nobody
            line.arrive("b")
            return super().start(now)

    line = Line()
    with Running(Slow("a", ["b"], 3), line):
        assert until(lambda: (Kind.VALUE, 0) in line.kinds("b"))
    assert line.kinds("b")[:2] == [(Kind.HELLO, 0), (Kind.VALUE, 0)]


def test_nobody_is_heard_before_its_greeting_but_asked_for_it_once(monkeypatch):
    monkeypatch.setattr(drive, "_SECOND", LONG)  # the three below come within one, however slow the machine
    with Running() as run:
        for step in range(3):
            run.line.hear("b", value(step))
        assert until(lambda: run.refused("b", "before its greeting") == 3)
        assert run.machine.step == 0
        assert run.line.kinds("b").count((Kind.HELLO, 0)) == 2
        run.line.hear("b", HELLO)
        run.line.hear("b", value(0))
        assert until(lambda: run.machine.step == 1)


@pytest.mark.parametrize("where", ["tag", "rest"])
def test_a_peer_with_another_agreement_is_named_once_and_not_heard(where: str):
    other = bytes(32) if where == "tag" else AGREEMENT[: wire.TAG] + bytes(32 - wire.TAG)
    with Running() as run:
        for _ in range(3):
            run.line.hear("b", Message(Kind.HELLO, body=other), other)
            run.line.hear("b", value(0), other)
        assert until(lambda: run.driver.traffic["frames in"] == 6)
        time.sleep(1.1)
        run.line.hear("b", Message(Kind.HELLO, body=other), other)
        assert until(lambda: run.driver.traffic["frames in"] == 7)
    assert run.refused("b", "another agreement") >= 4
    (said,) = [line for line in run.lines if "b follows another agreement" in line]
    shown = slice(wire.TAG if where == "tag" else 32)
    assert f"its hash is {other[shown].hex()}, this node's {AGREEMENT[shown].hex()}" in said
    assert run.machine.step == 0


def test_a_peer_that_changes_its_agreement_is_not_heard_any_more():
    with Running() as run:
        run.line.hear("b", HELLO)
        run.line.hear("b", value(0))
        assert until(lambda: run.machine.step == 1)
        run.line.hear("b", Message(Kind.HELLO, body=AGREEMENT[: wire.TAG] + bytes(24)))
        run.line.hear("b", value(1))
        assert until(lambda: run.refused("b", "before its greeting") == 1)
        assert run.machine.step == 1


def test_what_is_refused_is_counted_by_its_reason_and_the_run_goes_on():
    with Running() as run:
        run.line.hear("b", HELLO)
        run.line.deliver("b", b"junk")
        run.line.deliver("b", bytes(2_001))
        run.line.hear("b", value(0)._replace(body=bytes(7)))
        run.line.hear("b", value(99))
        for step in (0, 0, 1):
            run.line.hear("b", value(step))
        assert until(lambda: run.machine.step == 2)
    counts = {"malformed": 1, "oversized": 1, "wrong shape": 1, "step 99": 1, "replayed": 1}
    assert {reason: count for (_, reason), count in run.driver.refusals.counts.items()} == counts


def test_refusals_write_one_line_a_second_for_each_kind():
    lines: list[str] = []
    refusals = Refusals(lines.append)
    for call in range(30_000):
        refusals.add("b", "malformed", call / 10_000)
        refusals.add("c", f"oversized: {call} bytes", call / 10_000)
    assert refusals.counts == {("b", "malformed"): 30_000, ("c", "oversized"): 30_000}
    assert len(lines) == 6
    assert lines[2:4] == [
        "refused from b: malformed (10000 of this kind)",
        "refused from c: oversized: 10000 bytes (10000 of this kind)",
    ]


def test_reasons_of_one_s_own_making_fill_neither_memory_nor_log():
    lines: list[str] = []
    refusals = Refusals(lines.append)
    for call in range(5_000):
        refusals.add("b", f"reason {call}", 0.0)
    refusals.add("c", "malformed", 0.0)
    assert len(refusals.counts) == len(lines) <= 35
    assert refusals.counts["b", "other"] > 4_900
    assert refusals.counts["c", "malformed"] == 1


def test_frames_under_a_peers_name_that_are_not_its_own_are_named():
    seen: list[dict] = []
    with Running(shown=seen.append) as run:
        run.line.false["b"] += 7
        assert until(lambda: run.refused("b", "under its name, but not its own") == 1)
        assert until(lambda: seen[-1]["forged"] == {"b": 7})
    (said,) = [line for line in run.lines if "not its own" in line]
    assert said.startswith("refused from b: under its name, but not its own: somebody else has a certificate")


def test_a_party_that_is_done_answers_until_its_peers_are(tmp_path: Path):
    machine = Chorus("a", ["b"], 2)
    with Running(machine, Line(peers=("b", "c"))) as run:
        for sender in "bc":
            run.line.hear(sender, HELLO)
        run.line.hear("b", value(0))
        run.line.hear("b", value(1))
        assert until(lambda: ("b", Message(Kind.BYE, body=FINISHED)) in run.line.said)
        run.line.hear("c", Message(Kind.WANT, 1))
        assert until(lambda: (Kind.VALUE, 0) in run.line.kinds("c"))
        run.line.hear("b", Message(Kind.BYE, body=FINISHED))
        time.sleep(0.2)
        assert run.thread.is_alive()
        run.line.hear("c", Message(Kind.BYE, body=LEAVES))
        time.sleep(0.2)
        assert run.thread.is_alive()
        run.line.hear("c", Message(Kind.BYE, body=FINISHED))
        run.thread.join(LONG)
        assert run.result is True
    assert run.line.closed


def test_a_party_that_is_done_does_not_wait_for_ever():
    with Running(Chorus("a", [], 1), terms=TERMS._replace(linger=0.3)) as run:
        run.machine.step = 1
        run.thread.join(LONG)
        assert run.result is True


def test_a_party_that_is_stopped_says_so_and_leaves():
    with Running() as run:
        assert until(lambda: len(run.line.said) > 1)
    assert run.result is False
    assert run.line.said[-1] == ("b", Message(Kind.BYE, body=LEAVES))
    assert run.line.closed


def test_status_is_whole_and_public(tmp_path: Path):
    file = tmp_path / "status.json"
    with Running(line=Line(peers=("b",)), status=file, public=lambda: {"epsilon": 0.5}) as run:
        run.line.arrive("b")
        run.line.hear("b", HELLO)
        run.line.hear("b", value(0))
        assert until(lambda: run.machine.step == 1)
        assert until(lambda: json.loads(file.read_text())["step"] == 1)
        shown = json.loads(file.read_text())
    assert shown["state"] == "running"
    assert (shown["name"], shown["of"], shown["alive"], shown["epsilon"]) == ("a", 10, ["b"], 0.5)
    assert json.loads(file.read_text())["state"] == "stopped"
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_a_status_that_cannot_be_written_stops_nothing(tmp_path: Path):
    with Running(status=tmp_path / "missing" / "status.json") as run:
        run.line.hear("b", HELLO)
        run.line.hear("b", value(0))
        assert until(lambda: run.machine.step == 1)
    assert "status not written: No such file or directory" in run.lines


def test_a_budget_that_is_spent_ends_the_run_and_closes_the_line():
    class Spent(Chorus):
        def start(self, now: float) -> list[Out]:
            raise BudgetError("spent")

    line = Line()
    with pytest.raises(BudgetError):
        Driver(Spent("a", ["b"], 3), line, TERMS, Hooks(print)).run()
    assert line.closed
    assert [kind for kind, _ in line.kinds("b")] == [Kind.HELLO]


def test_time_goes_on_for_the_machine_under_a_flood():
    class Clockwork(Chorus):
        ticks = 0

        def tick(self, now: float) -> list[Out]:
            self.ticks += 1
            return []

        @property
        def status(self) -> Status:
            return Status(self.ticks, 0)

    machine = Clockwork("a", ["b"], 3)
    began = time.monotonic()
    with Running(machine) as run:
        while machine.ticks < 20 or run.refused("b", "malformed") <= 100:  # 20 ticks are a second
            run.line.deliver("b", b"junk")
            assert time.monotonic() < began + LONG
    assert len(run.lines) <= time.monotonic() - began + 3  # one a second


def test_a_signal_is_noted_and_the_second_one_is_as_ever():
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        with stopping() as stop:
            assert not stop()
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop()
            assert came == []
            os.kill(os.getpid(), signal.SIGTERM)
            assert came == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        assert len(came) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
