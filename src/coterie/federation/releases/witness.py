"""A party and its witnesses: what it must hear before it speaks, and what it tells peers of their own releases.

Before its machine starts, a party asks every peer what it last has of it (JOIN), under a number that its process drew
at random. A peer answers (WITNESS) with the last mark it has (`marks`), and from then on counts that process as the one
that speaks under the name. A process that comes while another one speaks gets no answer: the peer asks for the
other, which proves that it runs with the key that both have. So:

* An owner whose ledger lacks a release that anybody holds says so and stops (LedgerError) before it draws anything.
* Nothing is sent to a peer that has not answered: it may hold a release that the others lack. A peer that left is
  asked again when it comes, and a process that stood still for long asks everybody again.
* Of two processes with one certificate the second stops. A process that has left, or fallen silent for as long as was
  agreed, is nobody's second.
* An owner that released two messages for one step, seen by their marks or by a message that is not the marked one, is
  not listened to any more in this run, and is shown the marks: then it stops too, and so does its copy.

Whom an owner waits for. Peers that are there answer at once, so it waits for all of them, for `patience.wait` at most;
then for the few that its protocol cannot do without. A peer that is away cannot testify: it is asked when it
comes, before anything is said to it, and if it knows more the owner stops then.

A liar cannot stop anybody: an owner believes marks and proofs that were made with its own key.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from coterie._types import PyTree
from coterie.errors import LedgerError
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.marks import HASH, Hand, Mark, Marks, mark_of
from coterie.federation.releases.release import Outlet
from coterie.federation.transport.lines import warning
from coterie.federation.transport.machine import Machine, Out, Patience, Status
from coterie.federation.transport.wire import Kind, Message, Refused

NUMBER = 16  # bytes of a process's own number
_ASKS, _WHO, _HERE, _SECOND = range(4)  # JOIN's `sub`
_NOBODY = bytes(NUMBER)
_STILL = 0.75  # of a `wait`: after a whole one without an answer another process may have been believed
_REPEATS = 4  # times in one `wait` that the last mark is told again: a frame may have got lost


class Joining(NamedTuple):
    """What the agreement says about a party's joining."""

    name: str
    peers: tuple[str, ...]
    steps: int  # the last step that a release can have
    first: int  # peers that must have answered before the party's first word in the run
    again: int  # and before its first word after a restart
    patience: Patience
    opening: int = 0  # the step that is released before all others, where one with a higher number is


@dataclass
class _Seat:
    """The process that speaks under a peer's name. Kept in memory only."""

    holder: bytes = _NOBODY
    left: bool = False  # the transport saw the holder go
    rival: bytes = _NOBODY  # another process that asked to be heard
    since: float = 0.0  # when it first did


