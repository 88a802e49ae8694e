"""`coterie network new | add | revoke | up | status`: found a network of real owners, and try it on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli._common import exits, print_json
from coterie.errors import InputError

if TYPE_CHECKING:
    from coterie.experiments.federation.collaboration import Collaboration

app = typer.Typer(help="Found a network of real owners, and try it on one machine.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="The network's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


@app.command()
def new(
    folder: Folder,
    owners: Annotated[str, typer.Option(help="Names, with commas: north,south,east")],
    sizes: Annotated[str, typer.Option(help="Records of each owner: 400,300,500 (public)")],
    columns: Annotated[Path, typer.Option(help="TOML file: target, classes or range, and columns.")],
    protocol: Annotated[str, typer.Option(help="Which protocol, such as dual_averaging.")] = "dual_averaging",
    topology: Annotated[str, typer.Option(help="ring, complete, one_peer_exponential, …")] = "ring",
    epsilon: Annotated[str, typer.Option(help="Budget of each owner: 1, or 0.5,1,2")] = "1",
    delta: Annotated[float, typer.Option(help="δ of every owner's budget.")] = 1e-5,
    features: Annotated[str | None, typer.Option(help="Cost-free feature maps, such as scale,ball.")] = None,
    loss: Annotated[str | None, typer.Option(help="logistic, softmax, squared, hinge, huber")] = None,
    model: Annotated[str, typer.Option(help="linear or two_layer")] = "linear",
    gossip_steps: Annotated[int | None, typer.Option(help="Mixing steps for each release.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A protocol setting, KEY=VALUE; repeat.")
    ] = None,
    address: Annotated[
        list[str] | None, typer.Option(help="NAME=HOST:PORT where a party listens; repeat. Else 127.0.0.1.")
    ] = None,
    router: Annotated[
        str | None, typer.Option(help="HOST:PORT of a Zenoh router, for wide-area links.")
    ] = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a neighbour, then go on without it.")
    ] = 10.0,
    clock: Annotated[float, typer.Option(help="Visits a second of each owner (learner protocols).")] = 1.0,
    seed: Annotated[int, typer.Option(help="Public: of the start, the topology and the schedule.")] = 0,
    name: Annotated[
        str | None, typer.Option(help="What the run is called; default: the folder's name.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the agreement, the certificates and a folder for each party; say what to send to whom."""
    with exits():
        from coterie.cli.run import parse_epsilon, parse_settings
        from coterie.engines.federate.machine import Patience
        from coterie.experiments.experiment import Experiment, override
        from coterie.experiments.federation import network
        from coterie.experiments.federation.agreement import Agreement
        from coterie.problems.datasets import schema

        names = _names(owners)
        given = {
            "protocol": protocol, "topology": topology, "delta": delta, "features": features, "loss": loss,
            "model": model, "gossip_steps": gossip_steps, "seed": seed, "epsilon": parse_epsilon(epsilon),
            "settings": parse_settings(set_ or []),
        }  # fmt: skip
        experiment = override(
            Experiment(), {key: value for key, value in given.items() if value is not None}, "command line"
        )
        agreement = Agreement(
            name=name or folder.resolve().name.lower(),
            experiment=experiment,
            schema=schema.read_toml(columns),
            sizes=_sizes(sizes, names),
            patience=Patience(wait=wait),
            clock=clock,
        )
        planned = network.found(folder, agreement, _addresses(address or []), router)
        _tell(folder, planned, as_json, "founded")


@app.command()
def add(
    folder: Folder,
    owner: Annotated[str, typer.Argument(help="The new owner's name.")],
    size: Annotated[int, typer.Option(help="Its number of records (public).")],
    epsilon: Annotated[float, typer.Option(help="Its budget.")] = 1.0,
    address: Annotated[str | None, typer.Option(help="HOST:PORT where it listens.")] = None,
    as_json: AsJson = False,
) -> None:
    """Admit one more owner, under a new agreement that every party needs."""
    with exits():
        from coterie.experiments.federation import network

        _tell(folder, network.add(folder, owner, size, epsilon, address), as_json, "changed")


