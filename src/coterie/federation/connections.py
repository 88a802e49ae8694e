"""A party's connections: whom it dials, under which keys, and how long a frame of its run may be."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from coterie.federation import consent
from coterie.federation.agreement import Agreement
from coterie.federation.collaboration import Collaboration
from coterie.federation.party import Party
from coterie.federation.releases.side import RegisterSide, table_layout
from coterie.federation.shapes.masked_tree import longest as longest_in_trees
from coterie.federation.transport import authorities, trust
from coterie.federation.transport.sealing import Seal, private_key
from coterie.federation.transport.wire import OVERHEAD
from coterie.federation.transport.zenoh import ROUTER, ZenohTransport
from coterie.program import Rounds


def transport(
    party: Party, planned: Collaboration, identity: trust.Identity, *, announced: bool = True
) -> ZenohTransport:
    """The party's connections; unannounced, it can ask and answer without anybody seeing it come or go."""
    return ZenohTransport(
        identity,
        run=keys_of(party.folder, planned.agreement),
        admitted=planned.peers(party.name),
        listen=None if party.router else party.listen,
        peers={} if party.router else dialled(party, planned),
        router=party.router,
        proxy=party.proxy,
        longest=longest(planned),
        announced=announced,
        seals=seals(party, planned, identity),
    )


def seals(party: Party, planned: Collaboration, identity: trust.Identity) -> dict[str, Seal]:
    """For peers whose keys the agreement has, if it has this party's too; all of them have signed (`consent.given`)."""
    agreement = planned.agreement
    if agreement.authorities:
        authorities.refuse_mixed(agreement.authorities, planned.parties, party.router)
        authorities.refuse_others(identity, agreement.authorities)
    if party.name not in agreement.keys:
        return {}
    own, peers = private_key(identity.key), planned.peers(party.name)
    return {
        peer: Seal(own, consent.public_key(party.folder, peer, agreement), party.name, peer)
        for peer in peers
        if peer in agreement.keys
    }


def dialled(party: Party, planned: Collaboration) -> dict[str, str]:
    """The address of every peer that the party dials."""
    if party.router is not None:
        return {ROUTER: party.router}
    peers = planned.peers(party.name)
    return {name: where for name, where in party.peers.items() if name in peers}


def resolved(party: Party, planned: Collaboration) -> dict[str, str]:
    """The addresses that this machine resolves: of the peers it dials or, with a proxy, of the proxy alone."""
    return dialled(party, planned) if party.proxy is None else {"the proxy": party.proxy}


def keys_of(folder: Path, agreement: Agreement) -> str:
    """The prefix of the network's keys, the same under every agreement, so that parties notice when theirs differ."""
    if agreement.authorities:  # these change over time
        return sha256(f"coterie network {agreement.name}".encode()).hexdigest()[:32]
    return trust.fingerprint(trust.certificate_in(folder / trust.AUTHORITY))[:32]


def longest(planned: Collaboration) -> int:
    """The most bytes of a frame of this run: a message or a register, and a little beside it."""
    program, widest = planned.program, planned.layout.size
    if program.plan.masked is not None:
        widest = planned.sums.longest if planned.hub else longest_in_trees(planned.sums)
    if not isinstance(program.functions, Rounds):
        register = RegisterSide(program)
        widest = max(widest, register.layout.size, register.model_layout.size)
    for table in program.plan.tables.values():
        widest = max(widest, table_layout(table).size, len(planned.agreement.owners) // 8 + 1)
    return widest + 4 * OVERHEAD
