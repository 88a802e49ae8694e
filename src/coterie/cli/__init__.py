"""The command line. Modules load only when their command runs, so that help is quick.

It may know everything, and nothing may know it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from coterie.cli import _streams, data, ledger, network, plan
from coterie.cli._common import App
from coterie.cli.audit import audit
from coterie.cli.certify import certify
from coterie.cli.compare import compare
from coterie.cli.export import export
from coterie.cli.node import node
from coterie.cli.predict import predict
from coterie.cli.report import report
from coterie.cli.reproduce import reproduce
from coterie.cli.run import run
from coterie.cli.show import show
from coterie.cli.ui import ui

app = App(
    name="coterie",
    help="Train one model over data that stays with its owners, and see what the privacy really was.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (run, compare, show, predict, export, certify, reproduce, audit, report, node, ui):
    app.command()(command)
for name, group in {"data": data, "ledger": ledger, "plan": plan, "network": network}.items():
    app.add_typer(group.app, name=name)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Options of `coterie` itself; its help is the application's."""
    if version:
        import coterie

        print(f"coterie {coterie.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        context.fail("Missing command.")


def main() -> None:
    """Entry point of the `coterie` command."""
    _streams.prepare()
    app()
