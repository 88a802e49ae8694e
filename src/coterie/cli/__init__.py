"""The command line. Modules load only when their command runs, so that help is quick."""

from __future__ import annotations

import typer

from coterie.cli import data, ledger, network, plan
from coterie.cli._common import Commands
from coterie.cli.audit import audit
from coterie.cli.certify import certify
from coterie.cli.node import node
from coterie.cli.report import report
from coterie.cli.reproduce import reproduce
from coterie.cli.run import run

app = typer.Typer(
    name="coterie",
    cls=Commands,
    help="Train one model over data that stays with its owners, and see what the privacy really was.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(certify)
app.command()(reproduce)
app.command()(audit)
app.command()(report)
app.command()(node)
app.add_typer(data.app, name="data")
app.add_typer(ledger.app, name="ledger")
app.add_typer(plan.app, name="plan")
app.add_typer(network.app, name="network")


def main() -> None:
    """Entry point of the `coterie` command."""
    app()
