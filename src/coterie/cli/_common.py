"""What every command shares: one clear line and an exit status for mistakes, one JSON object on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from coterie.errors import CoterieError

INTERRUPTED = 130  # what shells expect of a program that Ctrl-C stopped


class Commands(TyperGroup):
    """A group whose usage errors are one line, like every other error, instead of a framed page."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command; see `click`'s documentation for the arguments."""
        try:
            status = super().main(*args, standalone_mode=False, **extra)
        except typer.TyperException as error:
            if not standalone_mode:
                raise
            sys.exit(_usage(error))
        return sys.exit(status if isinstance(status, int) else 0) if standalone_mode else status


@contextmanager
def exits() -> Iterator[None]:
    """Turn a `CoterieError` into `error: …` on standard error and its status; others are bugs and show."""
    try:
        yield
    except CoterieError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_status) from error
    except KeyboardInterrupt as error:
        print("interrupted: what was not finished is not written.", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from error


def print_json(value: Mapping[str, Any]) -> None:
    """Print exactly one JSON object on standard output."""
    print(json_line(value))


def json_line(value: Mapping[str, Any]) -> str:
    """One line of JSON; NaN and infinity are refused, as JSON has neither."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _usage(error: Any) -> int:
    """One line on standard error; a group that was called without a command has shown its help instead."""
    context = getattr(error, "ctx", None)
    message = " ".join(error.format_message().split())
    if message:
        where = f" See {context.command_path} --help." if context is not None else ""
        print(f"error: {message.rstrip('.')}.{where}", file=sys.stderr)
    return error.exit_code
