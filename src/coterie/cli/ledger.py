"""`coterie ledger show | verify | backup | restore | write-off | actions`: what an owner has spent, and keeping it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie._rounding import left
from coterie.cli._common import App, answer, print_json
from coterie.cli._shared import AsJson
from coterie.reports.amounts import many

if TYPE_CHECKING:
    from coterie.accounting.ledger import Snapshot

app = App(help="What an owner has spent, and whether its ledger was tampered with.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="The owner's ledger.", show_default=False)]

_EVENTS_SHOWN = 2  # different events of a run in the terminal; the JSON has all


@app.command()
def show(file: File, as_json: AsJson = False) -> None:
    """Budget, spent, remaining, and every run. Reads only, also while the owner writes."""
    from coterie.accounting.ledger import read

    facts = summary(file, read(file))
    if as_json:
        return print_json(facts)
    _show(facts)


@app.command()
def verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="A head that was written down earlier.")] = None,
    as_json: AsJson = False,
) -> None:
    """Whether a row or a message was edited or removed. Exit status 2 if so."""
    from coterie.accounting.ledger import verify as check
    from coterie.errors import InputError

    report = check(file, head)
    problems = list(report.problems)
    facts = {"ok": not problems, "file": str(file), "rows": report.rows, "head": report.head,
             "head_given": head, "problems": problems}  # fmt: skip
    fine = f"ok: {many(report.rows, 'row')} in an unbroken chain\nhead: {report.head}"
    answer(facts, "\n".join(problems) or fine, as_json)
    if problems:
        raise InputError(f"file={str(file)!r}: not in order. First: {problems[0]}")


@app.command()
def backup(
    file: File,
    copy: Annotated[
        Path, typer.Argument(help="Where to; an older copy there is replaced.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Copy a ledger safely, also while its owner writes, and check the copy."""
    from coterie.accounting.ledger import recovery

    head = recovery.backup(file, copy)
    words = f"{copy}: {many(head.sequence, 'row')}\nhead: {head.hash}"
    answer({"copy": str(copy), "rows": head.sequence, "head": head.hash}, words, as_json)


