"""A network's founding: the agreement, an authority, and a folder for each party with all that it needs.

    DIR/agreement.json        public; the same in every party's folder
    DIR/authority/            the key that signs certificates: stays with whoever founded the network
    DIR/parties/NAME/         what NAME gets, and nobody else: its private key is in it
    DIR/router/               what the router's keeper gets, if there is one: its private key and router.json

An agreement is never edited: adding or revoking an owner makes a new one, under which a new run begins. Ledgers
belong to owners and data, not to agreements: what was spent stays spent.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coterie.engines.federate import trust
from coterie.engines.federate.zenoh import ROUTER, router_config
from coterie.errors import InputError
from coterie.experiments.federation import agreement as agreements
from coterie.experiments.federation import party as parties
from coterie.experiments.federation.agreement import Agreement
from coterie.experiments.federation.collaboration import Collaboration, collaboration
from coterie.experiments.federation.node import longest
from coterie.experiments.federation.party import Party

PORT = 17471  # of the first party that has no address; the next ones follow
LOCAL = "127.0.0.1"


def found(
    folder: Path, agreement: Agreement, addresses: Mapping[str, str], router: str | None
) -> Collaboration:
    """Write a new network into an empty or new folder. `addresses`: host:port, for parties that have one."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"folder={str(folder)!r}: is not empty. Name a new one.")
    planned = settled(agreement)
    check_addresses(addresses, planned.parties)
    if router is not None:
        check_addresses({ROUTER: router}, (ROUTER,))
        if ROUTER in planned.parties:
            raise InputError(f"owners: {ROUTER!r} is the router's name. Give the owner another one.")
    trust.create_authority(folder / "authority")
    where = with_ports(addresses, planned.parties)
    for name in planned.parties:
        trust.issue(folder / "authority", name, [host_of(where[name])], folder / "parties" / name)
    if router is not None:
        trust.issue(folder / "authority", ROUTER, [host_of(router)], folder / "router")
    write(folder, planned, where, router)
    return planned


def settled(agreement: Agreement) -> Collaboration:
    """The collaboration, with everything that was left open written into its agreement."""
    planned = collaboration(agreement)
    experiment = replace(agreement.experiment, gossip_steps=planned.gossip_steps)
    budgets = dict(zip(agreement.owners, planned.task.epsilon))
    return collaboration(replace(agreement, experiment=replace(experiment, epsilon=budgets)))


def write(folder: Path, planned: Collaboration, where: Mapping[str, str], router: str | None) -> None:
    """The agreement, for all, and each party's own file."""
    agreement = planned.agreement
    (folder / "agreement.json").write_text(agreement.text(), encoding="utf-8")
    for name in planned.parties:
        place = folder / "parties" / name
        (place / "agreement.json").write_text(agreement.text(), encoding="utf-8")
        own = Party(
            name=name, folder=place, listen=where[name], peers=dialled(planned, name, where), router=router
        )
        kept = place / parties.NAME
        if kept.exists():  # what the owner may have set itself
            old = parties.read(kept)
            own = replace(
                own,
                generator=old.generator,
                epsilon=old.epsilon,
                delta=old.delta,
                ledger_file=old.ledger_file,
                trusts_aggregator=old.trusts_aggregator,
            )
        kept.write_text(own.to_toml(), encoding="utf-8")
    if router is not None:
        (folder / "router" / "router.json").write_text(_router(planned, router), encoding="utf-8")


def _router(planned: Collaboration, router: str) -> str:
    """What `zenohd` is started with, in the router's own folder: it listens at the port that all dial."""
    own = trust.Identity(ROUTER, Path(trust.AUTHORITY), Path(trust.CERTIFICATE), Path(trust.PRIVATE_KEY))
    listen = f"0.0.0.0:{router.rpartition(':')[2]}"
    return router_config(own, listen, planned.parties, planned.agreement.run, longest(planned))


def dialled(planned: Collaboration, name: str, where: Mapping[str, str]) -> dict[str, str]:
    """Of two peers, the one that stands later dials; owners dial the hub, so that they need not be reachable."""
    order = {one: at for at, one in enumerate(planned.parties)}
    hub = planned.hub
    return {
        peer: where[peer]
        for peer in planned.peers(name)
        if peer == hub or (name != hub and order[peer] < order[name])
    }


def add(folder: Path, owner: str, size: int, epsilon: float, address: str | None) -> Collaboration:
    """One more owner, under a new agreement."""
    old, where, router = opened(folder)
    if owner in old.owners:
        raise InputError(f"owner={owner!r}: takes part already. Take another name.")
    budgets = {**_budgets(old), trust.checked_name(owner): epsilon}
    agreement = replace(
        old,
        sizes={**old.sizes, owner: size},
        experiment=replace(old.experiment, epsilon=budgets, gossip_steps=None),
    )
    planned = settled(agreement)
    where = with_ports({**where, **({owner: address} if address else {})}, planned.parties)
    trust.issue(folder / "authority", owner, [host_of(where[owner])], folder / "parties" / owner)
    write(folder, planned, where, router)
    return planned


def revoke(folder: Path, owner: str) -> Collaboration:
    """One owner less, under a new agreement; its certificate opens nothing under that one."""
    old, where, router = opened(folder)
    if owner not in old.owners:
        raise InputError(f"owner={owner!r}: does not take part. Owners: {', '.join(old.owners)}.")
    budgets = {name: epsilon for name, epsilon in _budgets(old).items() if name != owner}
    agreement = replace(
        old,
        sizes={name: size for name, size in old.sizes.items() if name != owner},
        experiment=replace(old.experiment, epsilon=budgets, gossip_steps=None),
    )
    planned = settled(agreement)
    trust.revoke(folder / "authority", owner)
    gone = folder / "revoked" / owner
    gone.parent.mkdir(exist_ok=True)
    shutil.move(folder / "parties" / owner, gone)  # its ledger, if this was a trial, must not be lost
    write(folder, planned, where, router)
    return planned


def opened(folder: Path) -> tuple[Agreement, dict[str, str], str | None]:
    """The agreement of a network's folder, where its parties listen, and its router."""
    agreement = agreements.read(folder / "agreement.json")
    found = [parties.read(path) for path in sorted((folder / "parties").glob(f"*/{parties.NAME}"))]
    routers = {one.router for one in found}
    return (
        agreement,
        {one.name: one.listen for one in found if one.listen},
        routers.pop() if routers else None,
    )


def with_ports(addresses: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """An address for every party: as given, or a free port of this machine's own loop for a trial."""
    taken, chosen, port = set(addresses.values()), dict(addresses), PORT
    for name in names:
        while name not in chosen:
            candidate, port = f"{LOCAL}:{port}", port + 1
            if candidate not in taken:
                chosen[name] = candidate
    return chosen


def check_addresses(addresses: Mapping[str, str], names: Sequence[str]) -> None:
    """InputError unless every address is host:port of a party."""
    for name, address in addresses.items():
        if name not in names:
            raise InputError(f"address of {name!r}: no such party. Parties: {', '.join(names)}.")
        host, colon, port = address.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise InputError(f"address={address!r}: must be host:port, such as ml.example.org:{PORT}.")


def host_of(address: str) -> str:
    """The host of host:port."""
    return address.rpartition(":")[0].strip("[]")


def _budgets(agreement: Agreement) -> dict[str, float]:
    epsilon = agreement.experiment.epsilon
    assert isinstance(epsilon, dict)  # `settled` names every owner
    return epsilon
