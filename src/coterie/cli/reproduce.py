"""`coterie reproduce`: a paper's tables and figures, run again, beside certified defaults."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli._common import exits, print_json
from coterie.cli._progress import progress
from coterie.errors import InputError

OUT = Path("runs/reproductions")


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A paper, such as liu_2022.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A part of it, in minutes on two cores.")] = False,
    out: Annotated[Path, typer.Option(help="Where finished runs are kept and results go.")] = OUT,
    docs: Annotated[
        Path | None, typer.Option(help="Write results.md of everything in OUT into this folder.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of data sets; default COTERIE_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """A paper's tables and figures beside certified defaults. Interrupted, it goes on where it was."""
    with exits():
        if name is None and docs is None:
            raise InputError("name: not given. Name a paper, such as liu_2022, or give --docs.")
        found, text = ({}, "") if name is None else _run(name, quick, out, data_dir)
        if docs is not None:
            from coterie.experiments.reproductions.page import write_docs

            found["docs"] = {"file": str(docs / "results.md"), "reproductions": write_docs(out, docs)}
            text += f"written: {docs / 'results.md'}"
        if as_json:
            return print_json(found)
        print(text)


def _run(name: str, quick: bool, out: Path, data_dir: Path | None) -> tuple[dict[str, Any], str]:
    """The reproduction for machines and for people."""
    from coterie.experiments.reproductions import paper
    from coterie.experiments.reproductions.page import name_of, section, write
    from coterie.experiments.reproductions.runner import reproduce as run

    spec = paper(name)
    try:
        with progress() as tell:
            done = run(spec, quick, out / "cells" / name, data_dir, tell)
    except KeyboardInterrupt:
        print(f"finished runs are kept in {out}; the same command goes on from there.", file=sys.stderr)
        raise
    for file in done.damaged:
        print(f"note: {file} was damaged; that run was done again.", file=sys.stderr)
    write(done.found, out)
    text = "\n".join([*section(done.found, f"{name_of(done.found)}-"), f"written: {out}\n"])
    return done.found | {"kept": done.kept, "damaged": len(done.damaged), "out": str(out)}, text
