"""Persons, not rows: what a guarantee for a whole person costs, by unit clipping and by naive group privacy.

    COTERIE_DATA=… python -m papers.units              measures (minutes on two cores), kept in papers/units.json
    python -m papers.units page docs/images/units.png  prints the tables of docs/units.md and draws the picture
    python -m papers.units plan                        prints what `coterie plan` says of it, for docs/planning.md

`blackfriday` by `User_ID` (regression, R²), and the census extract with made-up persons (`papers.census_people`,
accuracy): dual averaging on a ring with all defaults, δ = 10⁻⁵, persons dealt evenly to the owners, a fifth of the
persons held out. Means over three seeds of noise.

Three ways to the same rows. *Unit*: `unit = column:…`, the sum over a person's records clipped. *Naive*: the same
records, each clipped by itself, with the noise that protects any k of them together: k times as much, which is exact
for Gaussian noise on full batches, and so the best that group privacy can do. *Rows*: all records, a guarantee for one
of them alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from coterie import topologies
from coterie.accounting.plans import against_all_others, certificates_of
from coterie.engines.simulate import simulate
from coterie.experiments.experiment import Experiment
from coterie.experiments.fitting import probe_of
from coterie.experiments.measured import central_of
from coterie.experiments.prepare import Prepared, prepare
from coterie.problems.datasets.memory import Records
from coterie.problems.holdings import records_of, to_shards
from coterie.protocols import build
from coterie.units import RECORD, unit_of
from papers import census_people

KEPT = Path(__file__).with_suffix(".json")
CAPS, EPSILON, SEEDS, DELTA = (1, 2, 5, 20), (1.0, 4.0), 3, 1e-5
ALL = 10_000  # records of a person: more than anybody has
WORDS = {"blackfriday": "R², `blackfriday` by `User_ID`", "census": "accuracy, census extract by person"}
DEVICES = {"data": "census", "owners": 1000, "partition": "iid", "unit": "owner", "records_per_unit": 20,
           "topology": "complete"}  # fmt: skip
# Owners, persons, records of a person on average, features, classes: what a plan is told of the two tables.
PUBLIC = {"blackfriday": (4, 2131, "7.2", 101, 1), "census": (10, 4404, "5", 76, 2)}
ROUNDS = 400
MASKED = {"view": "masked", "colluding": 1}
_LOOKED = 16  # models of owners, where there are more: on the complete graph all are the same


def experiment(name: str) -> Experiment:
    """The study's setting; blackfriday has 4 owners of 533 persons, the census extract 10 of about 440."""
    if name == "blackfriday":
        return Experiment(data=name, owners=4, unit="column:User_ID", metric="r2", delta=DELTA)
    rows = Records(census_people.frame())
    return Experiment(data=rows, columns=census_people.said(), owners=10, metric="accuracy", delta=DELTA)


@cache
def prepared(name: str, cap: int) -> Prepared:
    """Rows, with at most so many of a person."""
    return prepare(replace(experiment(name), records_per_unit=cap), _data())


def _data() -> Path | None:
    return Path(os.environ["COTERIE_DATA"]) if "COTERIE_DATA" in os.environ else None


def as_rows(ready: Prepared) -> Prepared:
    """The same records with the same owners, each a unit of its own."""
    owned = [records_of(ready.shards, owner)[:2] for owner in range(ready.task.owners)]
    sizes = [len(y) for _, y in owned]
    x, y = (np.concatenate(part) for part in zip(*owned))
    rows = tuple(np.split(np.arange(len(y)), np.cumsum(sizes)[:-1]))
    shards = to_shards(x, y, rows)
    return ready._replace(shards=shards, task=replace(ready.task, sizes=tuple(sizes), unit=RECORD))


def for_group(epsilon: float, delta: float, records: int) -> float:
    """The ε for one record under which so many together have (epsilon, delta): noise so many times larger."""
    from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian

    return float(get_epsilon_gaussian(records * get_sigma_gaussian(epsilon, delta), delta))


