"""`coterie audit`: attack the implementation; a lower bound with its confidence beside claim and certificate."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli._common import exits, print_json
from coterie.cli._progress import progress
from coterie.cli.run import choose

if TYPE_CHECKING:
    from coterie.experiments.audits import Audited

WIDTH = 80


def audit(
    context: typer.Context,
    place: Annotated[
        Path | None,
        typer.Argument(help="An experiment file (TOML), or a run's folder to write the finding into."),
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="Which protocol, such as dual_averaging.")] = None,
    calibration: Annotated[str | None, typer.Option(help="certified, paper or noiseless")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Budget; the largest is attacked.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ of the budget.")] = None,
    owners: Annotated[int | None, typer.Option(help="How many owners the audit's world has.")] = None,
    records: Annotated[int | None, typer.Option(help="Records of each owner in the audit's world.")] = None,
    dim: Annotated[int, typer.Option(help="Dimension of the model in the audit's world.")] = 1,
    games: Annotated[int, typer.Option(help="How many games to play.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.999,
    seed: Annotated[int | None, typer.Option(help="Of the games.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A protocol setting, KEY=VALUE; repeat.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Attack the real code with worst-case records: audited ε beside claimed and certified."""
    with exits():
        folder = place if place is not None and place.is_dir() else None
        file = folder / "experiment.toml" if folder else place
        chosen = choose(file, context.params, epsilon, set_ or [])
        from coterie.experiments import audits, output

        result = audits.read_result(folder) if folder else {}
        with progress() as tell:
            found = audits.audit_experiment(chosen, audits.Effort(games, confidence, records, dim), tell)
        if folder:
            audits.write_finding(folder, result, found)
            if (folder / "report.html").exists():
                output.rewrite_report(folder)
        if as_json:
            return print_json(
                {"protocol": chosen.protocol, "calibration": chosen.calibration} | found.to_json()
            )
        print(_words(found, f"{chosen.protocol} ({chosen.calibration})"))
        if folder:
            print(f"written: {folder / 'result.json'}")


def _words(found: Audited, name: str) -> str:
    from coterie.audit.neighbours import words

    one = found.audit
    finding, certificate = one.finding, one.certificate
    lines = [
        *_wrap(f"{name}: {words(found.setting)}."),
        "",
        *_wrap(f"privacy of one {finding.unit} ({finding.relation}, {finding.view}, δ = {finding.delta:g})"),
        f"  claimed    {_epsilon(one.claim.epsilon, '='):<14}  {one.claim.source}",
        f"  certified  {_epsilon(certificate.epsilon, '≤'):<14}  {certificate.accountant}",
        f"  audited    {_epsilon(finding.epsilon, '≥'):<14}  "
        f"confidence {finding.confidence:g}, {finding.games:,} games",
        "",
        *_wrap(
            f"second opinions: ε ≥ {one.gaussian:.3g} if the mechanism is Gaussian, "
            f"ε ≥ {one.one_run:.3g} by the one-run method. Score: {one.score}."
        ),
    ]
    note = certificate.reason or (one.claim.note if one.claim.note.startswith("outside") else "")
    lines += _wrap(f"note: {note}") if note else []
    if one.claim.epsilon is not None and finding.epsilon > one.claim.epsilon:
        lines += _wrap("The claim is refuted: the attack found more than it allows.")
    return "\n".join([*lines, f"({one.seconds:.1f} s)"])


def _epsilon(value: float | None, sign: str) -> str:
    if value is None:
        return "none stated"
    return "ε = ∞" if math.isinf(value) else f"ε {sign} {value:,.4g}"


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
