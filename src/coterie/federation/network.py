"""A network's founding: the agreement, an authority, and a folder for each party with all that it needs.

    DIR/agreement.json        public; the same in every party's folder
    DIR/authority/            the key that signs certificates: stays with whoever founded the network
    DIR/parties/NAME/         what NAME gets, and nobody else: its private key is in it
    DIR/router/               what the router's keeper gets, if there is one: its private key and router.json
    DIR/retired/              authorities whose certificates are no longer accepted
    DIR/authorities/          in place of authority/, where each party is its own: their certificates, public

A party that makes its key at home sends a signing request: then no secret of it is here, and it signs the agreement.
An agreement is never edited: adding or revoking an owner, or another key, makes a new one; under it a new run begins.
Ledgers belong to owners and data, not to agreements: what was spent stays spent.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from cryptography import x509

from coterie.errors import InputError
from coterie.evaluation.budget import TellsNothing
from coterie.federation import agreement as agreements
from coterie.federation import consent, troubles
from coterie.federation import party as parties
from coterie.federation.agreement import Agreement, Masking
from coterie.federation.collaboration import Collaboration, collaboration
from coterie.federation.connections import keys_of, longest
from coterie.federation.party import Party
from coterie.federation.transport import authorities, keeping, requests, trust
from coterie.federation.transport.address import checked, numeric6, parts
from coterie.federation.transport.zenoh import ROUTER, router_config

PORT = 17471  # of the first party that has no address; the next ones follow
LOCAL = "127.0.0.1"

_Rest = ParamSpec("_Rest")
_Found = TypeVar("_Found")


def _on_disk(
    change: Callable[Concatenate[Path, _Rest], _Found],
) -> Callable[Concatenate[Path, _Rest], _Found]:
    """A change of a network's folder; errors of the disk become one line of InputError."""

    @wraps(change)
    def changed(folder: Path, *rest: _Rest.args, **named: _Rest.kwargs) -> _Found:
        with keeping.writing(folder):
            return change(folder, *rest, **named)

    return changed


class Requested(NamedTuple):
    """What parties that made their keys at home sent: each its public key and, if it is its own authority, that."""

    keys: dict[str, Any]
    own: dict[str, x509.Certificate]

    @classmethod
    def of(cls, files: Mapping[str, Path]) -> Requested:
        """What is in these parties' signing requests."""
        keys = {name: requests.read(path, name) for name, path in files.items()}
        own = {name: authorities.of_request(path, name) for name, path in files.items()}
        return cls(keys, {name: authority for name, authority in own.items() if authority is not None})

    def entered(self, agreement: Agreement) -> dict[str, Any]:
        """The agreement's keys and authorities, with the fingerprints of these."""
        keys = {name: requests.fingerprint(public) for name, public in self.keys.items()}
        own = {name: trust.fingerprint(authority) for name, authority in self.own.items()}
        return {"keys": agreement.keys | keys, "authorities": agreement.authorities | own}

    def certify(self, folder: Path, where: Mapping[str, str]) -> None:
        """Certificates for new parties at these addresses; where they issue their own, copies of their authorities."""
        if self.own:
            return authorities.keep(folder, self.own)
        for name, address in where.items():
            place = folder / "parties" / name
            trust.issue(folder / "authority", name, [parts(address)[0]], place, self.keys.get(name))


@_on_disk
def found(
    folder: Path,
    agreement: Agreement,
    addresses: Mapping[str, str],
    router: str | None,
    optional: bool = False,
    asked: Mapping[str, Path] | None = None,
) -> Collaboration:
    """Write a new network into an empty or new folder. `addresses`: host:port, for parties that have one.

    `optional`: as for `settled`. `asked`: signing requests of the parties that made their keys at home.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"folder={str(folder)!r}: is not empty. Name a new one.")
    requested = Requested.of(asked or {})
    parties.refuse_settings(agreement.owners)
    planned = settled(replace(agreement, **requested.entered(agreement)), optional)
    authorities.refuse_mixed(planned.agreement.authorities, planned.parties, router)
    check_addresses(addresses, planned.parties)
    check_parties("request", requested.keys, planned.parties)
    if router is not None:
        check_addresses({ROUTER: router}, (ROUTER,))
    where = with_ports(addresses, planned.parties)
    if not requested.own:
        trust.create_authority(folder / "authority")
    requested.certify(folder, where)
    if router is not None:
        trust.issue(folder / "authority", ROUTER, [parts(router)[0]], folder / "router")
    write(folder, planned, where, router)
    return planned


def settled(agreement: Agreement, optional: bool = True) -> Collaboration:
    """The collaboration, with everything that was left open written into its agreement.

    `optional`: where the evaluation would tell nothing it is left out, rather than refused; the founder is told.
    """
    try:
        planned = collaboration(agreement)
    except TellsNothing:
        if not optional:
            raise
        agreement = replace(agreement, experiment=replace(agreement.experiment, evaluate=0.0))
        planned = collaboration(agreement)
    experiment = replace(agreement.experiment, gossip_steps=planned.gossip_steps)
    budgets = dict(zip(agreement.owners, planned.task.epsilon))
    return collaboration(replace(agreement, experiment=replace(experiment, epsilon=budgets)))


def _changed(old: Agreement, **changes: Any) -> Collaboration:
    """The collaboration under the next agreement, without mask keys: they serve one agreement only."""
    return settled(replace(old, masks=None, edition=old.edition + 1, **changes))


def write(folder: Path, planned: Collaboration, where: Mapping[str, str], router: str | None) -> None:
    """Write the agreement for all, and each party's own file. If it is interrupted, run it again."""
    agreement = planned.agreement
    ends = {}  # unknown where parties are their own authorities
    if not agreement.authorities:
        ends = {name: trust.end_of(folder / "parties" / name / trust.CERTIFICATE) for name in planned.parties}
    if router is not None:
        ends[ROUTER] = trust.end_of(folder / "router" / trust.CERTIFICATE)
    for name in planned.parties:
        place = folder / "parties" / name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if agreement.authorities:
            keeping.replace(place / trust.AUTHORITY, authorities.bundle(folder, planned.parties))
        consent.forget_others(place, agreement)
        keeping.put(place / "agreement.json", agreement.text())
        keeping.put(place / "certificates.json", troubles.written(ends))
        config = place / parties.NAME  # what the owner set in it itself stays
        own = parties.read(config) if config.exists() else Party(name=name, folder=place)
        peers = dialled(planned, name, where)
        own = replace(own, name=name, listen=where[name], peers=peers, router=router)
        keeping.put(config, own.to_toml())
    if router is not None:
        keeping.put(folder / "router" / "router.json", _router(folder, planned, router))
    keeping.put(folder / "agreement.json", agreement.text())  # last: until it is here, nothing was changed