def reached(
    ready: Prepared, epsilon: float, protocol: str = "dual_averaging", settings: dict[str, Any] | None = None
) -> list[float]:
    """The metric of the owners' models on the held-out rows, for each seed of noise."""
    task = replace(ready.task, epsilon=(epsilon,) * ready.task.owners)
    program = build(protocol, task, settings or {}, "certified")
    assert max(one.epsilon for one in certificates_of(program.plan, task.delta)) <= epsilon
    mixer = topologies.mixer(task.topology, topologies.gossip_steps_for(task.topology))
    if program.aggregate is not None:
        mixer = topologies.aggregate(program.aggregate)
    look, found = probe_of(ready), []
    for seed in range(SEEDS):
        models = simulate(program, ready.shards, mixer, seed=seed).model
        found.append(float(np.mean(look(jax.tree.map(lambda leaf: leaf[:_LOOKED], models))[0])))
    return found


def study(name: str) -> Iterator[tuple[str, Any]]:
    """Every cell of a data set's table."""
    everybody = prepared(name, ALL)
    yield "persons", sum(everybody.task.sizes)
    rows = as_rows(everybody)
    yield "records", sum(rows.task.sizes)
    yield "central", central_of(rows)
    for epsilon in EPSILON:
        yield f"rows {epsilon:g}", reached(rows, epsilon)
        for cap in CAPS:
            ready = prepared(name, cap)
            yield f"unit {cap} {epsilon:g}", reached(ready, epsilon)
            yield f"naive {cap} {epsilon:g}", reached(as_rows(ready), for_group(epsilon, DELTA, cap))


def devices() -> Iterator[tuple[str, Any]]:
    """A thousand devices of 20 census records each, protected whole; and as many owners on their own noise."""
    ready = prepare(Experiment(**DEVICES, delta=DELTA))
    task = replace(ready.task, epsilon=(4.0,) * ready.task.owners)
    plan = build("dual_averaging", task, MASKED, "certified").plan
    yield "all others", max(one.epsilon for one in against_all_others(plan, DELTA))
    yield "central", central_of(ready)
    for epsilon in EPSILON:
        yield f"masked {epsilon:g}", reached(ready, epsilon, settings=MASKED)
        yield f"own noise {epsilon:g}", reached(ready, epsilon)


def measure(names: list[str]) -> None:
    """Keep what is found, cell by cell."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in names or [*WORDS, "devices"]:
        kept[name] = {}
        for cell, value in devices() if name == "devices" else study(name):
            kept[name][cell] = value
            print(name, cell, value, flush=True)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")


def table(kept: dict[str, Any], name: str) -> str:
    """A data set's table as the page has it."""
    found = kept[name]
    lines = [
        f"| {WORDS[name]}, cap k | unit, ε = 1 | naive, ε = 1 | unit, ε = 4 | naive, ε = 4 |",
        "|---|---|---|---|---|",
    ]
    for cap in CAPS:
        cells = [_mean(found[f"{way} {cap} {epsilon:g}"]) for epsilon in EPSILON for way in ("unit", "naive")]
        lines.append(f"| {cap} | {' | '.join(cells)} |")
    rows = [_mean(found[f"rows {epsilon:g}"]) for epsilon in EPSILON]
    lines.append(f"| one row only, all records | {rows[0]} | | {rows[1]} | |")
    return "\n".join(lines)


def device_table(kept: dict[str, Any]) -> str:
    """The table of a thousand devices."""
    found = kept["devices"]
    lines = ["| 1,000 devices of 20 records, each protected whole | ε = 1 | ε = 4 |", "|---|---|---|"]
    for way, words in (("masked", "masked sums, one colluder"), ("own noise", "own noise, no masks")):
        lines.append(f"| {words} | {' | '.join(_mean(found[f'{way} {epsilon:g}']) for epsilon in EPSILON)} |")
    return "\n".join(lines)