class Witnessed:
    """A `Machine` around the party's own, which it starts once enough witnesses were heard."""

    def __init__(
        self,
        machine: Machine,
        joining: Joining,
        journal: Journal,
        hand: Hand,
        releases: Outlet | None,
        log: Callable[[str], None],
    ) -> None:
        """`releases`: the owner's; None for a party without records."""
        self.machine = machine
        self._joining, self._patience = joining, joining.patience
        self._marks = Marks(journal, joining.opening)
        self._hand, self._releases, self._log = hand, releases, log
        self._process = secrets.token_bytes(NUMBER)  # this process's own number
        self._places = {peer: _Seat() for peer in joining.peers}
        self._barred = {peer for peer in joining.peers if self._marks.barred(peer) is not None}
        self._answered: set[str] = set()
        self._started = self._open = False  # whether the machine was started, and whether it may act now
        self._clock = self._since = self._asked = self._repeated = 0.0
        self._announced = len(releases.steps) if releases else 0  # releases whose marks the peers were told
        self._refused, self._notes = 0, dict[str, str]()
        for peer in self._barred:
            self._note(peer, _two_versions(peer, self._marks.barred(peer)))

    def start(self, now: float) -> list[Out]:
        """Ask the witnesses; the machine starts when they have been heard."""
        self._clock = self._since = now
        return self._ask(now) + self._begin(now)

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """Take a message: about releases, or for the party's own machine."""
        try:
            return self._received(sender, message, now)
        except Refused:
            self._refused += 1
            raise

    def _received(self, sender: str, message: Message, now: float) -> list[Out]:
        self._wake(now)
        if sender not in self._places:
            raise Refused("not a peer")
        if message.kind == Kind.JOIN:
            return self._on_join(sender, message, now)
        if message.kind == Kind.WITNESS:
            return self._on_witness(sender, message, now)
        if sender in self._barred:
            raise Refused("has released two messages for one step")
        if message.kind == Kind.RELEASED:
            return self._on_released(sender, message)
        if not self._open:
            return []  # dropped, as if lost: machines ask again
        barred = self._differs(sender, message)
        return barred or self._outward(self.machine.receive(sender, message, now), now)

    def tick(self, now: float) -> list[Out]:
        """Ask again who has not answered; let the machine go on."""
        self._wake(now)
        outs = self._ask(now) if now - self._asked >= self._patience.retry else []
        if not self._open:
            return outs + self._begin(now)
        outs += self._outward(self.machine.tick(now), now)
        if now - self._repeated >= self._patience.wait / _REPEATS:
            self._repeated = now
            outs += self._last_mark(self._answered)
        return outs

    def left(self, peer: str) -> None:
        """The transport saw a peer go: it is asked again, and the next process under its name needs less patience."""
        if peer in self._places:
            self._places[peer].left = True
            self._answered.discard(peer)

    @property
    def done(self) -> bool:
        return self.machine.done

    @property
    def status(self) -> Status:
        """Where the machine stands; before it has started, whom it waits for."""
        status = self.machine.status
        missing = () if self._open else tuple(peer for peer in self._places if peer not in self._answered)
        notes = [*self._notes.values(), *([status.note] if status.note else [])]
        if missing and not self.done:
            notes.insert(0, "asks the others what they have of it before it speaks")
        return replace(
            status,
            waiting_for=missing or status.waiting_for,
            note="; ".join(notes),
            refused=self._refused,
        )

    def model(self) -> PyTree | None:
        return self.machine.model()

    # Before the first word.

    def _ask(self, now: float) -> list[Out]:
        self._asked = now
        question = Message(Kind.JOIN, 0, _ASKS, self._process)
        return [Out(peer, question) for peer in self._places if peer not in self._answered]

    def _begin(self, now: float) -> list[Out]:
        """Let the machine act, once enough witnesses were heard."""
        everyone = len(self._answered) == len(self._places)
        waited = now - self._since >= self._patience.wait
        if self._open or not (everyone or (waited and len(self._answered) >= self._needed())):
            return []
        begin = self.machine.tick if self._started else self.machine.start
        self._started = self._open = True
        return self._outward(begin(now), now)

    def _wake(self, now: float) -> None:
        """Join again if this process stood still for long: another one may have taken its place."""
        if self._open and now - self._clock > _STILL * self._patience.wait:
            self._open, self._since, self._asked = False, now, now - self._patience.retry
            self._answered.clear()
        self._clock = now

    def _needed(self) -> int:
        """How many witnesses must be heard: more before the first word of a run than after a restart."""
        silent = self._releases is None or not self._releases.steps
        return self._joining.first if silent and not self.machine.status.step else self._joining.again

    def _on_witness(self, sender: str, message: Message, now: float) -> list[Out]:
        """Take a peer's mark of this party; LedgerError where the ledger lacks that release."""
        head, mark = message.body[: 2 * NUMBER], message.body[2 * NUMBER :]
        if len(head) != 2 * NUMBER:
            raise Refused(f"wrong shape: {len(message.body)} bytes")
        if message.step:
            self._believe(sender, mark_of(message.step, mark))
        asked, speaker = head[:NUMBER], head[NUMBER:]
        if not self._meet(sender, speaker, now):
            return [Out(sender, Message(Kind.JOIN, 0, _WHO, speaker))]
        if asked != self._process or sender in self._answered:
            return []
        self._answered.add(sender)
        return self._last_mark({sender}) + self._begin(now)

    def _believe(self, sender: str, mark: Mark) -> None:
        if self._releases is None or not self._hand.made(mark):
            raise Refused("shows a release that was never made here")
        stored, where = self._releases.stored(mark.step), self._releases.where
        if stored is None:
            end = f"ends at step {self._releases.steps[-1]}" if self._releases.steps else "has nothing"
            raise LedgerError(
                f"ledger={where!r}: {end} of this run, and {sender} holds this owner's release of step {mark.step}. "
                "Nothing more leaves. Restore the newest copy of the ledger, with its -wal; docs/ledger.md says what "
                "to do without one."
            )
        if sha256(stored).digest() != mark.digest:
            raise LedgerError(
                f"ledger={where!r}: has another release of step {mark.step} than {sender} holds: a copy of this folder "
                "ran too, or an older one was put back and went on. Two versions of one release cost more than either "
                "ledger says. Nothing more leaves. Stop every copy; in this run this owner cannot go on."
            )

    # Saying, and having said.

    def _outward(self, outs: list[Out], now: float) -> list[Out]:
        """The machine's messages, to witnesses that were heard, each release after its mark."""
        steps = self._releases.steps[self._announced :] if self._releases else ()
        if steps:
            self._announced, self._repeated = self._announced + len(steps), now
        marks = [out for step in steps for out in self._send_mark(self._answered, step)]
        return marks + [out for out in outs if out.peer in self._answered]

    def _last_mark(self, peers: set[str]) -> list[Out]:
        steps = self._releases.steps if self._releases else ()
        return self._send_mark(peers, steps[-1]) if steps else []

    def _send_mark(self, peers: set[str], step: int) -> list[Out]:
        """The mark of one release, to these peers."""
        assert self._releases is not None
        stored = self._releases.stored(step)
        assert stored is not None
        message = Message(Kind.RELEASED, step, 0, self._hand.mark(step, stored).body())
        return [Out(peer, message) for peer in self._places if peer in peers]

    # What others say.

    def _on_released(self, sender: str, message: Message) -> list[Out]:
        mark = mark_of(message.step, message.body)
        if not 1 <= mark.step <= self._joining.steps or message.sub:
            raise Refused("no such step")
        known = self._marks.of(sender, mark.step)
        if known is None:
            self._marks.keep(sender, mark)
            return []
        return [] if known.digest == mark.digest else self._bar(sender, known, mark)

    def _differs(self, sender: str, message: Message) -> list[Out]:
        """The answer to a release that is not the marked one; empty where the message is none such."""
        if message.kind != Kind.ANSWER and (message.kind != Kind.VALUE or message.sub):
            return []
        known, digest = self._marks.of(sender, message.step), sha256(message.body).digest()
        if known is None or known.digest == digest:
            return []
        return self._bar(sender, known, Mark(message.step, digest, bytes(HASH)))

    def _bar(self, sender: str, first: Mark, second: Mark) -> list[Out]:
        self._marks.bar(sender, first, second)
        self._barred.add(sender)
        self._note(sender, _two_versions(sender, (first, second)))
        return self._testimony(sender, _NOBODY)

    def _testimony(self, peer: str, asked: bytes) -> list[Out]:
        """The last mark of a peer; both marks of one that made two versions."""
        last = self._marks.last(peer)
        marks = self._marks.barred(peer) or (last or Mark(0, b"", b""),)
        head = asked + self._process
        return [Out(peer, Message(Kind.WITNESS, mark.step, 0, head + mark.body())) for mark in marks]

    # One process under a name.

    def _on_join(self, sender: str, message: Message, now: float) -> list[Out]:
        body, size = message.body, NUMBER if message.sub in (_ASKS, _WHO) else 2 * NUMBER + HASH
        if message.sub > _SECOND or len(body) != size:
            raise Refused(f"wrong shape: {len(body)} bytes")
        new, old, seal = body[:NUMBER], body[NUMBER : 2 * NUMBER], body[2 * NUMBER :]
        if message.sub == _ASKS:
            if self._meet(sender, new, now):
                return self._testimony(sender, new)
            return [Out(sender, Message(Kind.JOIN, 0, _WHO, new))]
        if message.sub == _WHO:
            return [] if new == self._process else [Out(sender, self._proof(new))]
        if message.sub == _HERE:
            return self._refuse_second(sender, message, new, old)
        return self._second(sender, new, old, seal)

    def _meet(self, peer: str, process: bytes, now: float) -> bool:
        """Whether this process speaks under the peer's name, from now on at the latest."""
        place = self._places[peer]
        if process != place.rival and process != place.holder:
            place.rival, place.since = process, now
        enough = 2 * self._patience.retry if place.left else self._patience.wait
        silent = place.rival == process and now - place.since >= enough
        if place.holder in (_NOBODY, process) or silent:
            place.holder, place.rival, place.left = process, _NOBODY, False
        return place.holder == process

    def _proof(self, peer_process: bytes) -> Message:
        seal = self._hand.alive(self._process, peer_process)
        return Message(Kind.JOIN, 0, _HERE, peer_process + self._process + seal)

    def _refuse_second(self, sender: str, message: Message, new: bytes, old: bytes) -> list[Out]:
        """Show a new process the proof that another one of its name still runs."""
        place = self._places[sender]
        if _NOBODY in (new, old) or new not in (place.rival, place.holder):
            raise Refused("answers what nobody asked")
        place.holder, place.rival = old, _NOBODY
        self._note(sender, f"{sender} runs twice, under one certificate: the second one is refused")
        return [Out(sender, message._replace(sub=_SECOND))]

    def _second(self, sender: str, new: bytes, old: bytes, seal: bytes) -> list[Out]:
        if old == self._process:
            twin = f"another process came under this name, and {sender} refused it"
            self._note("", f"{twin}: is this folder copied? Stop the copy")
        elif new == self._process and self._hand.alive(old, new) == seal:
            raise LedgerError(
                f"name={self._joining.name!r}: another process runs under this name, with the same key, and {sender} "
                "heard it first. Two would release twice over the same records. Nothing more leaves. Stop the other "
                "one (is this folder copied?), or leave this one off."
            )
        return []

    def _note(self, about: str, words: str) -> None:
        """For the log, once, and for the status."""
        if self._notes.get(about) != words:
            self._notes[about] = words
            self._log(warning(words))


def _two_versions(peer: str, marks: tuple[Mark, Mark] | None) -> str:
    step = marks[0].step if marks else 0
    return (
        f"{peer} has sent two versions of its release of step {step}: a copy of it runs too, or it was put back to an "
        "older state. It is not listened to any more in this run"
    )