def _router(folder: Path, planned: Collaboration, router: str) -> str:
    """Write the configuration of `zenohd` into the router's folder; the router listens at the port that all dial."""
    own = trust.files_of(ROUTER, Path())  # relative to where it runs
    listen = f"{'[::]' if numeric6(router) else '0.0.0.0'}:{parts(router)[1]}"
    return router_config(
        own, listen, planned.parties, keys_of(folder / "authority", planned.agreement), longest(planned)
    )


def dialled(planned: Collaboration, name: str, where: Mapping[str, str]) -> dict[str, str]:
    """Of two peers, the later one in the order dials; owners dial the hub, so that they need not be reachable."""
    order = {party: at for at, party in enumerate(planned.parties)}
    hub = planned.hub
    return {
        peer: where[peer]
        for peer in planned.peers(name)
        if peer == hub or (name != hub and order[peer] < order[name])
    }


@_on_disk
def add(
    folder: Path,
    owner: str,
    size: int,
    epsilon: float,
    address: str | None = None,
    asked: Path | None = None,
) -> Collaboration:
    """Add an owner, under a new agreement. `asked`: its signing request, if it made its key at home."""
    old, where, router = opened(folder)
    if owner in old.owners:
        raise InputError(f"owner={owner!r}: takes part already. Take another name.")
    parties.refuse_settings([owner])
    check_addresses({**where, **({owner: address} if address else {})}, (*where, owner))
    budgets = {**_budgets(old), trust.checked_name(owner): epsilon}
    requested = Requested.of({} if asked is None else {owner: asked})
    planned = _changed(
        old,
        **requested.entered(old),
        sizes={**old.sizes, owner: size},
        experiment=replace(old.experiment, epsilon=budgets, gossip_steps=None),
    )
    where = with_ports({**where, **({owner: address} if address else {})}, planned.parties)
    requested.certify(folder, {owner: where[owner]})
    write(folder, planned, where, router)
    return planned


@_on_disk
def rotate(folder: Path, name: str, asked: Path) -> Collaboration:
    """Replace a party's lost or stolen key: a new authority, new certificates and a new agreement.

    Guarantee: once a party has taken the new files, whoever has the old key can neither reach it nor speak to it. The
    run begins anew, for an owner's releases are sealed with its key (`marks.Hand`) and it could not know them again.
    """
    old, where, router = opened(folder)
    known = _places(folder, collaboration(old), router)
    check_parties("party", [name], tuple(known))
    requested = Requested.of({name: asked})
    if not old.authorities:
        requested = requested._replace(own={})
    elif name not in requested.own:
        raise InputError(
            f"request={str(asked)!r}: has no new authority, and the old one's certificates would go on opening doors. "
            f"{name} makes one: coterie network request FOLDER {name} --own-authority HOST"
        )
    planned = _changed(old, **({} if name == ROUTER else requested.entered(old)))
    if requested.own:
        authorities.keep(folder, requested.own)
    else:
        _replace_authority(folder, known, requested.keys)
    write(folder, planned, where, router)
    return planned