def forecasts(name: str) -> Iterator[tuple[float, int | None, float]]:
    """ε, the cap and the points that a plan expects to lose, told how many records persons have on average, no more."""
    from coterie.planning.caps import compare
    from coterie.planning.constants import assumed
    from coterie.planning.metric import on_made_up
    from coterie.planning.persons import declared
    from coterie.planning.public import Consortium, problem_for
    from coterie.planning.search import plan

    owners, persons, mean, dimension, classes = PUBLIC[name]
    constants = replace(assumed(dimension), persons=declared(mean))
    exchange = on_made_up(problem_for(dimension, classes), constants, classes)
    for epsilon in EPSILON:
        base = Consortium(
            sizes=(persons // owners,) * owners,
            dimension=dimension,
            classes=classes,
            epsilon=(epsilon,),
            delta=DELTA,
            unit=unit_of("column:person"),
        )
        found = plan(base.task(), ROUNDS, constants, protocol="dual_averaging")
        for cap in compare(base.task(), found, ROUNDS, constants):
            yield epsilon, cap.cap, 100 * exchange.told(cap.best)[0].lost


def forecast_table(kept: dict[str, Any]) -> str:
    """Told and measured, in points of 100 below the best linear model without privacy."""
    columns = [f"{name}, ε = {epsilon:g}" for name in WORDS for epsilon in EPSILON]
    lines = [
        "| " + " | ".join(("told / measured, cap k", *columns)) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    told = {(name, *at): lost for name in WORDS for *at, lost in forecasts(name)}
    for cap in (*CAPS, None):
        cells = []
        for name in WORDS:
            for epsilon in EPSILON:
                cell = kept[name][f"rows {epsilon:g}" if cap is None else f"unit {cap} {epsilon:g}"]
                measured = 100 * (kept[name]["central"] - np.mean(cell))
                cells.append(f"{told[name, epsilon, cap]:.1f} / {measured:.1f}")
        lines.append(f"| {'one row only, all records' if cap is None else cap} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f}"


def draw(kept: dict[str, Any], file: Path) -> None:
    """The metric over the cap, at both budgets."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from coterie.reports.style import LIGHT

    figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
    for axes, name in zip(panels, WORDS):
        found = kept[name]
        for epsilon, line in zip(EPSILON, ("--", "-")):
            for way, colour in (("unit", LIGHT["joint"]), ("naive", LIGHT["floor"])):
                values = [np.mean(found[f"{way} {cap} {epsilon:g}"]) for cap in CAPS]
                label = f"{'unit clip' if way == 'unit' else 'naive group privacy'}, ε = {epsilon:g}"
                axes.plot(CAPS, values, line, color=colour, marker="o", markersize=4, label=label)
        axes.axhline(
            np.mean(found["rows 1"]),
            color=LIGHT["soft"],
            linewidth=1,
            linestyle=":",
            label="one row only, ε = 1",
        )
        axes.set_xscale("log")
        axes.set_xticks(CAPS, [str(cap) for cap in CAPS])
        axes.minorticks_off()
        axes.set_xlabel("records of a person that are kept, at most")
        axes.set_ylabel(WORDS[name].split(",")[0])
        axes.set_title(WORDS[name].split(", ")[1].replace("`", ""), fontsize=10)
        axes.grid(color=LIGHT["line"], linewidth=0.5)
    panels[0].legend(fontsize=8, frameon=False)
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    if sys.argv[1:2] == ["page"]:
        stored = json.loads(KEPT.read_text())
        print("\n\n".join([*(table(stored, name) for name in WORDS), device_table(stored)]))
        draw(stored, Path(sys.argv[2]))
    elif sys.argv[1:2] == ["plan"]:
        print(forecast_table(json.loads(KEPT.read_text())))
    else:
        measure(sys.argv[1:])
