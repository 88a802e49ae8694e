"""What every command shares: one clear line and an exit status for mistakes, one JSON object on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from coterie.errors import CoterieError


@contextmanager
def exits() -> Iterator[None]:
    """Turn a `CoterieError` into `error: …` on standard error and its status; others are bugs and show."""
    try:
        yield
    except CoterieError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_status) from error


def print_json(value: Mapping[str, Any]) -> None:
    """Print exactly one JSON object on standard output; NaN and infinity are refused, as JSON has neither."""
    print(json.dumps(value, allow_nan=False, ensure_ascii=False))
