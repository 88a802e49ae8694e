"""How far the certified defaults are from the best radius in hindsight, and owners who trust nobody from a server.

The radius is guessed from public numbers alone, `Loss.length` (`protocols/task.radius_for`). Its constants were
compared on other sets than those judged here (`scale_choosing`, docs/radius.md).

    COTERIE_DATA=… python -m papers.scale                          every set, ε = 0.5, 1, 4 (hours on two cores)
    COTERIE_DATA=… python -m papers.scale adult mnist --epsilon 1  some; what is measured is kept in papers/scale.json
    python -m papers.scale table                                   docs/results.md gets the table of all that is kept
    COTERIE_DATA=… python -m papers.scale paired SET --seeds 40    a trusted server beside owners who trust nobody

Owners are ten with equal shares of the records, drawn once; seeds draw the noise.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np

from coterie import topologies
from coterie.engines.sweep import Lane, alike, sweep
from coterie.experiments.experiment import Experiment
from coterie.experiments.fitting import probe_of
from coterie.experiments.prepare import Prepared, prepare
from coterie.program import Program
from coterie.protocols import Task, build

JUDGING = ("adult", "covtype", "credit_card_balanced", "breast_cancer", "mnist", "lending_club", "sparcs")
CLASSES = (10.0, 40.0, 150.0, 600.0)  # radii to compare with
QUANTITIES = (0.3, 1.0, 3.0, 10.0, 40.0)
OWNERS = 10
SMALL = 3000  # records: below, ten seeds in place of five
KEPT = Path(__file__).with_suffix(".json")
RESULTS = Path(__file__).parent.parent / "docs" / "results.md"
TITLE = "## Defaults beside fixed radii on the judging sets"

Case: TypeAlias = tuple[str, dict[str, Any]]  # a protocol and its settings
TRUST: list[Case] = [("dual_averaging", {}), ("weighted_erm", {"view": "aggregator"}), ("central_erm", {})]


def delta_of(name: str) -> float:
    """1/n² for MNIST, as the paper that uses it has; else 1e-5."""
    return {"mnist": 1 / 60_000**2}.get(name, 1e-5)


def loaded(name: str) -> Prepared:
    """Ten owners with equal shares."""
    return prepare(
        Experiment(data=name, owners=OWNERS, partition="iid", epsilon=(1.0,), delta=delta_of(name)), None
    )


def measured(
    ready: Prepared, task: Task, cases: list[Case], seeds: int, gossip_steps: int | None = None
) -> np.ndarray:
    """(cases, seeds) the metric of the joint model on the public test rows; a quantity's is scaled onto [-1, 1]."""
    together: dict[Any, list[tuple[int, Lane]]] = {}
    for place, (protocol, settings) in enumerate(cases):
        program = build(protocol, task, settings, "certified")
        for seed in range(seeds):
            lane = Lane(program, _mixer(task, program, gossip_steps), seed)
            together.setdefault(alike(lane, ready.shards), []).append((place * seeds + seed, lane))
    found, look = np.empty(len(cases) * seeds), probe_of(ready)
    for group in together.values():
        places, lanes = zip(*group)

        def metrics(models: Any, many: int = len(lanes)) -> list[float]:
            each = (jax.tree.map(lambda leaf, at=at: leaf[at], models) for at in range(many))
            return [float(np.mean(look(model)[0])) for model in each]

        schedule = lanes[0].program.schedule
        total = schedule if isinstance(schedule, int) else len(schedule)
        _, looks = sweep(lanes, ready.shards, every=total, probe=metrics)
        found[list(places)] = looks[-1]
    low, high = ready.table.target_bounds or (-1.0, 1.0)
    return found.reshape(len(cases), seeds) * (2 / (high - low)) ** 2


def _mixer(task: Task, program: Program, gossip_steps: int | None) -> topologies.Mixer:
    if program.aggregate is not None:
        return topologies.aggregate(program.aggregate)
    return topologies.mixer(task.topology, gossip_steps or topologies.gossip_steps_for(task.topology))


def judged(name: str, budgets: list[float], seeds: int | None) -> Iterator[dict[str, Any]]:
    """A row for each budget: the default, a trusted server's, and dual averaging with each fixed radius."""
    ready = loaded(name)
    quantity = not ready.task.problem.loss.classes
    radii = QUANTITIES if quantity else CLASSES
    cases = TRUST + [("dual_averaging", {"radius": radius}) for radius in radii]
    many = seeds or (10 if sum(ready.task.sizes) < SMALL else 5)
    for epsilon in budgets:
        task = replace(ready.task, epsilon=(epsilon,) * ready.task.owners)
        values = measured(ready, task, cases, many)
        means = values.mean(axis=1).tolist()
        yield {
            "set": name,
            "epsilon": epsilon,
            "metric": ready.judge.metric,
            "seeds": many,
            "default": means[0],
            "spread": float(values[0].std(ddof=1)) if many > 1 else None,
            "aggregator": means[1],
            "server": means[2],
            "fixed": dict(zip(map(str, radii), means[3:])),
        }


