"""`coterie report`: the page about a run, made again from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import _shared as options
from coterie.cli._common import print_json


def report(
    folder: Annotated[Path, typer.Argument(help="The folder that `coterie run` wrote.")],
    as_json: options.AsJson = False,
) -> None:
    """Write report.html of a run's folder again, as after an audit added its finding."""
    from coterie.experiments.output import rewrite_report

    place = rewrite_report(folder)
    if as_json:
        return print_json({"folder": str(folder), "report": str(place), "bytes": place.stat().st_size})
    print(f"written: {place}")
