"""An owner of a protocol of rounds, among its neighbours.

A *place* is one gossip step of one round, counted from 0 over the whole run. At each place the owner tells some
neighbours its value (at the first of a round: its release) and takes in those of others. Every value is on its
sender's disk before it leaves, and whoever misses one asks for it, so that loss, doubling and disorder are harmless.

An owner asks before it speaks: it releases nothing new before a neighbour was heard since it was started. The run
begins when everyone has come. From then on a neighbour that is silent for `patience.wait` (twice that,
while it answers) is gone on without, until it speaks again; what it owes is made up later (`exchange`). An owner that
hears nobody, or whose protocol cannot bear a missing value, pauses instead and says so. Over links of one direction
(push-sum) that is so after a few missing values of one owner.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coterie._types import PyTree
from coterie.federation.releases.journal import numbered
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RoundsSide
from coterie.federation.shapes import exchange
from coterie.federation.shapes.exchange import WINDOW, Debts
from coterie.federation.shapes.setting import Peer, RoundsTerms
from coterie.federation.shapes.voice import Voice
from coterie.federation.transport.machine import Out, Status, beyond
from coterie.federation.transport.wire import Kind, Message, Refused

AHEAD = 16  # places: how far ahead of its own an owner keeps, and asks for, others' values
_BEHIND = 8  # places: neighbours in step are never that far ahead, but for graphs of a very large diameter
_TIDY = 64  # places between two prunings
_BORNE = 3  # values of one owner that may be missing at a time where links have one direction
_DEBTS, _VALUE = "debts", "value"  # keys of the journal


class RoundsOwner:
    """One owner: a `Machine`."""

    def __init__(self, setting: RoundsTerms, side: RoundsSide, outlet: Outlet) -> None:
        self._setting, self._layout, self._journal = setting, side.layout, outlet.journal
        self._view, self._gossip = setting.view, setting.view.gossip_steps
        self._end = setting.rounds * self._gossip
        self._type = exchange.vector_type(side.layout)
        self._voice = Voice(side, outlet)
        self._index = {setting.names[owner]: owner for owner in self._view.peers}
        self._peers = {owner: Peer() for owner in self._view.peers}
        self._inbox: dict[int, dict[int, np.ndarray]] = {}
        self._never: set[tuple[int, int]] = set()  # (place, owner) of values that the owner refuses
        self._debts = Debts(self._journal.get(_DEBTS), self._view.peers)
        self._silent = False  # no messages left, in a protocol that cannot mix without
        self._furthest = -1  # the highest place of which a neighbour has, or probably has, a value
        self._hoped: set[int] = set()  # places that were asked for early
        self._company = 0  # the place after the last one at which a neighbour was heard
        self._opened = False  # whether this owner's value of the round is there
        self._taken: Mapping[int, np.ndarray] = {}  # others' values in the last step
        self._spoilt = ""  # whose values were left out
        self._now = self._since = 0.0
        self._place = self._voice.step * self._gossip
        self._own = self._x = self._before = np.zeros(0, self._type)

    def start(self, now: float) -> list[Out]:
        """Begin, or resume: send the value that neighbours may wait for, and ask for theirs."""
        self._now, self._since = now, now
        if self._place:
            self._furthest = self._place + AHEAD  # others are probably ahead: ask at once
        spoken = self._place < self._end and self._voice.said(self._place // self._gossip + 1) is not None
        outs = self._resume() if spoken else []
        return outs + self._knock() + self._onward()

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """A neighbour's value, or its question."""
        self._now = now
        return self._answer(sender, message) + self._onward()

    def tick(self, now: float) -> list[Out]:
        """Go on without overdue neighbours, and ask for missing values."""
        self._now = now
        return self._knock() + self._onward() + self._ask_debtors()

    def _knock(self) -> list[Out]:
        """Ask for the next values before speaking, so that neighbours learn that this owner came."""
        if self._opened or self.done:
            return []
        coming = range(self._place, self._place + len(self._view.hops))
        place = next((place for place in coming if self._view.hop(place).hears), self._place)
        retry = self._setting.patience.retry
        return [out for owner in self._view.hop(place).hears for out in self._ask(owner, [place], retry)]

    @property
    def done(self) -> bool:
        """Whether the owner has completed all rounds, or cannot take part in any more."""
        return self._place >= self._end or self._silent

    @property
    def status(self) -> Status:
        names = self._setting.names
        waiting = () if self.done else tuple(names[owner] for owner in self._missing())
        return Status(self._place // self._gossip, self._setting.rounds, waiting, self._note())

    def model(self) -> PyTree:
        return self._voice.model()

    # What others say.

    def _answer(self, sender: str, message: Message) -> list[Out]:
        source = self._index.get(sender)
        if source is None:
            raise Refused("not a neighbour")
        if message.kind == Kind.WANT and message.step > self._setting.rounds:
            return [beyond(sender, message, self._setting.rounds)]
        place = self._setting.place_of(message)
        hop = self._view.hop(place)
        if source not in (hop.tells if message.kind == Kind.WANT else hop.hears):
            raise Refused(f"{message.kind.name}: not a link of this step")
        if message.kind == Kind.VALUE:
            self._take_value(source, place, message.body)
        elif message.kind == Kind.REFUSAL:
            self._denied(source, place)
        self._peers[source].heard = self._now
        if not self._opened and not self.done:
            return self._resume()  # a neighbour is there: now send the own value to all
        return self._send_value(place, source) if message.kind == Kind.WANT else []

    def _take_value(self, source: int, place: int, body: bytes) -> None:
        """Take a value: of this place, a later one or a missed one; a known value is ignored."""
        value = exchange.vector(body, self._layout, self._type)
        if place < self._place:
            self._late(source, place, value)
        elif place < self._place + AHEAD:
            first = self._inbox.setdefault(place, {}).setdefault(source, value)
            if not np.array_equal(first, value):
                raise Refused("a second version of a value")
        peer = self._peers[source]
        if place > peer.newest:
            peer.newest, peer.absent = place, False
        hope = AHEAD if place in self._hoped else 0  # its sender probably has later ones
        self._furthest = max(self._furthest, place + hope)

    def _late(self, source: int, place: int, value: np.ndarray) -> None:
        if self.done or not self._debts.open(place, source):
            return
        hop, balanced = self._view.hop(place), self._view.balanced
        own = self._value(place) if balanced else None
        if balanced and own is None:
            self._debts.drop(place, source)
        else:
            self._debts.came(place, source, exchange.made_up(hop, balanced, own, source, value))

    def _denied(self, source: int, place: int) -> None:
        """Note that the value's owner has forgotten it, or will never have one."""
        self._peers[source].absent = True
        if place < self._place:
            if self._debts.open(place, source):
                self._debts.drop(place, source)
        elif place < self._place + AHEAD:
            self._never.add((place, source))

    def _send_value(self, place: int, peer: int) -> list[Out]:
        """Send the value that a peer asked for or, if there is none yet, the newest one as a sign of life."""
        if place > self._place and not self._silent:
            place = self._place
            if peer not in self._view.hop(place).tells:
                return []
        value = self._value(place)
        if value is None:
            return [self._out(peer, Kind.REFUSAL, place, b"not to be had any more")]
        return [self._out(peer, Kind.VALUE, place, value.tobytes())]

    def _value(self, place: int) -> np.ndarray | None:
        """The own value at a place, from memory, ledger or journal."""
        if place == self._place and len(self._x):
            return self._x
        step, sub = divmod(place, self._gossip)
        body = self._journal.get(numbered(_VALUE, place)) if sub else self._voice.said(step + 1)
        return None if body is None else np.frombuffer(body, self._type)

    # Going on.

    def _onward(self) -> list[Out]:
        """All steps that can be taken now, then questions for what is missing."""
        outs: list[Out] = []
        while self._opened and not self.done:
            missing = self._missing()
            if (missing and not self._may_skip(missing)) or self._holds():
                break
            outs += self._step(missing)
        return outs if self.done else outs + self._ask_ahead()

    def _missing(self) -> list[int]:
        heard = self._inbox.get(self._place, {})
        return [owner for owner in self._view.hop(self._place).hears if owner not in heard]

    def _may_skip(self, missing: list[int]) -> bool:
        if self._place < self._view.joined or not (self._view.balanced or self._setting.debiased):
            return False
        waiting = [owner for owner in missing if not self._given_up(owner)]
        return not waiting and not self._alone() and not self._draining(missing)

    def _draining(self, missing: list[int]) -> list[int]:
        """Over links of one direction, owners missed too often: weight sent to them does not come back, and the others
        would be left with less in every round, until a step outweighs the model."""
        most = np.inf if self._view.balanced else _BORNE
        return [owner for owner in missing if len(self._debts.of(owner)) >= most]

    def _given_up(self, owner: int) -> bool:
        peer, wait = self._peers[owner], self._setting.patience.wait
        if peer.absent or (self._place, owner) in self._never:
            return True
        grace = 2.0 if self._now - peer.heard < wait else 1.0  # it may itself wait for somebody
        return self._now - self._since >= grace * wait

    def _alone(self) -> bool:
        """Whether nobody was heard for a whole turn, or since the start: going on would be training alone."""
        if self._inbox.get(self._place) or any(place == self._place for place, _ in self._never):
            return False
        unheard = all(np.isinf(peer.heard) for peer in self._peers.values())
        return unheard or self._place - self._company >= len(self._view.hops) - 1

    def _holds(self) -> bool:
        """Whether to wait once more for debts before the last step, after which nothing can be made up."""
        late = self._place == self._end - 1 and bool(self._debts.sources)
        return late and self._now - self._since < self._setting.patience.wait

    def _step(self, missing: list[int]) -> list[Out]:
        place, hop = self._place, self._view.hop(self._place)
        heard = self._taken = self._inbox.pop(place, {})
        new, unused = exchange.step(hop, self._view.balanced, self._x, self._before, heard, self._layout)
        self._leave_out(unused, place)
        never = {owner for at, owner in self._never if at == place}
        self._debts.forgotten += len(never.intersection(missing))
        for owner in missing:
            if owner not in never:
                self._debts.add(place, owner)
                self._peers[owner].absent = True
        if heard or never:
            self._company = place + 1
        self._leave(place)
        if self._place % self._gossip:
            self._journal.put({numbered(_VALUE, self._place): new.tobytes(), **self._owed(bool(missing))})
            self._x, self._before = new, self._x
            return self._announce()
        self._close_round(new)
        return self._open_round() if self._place < self._end else []

    def _leave(self, place: int) -> None:
        self._place, self._since = place + 1, self._now
        self._never = {pair for pair in self._never if pair[0] > place}
        self._hoped.discard(place)
        for peer in self._peers.values():
            peer.asked.pop(place, None)
        if place % _TIDY == 0:
            self._journal.prune(_VALUE, place - WINDOW)
            self._voice.forget((place - WINDOW) // self._gossip)
            for owner, peer in self._peers.items():
                peer.asked = {at: when for at, when in peer.asked.items() if self._debts.open(at, owner)}

    def _close_round(self, mixed: np.ndarray) -> None:
        """Absorb the round, with late values; state and debts reach the disk together, before the next release."""
        owed = bool(self._debts)
        mixed, unused = self._debts.settle(mixed, self._layout)
        self._leave_out(unused, self._place - 1)
        self._debts.expire(self._place - WINDOW)
        own, taken_in = (exchange.tree(vector, self._layout, self._blame) for vector in (self._own, mixed))
        self._voice.absorb(own, taken_in, self._blame, self._owed(owed))

    def _leave_out(self, unused: list[int], place: int) -> None:
        """Count values that were left out, as with them others would refuse the own value."""
        self._debts.forgotten += len(unused)
        if unused:
            last = f"the last in round {place // self._gossip + 1}"
            self._spoilt = f"values of {self._setting.called(unused)} are left out as too heavy, {last}"

    def _blame(self) -> str:
        """Whose value weighed most in the last step."""
        if not self._taken:
            return ""
        owner = exchange.heaviest(self._view.hop(self._place - 1), self._taken)
        return f"of what it last took in, {self._setting.names[owner]}'s value weighed most"

    def _owed(self, changed: bool) -> dict[str, bytes]:
        return {_DEBTS: self._debts.stored()} if changed else {}

    def _open_round(self) -> list[Out]:
        body = self._voice.say(self._blame)
        self._opened = True
        if body is None:
            self._silent = True
            self._x = np.zeros(0, self._type)
            return []
        self._own = self._x = self._before = np.frombuffer(body, self._type)
        return self._announce()

    def _announce(self) -> list[Out]:
        body = self._x.tobytes()
        return [self._out(peer, Kind.VALUE, self._place, body) for peer in self._view.hop(self._place).tells]

    def _out(self, peer: int, kind: Kind, place: int, body: bytes = b"") -> Out:
        step, sub = divmod(place, self._gossip)
        return Out(self._setting.names[peer], Message(kind, step + 1, sub, body))

    # Asking.

    def _ask_ahead(self) -> list[Out]:
        """Ask for values of this place, and of later ones that neighbours have or probably have."""
        patient = self._now - self._since < self._setting.patience.retry
        behind = self._furthest >= self._place + _BEHIND
        outs: list[Out] = []
        last = min(max(self._furthest, self._place) + 1, self._place + AHEAD, self._end)
        for place in range(self._place, last):
            heard = self._inbox.get(place, {})
            for owner in self._view.hop(place).hears:
                due = behind or place <= self._peers[owner].newest or (place == self._place and not patient)
                if due and owner not in heard:
                    ahead = place > self._place  # asked once: false reports of progress cost little
                    outs += self._ask(owner, [place], np.inf if ahead else self._setting.patience.retry)
                    self._hoped.update([place] if ahead else [])
        return outs

    def _ask_debtors(self) -> list[Out]:
        """Ask for missed values that a neighbour is known to have, or for the oldest one as a probe."""
        outs: list[Out] = []
        for owner in [] if self.done else self._debts.sources:
            peer, places = self._peers[owner], self._debts.of(owner)
            wanted = [place for place in places if place <= peer.newest][:AHEAD] or places[:1]
            patience = self._setting.patience
            silent = self._now - peer.heard > patience.wait
            outs += self._ask(owner, wanted, patience.wait if silent else patience.retry)
        return outs

    def _ask(self, owner: int, places: list[int], every: float) -> list[Out]:
        wanted = self._peers[owner].due(places, self._now, every)
        return [self._out(owner, Kind.WANT, place) for place in wanted]

    # Over restarts.

    def _resume(self) -> list[Out]:
        """Send this round's message, and go to its last gossip step whose value was written down."""
        first, self._since = self._place, self._now
        outs = self._open_round()
        self._company = first  # no neighbour counts as away yet
        for place in range(first + self._gossip - 1, first, -1):
            before, x = self._value(place - 1), self._value(place)
            if before is not None and x is not None and not self._silent:
                self._place, self._company, self._before, self._x = place, place, before, x
                return self._announce()
        return outs

    def _note(self) -> str:
        """What an administrator should know, most urgent first."""
        forgotten = self._debts.forgotten + (len(self._debts) if self.done else 0)
        notes = []
        if self._silent:
            return f"takes part no more, as this protocol does not mix without releasing: {self._voice.spent}"
        if not self.done and not self._opened:
            notes.append("waits for a neighbour before it releases anything")
        elif not self.done and (missing := self._missing()):
            if self._place < self._view.joined:
                notes.append("waits for all owners to come")
            elif not (self._view.balanced or self._setting.debiased):
                notes.append("paused until all neighbours are heard: links of one direction, and no weights")
            elif self._alone() and all(self._given_up(one) for one in missing):
                notes.append("paused: no neighbour is heard")
            elif away := self._draining(missing):
                lost = f"missed {_BORNE} times, and the others' weight would drain away"
                notes.append(f"paused: {self._setting.called(away)} {lost}")
        if self._spoilt:
            notes.append(self._spoilt)
        if self._voice.spent:
            notes.append(f"mixes without releasing: {self._voice.spent}")
        if forgotten:
            notes.append(f"{forgotten} exchanges were never completed")
        return "; ".join(notes)
