"""A dry run: is everything in order, who can be reached, and what would the run cost? Nothing is released.

Guarantee: nothing made of records leaves. The only frames are greetings (`transport.greeting`), the same whatever the
records are; ledger and journal are read or left alone, never written; no peer sees the party come or go.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coterie._rounding import left, upper
from coterie.accounting.ledger import forecast, terms_for, terms_of
from coterie.accounting.plans import pair_told, person_told
from coterie.errors import BudgetError, CoterieError, InputError
from coterie.federation import agreement as agreements
from coterie.federation import connections, consent, forgetting, node, records, troubles
from coterie.federation.collaboration import Collaboration, collaboration
from coterie.federation.honest import allowed, charged_plan, has_keys, own_masks, unaffordable
from coterie.federation.party import Party
from coterie.federation.transport import greeting, trust, wire
from coterie.federation.transport.lines import Log, private
from coterie.federation.transport.probe import Unreached, probe
from coterie.federation.transport.zenoh import ROUTER, ZenohTransport
from coterie.reports.amounts import many
from coterie.units import counted, told_owners

PATIENCE = 15.0  # seconds that peers have to answer: they may be starting their own check
_AGAIN = 0.25  # seconds between two greetings
_ROW = 1_024  # bytes of the ledger beside each message
_BESIDE = 16 << 20  # bytes for journal, status, results and trails


@dataclass
class PeerFound:
    """What is known of one peer."""

    name: str
    address: str | None  # None: it dials this party
    answered: bool = False  # with any greeting at all
    reached: bool = False  # answered, and follows the same agreement
    says: str = ""
    ahead: float | None = None  # seconds by which its clock is ahead of this one
    ends: dt.datetime | None = None  # its certificate
    other_version: str | None = None  # in words, where it is not this one


@dataclass
class Check:
    """One party's dry run, step by step: `local`, `listen`, `dial`, `greet`, `close`; `troubles` has the errors."""

    party: Party
    data: Path | None
    log: Log
    with_file: bool = True  # False: an owner's file may be missing, and is then not looked at
    planned: Collaboration | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # of file and budget
    peers: dict[str, PeerFound] = field(default_factory=dict)
    troubles: list[CoterieError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _own: trust.Identity | None = None
    _signed: bool = False  # by all who have to: peers are spoken to with the keys that they signed with
    _line: ZenohTransport | None = None

    def local(self, known: dict[bytes, Collaboration]) -> None:
        """All that needs no network. `known` are collaborations that were built before, by their agreement's hash."""
        with self._noting():
            agreement = agreements.read(self.party.agreement)
            if agreement.digest not in known:
                known[agreement.digest] = collaboration(agreement)
            planned = forgetting.without(self.party, known[agreement.digest])
            node.takes_part(self.party, planned)
            has_keys(planned)
            self.planned = planned
        with self._noting():
            self._own = trust.identity(self.party.folder, self.party.name)
        if self.planned is None:
            return
        with self._noting():
            consent.given(self.party.folder, self.party.name, self.planned.agreement)
            self._signed = True
        wanted = (*self.planned.peers(self.party.name), *((ROUTER,) if self.party.router else ()))
        with self._noting():
            ends = troubles.known(self.party, wanted)
            self.warnings += troubles.ending(ends, dt.datetime.now(dt.UTC))
        with self._noting():
            if self.planned.program.plan.masked is not None and self.party.name != self.planned.hub:
                own_masks(self.party, self.planned)
        with self._noting():
            _writable(self.party)
            _roomy(self.party, self.planned)
        with self._noting():
            if self.with_file:
                node.has_records(self.party, self.planned, self.data)
            if self.party.name != self.planned.hub:
                self._budget(self.planned, self._read(self.planned, self.data))
        where = connections.dialled(self.party, self.planned)
        for name in self.planned.peers(self.party.name):
            self.peers[name] = PeerFound(name, self.party.router or where.get(name))

    def listen(self) -> None:
        """Listen, for others who check at the same time and for peers that dial this party."""
        if self.planned is None or self._own is None or not self._signed:
            return
        if self.party.router is not None and not self._dial(ROUTER, self.party.router):
            return
        line = connections.transport(self.party, self.planned, self._own, announced=False)
        try:
            line.open(self._heard)
        except InputError as error:
            if self.party.router is not None:
                return self.troubles.append(error)
            self.warnings.append(f"{error} Perhaps this party's own node runs: then all is well")
            line = connections.transport(
                replace(self.party, listen=None), self.planned, self._own, announced=False
            )
            line.open(self._heard)
        self._line = line

    def dial(self) -> None:
        """Try every peer that this party dials."""
        for peer in self.peers.values():
            if peer.address is not None and self._own is not None and self.party.router is None:
                self._dial(peer.name, peer.address)

    def greet(self) -> bool:
        """Greet peers that have not answered yet; return whether all have."""
        silent = [peer for peer in self.peers.values() if not peer.answered]
        for peer in silent:
            if self._line is not None and self.planned is not None:
                self._say(peer.name, answer=False)
        return self._line is None or not silent

    def close(self) -> None:
        """Disconnect, and note in words which peers were not reached."""
        if self._line is not None:
            self._line.close()
        self.warnings += [peer.other_version for peer in self.peers.values() if peer.other_version]
        for peer in self.peers.values():
            if not peer.reached:
                peer.says = peer.says or self._silence(peer)
                self.troubles.append(
                    InputError(f"{peer.name} ({peer.address or 'dials here'}): {peer.says}.")
                )
            elif peer.ahead is not None and abs(peer.ahead) >= greeting.APART:
                self.warnings.append(greeting.apart(peer.name, peer.ahead))

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note an error of the user's in place of raising it."""
        try:
            yield
        except CoterieError as error:
            self.troubles.append(error)

    def _read(self, planned: Collaboration, data: Path | None) -> str:
        """The hash by which the ledger knows the records; without a file, the hash that the ledger has."""
        if data is None:
            return terms_of(self.party.ledger).data_hash if self.party.ledger.exists() else "0" * 64
        rows, hashes = records.read(self.party, planned, data)
        for line in filter(None, (rows.read_as, *rows.findings)):
            self.log(private(f"your file, for your eyes: {line}"))
        self.facts["units"] = records.number_of(rows, planned.agreement.unit)
        return records.known_to(self.party, hashes.content, data, self.log)

    def _budget(self, planned: Collaboration, content: str) -> None:
        at = planned.agreement.owners.index(self.party.name)
        plan = charged_plan(self.party, planned)
        allowance = allowed(self.party, planned, at, plan)
        wanted = terms_for(content, allowance.epsilon, allowance.delta, plan.relation)
        outlook = forecast(self.party.ledger, planned.agreement.run, plan.event(at), wanted)
        after = outlook.after.epsilon
        releases = planned.messages(at) + len(planned.table_steps)
        self.facts |= {"cost": allowance.cost, "releases": releases, "charged": outlook.messages}
        self.facts |= {"budget": allowance.epsilon, "delta": allowance.delta, "source": allowance.source}
        self.facts |= {"view": allowance.view, "spent": outlook.spent, "after": after}
        self.facts |= {"left": max(0.0, allowance.epsilon - after)}
        several = planned.task.owners_per_person
        person, pair = (tell(plan, allowance.delta, several) for tell in (person_told, pair_told))
        self.facts |= {"owners_per_person": several, "person": person and person.epsilon}
        self.facts |= {"pair": pair and pair.epsilon}
        if not outlook.affordable and plan is not planned.program.plan:
            raise unaffordable(self.party, planned, allowance.epsilon)
        if not outlook.affordable:
            raise BudgetError(
                f"epsilon={allowance.epsilon:g}: ε = {upper(outlook.spent)} is spent on these records, and this run "
                f"would bring it to {upper(after)}. The owner would release what it can, then fall silent."
            )

    def _dial(self, name: str, address: str) -> bool:
        assert self._own is not None
        try:
            ends = probe(self._own, name, address, self.party.proxy)
        except Unreached as why:
            if name in self.peers:
                self.peers[name].says = str(why)  # it may still come, and answer
            else:
                self.troubles.append(InputError(f"{name} ({address}): {why}."))
            return False
        if name in self.peers:
            self.peers[name].ends = ends
        return True

    def _heard(self, sender: str, frame: bytes) -> None:
        """Take a frame, in one of Zenoh's threads. Everything but greetings is ignored: it is meant for a node."""
        planned, peer = self.planned, self.peers[sender]
        assert planned is not None
        try:
            message = wire.decode(frame, planned.digest, connections.longest(planned))
            if message.kind != wire.Kind.HELLO:
                return
            if message.body != planned.digest:
                raise wire.another(message.body, planned.digest)
        except wire.Refused as why:
            if not peer.answered:  # once, so that it can say the same about this party
                self._say(sender, answer=True)
            peer.answered, peer.says = True, str(why)
            return
        peer.answered = peer.reached = True
        peer.says, peer.ahead = "", greeting.ahead(message, time.time())
        peer.other_version = greeting.differs(sender, message) or peer.other_version
        if message.sub == 0:
            self._say(sender, answer=True)

    def _say(self, peer: str, *, answer: bool) -> None:
        line, planned = self._line, self.planned
        if line is not None and planned is not None:
            hello = greeting.hello(planned.digest, time.time(), answer=answer)
            line.send(peer, wire.encode(hello, planned.digest))

    def _silence(self, peer: PeerFound) -> str:
        if self._line is None:
            return "not tried, for what is said above"
        if self.party.router is not None:
            return "not there, or it cannot reach the router. Start its node, or its --check at the same time"
        if peer.address is None:
            return (
                f"has not come; it dials this party, at {self.party.listen}. Start its node, or its --check at the "
                "same time; if it says that it cannot reach this one, open the port here"
            )
        return (
            "its certificate is right, but it does not answer: it does not count this party among its peers, or "
            "another version of coterie runs there. Compare the agreements' hashes and the versions"
        )


def check(
    parties: Sequence[tuple[Party, Path | None]],
    log: Log,
    *,
    with_files: bool = True,
) -> list[Check]:
    """A dry run of one party, or of several at the same time on this machine."""
    known: dict[bytes, Collaboration] = {}
    dry_runs = [Check(party, data, log, with_files) for party, data in parties]
    for dry_run in dry_runs:
        dry_run.local(known)
    with ExitStack() as held:
        for dry_run in dry_runs:
            held.callback(dry_run.close)
            dry_run.listen()
        for dry_run in dry_runs:
            dry_run.dial()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answered = [dry_run.greet() for dry_run in dry_runs]
            if all(answered):
                break
            time.sleep(_AGAIN)
        time.sleep(_AGAIN)  # for answers to those who asked last
    return dry_runs


def refuse_troubles(dry_runs: Sequence[Check]) -> None:
    """Raise the gravest trouble, so that the exit status shows it."""
    noted = [(dry_run.party.name, error) for dry_run in dry_runs for error in dry_run.troubles]
    if noted:
        name, worst = max(noted, key=lambda pair: pair[1].exit_status)
        raise type(worst)(f"{name}: not ready: {worst}")


def summary(dry_run: Check, wording: Callable[[CoterieError], str] = str) -> dict[str, Any]:
    """As plain values; `wording` puts a trouble into words, for its owner's eyes or for others' (`logs.public`)."""
    agreement = dry_run.planned.agreement if dry_run.planned else None
    return {
        "name": dry_run.party.name,
        "ready": not dry_run.troubles,
        "agreement_sha256": agreement.digest.hex() if agreement else None,
        "unit": agreement.unit.words if agreement else None,
        "protects": agreement.protects if agreement else "",
        "forgotten": sorted(dry_run.planned.forgotten) if dry_run.planned else [],
        **dry_run.facts,
        "peers": [
            {
                "name": peer.name,
                "address": peer.address,
                "reached": peer.reached,
                "says": peer.says,
                "clock_ahead_seconds": None if peer.ahead is None else round(peer.ahead, 1) + 0.0,  # no -0
                "certificate_ends": peer.ends.isoformat() if peer.ends else None,
            }
            for peer in dry_run.peers.values()
        ],
        "warnings": dry_run.warnings,
        "troubles": [wording(error) for error in dry_run.troubles],
    }


def words(facts: dict[str, Any]) -> str:
    """A summary, to read."""
    lines = [
        f"{facts['name']}: {'ready' if facts['ready'] else 'not ready'}; nothing was released or charged."
    ]
    if facts["agreement_sha256"]:
        lines.append(f"agreement: {facts['agreement_sha256']}")
    if facts["forgotten"]:
        lines.append(
            f"without:   {', '.join(facts['forgotten'])}, as coterie network forget says here; who has not decided the "
            "same is refused, as with another agreement"
        )
    if facts["protects"]:
        lines.append(f"protects:  {facts['protects']}")
    if "units" in facts:
        lines.append(f"file:      {counted(facts['units'], facts['unit'])}, as the agreement says")
    if "cost" in facts:
        lines += [
            f"run:       costs ε = {upper(facts['cost'])} by itself, in {many(facts['releases'], 'release')} "
            f"(δ = {facts['delta']:g}, {facts['view']}); {facts['charged']:,} of them are charged already",
            f"budget:    ε = {facts['budget']:g}, as {facts['source']} says, for all runs on these records; "
            f"spent {upper(facts['spent'])}, after this run {upper(facts['after'])}, "
            f"then left {left(facts['budget'], facts['after'])}",
        ]
    if facts.get("person") is not None:
        owners = told_owners(facts["owners_per_person"])
        more = "" if facts.get("pair") is None else f"; at 2 owners, ε = {upper(facts['pair'])}"
        lines.append(f"person:    at {owners} owners, it costs ε = {upper(facts['person'])}{more}")
    for peer in facts["peers"]:
        lines.append(f"peer:      {peer['name']}: {_met(peer)}")
    lines += [f"warning:   {line}" for line in facts["warnings"]]
    lines += [f"trouble:   {line}" for line in facts["troubles"]]
    return "\n".join(lines)


def _met(peer: dict[str, Any]) -> str:
    if not peer["reached"]:
        return "not reached"
    ends = f", certificate until {peer['certificate_ends'][:10]}" if peer["certificate_ends"] else ""
    ahead = peer["clock_ahead_seconds"]
    return f"reached, same agreement{ends}" + ("" if ahead is None else f", clock {ahead:+.1f} s")


def _writable(party: Party) -> None:
    """Ledger and journal must be written before anything may leave."""
    for folder in {party.folder, party.ledger.parent}:
        if not os.access(folder, os.W_OK):
            raise InputError(f"folder={str(folder)!r}: cannot be written. Let this user write there.")


def _roomy(party: Party, planned: Collaboration) -> None:
    """The disk must have room for all that a run writes: an owner whose disk fills up has to stop."""
    owners = planned.agreement.owners
    sent = planned.messages(owners.index(party.name)) if party.name in owners else 0
    needs = {party.folder: _BESIDE}
    needs[party.ledger.parent] = needs.get(party.ledger.parent, 0) + sent * (
        connections.longest(planned) + _ROW
    )
    for folder, need in needs.items():
        left = shutil.disk_usage(folder).free
        if left < need:
            raise InputError(
                f"folder={str(folder)!r}: the disk has room for {left / 1e6:,.1f} MB, and this run may write "
                f"{need / 1e6:,.1f} MB there. Make room."
            )
