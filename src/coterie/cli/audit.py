"""`coterie audit`: attack the implementation; a lower bound with its confidence beside claim and certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import _shared as options
from coterie.cli._common import print_json
from coterie.cli._progress import progress
from coterie.cli._words import epsilon_words, wrap
from coterie.cli.run import choose

if TYPE_CHECKING:
    from coterie.experiments.audits import Audited

_METHODS = {"gaussian_assumed": "if all is Gaussian", "one_run": "by the one-run method"}


def audit(
    context: typer.Context,
    place: Annotated[
        Path | None,
        typer.Argument(help="An experiment file (TOML), or a run's folder to write the finding into."),
    ] = None,
    protocol: options.Protocol = None,
    calibration: options.Calibration = None,
    epsilon: Annotated[str | None, typer.Option(help="Budget; the largest is attacked.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ of the budget.")] = None,
    owners: Annotated[int | None, typer.Option(help="How many owners the audit's world has.")] = None,
    records: Annotated[int | None, typer.Option(help="Records of each owner in the audit's world.")] = None,
    dim: Annotated[
        int | None, typer.Option(help="Dimension of the model in the audit's world; 1 by default.")
    ] = None,
    games: Annotated[
        int | None, typer.Option(help="How many games to play; by default what takes about half a minute.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.999,
    seed: Annotated[int | None, typer.Option(help="Of the games.")] = None,
    set_: options.Set = None,
    as_json: options.AsJson = False,
) -> None:
    """Attack the real code with a worst-case record: audited ε beside claimed and certified.

    A run's folder is attacked by the run's own releases, noise and sampling, and gets the finding. Without one the
    protocol is attacked in a small world of its own.
    """
    folder = place if place is not None and place.is_dir() else None
    if folder:
        _refuse_changes(context.params)
        from coterie.experiments import audits, output
        from coterie.experiments.experiment import read_toml

        chosen = read_toml(folder / "experiment.toml")
        result = audits.read_result(folder)
        with progress() as tell:
            audited = audits.audit_run(folder, audits.Effort(games, confidence), seed, tell)
        audits.write_finding(folder, result, audited)
        if (folder / "report.html").exists():
            output.rewrite_report(folder)
    else:
        chosen = choose(place, context.params, epsilon, set_ or [])
        from coterie.experiments import audits

        with progress() as tell:
            effort = audits.Effort(games, confidence, records, 1 if dim is None else dim)
            audited = audits.audit_experiment(chosen, effort, tell)
    if as_json:
        return print_json(
            {"protocol": chosen.protocol, "calibration": chosen.calibration} | audited.to_json()
        )
    print(_words(audited, f"{chosen.protocol} ({chosen.calibration})"))
    if folder:
        print(f"written: {folder / 'result.json'}")


def _refuse_changes(options: dict[str, Any]) -> None:
    """InputError for options that would change a run: it is audited as it was run."""
    from coterie.errors import InputError

    for name in ("protocol", "calibration", "epsilon", "delta", "owners", "records", "dim", "set_"):
        if (value := options.get(name)) not in (None, [], ()):
            raise InputError(
                f"{name.strip('_')}={value}: a run's folder is audited as it was run. Leave it out, or name no folder."
            )


def _words(audited: Audited, name: str) -> str:
    attack = audited.audit
    finding, certificate = attack.finding, attack.certificate
    lines = [
        *wrap(f"{name}: {audited.world}."),
        "",
        *wrap(f"privacy of one {finding.unit} ({finding.relation}, {finding.view}, δ = {finding.delta:g})"),
        f"  claimed    {epsilon_words(attack.claim.epsilon, '='):<14}  {attack.claim.source}",
        f"  certified  {epsilon_words(certificate.epsilon, '≤'):<14}  {certificate.accountant}",
        f"  audited    {epsilon_words(finding.epsilon, '≥'):<14}  "
        f"confidence {finding.confidence:g}, {finding.games:,} games",
        "",
        *wrap(f"score: {attack.score}."),
        *(wrap(f"second opinion: {line}.") if (line := _opinions(attack.opinions.shown)) else []),
        *wrap(
            f"left out: {'; '.join(f'{_METHODS[name]}, as {why}' for name, why in attack.opinions.left_out.items())}."
        ),
    ]
    note = certificate.reason or (attack.claim.note if attack.claim.note.startswith("outside") else "")
    lines += wrap(f"note: {note}") if note else []
    if attack.claim.epsilon is not None and finding.epsilon > attack.claim.epsilon:
        lines += wrap("The claim is refuted: the attack found more than it allows.")
    return "\n".join([*lines, f"({attack.seconds:.1f} s)"])


def _opinions(shown: dict[str, float]) -> str:
    return ", ".join(f"ε ≥ {value:.3g} {_METHODS[name]}" for name, value in shown.items())
