"""`coterie network new | add | revoke | forget | check | up | status | watch | stop`: real owners; a trial of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import _shared as options
from coterie.cli._common import App, answer, print_json
from coterie.cli._network_keys import COMMANDS, Folder
from coterie.cli._network_words import tell
from coterie.errors import InputError
from coterie.units import Unit, several

app = App(help="Found a network of real owners, and try it on one machine.", no_args_is_help=True)

OwnFolder = Annotated[Path, typer.Argument(help="Your party's folder, or its node.toml.")]


@app.command()
def new(
    context: typer.Context,
    folder: Folder,
    owners: Annotated[str, typer.Option(help="Names, with commas: north,south,east")],
    columns: Annotated[Path, typer.Option(help="TOML file: target, classes or range, and columns.")],
    sizes: Annotated[
        str | None, typer.Option(help="Records, or units, of each owner: 400,300,500 (public)")
    ] = None,
    protocol: Annotated[str, typer.Option(help="Which protocol, such as dual_averaging.")] = "dual_averaging",
    topology: Annotated[str, typer.Option(help="ring, complete, one_peer_exponential, …")] = "ring",
    epsilon: Annotated[str, typer.Option(help="Budget of each owner: 1, or 0.5,1,2")] = "1",
    delta: Annotated[float, typer.Option(help="δ of every owner's budget.")] = 1e-5,
    evaluate: Annotated[
        float | None,
        typer.Option(help="Share of the budget for an evaluation to publish; default 0.05, 0: none."),
    ] = None,
    hold_out: options.HoldOut = None,
    evaluate_by: options.EvaluateBy = None,
    select: options.Select = None,
    centre: options.Centre = None,
    unit: options.Unit = None,
    records_per_unit: options.RecordsPerUnit = None,
    unit_mean: options.UnitMean = None,
    latest: options.Latest = None,
    owners_per_person: options.OwnersPerPerson = None,
    features: options.Features = None,
    loss: Annotated[str | None, typer.Option(help="logistic, softmax, squared, hinge, huber")] = None,
    model: Annotated[str, typer.Option(help="linear or two_layer")] = "linear",
    base_rate: Annotated[float | None, typer.Option(help="Share of the rarer class, publicly known.")] = None,
    class_weight: Annotated[str | None, typer.Option(help="balanced: by the base rate.")] = None,
    threshold: Annotated[
        str | None, typer.Option(help="Of the second class: a probability, or base_rate.")
    ] = None,
    gossip_steps: options.GossipSteps = None,
    set_: options.Set = None,
    address: Annotated[
        list[str] | None, typer.Option(help="NAME=HOST:PORT where a party listens; repeat. Else 127.0.0.1.")
    ] = None,
    request: Annotated[
        list[Path] | None,
        typer.Option(help="NAME.pem of a party that made its key at home (network request); repeat."),
    ] = None,
    router: Annotated[
        str | None, typer.Option(help="HOST:PORT of a Zenoh router, for wide-area links.")
    ] = None,
    aggregator: Annotated[
        bool, typer.Option(help="--no-aggregator: masked sums between neighbours of the topology alone.")
    ] = True,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a neighbour, then go on without it.")
    ] = 10.0,
    clock: Annotated[float, typer.Option(help="Visits a second of each owner (learner protocols).")] = 1.0,
    seed: Annotated[int, typer.Option(help="Public: of the start, the topology and the schedule.")] = 0,
    name: Annotated[
        str | None, typer.Option(help="What the run is called; default: the folder's name.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the agreement, the certificates and a folder for each party; say what to send to whom."""
    from coterie.cli.run import choose
    from coterie.evaluation import DEFAULT_SHARE

    names = _names(owners)
    given = {key: value for key, value in context.params.items() if key not in ("owners", "columns")}
    given["evaluate"] = DEFAULT_SHARE if evaluate is None else evaluate
    experiment = choose(None, given, epsilon, set_ or [])
    from coterie.federation import network
    from coterie.federation.agreement import Agreement, settled
    from coterie.federation.transport.machine import Patience
    from coterie.problems.datasets import declared, schema

    protected = declared.read_toml(columns).unit_with(unit, records_per_unit, bool(unit_mean), latest)
    agreement = Agreement(
        name=name or folder.resolve().name.lower(),
        experiment=replace(experiment, **settled(protected)),
        schema=schema.read_toml(columns),
        sizes=_sizes(sizes, names, protected),
        patience=Patience(wait=wait),
        clock=clock,
        aggregator=aggregator,
    )
    asked = _requests(request or [])
    optional = evaluate is None and not hold_out and evaluate_by is None
    planned = network.found(folder, agreement, _addresses(address or []), router, optional, asked)
    tell(folder, "new", planned, as_json)


