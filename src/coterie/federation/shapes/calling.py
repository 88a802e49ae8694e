"""Whom the root of a tree calls, and whose turn it is to be the root."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from coterie.federation.shapes.chain import Chain
from coterie.federation.shapes.crowd import Crowd, Sign
from coterie.federation.shapes.member import Member
from coterie.federation.shapes.rolls import Bench
from coterie.federation.shapes.tree import Graph, spanning
from coterie.federation.transport.machine import Patience
from coterie.mechanisms.masks import Roll


class Caller:
    """One owner's view of who is there and could be called."""

    def __init__(self, member: Member, chain: Chain, crowd: Crowd, graph: Graph, patience: Patience) -> None:
        self._member, self._chain, self._crowd = member, chain, crowd
        self._graph, self._wait = graph, patience.wait
        self._terms, self._own = member.terms, member.owner
        self._bench = Bench()
        self._blamed = dict[int, float]()  # owner -> when it was blamed: only a later sign of life counts

    def blame(self, owners: Collection[int], now: float, spent: bool = False) -> None:
        """Leave out owners that made an attempt void; `spent`: for the rest of the run."""
        culprits = [owner for owner in owners if owner != self._own]
        self._bench.blame(culprits, self._member.step + 1)
        self._blamed |= dict.fromkeys(culprits, now)
        if spent:
            self._bench.spent |= set(culprits)

    def due(self, now: float, quiet: float, going_on: bool) -> Collection[int]:
        """The owners to call now; none where another owner is root, or too few are there.

        `quiet`: since when nothing happened. `going_on`: an attempt of another root is under way.
        """
        here = self._crowd.present(now)
        willing = {owner for owner, sign in here.items() if self._willing(owner, sign)}
        members = self._members(willing, now)
        if self._member.spent or len(members) < self._terms.quorum:
            return ()
        # The root does not depend on whom this owner would leave out, so that everybody finds the same one.
        last, names = self._chain.last, self._terms.names
        order = sorted(self._reached(willing), key=lambda owner: (owner not in last, names[owner].encode()))
        rank, ahead = (
            order.index(self._own),
            any(sign.step > self._member.step for sign in here.values()),
        )
        at_once = rank == 0 and not going_on and not ahead
        return members if now - quiet >= (0 if at_once else (2 + rank) * self._wait) else ()

    def roll(self, members: Collection[int], least: int, now: float) -> Roll | None:
        """The next roll, of an attempt that no known owner has answered; None where attempts are used up."""
        member, here = self._member, self._crowd.present(now)
        signs = [here[owner] for owner in members if owner in here]
        answered = [sign.attempt for sign in signs if sign.step == member.step]
        believed = [attempt for attempt in answered if attempt <= self._terms.attempts]
        number = max(least, member.next_attempt(member.step + 1), *believed)
        if number > self._terms.attempts:
            return None
        processes = {owner: sign.process for owner, sign in here.items()} | {self._own: member.process}
        called = tuple(sorted(members))
        return Roll(member.step + 1, number, called, tuple(processes[owner] for owner in called))

    def paused(self, now: float) -> str:
        """Why no roll can be called, where too few are there or connected."""
        here = self._crowd.present(now)
        reached = self._reached({owner for owner, sign in here.items() if not sign.spent})
        if len(reached) >= self._terms.quorum:
            return ""
        apart = "" if len(here) + 1 < self._terms.quorum else ", and the others are not connected with them"
        return (
            f"paused: {len(reached)} owners are there and connected, a sum needs {self._terms.quorum}{apart}"
        )

    def _members(self, willing: Collection[int], now: float) -> Collection[int]:
        """Owners that can be called and are connected; left-out ones only where there are too few without them."""
        free = {owner for owner in willing if self._bench.free(owner, self._member.step + 1)}
        if len(self._reached(free)) >= self._terms.quorum:
            return self._reached(free)
        return self._reached(
            {owner for owner in willing if owner in free or now - self._blamed[owner] >= self._wait}
        )

    def _willing(self, owner: int, sign: Sign) -> bool:
        """Whether an owner releases, and follows the same chain as far as is known."""
        known = self._chain.history(sign.step) if sign.step <= self._member.step else b""
        same = known is None or known.startswith(sign.history)
        back = self._crowd.made(owner) > self._blamed.get(owner, -np.inf)
        return same and back and not sign.spent and owner not in self._bench.spent

    def _reached(self, owners: Collection[int]) -> Collection[int]:
        return spanning(self._graph, {*owners, self._own}, self._own).height.keys()