@app.command()
def revoke(
    folder: Folder,
    owner: Annotated[str, typer.Argument(help="The owner that leaves.")],
    as_json: AsJson = False,
) -> None:
    """Exclude an owner, under a new agreement that every other party needs."""
    with exits():
        from coterie.experiments.federation import network

        _tell(folder, network.revoke(folder, owner), as_json, "changed")


@app.command()
def up(
    folder: Folder,
    data: Annotated[Path, typer.Option(help="Folder with NAME.csv of each owner.")],
    injected_seed: Annotated[int | None, typer.Option(hidden=True)] = None,
    as_json: AsJson = False,
) -> None:
    """Start every party on this machine, for a trial, with a live table; Ctrl-C stops all of them."""
    with exits():
        from coterie.cli._live import watch
        from coterie.experiments.federation import local

        with local.started(folder, data, injected_seed) as network:
            watch(network)
        outcome = network.outcome()
        if as_json:
            print_json(outcome)
        else:
            print(local.words(outcome))
        if not outcome["finished"]:
            raise InputError(f"{folder}: not every party finished. The last lines of each are above.")


@app.command()
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Where each party of a network on this machine stands."""
    with exits():
        from coterie.experiments.federation import local

        found = local.status(folder)
        if as_json:
            return print_json({"parties": found})
        from rich.console import Console

        from coterie.cli._live import table

        Console().print(table(found))


def _names(text: str) -> list[str]:
    names = [one.strip() for one in text.split(",") if one.strip()]
    if len(set(names)) < len(names):
        raise InputError(f"owners={text!r}: a name stands twice.")
    return names


def _sizes(text: str, names: list[str]) -> dict[str, int]:
    parts = [one.strip() for one in text.split(",")]
    if not all(part.isdigit() for part in parts) or len(parts) != len(names):
        raise InputError(
            f"sizes={text!r}: must be {len(names)} whole numbers with commas, one for each of the owners."
        )
    return dict(zip(names, map(int, parts)))


def _addresses(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, where = pair.partition("=")
        if not equals:
            raise InputError(f"address={pair!r}: must look like NAME=HOST:PORT.")
        found[name] = where
    return found


def _tell(folder: Path, planned: Collaboration, as_json: bool, what: str) -> None:
    agreement = planned.agreement
    summary: dict[str, Any] = {
        "folder": str(folder),
        "name": agreement.name,
        "run": agreement.run,
        "agreement_sha256": agreement.digest.hex(),
        "owners": list(agreement.owners),
        "hub": planned.hub,
        "parties": {name: str(folder / "parties" / name) for name in planned.parties},
        "router": str(folder / "router") if (folder / "router").exists() else None,
    }
    if as_json:
        return print_json(summary)
    lines = [
        f"Network {agreement.name!r} {what}: {agreement.experiment.protocol} among {len(agreement.owners)} owners.",
        f"Agreement (public; everybody should compare this hash by telephone): {agreement.digest.hex()}",
        "",
        "Send each of these folders to its party alone, over a channel you trust; a private key is in it:",
        *(f"  {name:<16} {place}" for name, place in summary["parties"].items()),
        f"Keep {folder / 'authority'} yourself: who has it can admit anybody.",
        "",
        "Each owner then runs:  coterie node FOLDER --data ITS-FILE.csv",
    ]
    if planned.hub:
        lines.append(f"The {planned.hub} runs:  coterie node FOLDER        (it has no records)")
    if summary["router"]:
        lines.append(
            f"The router's keeper gets {summary['router']}, and runs there:  zenohd --config router.json"
        )
    lines.append(f"To try all of it on this machine:  coterie network up {folder} --data FOLDER-OF-CSV-FILES")
    print("\n".join(lines))