def keep(row: dict[str, Any]) -> None:
    """Into the file of what was measured, in the place of what it held for that set and budget."""
    rows = {
        (one["set"], one["epsilon"]): one for one in (json.loads(KEPT.read_text()) if KEPT.exists() else [])
    }
    rows[row["set"], row["epsilon"]] = row
    KEPT.write_text(json.dumps([rows[key] for key in sorted(rows)], indent=1) + "\n")


def lost(row: dict[str, Any]) -> float:
    """To the best fixed radius: points of accuracy or of AUC; per cent of a squared error."""
    if row["metric"] == "mse":
        return 100 * (row["default"] / min(row["fixed"].values()) - 1)
    return 100 * (max(row["fixed"].values()) - row["default"])


def section(rows: list[dict[str, Any]]) -> list[str]:
    """The table in Markdown."""
    lines = [
        TITLE,
        "",
        "`python -m papers.scale`, then `python -m papers.scale table`. Ten owners with equal shares, means over "
        "seeds; δ = 10⁻⁵, on MNIST 1/n². *default*: certified dual averaging, nobody trusted. *aggregator*, *server*: "
        "`weighted_erm` with that view and `central_erm`, by default, too. Then dual averaging with a fixed radius, "
        "and what the default loses to the best of them: points, or per cent of the mean squared error (targets "
        "scaled onto [-1, 1]). How the rule was chosen, and how blind this test is, is in [radius](radius.md).",
        "",
        "| set | ε | metric | seeds | default | aggregator | server | by fixed radius | lost |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        shown = (
            (lambda value: f"{value:.5f}") if row["metric"] == "mse" else (lambda value: f"{100 * value:.2f}")
        )
        spread = "" if row["spread"] is None else f" ± {shown(row['spread'])}"
        fixed = ", ".join(f"{float(radius):g}: {shown(value)}" for radius, value in row["fixed"].items())
        own = f"**{shown(row['default'])}**{spread}"
        unit = " %" if row["metric"] == "mse" else ""
        lines.append(
            f"| {row['set']} | {row['epsilon']:g} | {row['metric']} | {row['seeds']} | {own} | "
            f"{shown(row['aggregator'])} | {shown(row['server'])} | {fixed} | {lost(row):+.2f}{unit} |"
        )
    for words, some in (
        ("Points lost by classifiers", [lost(row) for row in rows if row["metric"] != "mse"]),
        ("Per cent lost by regressions", [lost(row) for row in rows if row["metric"] == "mse"]),
    ):
        if some:
            lines += ["", f"{words}: {np.mean(some):.2f} on average, {max(some):.2f} at worst."]
    absent = [
        f"{name} at ε = {epsilon:g}"
        for name, epsilon in itertools.product(JUDGING, (0.5, 1.0, 4.0))
        if (name, epsilon) not in {(row["set"], row["epsilon"]) for row in rows}
    ]
    return [*lines, *(["", f"Not run: {', '.join(absent)}."] if absent else []), ""]


def kept_section() -> list[str]:
    """The table of what was measured and kept."""
    return section(json.loads(KEPT.read_text()))


def tabulate() -> None:
    """Put the table at the end of docs/results.md, in the place of the one there."""
    before = RESULTS.read_text().split(TITLE)[0].rstrip("\n")
    RESULTS.write_text("\n".join([before, "", *kept_section()]))


def paired(name: str, budgets: list[float], seeds: int) -> Iterator[str]:
    """What an aggregator and a server gain over the default on the same seeds: points, ± one standard error."""
    ready = loaded(name)
    for epsilon in budgets:
        task = replace(ready.task, epsilon=(epsilon,) * ready.task.owners)
        own, *trusted = 100 * measured(ready, task, TRUST, seeds)
        for (protocol, _), values in zip(TRUST[1:], trusted):
            gain = values - own
            error = gain.std(ddof=1) / np.sqrt(seeds)
            yield f"{name} {epsilon:g} {protocol}: {gain.mean():+.2f} ± {error:.2f} points, {seeds} seeds"


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(JUDGING))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--seeds", type=int)
    given = parser.parse_args()
    if given.sets == ["table"]:
        return tabulate()
    if given.sets[:1] == ["paired"]:
        for name in given.sets[1:]:
            for line in paired(name, given.epsilon, given.seeds or 40):
                print(line, flush=True)
        return None
    for name in given.sets:
        for row in judged(name, given.epsilon, given.seeds):
            keep(row)
            print(json.dumps(row), flush=True)
    return None


if __name__ == "__main__":
    main()
