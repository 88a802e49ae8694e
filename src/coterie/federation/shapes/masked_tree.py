"""Masked sums without anybody in the middle: up and down a tree of the topology, between neighbours alone.

The root of a tree calls the roll (as in `masked_hub`), its own message being the first that is made for it. Rolls go
down to the leaves, messages come up, each owner adding its own to what its children sent, and the sum goes down again.
The tree follows from the roll and its root (`tree`), so nobody is told whom to believe. A root is a role, and trusted
with nothing: whatever it says, an owner answers a ticket once, under the masks of one roll, as `member` has it. What a
parent sees of those below are masked messages and their sums.

Who is root: of the last sum's owners the lowest name that is there (`crowd`). If it dies or falls silent the next name
calls a higher attempt. Two roots at once cost attempts, never privacy.

A root that dies when part of the owners have its sum leaves two pasts. Owners tell each other where they stand; the
longer chain of sums counts, of equally long ones the one with the later last attempt, and whoever is on the other
one goes back to where they parted. What was charged stays charged, and answered attempts stay answered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from coterie._types import PyTree
from coterie.federation.shapes.chain import TIP, Branch, Chain, Tip
from coterie.federation.shapes.crowd import Caller, Crowd
from coterie.federation.shapes.member import LATER, OTHER, Declined, Member
from coterie.federation.shapes.rolls import OUTSIDE, SPENT, SumTerms
from coterie.federation.shapes.tree import Graph, Tree, distances, spanning
from coterie.federation.transport.machine import Out, Patience, Status
from coterie.federation.transport.wire import Kind, Message, Refused
from coterie.mechanisms.masks import HISTORY, START, Roll, bitmap, extended, members_of

KEPT = 4  # states that an owner keeps: it can go back by three sums


def longest(terms: SumTerms) -> int:
    """The most bytes of a frame's body."""
    signs = Crowd(0, {}, len(terms.names), Patience()).size
    return max(terms.longest, TIP + HISTORY + terms.wide + 8 * terms.count, HISTORY + signs)


