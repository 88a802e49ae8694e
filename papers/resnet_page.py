"""Certificates, pictures and the table of the runs that `resnet_cifar.py` made; needs what coterie needs."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.accounting import Certificate, Claim
from coterie.accounting.plans import certificates_of
from papers.reproductions.figures import Picture, Point, Table, markdown
from papers.reproductions.figures import draw as figure
from papers.resnet_cifar import DELTA, Run, program

NAMES = {"none": "SGP, no noise", "adaptive": "AdaD²P", "constant": "ConstD²P", "clipped": "ClipD²P"}
MEASURES = {
    "accuracy": ("Test accuracy", "accuracy", False, ".1%"),
    "loss": ("Training loss (500 records)", "loss", True, ".3f"),
    "slope": ("Gradient norm (500 records)", "norm", True, ".3f"),
}


def certify(path: Path) -> None:
    """Add the claim and the certificate of each run to the file; they do not depend on seed, C or G."""
    document, known = json.loads(path.read_text()), {}
    for entry in document["runs"]:
        run = Run(**entry["settings"])._replace(seed=0, clip=1.0, bound=8.5)
        if run not in known:
            known[run] = stated(run)
            print(f"{run.policy} σ = {run.sigma:g}, batch {run.batch}: {known[run][1]}", flush=True)
        claim, certificate = known[run]
        entry |= {"claim": claim.to_json(), "certificate": certificate.to_json()}
    path.write_text(json.dumps(document, indent=1) + "\n")


def stated(run: Run) -> tuple[Claim, Certificate]:
    """What is claimed and certified; owners are alike, so one stands for all."""
    ready, _ = program(run)
    one = {name: getattr(ready.plan, name)[:1] for name in ("sizes", "releases", "noise_multiplier")}
    return ready.claim, certificates_of(replace(ready.plan, **one), DELTA)[0]


def draw(path: Path, folder: Path = Path("docs/images")) -> None:
    """The paper's three curves for each batch at σ = 0.04, of the mean of the owners' models; prints the table."""
    runs = json.loads(path.read_text())["runs"]
    for batch in (1, 8):
        own = [run for run in runs if run["settings"]["batch"] == batch and run["settings"]["sigma"] == 0.04]
        words = (
            f"ResNet-18 on CIFAR-10, 20 owners, σ = 0.04, {batch} record{'s' * (batch > 1)} a step, 3 seeds"
        )
        for measure, (title, axis, log, form) in MEASURES.items():
            points = [_point(series, alike, measure) for series, alike in _series(own).items()]
            figure(points, Picture(title, words, "iteration", axis, log, form)).savefig(
                folder / f"gpu-{measure}-b{batch}.png"
            )
    print("\n".join(markdown(table(runs))))


def table(runs: list[dict[str, Any]]) -> Table:
    """A row for each setting: accuracies after the run over seeds, mean ± standard deviation, and the certificate."""
    head = [
        "policy",
        "records a step",
        "σ",
        "mean model",
        "owners' models, mean (worst)",
        "‖g‖ (rms)",
        "certified ε",
    ]
    rows, published = [], [run for run in runs if run["settings"]["rate"] is None]
    for (batch, sigma), some in sorted(_by(published, lambda run: (run["batch"], -run["sigma"])).items()):
        for series, alike in _series(some).items():
            last = np.array([run["accuracy"][-1] for run in alike])
            owners = np.mean([run["owner_mean"] for run in alike])
            norms = [value for run in alike for value in run["norm_rms"]]
            epsilon = float(alike[0]["certificate"]["epsilon"])
            rows.append([
                series,
                str(batch),
                "–" if alike[0]["settings"]["policy"] == "none" else f"{-sigma:g}",
                f"{last.mean():.1%} ± {100 * last.std(ddof=1):.1f}",
                f"{owners:.1%} ({min(run['owner_worst'] for run in alike):.1%})",
                f"{min(norms):.1f} – {max(norms):.1f}",
                f"{epsilon:,.0f}" if math.isfinite(epsilon) else "∞",
            ])  # fmt: skip
    return Table(head, rows)


def _series(runs: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Runs that differ in their seed alone, by what the series is called."""
    found = defaultdict(list)
    for run in sorted(runs, key=lambda run: list(NAMES).index(run["settings"]["policy"])):
        one = Run(**run["settings"])
        found[NAMES[one.policy] + (f", {one.label}" if one.label else "")].append(run)
    return found


def _by(runs: list[dict[str, Any]], key: Any) -> dict[Any, list[dict[str, Any]]]:
    found = defaultdict(list)
    for run in runs:
        found[key(run["settings"])].append(run)
    return found


def _point(series: str, alike: list[dict[str, Any]], measure: str) -> Point:
    values = np.array([run[measure] for run in alike])
    curve = np.stack([alike[0]["step"], values.mean(axis=0), values.min(axis=0), values.max(axis=0)])
    last = values[:, -1]
    return Point(series, 0.0, last.mean(), last.std(ddof=1), len(alike), None, math.inf, None, curve)
