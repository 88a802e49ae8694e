"""Masked sums: an owner whose messages are masked, and who talks to the aggregator alone.

A round has attempts. For each the aggregator names a roll, the owners whose messages will be added, and every member
answers once: fresh noise, a full charge, and a message under the masks of exactly this roll (`mechanisms.masks`). If
all of them answer, the masks cancel and the sum goes to everybody. If one does not, the attempt is void, its messages
are worth nothing to anybody, and another roll is called. Nobody ever reveals a mask, and no message is made twice.

An aggregator can lie at will. Owners that it told different rolls, sums or processes share no mask, and so their
messages are random numbers. What it can learn at most is the sum of one roll, and that is what owners are charged for.
"""

from __future__ import annotations

from coterie._types import PyTree
from coterie.federation.shapes.member import Declined, Member
from coterie.federation.shapes.summing import AGGREGATOR, Asking
from coterie.federation.transport.machine import Out, Patience
from coterie.federation.transport.wire import Kind, Message, Refused


class MaskedOwner(Asking):
    """One owner: a `Machine`."""

    def __init__(self, member: Member, patience: Patience) -> None:
        super().__init__(member.terms.rounds, patience)
        self._member = member

    @property
    def _completed(self) -> int:
        return self._member.step

    @property
    def _spent(self) -> str:
        return self._member.spent

    def _again(self) -> list[Out]:
        return [self._want()]

    def model(self) -> PyTree:
        """The owner's model after the last completed round."""
        return self._member.model()

    def _answer(self, message: Message, now: float) -> list[Out]:
        match message.kind:
            case Kind.SUM:
                return self._absorbed(message, now)
            case Kind.ROLL:
                return self._rolled(message)
            case Kind.REFUSAL:
                if message.step == self._member.step + 1:
                    self._note = f"paused: the aggregator has forgotten the sum of round {message.step}"
                return []
        raise Refused(f"{message.kind.name}: not among masked sums")

    def _rolled(self, message: Message) -> list[Out]:
        roll, named = self._member.terms.read(message.step, message.body)
        try:
            answer = Message(Kind.VALUE, message.step, 0, self._member.answer(message.step, roll, named))
        except Declined as why:
            again = self._member.next_attempt(roll.round)
            answer = Message(Kind.REFUSAL, message.step, again, str(why).encode()[:200])
        return [Out(AGGREGATOR, answer)]

    def _absorbed(self, message: Message, now: float) -> list[Out]:
        member = self._member
        member.terms.total(message.body)
        if message.step <= member.step or message.step > member.terms.rounds:
            return []
        if message.step > member.step + 1:  # it needs the sums before that first
            return [self._want()]
        member.take(message.step, message.sub, message.body, AGGREGATOR)
        self._note, self._asked = "", now
        return [] if self.done else [self._want()]

    def _want(self) -> Out:
        return Out(AGGREGATOR, Message(Kind.WANT, self._member.step + 1, 0, self._member.process))
