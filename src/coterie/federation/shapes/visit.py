"""What an owner says at its visits: one message for each step, whatever crashes."""

from __future__ import annotations

from coterie._types import PyTree
from coterie.errors import BudgetError
from coterie.federation.releases.memory import Memory
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RegisterSide, VisitSide
from coterie.federation.transport import wire


class Speaker:
    """One owner's voice. Everything it returns is in the owner's ledger, with its charge."""

    def __init__(self, side: VisitSide, outlet: Outlet) -> None:
        self.side, self.outlet = side, outlet
        self.memory = Memory(outlet, side.private_layout, side.start)

    def say(self, query: PyTree, basis: bytes, step: int, turn: int) -> bytes:
        """The message of this step, the same one every time. BudgetError, with nothing released, where none is left.

        `basis`: hash of what the query was made of. Guarantee: what is returned is what the ledger charged and stored.
        """
        earlier = self.outlet.stored(step)
        if earlier is not None:
            return earlier
        message, private = self.side.emit(self.memory.private, query, step, turn)
        body, _ = wire.fitted(message, self.side.layout)  # others accept nothing else
        return self.memory.release(step, turn, body, private, basis)


class OwnVisits:
    """One owner's steps of a walk: from the register before each to the register after it."""

    def __init__(self, speaker: Speaker, register: RegisterSide, owner: int) -> None:
        self._speaker, self._register, self._owner = speaker, register, owner
        self.spent = ""  # why this owner has nothing more to say

    def after(self, body: bytes, digest: bytes, step: int) -> bytes:
        """The register after the own step; unchanged where this owner has nothing to say.

        Guarantee: private records are read by `Speaker.say` alone, which charges what it returns. What is settled
        was computed from this very register: a release for a history that was left stays charged, and unused.
        """
        turn = self._register.schedule[: step - 1].count(self._owner)
        register = wire.unpack(body, self._register.layout)
        packed = self._speaker.outlet.stored(step)
        if packed is None and turn < self._register.program.plan.releases[self._owner]:
            try:
                query = self._register.ask(register, self._owner, step, turn)
                packed = self._speaker.say(query, digest, step, turn)
            except BudgetError as error:
                self.spent = str(error)
        if packed is None or not self._speaker.memory.based_on(step, digest):
            return body
        return self._settled(register, packed, step, turn) or body

    def _settled(self, register: PyTree, packed: bytes, step: int, turn: int) -> bytes | None:
        """The register with the own message; None where it is not finite, as nobody would accept it."""
        try:
            message = wire.unpack(packed, self._speaker.side.layout)
            return self._register.settled(register, message, self._owner, step, turn)
        except wire.Refused:
            return None
