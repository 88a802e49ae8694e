"""`coterie network request | rotate | consent | keys | renew`: the parties' keys, signatures and certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import _shared as options
from coterie.cli._common import answer, print_json
from coterie.cli._network_words import noted, tell
from coterie.errors import InputError

Folder = Annotated[Path, typer.Argument(help="The network's folder.")]


def keys(
    folder: Folder,
    pairs: Annotated[
        list[str], typer.Argument(help="NAME=KEY of every owner, as coterie node --mask-key told it.")
    ],
    as_json: options.AsJson = False,
) -> None:
    """Enter the owners' mask keys, under a new agreement that every party needs (masked sums)."""
    from coterie.federation import network
    from coterie.mechanisms.masks import fingerprint

    given = {name: key for name, _, key in (pair.partition("=") for pair in pairs)}
    if len(given) < len(pairs) or not all(given.values()):
        raise InputError(f"keys={' '.join(pairs)[:60]!r}: must look like NAME=KEY, one for each owner.")
    planned = network.enter_keys(folder, given)
    tell(folder, "keys", planned, as_json)
    if not as_json and planned.agreement.masks is not None:
        print(
            "\nFingerprints, which owners compare with each other and write under honest in their node.toml:"
        )
        for name, public in planned.agreement.masks.publics().items():
            print(f"  {name:<16} {fingerprint(public)}")


def request(
    folder: Annotated[Path, typer.Argument(help="Your party's folder, on your own machine.")],
    name: Annotated[str, typer.Argument(help="Your party's name: a-z, 0-9 and -.")],
    own_authority: Annotated[
        str | None,
        typer.Option(help="Be your own authority: the host name or address at which others dial you."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make your party's key at home, and the request that the founder needs; the key itself never travels."""
    from coterie.federation import actions
    from coterie.federation.transport import requests

    path = requests.make(folder, name, own_authority)
    fingerprint = requests.fingerprint(requests.read(path, name))
    actions.record(folder, "request", party=name, fingerprint=fingerprint)
    answer(
        {"name": name, "request": str(path), "fingerprint": fingerprint},
        f"Send {path}, as {name}.pem, to whoever founds the network; nothing in it is secret.\n"
        f"Read to the other parties, by telephone:  {fingerprint}\n"
        f"The key is in {folder / 'private.key'} and stays there: put what the founder sends you beside it.",
        as_json,
    )


def rotate(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Who lost its key: an owner, learner, aggregator or router.")],
    request: Annotated[Path, typer.Option(help="Its new request (coterie network request).")],
    as_json: options.AsJson = False,
) -> None:
    """Give a party that lost its key a certificate for another one; the old key opens nothing any more."""
    from coterie.federation import network

    planned = network.rotate(folder, name, request)
    tell(folder, "rotate", planned, as_json, name)
    if not as_json:
        print(
            "\nThe network has a new authority: everybody needs authority.pem and certificate.pem, too. Until a "
            f"party has taken them, it still listens to whoever has {name}'s old key."
        )


def consent(
    folder: Folder,
    files: Annotated[list[Path], typer.Argument(help="Files that coterie node FOLDER --sign wrote.")],
    as_json: options.AsJson = False,
) -> None:
    """Check the parties' signatures under the agreement, and put them into everybody's folder."""
    from coterie.federation import actions, network

    signed, missing = network.enter_consents(folder, files)
    actions.record(folder, "consent", signed=signed, missing=missing)
    if as_json:
        return print_json({"signed": signed, "missing": missing})
    print(f"Signed: {', '.join(signed) or 'nobody'}. Missing: {', '.join(missing) or 'nobody'}.")
    if not missing:
        print("Send everybody its folder's consents: without them, no node starts.")


def renew(
    folder: Annotated[
        Path, typer.Argument(help="The network's folder; your party's own, if it is its own authority.")
    ],
    name: Annotated[str, typer.Argument(help="Whose certificate: an owner, learner, aggregator or router.")],
    as_json: options.AsJson = False,
) -> None:
    """Give a party a new certificate for the key that it has; nothing secret has to be sent."""
    from coterie.federation import actions, network, party
    from coterie.federation.transport import authorities
    from coterie.federation.transport.trust import end_of

    if (folder / party.NAME).exists():
        end = authorities.renew(folder, name)
        actions.record(folder, "renew", party=name)
        then = "Start its node again; nobody else needs it."
    else:
        planned = network.renew(folder, name)
        noted(folder, "renew", planned, party=name)
        certificate = (folder if name == "router" else folder / "parties") / name / "certificate.pem"
        end = end_of(certificate)
        then = (
            f"Send it {certificate}, and every party its certificates.json ({', '.join(planned.parties)}); "
            "neither is secret. Then it starts its node again."
        )
    facts = {"folder": str(folder), "name": name, "ends": end.isoformat()}
    answer(facts, f"Certificate of {name} until {end:%Y-%m-%d}. {then}", as_json)


COMMANDS = (request, rotate, consent, keys, renew)