@app.command()
def restore(
    copy: Annotated[Path, typer.Argument(help="A copy that `backup` made.", show_default=False)],
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Your party's folder, of every run since the copy that uses this ledger.", show_default=False
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Put a copy in a lost ledger's place. What it may lack is settled with the peers before anything is released."""
    from coterie.federation import actions as trail
    from coterie.federation import party, recovery

    file, restored = recovery.restore(copy, folders)
    for own in map(party.read, folders):
        trail.record(
            own.folder, "restore", ledger=file, complete=restored.complete, unsettled=restored.unsettled
        )
    if as_json:
        return print_json(
            {"file": str(file), "rows": restored.head.sequence, "complete": restored.complete,
             "unsettled": list(restored.unsettled)})  # fmt: skip
    print(f"{file}: restored, {many(restored.head.sequence, 'row')}")
    if restored.complete:
        return print("Complete: it has everything that was noted beside the file.")
    print(
        f"It may be older than what has left. Unsettled: {', '.join(restored.unsettled)}. Start its node while all "
        "of its peers run: it goes on if none holds a later release, and else stops and says so. Then, or where "
        "peers are gone for good, give the run up: coterie ledger write-off FOLDER. Until then no other run is "
        "charged."
    )


@app.command("write-off")
def write_off(
    folder: Annotated[Path, typer.Argument(help="Your party's folder.", show_default=False)],
    agreement: Annotated[
        Path | None, typer.Option(help="An earlier agreement.json, of whose run; default: the folder's.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give a run up: all that it could still have released counts as released, and it never goes on."""
    from coterie.federation import actions as trail
    from coterie.federation import party, recovery

    run, spent = recovery.write_off(folder, agreement)
    own = party.read(folder)
    trail.record(own.folder, "write-off", ledger=own.ledger, run=run)
    words = f"run {run}: written off; it releases nothing any more\n{spent}"
    answer({"run": run, "spent": spent.to_json()}, words, as_json)


@app.command()
def actions(
    folder: Annotated[
        Path,
        typer.Argument(help="Your party's folder, or the network's for its founder.", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """What administrators did here, when, as whom, and where the ledger stood. Exit status 2 if it was edited."""
    from coterie.federation import actions as trail

    entries = trail.read(folder)
    if as_json:
        return print_json({"actions": [entry._asdict() for entry in entries]})
    for entry in entries:
        about = ", ".join(f"{key} {_shown(value)}" for key, value in entry.about.items())
        rows = "" if entry.ledger is None else f"; ledger: {many(entry.ledger['rows'], 'row')}"
        print(
            f"{entry.time[:19].replace('T', ' ')}  {entry.action:<9} {entry.by}{about and ': ' + about}{rows}"
        )
    last = entries[-1].hash if entries else trail.START
    print(f"ok: {many(len(entries), 'action')} in an unbroken chain\nhead: {last}")


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) or "nobody" if isinstance(value, list) else str(value)


def summary(file: Path, snapshot: Snapshot) -> dict[str, Any]:
    """What `show` prints, as plain values."""
    account, terms = snapshot.account, snapshot.account.terms
    spent = account.spent(terms.delta)
    return {
        "file": str(file),
        "data_hash": terms.data_hash,
        "budget": {"epsilon": terms.epsilon, "delta": terms.delta},
        "relation": terms.relation,
        "unit": terms.unit,
        "spent": spent.to_json(),
        "spent_text": str(spent),
        "remaining": max(0.0, terms.epsilon - spent.epsilon),
        "rows": snapshot.head.sequence,
        "head": snapshot.head.hash,
        "partitions": [
            {"name": name, "parts": partition.parts, "charged_parts": len(partition.shares)}
            for name, partition in account.partitions.items()
        ],
        "runs": [_run(run) for run in snapshot.runs],
    }


def _run(run: Any) -> dict[str, Any]:
    import json

    return {
        "run": run.name,
        "charges": run.charges,
        "messages": run.messages,
        "first_round": run.rounds[0],
        "last_round": run.rounds[1],
        "first_time": run.times[0],
        "last_time": run.times[1],
        "events": [{"event": json.loads(body), "times": times} for body, times in run.events.items()],
    }


def _show(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    console = Console(soft_wrap=True, highlight=False)
    budget = facts["budget"]
    console.print(f"budget:    ε = {budget['epsilon']:g} (δ = {budget['delta']:g}, {facts['relation']}, "
                  f"unit: {facts['unit']})")  # fmt: skip
    console.print(facts["spent_text"].replace("certified: ε ≤", "spent:     ε ≤", 1), markup=False)
    console.print(f"remaining: ε = {left(budget['epsilon'], budget['epsilon'] - facts['remaining'])}")
    console.print(
        f"data:      {facts['data_hash']}\nhead:      {facts['head']} ({many(facts['rows'], 'row')})"
    )
    for fact in facts["partitions"]:
        console.print(
            f"partition: {escape(fact['name'])}, {fact['charged_parts']} of {fact['parts']} parts charged"
        )
    grid = Grid(box=None, pad_edge=False)
    for column in ("run", "charges", "messages", "rounds", "last charged (UTC)", "events"):
        grid.add_column(column, overflow="fold")
    for run in facts["runs"]:
        rounds = f"{run['first_round']} to {run['last_round']}"
        grid.add_row(escape(run["run"]), f"{run['charges']:,}", f"{run['messages']:,}", rounds,
                     run["last_time"][:19].replace("T", " "), escape(_events(run["events"])))  # fmt: skip
    console.print(grid)


def _events(events: list[dict[str, Any]]) -> str:
    """A short list of the events."""
    words = [f"{event['times']:,} × {_words(event['event'])}" for event in events[:_EVENTS_SHOWN]]
    more = len(events) - _EVENTS_SHOWN
    return ", ".join(words) + (f", and {more} other kinds" if more > 0 else "")


def _words(event: dict[str, Any]) -> str:
    inside = []
    for key, value in event.items():
        if isinstance(value, list):
            inside.append(many(len(value), "event"))
        elif key != "type":
            inside.append(_words(value) if isinstance(value, dict) else f"{value:g}")
    return f"{event['type'].removesuffix('DpEvent')}({', '.join(inside)})"
