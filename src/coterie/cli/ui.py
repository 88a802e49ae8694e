"""`coterie ui`: the page to plan, run, compare and watch with, on this machine."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import _shared as options
from coterie.cli._folders import RUNS
from coterie.errors import InputError


def ui(
    runs: Annotated[Path, typer.Option(help="Folder of the runs that are shown and made.")] = RUNS,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0: one that is free.")] = 0,
    data_dir: options.DataDir = None,
) -> None:
    """Serve a page to plan, run, compare and watch with, for this machine's browser alone. Ctrl-C ends it.

    Runs go on without it, and are there when it is started again.
    """
    for needed in ("starlette", "uvicorn"):
        if find_spec(needed) is None:
            raise InputError(f"{needed} is not installed. Install it: pip install 'coterie[ui]'")
    from coterie.ui.server import serve

    serve(runs, data_dir, port, _tell)


def _tell(address: str) -> None:
    print(f"Open in this machine's browser: {address}", flush=True)
    print("The address holds a secret: whoever has it can start runs as you. Ctrl-C ends.", file=sys.stderr)
