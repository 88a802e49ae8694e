"""Messages to a founder after a network was founded or changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli._common import print_json
from coterie.reports.amounts import many
from coterie.units import RECORD, Unit, several

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment
    from coterie.federation.collaboration import Collaboration


def _evaluation(experiment: Experiment, unit: Unit) -> str:
    if experiment.evaluate:
        drawn = f"{experiment.hold_out:g} of their {'rows' if unit == RECORD else several(unit.words)}"
        held_out = f", over {drawn}, which they draw and keep out of training" if experiment.hold_out else ""
        groups = f", also for each group by {experiment.evaluate_by!r}" if experiment.evaluate_by else ""
        return (
            f"Evaluation: {experiment.evaluate:g} of every budget pays for metrics that the owners may publish after "
            f"training{held_out}{groups}."
        )
    return (
        "No evaluation: nothing of the budgets pays for metrics to publish, as it was not wanted, or so few records "
        "could not tell any; --evaluate SHARE asks for one, and says what it takes."
    )


def _refused(planned: Collaboration) -> list[str]:
    """Before the folders are sent: every node looks at its own size, and would not start."""
    from coterie.accounting import publishing

    task = planned.task
    sizes = [task.owners] if task.unit.kind == "owner" else task.sizes
    return [
        f"Mind: {warning} A node whose owner sets no smaller delta in node.toml refuses it; found the network "
        "again with a smaller one (--delta)."
        for warning in publishing(task.delta, sizes)
    ]


def noted(folder: Path, action: str, planned: Collaboration, party: str | None = None) -> None:
    """Record the founder's action in the network's folder, which no party gets."""
    from coterie.federation import actions

    about: dict[str, Any] = {} if party is None else {"party": party}
    actions.record(folder, action, **about, agreement=planned.agreement.digest.hex())


def tell(folder: Path, action: str, planned: Collaboration, as_json: bool, party: str | None = None) -> None:
    """Record the founder's action, and print what to do next."""
    noted(folder, action, planned, party)
    what = "founded" if action == "new" else "changed"
    agreement, select = planned.agreement, planned.agreement.experiment.select
    chosen = (
        f"Selection: {select:g} of every budget pays for choosing among models that the same releases give."
    )
    centre = agreement.experiment.centre
    around = (
        f"Centre: {centre:g} of every budget pays for the mean of all features, taken off before training."
    )
    summary: dict[str, Any] = {
        "folder": str(folder),
        "name": agreement.name,
        "run": agreement.run,
        "agreement_sha256": agreement.digest.hex(),
        "owners": list(agreement.owners),
        "hub": planned.hub,
        "evaluate": agreement.experiment.evaluate,
        "hold_out": agreement.experiment.hold_out,
        "evaluate_by": agreement.experiment.evaluate_by,
        "select": select,
        "centre": centre,
        "unit": agreement.unit.words,
        "signs": list(agreement.keys),
        "parties": {name: str(folder / "parties" / name) for name in planned.parties},
        "router": str(folder / "router") if (folder / "router").exists() else None,
    }
    if as_json:
        return print_json(summary)
    lines = [
        f"Network {agreement.name!r} {what}: {agreement.experiment.protocol} among "
        f"{many(len(agreement.owners), 'owner')}.",
        f"Agreement (public; everybody should compare this hash by telephone): {agreement.digest.hex()}",
        _evaluation(agreement.experiment, agreement.unit),
        *([around] if centre else []),
        *([chosen] if select else []),
        *((f"Protects {agreement.protects}",) if agreement.protects else ()),
        *_refused(planned),
        "",
        "Send each of these folders to its party alone, over a channel you trust; a private key is in it:",
        *(
            f"  {name:<16} {place}{' (no key: it has its own)' if name in agreement.keys else ''}"
            for name, place in summary["parties"].items()
        ),
        "Each party is its own authority: nobody else can certify it."
        if agreement.authorities
        else f"Keep {folder / 'authority'} yourself: who has it can admit anybody.",
        "",
        "Each owner then runs:  coterie node FOLDER --data ITS-FILE.csv",
    ]
    if what == "changed":
        lines.insert(
            2,
            "This is a new run: all start again with it, at the first step; what the old one released stays charged. "
            "Who has a folder already takes agreement.json, certificates.json and [peers] of node.toml from it.",
        )
    if planned.program.plan.masked is not None and agreement.masks is None:
        lines[-1] = (
            "Sums are masked. Each owner first runs:  coterie node FOLDER --mask-key  and tells you its public key; "
            "enter them with  coterie network keys FOLDER NAME=KEY …  and send everybody the new agreement."
        )
    if agreement.keys:
        lines.append(
            f"Before that, {', '.join(agreement.keys)} must sign:  coterie node FOLDER --sign . You enter the files "
            f"with  coterie network consent {folder} FILES  and send everybody the new folder consents."
        )
    if planned.hub:
        lines.append(f"The {planned.hub} runs:  coterie node FOLDER        (it has no records)")
    if summary["router"]:
        lines.append(
            f"The router's keeper gets {summary['router']}, and runs there:  zenohd --config router.json"
        )
    lines.append(f"To try all of it on this machine:  coterie network up {folder} --data FOLDER-OF-CSV-FILES")
    print("\n".join(lines))