@app.command()
def add(
    folder: Folder,
    owner: Annotated[str, typer.Argument(help="The new owner's name.")],
    size: Annotated[int, typer.Option(help="Its number of records, or of units (public).")],
    epsilon: Annotated[float, typer.Option(help="Its budget.")] = 1.0,
    address: Annotated[str | None, typer.Option(help="HOST:PORT where it listens.")] = None,
    request: Annotated[
        Path | None, typer.Option(help="Its request, if it made its key at home (network request).")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Admit one more owner, under a new agreement that every party needs."""
    from coterie.federation import network

    planned = network.add(folder, owner, size, epsilon, address, request)
    tell(folder, "add", planned, as_json, owner)


@app.command()
def revoke(
    folder: Folder,
    owner: Annotated[str, typer.Argument(help="The owner that leaves.")],
    as_json: options.AsJson = False,
) -> None:
    """Exclude an owner, under a new agreement that every other party needs."""
    from coterie.federation import network

    planned = network.revoke(folder, owner)
    tell(folder, "revoke", planned, as_json, owner)


for about_keys in COMMANDS:
    app.command()(about_keys)


@app.command()
def up(
    folder: Folder,
    data: Annotated[Path, typer.Option(help="Folder with NAME.csv of each owner.")],
    injected_seed: Annotated[int | None, typer.Option(hidden=True)] = None,
    as_json: options.AsJson = False,
) -> None:
    """Start every party on this machine, for a trial, with a live table; Ctrl-C stops all of them."""
    from coterie.cli._live import watch
    from coterie.federation import local
    from coterie.federation.drive import stopping

    with stopping() as stop, local.started(folder, data, injected_seed) as network:
        watch(network, stop)
    outcome = network.outcome()
    answer(outcome, local.words(outcome), as_json)
    if not outcome["finished"] and not stop():
        raise InputError(f"{folder}: not every party finished. The last lines of each are above.")


@app.command()
def status(
    folder: Annotated[
        Path, typer.Argument(help="The network's folder, or a party's own: then its node is asked.")
    ],
    as_json: options.AsJson = False,
) -> None:
    """Where each party of a network on this machine stands."""
    from coterie.federation import control, local, party

    if (folder / party.NAME).exists():
        parties = [{"name": party.read(folder).name, **control.ask(folder, "status")["status"]}]
    else:
        parties = local.status(folder)
    if as_json:
        return print_json({"parties": parties})
    from rich.console import Console

    from coterie.cli._live import table

    Console().print(table(parties))


@app.command()
def check(
    folder: Folder,
    data: Annotated[Path | None, typer.Option(help="Folder with NAME.csv of each owner.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Dry run of every party on this machine: who reaches whom, what it would cost. Nothing is released."""
    from coterie.federation import check as dry
    from coterie.federation import local

    dry_runs = dry.check(local.parties_of(folder, data), lambda line: None, with_files=data is not None)
    summaries = [dry.summary(dry_run) for dry_run in dry_runs]
    if as_json:
        print_json({"ready": all(summary["ready"] for summary in summaries), "parties": summaries})
    else:
        from rich.console import Console

        from coterie.cli._live import reach

        Console().print(reach(summaries))
        print("\n\n".join(map(dry.words, summaries)))
    dry.refuse_troubles(dry_runs)


@app.command()
def watch(
    folder: OwnFolder,
) -> None:
    """Where your own party stands, live, on its machine; until it ends, or Ctrl-C, which does not stop it."""
    from coterie.cli import _watch
    from coterie.federation import party

    try:
        _watch.watch(party.read(folder).status)
    except KeyboardInterrupt:
        return


@app.command()
def stop(
    folder: OwnFolder,
    as_json: options.AsJson = False,
) -> None:
    """Ask your own node to stop after its step, and wait for its end; for the user that it runs as, alone."""
    from coterie.federation import control, party

    own = party.read(folder)
    told = control.ask(own.folder, "stop")
    if "warning" in told:
        print(f"warning: {told['warning']}", file=sys.stderr)
    words = f"{own.name}: stopped. Start it again to go on; nothing is lost."
    answer({"name": own.name, "stopped": True}, words, as_json)


@app.command()
def forget(
    folder: OwnFolder,
    owner: Annotated[str, typer.Argument(help="The owner that will not come back.")],
    as_json: options.AsJson = False,
) -> None:
    """Go on without an owner that is lost for good. All who go on run this; there is no way back."""
    from coterie.federation import actions, forgetting, party

    own = party.read(folder)
    planned = forgetting.forget(own, owner)
    actions.record(own.folder, "forget", ledger=own.ledger, party=owner, run=planned.agreement.run)
    forgotten, present = sorted(planned.forgotten), set(planned.agreement.owners) - planned.forgotten
    answer(
        {"forgotten": forgotten, "present": sorted(present)},
        f"From its next start your party goes on without {', '.join(forgotten)}, with whoever decided the same: "
        f"{', '.join(sorted(present))} must each run this command, and start again. What {owner} released stays "
        "in the model; it cannot come back into this run.",
        as_json,
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"owners={text!r}: names nobody. Give names with commas: north,south,east.")
    if len(set(names)) < len(names):
        raise InputError(f"owners={text!r}: a name stands twice.")
    return names


def _sizes(text: str | None, names: list[str], unit: Unit) -> dict[str, int]:
    if text is None and unit.kind == "owner":
        return dict.fromkeys(names, 1)
    if text is None:
        raise InputError(
            f"sizes=None: say how many {several(unit.words)} each owner has (--sizes 400,300,500)."
        )
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts) != len(names):
        raise InputError(
            f"sizes={text!r}: must be {len(names)} whole numbers with commas, one for each of the owners."
        )
    return dict(zip(names, map(int, parts)))


def _requests(paths: list[Path]) -> dict[str, Path]:
    by_party: dict[str, Path] = {}
    for path in paths:
        if path.stem in by_party:
            raise InputError(
                f"request={str(path)!r}: {str(by_party[path.stem])!r} is of {path.stem}, too. Give one of them."
            )
        by_party[path.stem] = path
    return by_party


def _addresses(pairs: list[str]) -> dict[str, str]:
    addresses = {}
    for pair in pairs:
        name, equals, where = pair.partition("=")
        if not equals:
            raise InputError(f"address={pair!r}: must look like NAME=HOST:PORT.")
        if name in addresses:
            raise InputError(f"address={pair!r}: {name} has one already, {addresses[name]}. Give it once.")
        addresses[name] = where
    return addresses
