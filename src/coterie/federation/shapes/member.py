"""An owner of masked sums, whoever calls the roll: it answers rolls and takes sums in.

Releases are known by tickets: one number for a round and an attempt, in the order in which they can happen. Ledger,
journal and witnesses count tickets where they count steps elsewhere, so a ticket has one message for ever.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np

from coterie._types import PyTree
from coterie.errors import BudgetError
from coterie.federation.releases.journal import numbered
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RoundsSide
from coterie.federation.shapes import exchange
from coterie.federation.shapes.rolls import SPENT, SumTerms
from coterie.federation.transport import wire
from coterie.mechanisms.masks import HISTORY, LABEL, PROCESS, START, Masks, Roll, extended
from coterie.program import State

_STATE = "public"  # key of the journal
LATER, OTHER = "a later attempt was answered already", "answered under another roll"


class Declined(Exception):
    """Why a roll is not answered; nothing was charged for it."""


class Member:
    """One owner's part in masked sums.

    Guarantee: it makes one message for a ticket, under one label, charged with a full release before it leaves; never
    for a roll of fewer than `terms.quorum` owners, without itself, or that names another process of its own.
    """

    def __init__(
        self,
        terms: SumTerms,
        side: RoundsSide,
        outlet: Outlet,
        masks: Masks,
        owner: int,
        kept: int = 1,
    ) -> None:
        """`kept`: how many states are kept, so that it can go back by one less."""
        self.terms, self.journal, self.owner = terms, outlet.journal, owner
        self.process = secrets.token_bytes(PROCESS)  # drawn anew at every start; it enters every label
        self._side, self._outlet, self._masks, self._kept = side, outlet, masks, kept
        self.spent = ""  # why nothing is released any more
        last = self.journal.last(_STATE)
        self._enter(*(last or (0, None)))
        self._farthest = self.step

    def _enter(self, step: int, stored: bytes | None) -> None:
        self.step, self.history, self.public = step, START, self._side.start().public
        if stored is not None:
            self.history = stored[:HISTORY]
            self.public = wire.unpack(stored[HISTORY:], self._side.public_layout)

    def model(self) -> PyTree:
        """The owner's model after the last sum."""
        return self._side.model(self.public)

    def answer(self, roll: Roll, named: bytes) -> bytes:
        """The message for a roll, new or said before, behind its label; Declined where there is none."""
        ticket = self.terms.ticket(roll.round, roll.attempt)
        stored = self._outlet.stored(ticket)
        if stored is None:
            why = self._objection(roll, named)
            if why:
                raise Declined(why)
            stored = self._release(ticket, roll, named)
        if stored[:LABEL] != named:
            raise Declined(OTHER)
        return stored

    def next_attempt(self, round: int) -> int:
        """The first attempt of the round after all charged ones, whether or not they were sent."""
        places = map(self.terms.place, self._outlet.steps)  # a table's step is no ticket, and in no round
        return max((attempt + 1 for which, attempt in places if which == round), default=0)

    def label(self, roll: Roll) -> bytes:
        """The label to which the masks of this roll are bound, given this owner's history."""
        return self._masks.label(self.history, roll)

    def _objection(self, roll: Roll, named: bytes) -> str:
        if roll.round != self.step + 1:
            return f"round {roll.round} is not the next one"
        if self.owner not in roll.members:
            return "not in the roll"
        if len(roll.members) < self.terms.quorum:
            return f"a roll of {len(roll.members)} owners, must be at least {self.terms.quorum}"
        if roll.processes[roll.members.index(self.owner)] != self.process:
            return "the roll names a process that is gone"
        if self.label(roll) != named:
            return "another history, or another agreement"
        if roll.attempt < self.next_attempt(roll.round):
            return LATER
        if self._outlet.turns() - self.step > self.terms.spare:
            self.spent = f"all {self.terms.spare} spare attempts were void"
        return SPENT if self.spent else ""

    def _release(self, ticket: int, roll: Roll, named: bytes) -> bytes:
        """A new message under the masks of this roll. Only the masked message is stored, never the numbers."""
        turn = self._outlet.turns()
        message, _ = self._side.emit(State(self.public, ()), roll.round, turn, roll.attempt)
        numbers = np.frombuffer(wire.pack(message), "<i4").astype(np.int64)
        body = named + self._masks.masked(numbers, named, roll.members, self.terms.degree)
        try:
            return self._outlet.release(ticket, turn, body)
        except BudgetError as error:
            self.spent = str(error)  # for the owner's own eyes: it speaks of other runs, too
            raise Declined(SPENT) from error

    def take(
        self, round: int, attempt: int, body: bytes, source: str, beside: Mapping[str, bytes] | None = None
    ) -> None:
        """Take the sum of the next round in; Refused where it is no valid sum. `beside` is written down with it."""
        assert round == self.step + 1
        members, total = self.terms.total(body)
        scaled = self.terms.scaled(members, total)
        mixed = wire.unpack(scaled.astype("<f4").tobytes(), exchange.sum_layout(self._side.layout))
        public = self._side.absorb(self.public, mixed, mixed, round)
        state = exchange.body_of(public, self._side.public_layout, lambda: f"by the sum that {source} sent")
        wide = self.terms.wide
        history = extended(self.history, round, attempt, body[:wide], body[wide:])
        later = tuple(numbered(_STATE, step) for step in range(round + 1, self._farthest + 1))
        self.journal.put({numbered(_STATE, round): history + state, **(beside or {})}, later)
        self.journal.prune(_STATE, round - self._kept + 1)
        self.step, self.history, self.public, self._farthest = round, history, public, round

    def go_back(self, step: int) -> bool:
        """Return to the state after this round, if it is kept; the next sum makes that permanent."""
        stored = self.journal.get(numbered(_STATE, step))
        if stored is None and step:
            return False
        self._enter(step, stored)
        return True
