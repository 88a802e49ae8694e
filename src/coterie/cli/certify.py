"""`coterie certify`: what papers claim beside what can be certified, and a run's certificates computed again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli._common import exits, print_json
from coterie.cli._progress import progress
from coterie.errors import InputError

if TYPE_CHECKING:
    from coterie.experiments.claims import Row
    from coterie.experiments.recompute import Check
    from coterie.reports.claims import Bar

WIDTH = 100


def certify(
    paper: Annotated[
        str | None, typer.Option(help="A paper, such as liu_2022, or its protocol; default: all five.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A public number of its setting, KEY=VALUE; repeat.")
    ] = None,
    from_: Annotated[
        Path | None, typer.Option("--from", help="A run's result.json: compute its certificates again.")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Write the table as claims.md, with pictures, into this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """What the five papers claim, what can be certified, and why they differ."""
    with exits():
        if from_ is not None:
            _alone("--from", {"--paper": paper, "--set": set_, "--docs": docs})
            return _again(from_, as_json)
        if docs is not None:
            _alone("--docs", {"--paper": paper, "--set": set_})
        elif set_ and paper is None:
            raise InputError("--set: needs --paper, whose settings these are.")
        rows = _rows(paper, set_ or [])
        if docs is not None:
            _write(rows, docs)
        if as_json:
            return print_json({"rows": [row.to_json() for row in rows]})
        _show(rows)


def _alone(option: str, others: dict[str, Any]) -> None:
    given = [name for name, value in others.items() if value]
    if given:
        raise InputError(f"{option}: does not go with {', '.join(given)}. Leave one out.")


def _rows(paper: str | None, pairs: list[str]) -> list[Row]:
    from coterie.cli.run import parse_settings
    from coterie.experiments.claims import table

    given = parse_settings(pairs)
    with progress() as tell:
        tell("certifying", 0, 0)
        return table(paper, given, tell)


def _show(rows: list[Row]) -> None:
    """A block for each guarantee. Colour marks only what is certified above its claim."""
    from rich.console import Console
    from rich.text import Text

    from coterie.experiments.claims.words import blocks

    screen = Console()
    width = min(WIDTH, screen.width) if screen.is_terminal else WIDTH
    console = Console(width=width, highlight=False, soft_wrap=True)
    for line, alarming in blocks(rows, width):
        text = Text(line)
        if alarming:
            text.stylize("bold red", *alarming)
        console.print(text)


def _write(rows: list[Row], folder: Path) -> None:
    """The page and its pictures: one of all rows, and one of each paper."""
    from coterie.experiments.claims import PAPERS
    from coterie.experiments.claims.words import page
    from coterie.reports.claims import bars

    try:
        images = folder / "images"
        images.mkdir(parents=True, exist_ok=True)
        (folder / "claims.md").write_text(page(rows), encoding="utf-8")
        bars([_bar(row) for row in rows], "Claimed and certified ε, published settings").savefig(
            images / "claims.png"
        )
        for paper in PAPERS:
            own = [_bar(row) for row in rows if row.paper == paper]
            bars(own, f"{paper}: claimed and certified ε").savefig(images / f"claims-{paper}.png")
    except OSError as error:
        raise InputError(
            f"docs={str(folder)!r}: cannot be written ({error.strerror}). Name another."
        ) from error


def _bar(row: Row) -> Bar:
    from coterie.experiments.claims.words import changed
    from coterie.reports.claims import Bar

    return Bar(f"{row.paper} · {row.protocol}", changed(row), row.claim.epsilon, row.certificate.epsilon)


def _again(file: Path, as_json: bool) -> None:
    """Compare; one line and status 2 where the file says anything else than its events do."""
    from coterie.experiments.recompute import check

    with progress() as tell:
        tell("computing again", 0, 0)
        checks = check(file)
    problems = [problem for one in checks for problem in one.problems]
    if as_json:
        print_json({"ok": not problems, "file": str(file), "problems": problems,
                    "certificates": [_checked(one) for one in checks]})  # fmt: skip
    elif not problems:
        for one in checks:
            print(f"agrees: {_whose(one)}{one.found}")
    if problems:
        raise InputError(f"from={str(file)!r}: does not agree. {problems[0]}.")


def _checked(one: Check) -> dict[str, Any]:
    found = one.found.to_json()["epsilon"]
    return {"owners": one.owners, "written": one.written, "found": found, "problems": list(one.problems)}


def _whose(one: Check) -> str:
    if one.owners is None:
        return ""
    return f"owner {one.owners[0]}, " if len(one.owners) == 1 else f"{len(one.owners):,} owners, "