def _replace_authority(folder: Path, known: Mapping[str, Path], keys: Mapping[str, Any]) -> None:
    """Certificates of a new authority for all; `keys`: in place of those that these parties have."""
    trust.replace_authority(folder / "authority", folder / "retired")
    for party, place in known.items():
        trust.renew(folder / "authority", party, place, keys.get(party))
        keeping.replace(place / trust.AUTHORITY, (folder / "authority" / trust.AUTHORITY).read_bytes())
    for party in keys:  # the old one, where the founder had made it
        (known[party] / trust.PRIVATE_KEY).unlink(missing_ok=True)


@_on_disk
def revoke(folder: Path, owner: str) -> Collaboration:
    """Remove an owner: a new agreement, under which its certificate is not accepted."""
    old, where, router = opened(folder, leaving=owner)
    if owner not in old.owners:
        raise InputError(f"owner={owner!r}: does not take part. Owners: {', '.join(old.owners)}.")

    def without(all_: Mapping[str, Any]) -> dict[str, Any]:
        return {name: entry for name, entry in all_.items() if name != owner}

    planned = _changed(
        old,
        sizes=without(old.sizes),
        keys=without(old.keys),
        authorities=without(old.authorities),
        experiment=replace(old.experiment, epsilon=without(_budgets(old)), gossip_steps=None),
    )
    if not old.authorities:  # who is its own authority can be given no certificate, and is trusted no longer
        trust.revoke(folder / "authority", owner)
    write(folder, planned, where, router)
    place, gone = folder / "parties" / owner, folder / "revoked" / owner
    if place.exists():  # its ledger, if this was a trial, must not be lost
        gone.parent.mkdir(exist_ok=True)
        shutil.move(place, gone)
    return planned


@_on_disk
def enter_keys(folder: Path, keys: dict[str, str]) -> Collaboration:
    """The owners' public mask keys, under a new agreement."""
    old, where, router = opened(folder)
    planned = collaboration(replace(old, masks=Masking.new(keys)))
    if planned.program.plan.masked is None:
        raise InputError("keys: this agreement has no masked sums. Found the network with --set view=masked.")
    write(folder, planned, where, router)
    return planned


@_on_disk
def renew(folder: Path, name: str) -> Collaboration:
    """A new certificate for a party's present key; everybody's list of certificates' ends is written anew."""
    agreement, where, router = opened(folder)
    planned = collaboration(agreement)
    known = _places(folder, planned, router)
    check_parties("party", [name], tuple(known))
    if agreement.authorities:
        raise InputError(
            f"party={name!r}: is its own authority, and renews at home: coterie network renew ITS-FOLDER {name}"
        )
    trust.renew(folder / "authority", name, known[name])
    write(folder, planned, where, router)
    return planned


@_on_disk
def enter_consents(folder: Path, files: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Check the consents that parties sent and put them into every folder; return who has signed, and who has not."""
    agreement, _, _ = opened(folder)
    consents = [consent.read(path, agreement) for path in files]
    for party in sorted((folder / "parties").iterdir()):
        for signed in consents:
            consent.keep(party, signed)
    missing = consent.missing(next((folder / "parties").iterdir()), agreement)
    return [name for name in agreement.keys if name not in missing], missing


def _places(folder: Path, planned: Collaboration, router: str | None) -> dict[str, Path]:
    """The folder of every party, and of the router."""
    known = {name: folder / "parties" / name for name in planned.parties}
    return known if router is None else {**known, ROUTER: folder / "router"}


def opened(folder: Path, leaving: str | None = None) -> tuple[Agreement, dict[str, str], str | None]:
    """The agreement of a network's folder, where its parties listen, and its router.

    InputError where a party's own file is gone, as its address would be made up; not for the party that is `leaving`.
    """
    agreement = agreements.read(folder / "agreement.json")
    for name in agreement.owners:
        if name != leaving and not (folder / "parties" / name / parties.NAME).exists():
            raise InputError(
                f"folder={str(folder)!r}: has no parties/{name}/{parties.NAME}, which says where {name} listens. Put "
                f"{name}'s folder back, without its private.key if you do not have that."
            )
    members = [parties.read(path) for path in sorted((folder / "parties").glob(f"*/{parties.NAME}"))]
    routers = {member.router for member in members}
    return (
        agreement,
        {member.name: member.listen for member in members if member.listen},
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


def check_parties(what: str, names: Iterable[str], parties: Sequence[str]) -> None:
    """InputError unless all of `names` are parties."""
    for name in names:
        if name not in parties:
            raise InputError(f"{what}={name!r}: takes no part. Parties: {', '.join(parties)}.")


def check_addresses(addresses: Mapping[str, str], names: Sequence[str]) -> None:
    """InputError unless every address is host:port and belongs to one party alone."""
    whose: dict[str, str] = {}
    for name, address in addresses.items():
        if name not in names:
            raise InputError(f"address of {name!r}: no such party. Parties: {', '.join(names)}.")
        holder = whose.setdefault(checked(f"address of {name!r}", address), name)
        if holder != name:
            raise InputError(f"address of {name!r}: {address} is {holder!r}'s, too. Give each its own.")


def _budgets(agreement: Agreement) -> dict[str, float]:
    epsilon = agreement.experiment.epsilon
    assert isinstance(epsilon, dict)  # `settled` names every owner
    return epsilon
