"""`coterie node`: one party of a real run, next to its own data and ledger."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli._common import exits, print_json
from coterie.errors import InputError


def node(
    config: Annotated[Path, typer.Argument(help="Your node.toml, or the folder you were sent.")],
    data: Annotated[
        Path | None, typer.Option(help="Your records: CSV, Parquet or NPZ. They stay here.")
    ] = None,
    generator: Annotated[
        str | None, typer.Option(help="exact (OpenDP) or stream (ChaCha20, for large models)")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; default: result beside node.toml.")
    ] = None,
    injected_seed: Annotated[int | None, typer.Option(hidden=True)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Run one owner (or the learner, or the aggregator): join, train, report. Ctrl-C stops; run again to go on."""
    with exits():
        from dataclasses import replace

        from coterie import _check
        from coterie.engines.federate.door import watched
        from coterie.engines.federate.drive import stopping
        from coterie.engines.federate.randomness import GENERATORS
        from coterie.experiments.federation import node as federation
        from coterie.experiments.federation import outcome, party

        own = party.read(config)
        if generator is not None:
            own = replace(own, generator=_check.one_of("generator", generator, GENERATORS))
        with stopping() as stop:
            found = federation.run(own, data, log=_log, stop=stop, injected_seed=injected_seed, watch=watched)
        summary = outcome.summary(found)
        if found.finished:
            summary["out"] = str(outcome.write(found, out or own.results))
        print_json(summary) if as_json else print(outcome.words(summary))
        if not found.finished:
            raise InputError(f"{own.name}: stopped before the end. Start it again to go on; nothing is lost.")


def _log(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
