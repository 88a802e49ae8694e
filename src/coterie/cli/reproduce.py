"""`coterie reproduce`: a paper's tables and figures, run again, beside certified defaults.

Published values and their reproductions are not part of the installed package: they are in `papers/` of a checkout.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

import coterie
from coterie.cli import _shared as options
from coterie.cli._common import print_json
from coterie.cli._progress import progress
from coterie.errors import InputError

OUT = Path("runs/reproductions")


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A paper, such as liu_2022.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A part of it, in minutes on two cores.")] = False,
    out: Annotated[Path, typer.Option(help="Where finished runs are kept and results go.")] = OUT,
    docs: Annotated[
        Path | None, typer.Option(help="Write the results' pages of everything in OUT into this folder.")
    ] = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """A paper's tables and figures beside certified defaults; from a checkout. Interrupted, it goes on where it was."""
    if name is None and docs is None:
        raise InputError("name: not given. Name a paper, such as liu_2022, or give --docs.")
    command = _command()
    facts, text = ({}, "") if name is None else _run(command, name, quick, out, data_dir)
    if docs is not None:
        facts["docs"] = {"file": str(docs / "results.md"), "reproductions": command.write_docs(out, docs)}
        text += f"written: {docs / 'results.md'}"
    if as_json:
        return print_json(facts)
    print(text)


def _command() -> ModuleType:
    """`papers.reproductions.command` of the checkout that this package is run from."""
    checkout = Path(coterie.__file__).parents[2]
    if not (checkout / "papers" / "reproductions" / "command.py").is_file():
        raise InputError(
            "reproduce: needs a checkout of coterie; its papers/ folder is not part of the installed package. "
            "Clone the repository and run the command there, after `make install`."
        )
    if str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    return import_module("papers.reproductions.command")


def _run(
    command: ModuleType, name: str, quick: bool, out: Path, data_dir: Path | None
) -> tuple[dict[str, Any], str]:
    """The reproduction as plain values and as text."""
    try:
        with progress() as tell:
            done = command.run(name, quick, out, data_dir, tell)
    except KeyboardInterrupt:
        print(f"finished runs are kept in {out}; the same command goes on from there.", file=sys.stderr)
        raise
    for file in done.damaged:
        print(f"note: {file} was damaged; that run was done again.", file=sys.stderr)
    text = f"{command.words(done.found)}\nwritten: {out}\n"
    return done.found | {"kept": done.kept, "damaged": len(done.damaged), "out": str(out)}, text
