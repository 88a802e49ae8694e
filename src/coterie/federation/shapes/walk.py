"""A model handed from owner to owner: a public schedule names the next one, and no owner has to be present.

The register after step t goes to the owner of step t + 1, who writes it down, acknowledges, speaks through its ledger,
settles and hands on. An owner that has been silent for `patience.wait` is passed over. Where the register itself is
lost to view, somebody opens a new epoch: with the promises of a majority it goes on from the best register among
theirs. Epochs that owner i opens are ≡ i modulo the number of owners, so each has one opener.

Why no step is applied twice. A register carries its step and epoch, and a step is applied only to the register right
before it, which raises the step: along the history of any register each step occurs at most once, with the one
message that its owner's ledger holds for it. A message that was computed from another register (of a history that was
left) is never settled: it stays charged and unused. Within an epoch the history is one: an epoch is opened once,
by one owner, at one register; the right to go on from a register is given away, in writing, before it is sent, and
to one owner. So all who hold step t of an epoch hold the same bytes.

Why two sides cannot both go on. Opening an epoch takes promises of a majority, written down before they are given; two
majorities share an owner, and who promised a later epoch refuses the frames of earlier ones. A holder on the other
side speaks only while a majority has lately told it that they promised nothing later, so it pauses after at most
`patience.wait`. The last register counts as final (`done`) once a majority holds it: by the usual argument (Lamport
1998) every later epoch then starts from it, and owners come to no two results.

What this cannot do. An owner that lies about the register it holds or computed is believed, for nobody else can repeat
its step: it can spoil the model, or end the walk early, as it could by its messages. It cannot make another owner
release more than its ledger allows, nor stop the others for long. After a power cut a journal may have forgotten its
last promise: the history may then fork until the next epoch; charges do not, for ledgers forget nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from coterie._types import PyTree
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RegisterSide, VisitSide
from coterie.federation.shapes.election import Election, Proposal, promise_of
from coterie.federation.shapes.held import Held, Role, Shelf
from coterie.federation.shapes.peers import Peers, claim_of
from coterie.federation.shapes.visit import OwnVisits, Speaker
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Out, Patience, Status
from coterie.federation.transport.wire import Kind, Message, Refused

_BEATS = 6  # announcements in one `wait`: an owner counts as absent once all of them are missing


class Walker:
    """One owner of a walk."""

    def __init__(
        self,
        side: VisitSide,
        register: RegisterSide,
        outlet: Outlet,
        names: tuple[str, ...],
        owner: int,
        patience: Patience,
    ) -> None:
        self._register, self._names, self._me, self._patience = register, names, owner, patience
        self._indices = {name: index for index, name in enumerate(names) if index != owner}
        self._schedule, self._last = register.schedule, len(register.schedule)
        self._visits = OwnVisits(Speaker(side, outlet), register, owner)
        first = Role.MINE if self._schedule[0] == owner else Role.COPY
        self._shelf = Shelf(outlet.journal, Held(0, 0, 0, first, wire.pack(register.open())))
        self._top = self._shelf.held.step  # the latest known step of the promised epoch
        self._election = Election(len(names), owner, patience)
        self._peers = Peers(len(names), owner, self._schedule, patience, 0.0)
        self._clock = self._moved = 0.0
        self._asking = self._acked = False
        self._due: dict[Any, float] = {}  # message -> when it may be repeated
        self._paused = ""
        self._handlers: dict[Kind, Callable[[int, Message, float], list[Out]]] = {
            Kind.ANNOUNCE: self._on_announce,
            Kind.HANDOVER: self._on_handover,
            Kind.ACK: self._on_ack,
            Kind.PREPARE: self._on_prepare,
            Kind.PROMISE: self._on_promise,
            Kind.REFUSAL: self._on_refusal,
            Kind.WANT: self._on_want,
        }

    def start(self, now: float) -> list[Out]:
        """Begin, or resume, and ask the others where they are."""
        self._peers = Peers(len(self._names), self._me, self._schedule, self._patience, now)
        self._clock = self._moved = now
        self._asking = True  # asks all for an answer
        return self._beat(now) + self._advance(now)

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        self._wake(now)
        peer, handler = self._indices.get(sender), self._handlers.get(message.kind)
        if peer is None or handler is None:
            raise Refused("not an owner" if peer is None else f"{message.kind.name}: no part of a walk")
        self._peers.heard(peer, now)
        if message.step > self._last:
            raise Refused(f"step {message.step}: {self._last} are agreed on")
        out = handler(peer, message, now)
        self._follow(now)
        return out + self._finish() + self._advance(now)

    def tick(self, now: float) -> list[Out]:
        """Repeat unanswered messages, pass over silent owners, open an epoch where nothing moves."""
        self._wake(now)
        out = self._beat(now) + self._fetch(now) + self._advance(now)
        return out + (self._propose(now) if self._election.proposal is None else self._press(now))

    @property
    def done(self) -> bool:
        """Whether a majority, this owner included, holds the last register."""
        return self.held.role == Role.FINAL

    @property
    def status(self) -> Status:
        """Where the walk stands, as far as this owner knows."""
        step, waiting = self.held.step, ()
        if step < self._last and self.held.role != Role.MINE:
            waiting = (self._names[self._schedule[max(step, self._top) % self._last]],)
        note = "" if self.done else self._paused
        return Status(step, self._last, waiting, note or self._visits.spent)

    @property
    def held(self) -> Held:
        """The register that this owner holds, with its step and epoch: public."""
        return self._shelf.held

    def model(self) -> PyTree:
        return self._register.model(wire.unpack(self.held.body, self._register.layout))

    def _advance(self, now: float) -> list[Out]:
        """Take the steps that this owner may decide; then announce the register, and hand it to the next owner."""
        before, out = self.held.step, []
        while self._may_act(now) and self._step(now):
            pass
        if self.held.step > before:
            self._move(self.held.step, now)
            out = self._announce() + self._finish()
        return out + self._hand_over(now)

    def _may_act(self, now: float) -> bool:
        held = self.held
        if held.role != Role.MINE or held.step == self._last:
            return False
        here = self._peers.following(held.promised, now)
        enough = here >= self._peers.majority
        self._paused = "" if enough else self._peers.too_few(here)
        self._asking = self._asking or not enough
        return enough

    def _step(self, now: float) -> bool:
        """Take one step: speak, pass over an absent owner, or give the register away. False: nothing to do now."""
        held, following = self.held, self._schedule[self.held.step]
        if following == self._me:
            role = self._role_at(held.step + 1, now)
            body = self._visits.after(held.body, self._shelf.digest, held.step + 1)
            return self._keep(step=held.step + 1, body=body, role=role)
        if self._peers.absent(following, now) or self._election.stuck(held.step):
            return self._keep(step=held.step + 1)
        return self._peers.fresh(following, now) and self._keep(role=Role.HANDED)

    def _role_at(self, step: int, now: float) -> Role:
        """The role after a step: HANDED at once if the next owner is present, which saves a write."""
        following = self._schedule[step] if step < self._last else self._me
        return Role.HANDED if following != self._me and self._peers.fresh(following, now) else Role.MINE

    def _hand_over(self, now: float) -> list[Out]:
        held = self.held
        if held.role != Role.HANDED or self._acked or not self._is_due("handover", self._patience.retry, now):
            return []
        following = self._names[self._schedule[held.step]]
        return [Out(following, Message(Kind.HANDOVER, held.step, held.epoch, held.body))]

    def _on_handover(self, peer: int, message: Message, now: float) -> list[Out]:
        held, rank, proposal = self.held, (message.sub, message.step), self._election.proposal
        if self.done:
            return [Out(self._names[peer], self._shelf.claim())]
        if proposal is not None and proposal.source == peer and rank == proposal.promises[peer]:
            wire.unpack(message.body, self._register.layout)
            return self._open(proposal, message.step, message.body, now)
        if rank == held.rank and message.body != held.body:
            raise Refused("another register of the same step and epoch")
        ack = [Out(self._names[peer], Message(Kind.ACK, message.step, message.sub))]
        if message.sub == held.epoch and message.step <= held.step:
            return ack
        self._acceptable(peer, message, now)
        wire.unpack(message.body, self._register.layout)
        role = Role.COPY if message.step == self._last else Role.MINE
        self._keep(step=message.step, epoch=message.sub, role=role, body=message.body)
        self._move(message.step, now)
        return ack + (self._announce() if role == Role.COPY else [])

    def _acceptable(self, peer: int, message: Message, now: float) -> None:
        """Refused unless the register is of the promised epoch, from an owner that can have it, and for this one."""
        held = self.held
        digest = sha256(message.body).digest()
        if message.step == self._last and self._peers.is_result(message.step, message.sub, digest):
            return
        if message.sub > held.promised:
            self._asking = True
            raise Refused("an epoch that no majority is known to have promised")
        if message.sub < held.promised:
            raise Refused("an earlier epoch")
        if message.step < self._last and self._schedule[message.step] != self._me:
            raise Refused("not my turn")
        if not self._plausible(peer, message.step, message.sub, now):
            raise Refused("not the holder's")

    def _on_ack(self, peer: int, message: Message, now: float) -> list[Out]:
        del now
        held = self.held
        if held.role == Role.HANDED and (message.sub, message.step) == held.rank:
            self._acked = self._acked or peer == self._schedule[held.step]
        return []

    # ---- knowing of each other

    def _beat(self, now: float) -> list[Out]:
        quick = self._patience.retry if self._asking else self._patience.wait / _BEATS
        if not self._is_due("beat", quick, now):
            return []
        asking, self._asking = self._asking, False
        return self._announce(asking)

    def _announce(self, asking: bool = False) -> list[Out]:
        return [Out(self._names[peer], self._shelf.claim(asking)) for peer in self._peers.others]

    def _on_announce(self, peer: int, message: Message, now: float) -> list[Out]:
        claim, held = claim_of(message.step, message.sub, message.body), self.held
        if (claim.epoch, claim.step) == held.rank and claim.digest != self._shelf.digest:
            raise Refused("another register of the same step and epoch")
        plausible = self._plausible(peer, claim.step, claim.epoch, now)
        self._peers.claimed(peer, claim, now)
        if claim.epoch == held.promised and claim.step > self._top and plausible:
            if self._top < 0:
                self._election.opened(claim.step)
            self._move(claim.step, now)
        self._acked = self._acked or (plausible and claim.epoch == held.epoch and claim.step > held.step)
        behind = claim.asking or claim.promised < held.promised or (self.done and not claim.done)
        if behind and self._is_due(("reply", peer), self._patience.retry / 2, now):
            return [Out(self._names[peer], self._shelf.claim())]
        return []

    def _plausible(self, peer: int, step: int, epoch: int, now: float) -> bool:
        held = self.held
        own = held.step if held.epoch == epoch else None
        if own is not None and own < step and held.role == Role.MINE:
            return False  # no other owner can have gone on from here
        return self._peers.plausible(peer, step, epoch, own, now)

    def _follow(self, now: float) -> None:
        """Promise the epoch of a majority; the own right to go on in an earlier epoch ends with that."""
        promised = self._peers.promised(self.held.promised)
        if promised > self.held.promised and not self.done:
            self._election.overtaken(promised)
            self._promise(promised, now)

    def _promise(self, epoch: int, now: float) -> None:
        self._keep(promised=epoch, role=Role.COPY)
        self._top, self._moved = -1, now

    def _fetch(self, now: float) -> list[Out]:
        """Ask an owner that has the last register for it."""
        if self.held.step == self._last and self.held.epoch == self.held.promised:
            return []
        holders = self._peers.holders(self._last)
        if self.done or not holders or not self._is_due("fetch", self._patience.retry, now):
            return []
        return [Out(self._names[peer], Message(Kind.WANT, self._last, epoch)) for peer, epoch in holders[:2]]

    def _finish(self) -> list[Out]:
        """Take the last register for the result once a majority holds it."""
        held = self.held
        if held.step < self._last or self.done:
            return []
        if 1 + self._peers.holding(held.step, held.epoch, self._shelf.digest) < self._peers.majority:
            return []
        self._election.proposal = None
        self._keep(role=Role.FINAL)
        return self._announce()

    def _on_want(self, peer: int, message: Message, now: float) -> list[Out]:
        """Send the last register to anyone; another one only to the opener of the promised epoch."""
        held, name = self.held, self._names[peer]
        opener = held.promised > held.epoch and held.promised % len(self._names) == peer
        if (message.sub, message.step) != held.rank or not (opener or held.step == self._last):
            reason = b"not a register to be had from me"
            return [Out(name, Message(Kind.REFUSAL, message.step, held.promised, reason))]
        if not self._is_due(("want", peer), self._patience.retry / 2, now):
            raise Refused("asked too often")
        return [Out(name, Message(Kind.HANDOVER, held.step, held.epoch, held.body))]

    # ---- opening an epoch

    def _propose(self, now: float) -> list[Out]:
        place = self._election.place(self._schedule[max(self._top, 0) + 1 :])
        idle = 1.25 * self._patience.wait + 2 * self._patience.retry * place
        if self.done or now - self._moved < idle:
            return []
        here = self._peers.reached(now)
        if here < self._peers.majority:
            self._paused = self._peers.too_few(here)
            return []
        return self._begin(now)

    def _begin(self, now: float) -> list[Out]:
        held, self._paused = self.held, ""
        proposal = self._election.propose(held.promised, held.rank, now)
        self._promise(proposal.epoch, now)
        return self._press(now)

    def _press(self, now: float) -> list[Out]:
        proposal = self._election.proposal
        if self._election.expired(now) or proposal is None:
            self._moved = now - self._patience.wait / 2
            return []
        here = {peer for peer in self._peers.others if self._peers.fresh(peer, now)}
        if self._election.decided(self._peers.majority, here, now):
            return self._resume(proposal, now)
        if not self._is_due(("prepare", proposal.epoch), self._patience.retry, now):
            return []
        ask = Message(Kind.PREPARE, self.held.step, proposal.epoch)
        return [Out(self._names[peer], ask) for peer in self._peers.others if peer not in proposal.promises]

    def _resume(self, proposal: Proposal, now: float) -> list[Out]:
        """Start from the best register: the own one, or that of `source`, which is asked for it."""
        if proposal.source == self._me:
            return self._open(proposal, self.held.step, self.held.body, now)
        if proposal.source is None or not self._is_due(("pull", proposal.epoch), self._patience.retry, now):
            return []
        epoch, step = proposal.promises[proposal.source]
        return [Out(self._names[proposal.source], Message(Kind.WANT, step, epoch))]

    def _open(self, proposal: Proposal, step: int, body: bytes, now: float) -> list[Out]:
        self._election.proposal = None
        self._election.opened(step)
        self._keep(step=step, epoch=proposal.epoch, role=Role.MINE, body=body)
        self._move(step, now)
        return self._announce()

    def _on_prepare(self, peer: int, message: Message, now: float) -> list[Out]:
        held, name = self.held, self._names[peer]
        if message.sub % len(self._names) != peer:
            raise Refused("an epoch that is another owner's to open")
        if self.done:
            return [Out(name, self._shelf.claim())]
        if message.sub < held.promised:
            return [Out(name, Message(Kind.REFUSAL, held.step, held.promised, b"a later epoch is promised"))]
        if message.sub > held.promised:
            self._election.grant(peer, message.sub, held.promised, now - self._moved, now)
            self._promise(message.sub, now)
        return [Out(name, promise_of(message.sub, held.rank))]

    def _on_promise(self, peer: int, message: Message, now: float) -> list[Out]:
        self._election.promise(peer, message)
        return self._press(now) if self._election.proposal is not None else []

    def _on_refusal(self, peer: int, message: Message, now: float) -> list[Out]:
        """Propose a later epoch at once, but not without end at others' request."""
        useless = self._election.hint(message.sub, self.held.promised)
        if not useless or not self._is_due(("hint", peer), self._patience.wait, now):
            return []
        self._election.proposal = None
        return self._begin(now)

    def _keep(self, **changes: Any) -> bool:
        """Write changes of the register down before acting on them."""
        self._shelf.keep(**changes)
        self._acked = False
        self._due.pop("handover", None)
        return True

    def _move(self, step: int, now: float) -> None:
        self._top, self._moved, self._paused = step, now, ""
        self._election.moved()

    def _wake(self, now: float) -> None:
        """If this process stood still for long, ignore the silence of others meanwhile."""
        if now - self._clock > self._patience.wait / 2:
            self._peers.awoke(now)
            self._moved, self._asking = now, True
        self._clock = now

    def _is_due(self, what: Any, every: float, now: float) -> bool:
        if now < self._due.get(what, now):
            return False
        self._due[what] = now + every
        return True