class TreeOwner:
    """One owner: a `Machine`."""

    def __init__(self, member: Member, graph: Graph, patience: Patience) -> None:
        self._member, self._graph, self._patience = member, graph, patience
        self._terms, self._own = member.terms, member.owner
        self._index = {name: owner for owner, name in enumerate(self._terms.names)}
        self._crowd = Crowd(self._own, distances(graph, self._own), len(graph), patience)
        self._chain = Chain(member)
        self._caller = Caller(member, self._chain, self._crowd, graph, patience)
        self._attempt: Branch | None = None
        self._early: tuple[int, Message] | None = None  # a roll that came before the sum that it follows
        self._next = 0  # the least attempt that this owner would call
        self._aim = self._chain.tip  # the end of the chain that this owner follows
        self._began = self._quiet = self._asked = self._now = 0.0
        self._note = ""

    def start(self, now: float) -> list[Out]:
        """Begin, or resume, and ask members of this owner's last roll for their answers again."""
        self._now = self._began = self._quiet = self._asked = now
        last = self._terms.called(self._member.journal)
        if last is not None and last[0].round == self._member.step + 1:
            self._open(*last)
        return self._hail(self._graph[self._own]) + self._call()

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        self._now = now
        peer = self._index.get(sender)
        if peer is None or peer not in self._graph[self._own]:
            raise Refused("not a neighbour")
        return self._answer(peer, message) + self._go_on()

    def tick(self, now: float) -> list[Out]:
        """Send a sign of life, ask again, and go on without owners that are overdue."""
        self._now = now
        outs = self._go_on()
        if now - self._asked < self._patience.retry:
            return outs
        self._asked = now
        self._crowd.beat()
        return outs + self._hail(self._graph[self._own]) + self._call()

    @property
    def done(self) -> bool:
        return self._member.step >= self._terms.rounds

    @property
    def status(self) -> Status:
        member, waiting, notes = self._member, self._awaited(), [self._note, self._paused()]
        if member.spent:
            notes.append(f"follows without releasing: {member.spent}")
        names = tuple(self._terms.names[owner] for owner in waiting)
        return Status(member.step, self._terms.rounds, names, "; ".join(filter(None, notes)))

    def model(self) -> PyTree:
        return self._member.model()

    def _awaited(self) -> list[int]:
        if self.done:
            return []
        attempt = self._attempt
        if attempt is None:
            here = self._crowd.present(self._now)
            return [owner for owner in range(len(self._graph)) if owner not in here and owner != self._own]
        return attempt.silent or [self._own if attempt.parent is None else attempt.parent]

    def _paused(self) -> str:
        here, attempt = self._crowd.present(self._now), self._attempt
        going_on = attempt is not None and attempt.root in (self._own, *here)
        if self.done or going_on or self._now - self._quiet < self._patience.wait:
            return ""
        return self._caller.paused(self._now)

    def _answer(self, peer: int, message: Message) -> list[Out]:
        match message.kind:
            case Kind.WANT:
                return self._asked_by(peer, message)
            case Kind.ROLL:
                return self._rolled(peer, message)
            case Kind.VALUE:
                return self._take_value(peer, message)
            case Kind.REFUSAL:
                return self._objected(peer, message)
            case Kind.SUM:
                return self._summed(peer, message)
        raise Refused(f"{message.kind.name}: not among masked sums")

    # Where everybody stands.

    def _hail(self, peers: Iterable[int], step: int | None = None) -> list[Out]:
        """Ask peers for the sum after the own step, with all signs of life. `step`: to ask from there instead."""
        member = self._member
        step = member.step if step is None else step
        again = member.next_attempt(member.step + 1)
        self._crowd.sign(member.process, member.step, member.history, again, bool(member.spent), self._now)
        body = (self._chain.history(step) or START) + self._crowd.written(self._now)
        return [self._to(peer, Message(Kind.WANT, step + 1, 0, body)) for peer in peers]

    def _asked_by(self, peer: int, message: Message) -> list[Out]:
        step, history, own = message.step - 1, message.body[:HISTORY], self._member.step
        if message.sub or not 0 <= step <= self._terms.rounds:
            raise Refused("no such round")
        outs = []
        if self._crowd.hear(message.body[HISTORY:], self._now):
            outs = self._hail(neighbour for neighbour in self._graph[self._own] if neighbour != peer)
        if step > own:
            return outs + self._hail([peer])
        if self._chain.history(step) not in (None, history):
            return outs + self._sum(peer, step)  # it has other sums: the larger end counts
        return outs if step == own else outs + self._sum(peer, step + 1)

    def _sum(self, peer: int, step: int) -> list[Out]:
        message = self._chain.sum(step)
        if message is None:
            return [self._to(peer, Message(Kind.REFUSAL, step, 0, b"not there any more"))] if step else []
        return [self._to(peer, message)]

    # A sum on its way down, or from a neighbour that is ahead.

    def _summed(self, peer: int, message: Message) -> list[Out]:
        step, own = message.step, self._member.step
        tip, body = Tip.read(message.body[:TIP]), message.body[TIP + HISTORY :]
        before = message.body[TIP : TIP + HISTORY]
        self._terms.total(body)
        if not 1 <= step <= self._terms.rounds:
            raise Refused("no such round")
        if step > own + 1 or (step == own + 1 and before != self._member.history):
            return self._hail([peer])  # it needs the sums before that first
        if step <= own:
            wide = self._terms.wide
            after = extended(before, step, message.sub, body[:wide], body[wide:])
            patient = self._now - self._quiet < self._patience.wait
            if after == self._chain.history(step) or tip <= (
                max(self._aim, self._chain.tip) if patient else self._chain.tip
            ):
                return []
            if before != self._chain.history(step - 1):
                return self._hail([peer], step - 1)  # their chains differ from earlier on
            if not self._member.go_back(step - 1):
                self._note = f"paused: {self._terms.names[peer]} has had other sums since before round {step}"
                return []
            self._attempt, self._aim = None, tip
        outs = self._absorbed(step, message.sub, body, peer)
        return outs + (self._hail([peer]) if tip.step > self._member.step else [])

    def _absorbed(self, step: int, attempt: int, body: bytes, source: int) -> list[Out]:
        """Take a sum in, and pass it on: along the tree, and to neighbours outside the tree."""
        self._chain.take(step, attempt, body, self._terms.names[source])
        members, _ = self._terms.total(body)
        to = [peer for peer in self._graph[self._own] if peer not in members]
        if self._attempt is not None and self._attempt.roll.round == step:
            to += [*self._attempt.awaited, *(() if self._attempt.parent is None else (self._attempt.parent,))]
        self._attempt, self._next, self._quiet, self._note = None, 0, self._now, ""
        self._aim = max(self._aim, self._chain.tip)
        outs = [out for peer in to if peer != source for out in self._sum(peer, step)]
        early, self._early = self._early, None
        return outs + (self._rolled(*early) if early is not None else [])

    # A roll on its way down, and messages on their way up.

    def _rolled(self, peer: int, message: Message) -> list[Out]:
        (roll, named), open_ = self._terms.read(message.step, message.body), self._attempt
        if message.sub not in roll.members:
            raise Refused("a roll whose root is not in it")
        tree = spanning(self._graph, set(roll.members), message.sub)
        if len(tree.height) < len(roll.members):
            raise Refused("a roll whose owners are not connected")
        if tree.parent.get(self._own) != peer:
            raise Refused("a roll from somebody who is not the parent in its tree")
        if roll.round <= self._member.step:
            return self._sum(peer, roll.round)
        if roll.round > self._member.step + 1:
            self._early = (peer, message)
            return self._hail([peer])
        if open_ is not None and (open_.label, open_.root) == (named, message.sub):
            return self._up()
        if open_ is not None and message.step < open_.ticket:
            return [self._objection(peer, message.step, (), LATER)]
        try:
            self._attempt = self._answered(roll, named, message.sub, tree)
        except Declined as why:
            guilty = () if str(why) in (LATER, OTHER) else (self._own,)  # not if it answered another root
            return [self._objection(peer, message.step, guilty, str(why))]
        self._quiet = self._now
        return self._call() + self._up()

    def _answered(self, roll: Roll, label: bytes, root: int, tree: Tree) -> Branch:
        """This owner's part in an attempt; Declined where it has none."""
        own = self._own
        return Branch(
            terms=self._terms,
            roll=roll,
            label=label,
            awaited=tree.children[own],
            parts={own: self._member.answer(roll, label)},
            root=root,
            parent=tree.parent.get(own),
            height=tree.height[own],
            since=self._now,
        )

    def _call(self) -> list[Out]:
        """Send the roll to children that have not answered."""
        attempt = self._attempt
        if attempt is None or self.done:
            return []
        message = Message(Kind.ROLL, attempt.ticket, attempt.root, attempt.body)
        return [self._to(child, message) for child in attempt.silent]

    def _up(self) -> list[Out]:
        """Send the parent the sum of the own message and the children's, once all have answered."""
        attempt = self._attempt
        assert attempt is not None
        if attempt.silent or attempt.parent is None:
            return []
        # Not 0, which is an owner's own release to its witnesses.
        message = Message(Kind.VALUE, attempt.ticket, 1 + attempt.root, attempt.label + attempt.added())
        return [self._to(attempt.parent, message)]

    def _take_value(self, peer: int, message: Message) -> list[Out]:
        attempt = self._attempt
        if attempt is None or (message.step, message.sub) != (attempt.ticket, 1 + attempt.root):
            return []  # an answer to a void attempt, which is useless
        if peer not in attempt.awaited:
            raise Refused("not a child in the tree")
        attempt.take(peer, message.body)
        return self._up()

    def _objection(self, peer: int, ticket: int, guilty: Collection[int], why: str) -> Out:
        """A refusal with the next attempt that could be answered, which is above 0: 0 is about a sum."""
        again = 1 + self._member.next_attempt(self._terms.place(ticket)[0])
        body = bitmap(tuple(guilty), len(self._graph)) + why.encode()[:200]
        return self._to(peer, Message(Kind.REFUSAL, ticket, again, body))

    def _objected(self, peer: int, message: Message) -> list[Out]:
        attempt = self._attempt
        if message.sub == 0:
            if message.step in (self._member.step, self._member.step + 1):
                name = self._terms.names[peer]
                self._note = f"paused: {name} has forgotten the sum of round {message.step}"
            return []
        if attempt is None or message.step != attempt.ticket or peer not in attempt.awaited:
            return []
        if attempt.parent is not None:
            return [self._to(attempt.parent, message)]
        guilty = members_of(message.body[: self._terms.wide], len(self._graph)) or ()
        self._next = max(self._next, min(message.sub - 1, self._terms.attempts))
        self._void(guilty, spent=message.body[self._terms.wide :] == SPENT.encode())
        return []

    # The root's part.

    def _go_on(self) -> list[Out]:
        """Add up, void the attempt, name silent owners, or call a roll, whichever is due."""
        attempt = self._attempt
        if self.done:
            return []
        outs: list[Out] = []
        if attempt is not None:
            silent, parent = attempt.silent, attempt.parent
            if parent is None and not silent:
                return self._add(attempt)
            if silent and self._overdue(attempt):
                if parent is None:
                    self._void(silent)
                elif not attempt.accused:
                    attempt.accused = True
                    outs = [self._objection(parent, attempt.ticket, silent, "no answer")]
            elif parent is None:
                return []
        return outs + self._begin()

    def _overdue(self, attempt: Branch) -> bool:
        """Whether the attempt took too long. Owners higher up wait longer: those below know better who is silent."""
        more = 2 * self._patience.retry * (attempt.height - 1)
        return self._now - attempt.since >= self._patience.wait + more

    def _void(self, guilty: Collection[int], spent: bool = False) -> None:
        """Begin another attempt, at first without owners that did not answer this one."""
        assert self._attempt is not None
        self._caller.blame(guilty, self._now, spent)
        self._next = max(self._next, self._attempt.roll.attempt + 1)
        self._attempt, self._quiet = None, self._now

    def _add(self, attempt: Branch) -> list[Out]:
        total = attempt.added()
        if not self._terms.fits(np.frombuffer(total, "<i8")):
            self._note = f"round {attempt.roll.round}: {OUTSIDE}"
            self._void(())
            return self._begin()
        body = bitmap(attempt.roll.members, len(self._graph)) + total
        return self._absorbed(attempt.roll.round, attempt.roll.attempt, body, self._own) + self._go_on()

    def _begin(self) -> list[Out]:
        """Call a roll, where this owner is root and it is due."""
        member, here = self._member, self._crowd.present(self._now)
        attempt = self._attempt
        if attempt is not None and attempt.root not in here:
            attempt = None
        if attempt is not None and self._now - self._quiet < self._patience.wait:
            return []
        # A run begins when all have come; after a restart, an owner first learns who is there.
        if len(here) + 1 < len(self._graph):
            first = member.step == 0 and max(self._next, member.next_attempt(1)) == 0
            if first or self._now - self._began < self._patience.wait:
                return []
        members = self._caller.due(self._now, self._quiet, attempt is not None)
        roll = self._caller.roll(members, self._next, self._now) if members else None
        if roll is None:
            if members:
                self._note = f"paused: all attempts at round {member.step + 1} are used up"
            return []
        self._terms.keep(member.journal, roll, member.label(roll))
        self._open(roll, member.label(roll))
        return self._call()

    def _open(self, roll: Roll, label: bytes) -> None:
        """Open the own roll, which is on the disk: so is the own message before anybody hears of it."""
        tree = spanning(self._graph, set(roll.members), self._own)
        try:
            self._attempt = self._answered(roll, label, self._own, tree)
        except Declined:
            return
        self._quiet = self._now

    def _to(self, peer: int, message: Message) -> Out:
        return Out(self._terms.names[peer], message)
