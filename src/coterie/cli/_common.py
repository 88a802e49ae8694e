"""What every command shares: one clear line and an exit status for mistakes, one JSON object on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from coterie.cli._streams import speaks_unicode
from coterie.errors import CoterieError

INTERRUPTED = 130  # what shells expect of a program that Ctrl-C stopped


class _Helped:
    """Help shows flags without a type: `--json`, not `--json <bool>`."""

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        """Called where help is asked for."""
        for param in self.get_params(ctx):
            if getattr(param, "is_flag", False):
                param.metavar = ""
        super().format_help(ctx, formatter)  # type: ignore[misc]


class Command(_Helped, TyperCommand):
    """A single command."""


class Commands(_Helped, TyperGroup):
    """A group whose errors are one line, `error: …` on standard error, with their exit status."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command; see `click`'s documentation for the arguments."""
        try:
            status = super().main(*args, standalone_mode=False, **extra)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where errors can still be reported
        except typer.TyperException as error:
            if not standalone_mode:
                raise
            sys.exit(_usage(error))
        except CoterieError as error:  # all else is a bug, and shows
            if not standalone_mode:
                raise
            print(f"error: {error}", file=sys.stderr)
            sys.exit(error.exit_status)
        except BrokenPipeError:  # as in `coterie data list | head`
            sys.exit(1)
        return sys.exit(status if isinstance(status, int) else 0) if standalone_mode else status

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and say of Ctrl-C what became of its work."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            print("interrupted: what was not finished is not written.", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from error


class App(typer.Typer):
    """Commands by name, of these kinds."""

    def __init__(self, **given: Any) -> None:
        super().__init__(cls=Commands, **given)

    def command(self, name: str | None = None, **given: Any) -> Any:
        """See `typer`'s documentation."""
        return super().command(name, cls=Command, **given)


def answer(facts: Mapping[str, Any], words: str, as_json: bool) -> None:
    """Print what a command did: as JSON where that was asked for, else in words."""
    print_json(facts) if as_json else print(words)


def print_json(value: Mapping[str, Any]) -> None:
    """Print exactly one JSON object on standard output."""
    print(json_line(value))


def json_line(value: Mapping[str, Any]) -> str:
    """One line of JSON; NaN and infinity are refused, as JSON has neither. What the terminal cannot show is escaped."""
    return json.dumps(value, allow_nan=False, ensure_ascii=not speaks_unicode(sys.stdout))


def _usage(error: Any) -> int:
    """Print one line on standard error, unless a group without a command has shown its help instead."""
    context = getattr(error, "ctx", None)
    close = getattr(error, "possibilities", None)
    message = " ".join((error.message if close else error.format_message()).split())
    if message:
        hint = f" Did you mean {close[0]}?" if close else ""
        where = f" See {context.command_path} --help." if context is not None else ""
        end = "" if message.endswith("?") else "."
        print(f"error: {message.rstrip('.')}{end}{hint}{where}", file=sys.stderr)
    return error.exit_code
