"""Plans and forecasts against what really happens.

1. Settings recommended by `plan` have at most 1.25 times the excess risk of the best of a grid (`GRID` of
   dual_averaging, and the other protocols' own defaults), mean of ten seeds. The plan sees sizes, budgets and the
   declared public test rows; excess risk is that of the regularised mean loss over the owners' records.
2. Who gains by joining, on Adult over ε and the number of partners: what `plan join` predicts from one owner's records
   and what the recommended run measures on the public test rows have the same sign where the forecast is sure.

3. Who gains among owners of different sizes, on the embedded census data over ε and the number of partners: each
   owner's own model without privacy, as it judges itself and as it is, against the joint private one.

    python -m papers.test_plans [FOLDER]     prints the tables for all records; draws who gains into FOLDER

The tests are the quick version: the first records of each owner.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.engines.sweep import Lane, alike, sweep
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import Prepared, prepare
from coterie.planning.constants import Constants, assumed, from_public_rows
from coterie.planning.gains import by_sizes
from coterie.planning.join import Owner, ask, look
from coterie.planning.public import Consortium
from coterie.planning.search import plan
from coterie.problems.holdings import to_shards
from coterie.problems.partition import Partition
from coterie.problems.reference import central_optimum, objective_value
from coterie.program import Holdings, Shards
from coterie.protocols import Task, build
from papers.plan_figures import Gain, who_gains

OWNERS, SEEDS = 10, range(10)
SPREAD = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # γ over 2 × smoothness
CLIPS = (0.5, 0.75, 1.0)  # of the gradient's bound
ROUNDS = (20, 40, 80, 160)
MEMORY = 20_000_000  # scores of all records held at once
OTHERS = ("push_sum", "weighted_erm", "async_learner", "wor_sgd")


Setting: TypeAlias = tuple[str, dict[str, Any]]  # a protocol, and what it is set to


class World(NamedTuple):
    """Owners' records, and what a plan may see of them."""

    task: Task
    shards: Holdings
    constants: Constants
    x: np.ndarray
    y: np.ndarray
    least: float  # the smallest regularised mean loss: oracle


class Found(NamedTuple):
    """Mean excess risks."""

    planned: float
    predicted: tuple[float, float, float]  # low, middle, high
    best: float
    settings: Setting
    best_settings: Setting


def world(data: str, rows: int, epsilon: float) -> World:
    folder = os.environ.get("COTERIE_DATA")
    assert folder, "set COTERIE_DATA to the folder that holds the data sets (docs/data.md)"
    experiment = Experiment(
        data=data, owners=OWNERS, partition="iid", topology="complete", epsilon=(epsilon,)
    )
    found = prepare(experiment, Path(folder))
    shards, x, y = some(found, range(OWNERS), rows)
    task = replace(found.task, sizes=tuple(min(size, rows) for size in found.task.sizes))
    assert found.table.test_is_public
    constants = from_public_rows(found.x_test, found.y_test, max(len(found.table.classes), 2))
    least = objective_value(task.problem, central_optimum(task.problem, x, y), x, y)
    return World(task, shards, constants, x, y, least)


def some(found: Prepared, owners: range, rows: int) -> tuple[Holdings, np.ndarray, np.ndarray]:
    """The first `rows` records of each of these owners, by owner and all together."""
    each = [[part[:rows] for part in found.shards.of(owner)] for owner in owners]
    x, y = (np.concatenate(part) for part in zip(*each))
    ends = np.cumsum([len(own) for _, own in each])
    parts = Partition(tuple(np.split(np.arange(len(y)), ends[:-1])), tuple(map(str, owners)))
    return jax.tree.map(jnp.asarray, to_shards(x, y, parts.rows)), x, y


def measured(world: World, tried: list[Setting], seeds: range = SEEDS) -> list[float]:
    """Mean excess risk of each setting; runs that can go side by side do."""
    groups: dict[Hashable, list[tuple[int, Lane]]] = {}
    for at, (protocol, settings) in enumerate(tried):
        program = build(protocol, world.task, settings, "certified")
        mixer = topologies.mixer(world.task.topology, 1)
        if program.aggregate is not None:
            mixer = topologies.aggregate(program.aggregate)
        for seed in seeds:
            lane = Lane(program, mixer, seed)
            groups.setdefault(alike(lane, world.shards), []).append((at, lane))
    risks: list[list[float]] = [[] for _ in tried]
    most = max(1, MEMORY // (len(world.y) * world.task.problem.loss.outputs))
    for group in groups.values():
        for first in range(0, len(group), most):
            part = group[first : first + most]
            ends = _ends(world, [lane for _, lane in part])
            for (at, _), end in zip(part, ends):
                risks[at].append(objective_value(world.task.problem, end, world.x, world.y) - world.least)
    return [float(np.mean(each)) for each in risks]


def _ends(world: World, lanes: list[Lane]) -> np.ndarray:
    """(lanes, dimension, outputs) the mean of the owners' models at the end of each run."""
    program = lanes[0].program
    steps = program.schedule if isinstance(program.schedule, int) else len(program.schedule)
    _, looks = sweep(lanes, world.shards, every=steps, probe=lambda models: np.asarray(models, float).mean(1))
    return looks[-1]


def grid(task: Task, rounds: tuple[int, ...]) -> list[Setting]:
    smoothness = task.problem.loss.smoothness * (task.clip_norm / task.problem.loss.lipschitz) ** 2
    ours = itertools.product(rounds, (2 * smoothness * part for part in SPREAD), CLIPS)
    tried = [("dual_averaging", {"rounds": t, "gamma": gamma, "clip": clip}) for t, gamma, clip in ours]
    return [("dual_averaging", {}), *tried, *((name, {}) for name in OTHERS)]


def compare(world: World, rounds: tuple[int, ...], others: bool = True) -> Found:
    best = plan(world.task, 200, world.constants).best
    planned: Setting = (best.protocol, best.settings)
    tried = [one for one in grid(world.task, rounds) if others or (one[0] == "dual_averaging" and one[1])]
    planned_risk, *risks = measured(world, [planned, *tried])
    least = int(np.nanargmin(risks))
    return Found(planned_risk, (best.low, best.predicted, best.high), risks[least], planned, tried[least])


@pytest.mark.parametrize(
    ("data", "rows", "epsilon"), [("adult", 3016, 1.0), ("covtype", 1500, 2.0), ("mnist", 400, 4.0)]
)
def test_planned_settings_are_near_the_best_of_a_grid(data, rows, epsilon):
    found = compare(world(data, rows, epsilon), rounds=(40,), others=False)
    print(data, found)
    assert found.planned <= 1.25 * found.best, found


class Joined(NamedTuple):
    """Excess risk on the public test rows over the optimum of all records; means over owners and seeds."""

    epsilon: float
    partners: int
    alone: tuple[float, float]  # predicted, measured
    joint: tuple[float, float]
    sure: bool  # whether the forecast's interval lies on one side


def joining(
    records: int, partners: tuple[int, ...], budgets: tuple[float, ...], seeds: range
) -> list[Joined]:
    """Adult dealt evenly; the first owner asks, the first `partners` others join it."""
    everyone = prepare(
        Experiment(data="adult", owners=50, partition="iid", topology="complete"),
        Path(os.environ["COTERIE_DATA"]),
    )
    problem, x_test, y_test = everyone.task.problem, everyone.x_test, everyone.y_test
    each = [everyone.shards.of(owner) for owner in range(everyone.task.owners)]
    x, y = (np.stack([own[:records] for own in part]) for part in zip(*each))
    whole = central_optimum(problem, *(np.concatenate(part) for part in zip(*each)))
    least = objective_value(problem, whole, x_test, y_test)

    def excess(params: np.ndarray) -> float:
        return objective_value(problem, params, x_test, y_test) - least

    owner, found = look(x[0], y[0], classes=2), []
    alone = excess(central_optimum(problem, x[0], y[0]))
    for many, epsilon in itertools.product(partners, budgets):
        base = Consortium(sizes=(records,), dimension=x.shape[2], epsilon=(epsilon,), topology="complete")
        answer = ask(owner, base, many, records, rounds_at_most=200)
        best = answer.plan.best
        task = replace(base, sizes=(records,) * (many + 1)).task()
        program = build(best.protocol, task, best.settings, "certified")
        mixer = topologies.mixer(task.topology, 1)
        if program.aggregate is not None:
            mixer = topologies.aggregate(program.aggregate)
        some = slice(0, many + 1)
        shards = Shards(jnp.asarray(x[some]), jnp.asarray(y[some]), jnp.full(many + 1, records, jnp.int32))
        ends = [
            np.asarray(simulate(program, shards, mixer, seed=seed).model, float).mean(0) for seed in seeds
        ]
        joint = float(np.mean([excess(end) for end in ends]))
        sure = not answer.joint.low < owner.excess < answer.joint.high
        found.append(Joined(epsilon, many, (owner.excess, alone), (answer.joint.predicted, joint), sure))
    return found


def test_the_answer_about_joining_holds_where_it_is_sure():
    found = joining(300, partners=(2, 20), budgets=(0.1, 3.0), seeds=range(5))
    for row in found:
        print(row)
    sure = [row for row in found if row.sure]
    assert sure
    assert all((row.alone[0] > row.joint[0]) == (row.alone[1] > row.joint[1]) for row in sure), found


class Census(NamedTuple):
    """The embedded census data by industry: owners of very different sizes, and what they would reach alone."""

    prepared: Prepared
    own: list[Owner]  # as each owner sees itself
    measured: np.ndarray  # (owners,) excess risk on the public test rows of its own model
    least: float  # the loss there of the optimum over all records


def census(owners: int) -> Census:
    everyone = prepare(Experiment(topology="complete"))
    problem = everyone.task.problem
    each = [everyone.shards.of(owner) for owner in range(everyone.task.owners)]
    x, y = (np.concatenate(part) for part in zip(*each))
    least = objective_value(problem, central_optimum(problem, x, y), everyone.x_test, everyone.y_test)
    own, risks = [], []
    for x, y in each[:owners]:
        own.append(look(x, y, classes=2))
        alone = central_optimum(problem, x, y)
        risks.append(objective_value(problem, alone, everyone.x_test, everyone.y_test) - least)
    return Census(everyone, own, np.array(risks), least)


def gains(data: Census, owners: int, epsilon: float, seeds: range) -> Gain:
    """The first owners together, with the settings that the plan recommends from public numbers alone."""
    whole = data.prepared
    sizes = whole.task.sizes[:owners]
    base = Consortium(sizes=sizes, dimension=whole.x_test.shape[1], epsilon=(epsilon,), topology="complete")
    best = plan(base.task(), 200).best
    shards, _, _ = some(whole, range(owners), max(sizes))
    there = World(base.task(), shards, assumed(base.dimension), whole.x_test, whole.y_test, data.least)
    (joint,) = measured(there, [(best.protocol, best.settings)], seeds)
    own = np.array([one.excess for one in data.own[:owners]])
    sampled = float(np.mean(own * np.array(sizes))) / sum(sizes)  # c over everyone's records
    return Gain(
        title=f"ε = {epsilon:g}, {owners - 1} partners",
        sizes=np.array(sizes),
        own_predicted=own,
        own_measured=data.measured[:owners],
        joint_predicted=best.predicted + sampled,
        joint_interval=(best.low + sampled, best.high + sampled),
        joint_measured=joint,
    )


def told_by_sizes(data: Census, owners: int, epsilon: float) -> int:
    """How many are told to gain by their sizes alone, no record being read."""
    base = Consortium(
        sizes=data.prepared.task.sizes[:owners],
        dimension=data.prepared.x_test.shape[1],
        epsilon=(epsilon,),
        topology="complete",
    )
    who = by_sizes(base.task(), plan(base.task(), 200))
    assert who is not None
    return sum(who.gains)


def test_who_gains_among_owners_of_different_sizes():
    found = gains(census(8), 8, epsilon=3.0, seeds=range(5))
    print(found)
    promised = found.own_predicted > found.joint_predicted
    assert promised.any(), found
    assert np.all(found.own_measured[promised] > found.joint_measured), found  # who is told to join does gain
    assert found.joint_interval[0] < found.joint_measured < found.joint_interval[1], found


def print_gains(folder: Path | None) -> None:
    """Who gains, over ε and the number of partners; draws it into the folder."""
    data = census(20)
    panels = [
        [gains(data, owners, epsilon, range(10)) for epsilon in (0.3, 1.0, 3.0)] for owners in (5, 10, 20)
    ]
    print("| | joint, predicted | joint, measured | by sizes alone | predicted to gain | gain |")
    print("|---|---|---|---|---|---|")
    asked = itertools.product((5, 10, 20), (0.3, 1.0, 3.0))
    for one, (owners, epsilon) in zip(itertools.chain(*panels), asked):
        predicted, did = one.counts
        told = told_by_sizes(data, owners, epsilon)
        risks = f"{one.joint_predicted:.3f} | {one.joint_measured:.3f}"
        print(f"| {one.title} | {risks} | {told} | {predicted} | {did} |")
    if folder is not None:
        title = "Who gains by joining: 20 industries of the census data"
        who_gains(panels, title).savefig(folder / "who-gains.png")


def main() -> None:
    """Print the tables."""
    print(
        "| data | records | ε | planned | predicted | best of grid | ratio | planned settings | best settings |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for data, rows, epsilon in (("adult", 3016, 1.0), ("covtype", 46_480, 1.0), ("mnist", 6000, 1.0)):
        found = compare(world(data, rows, epsilon), ROUNDS)
        low, middle, high = found.predicted
        print(
            f"| {data} | {OWNERS * rows:,} | {epsilon:g} | {found.planned:.4f} | {middle:.4f} ({low:.4f}–{high:.4f}) | "
            f"{found.best:.4f} | {found.planned / found.best:.2f} | {found.settings} | {found.best_settings} |",
            flush=True,
        )
    print("| partners | ε | joint, predicted | joint, measured | alone, predicted | alone, measured | sure |")
    print("|---|---|---|---|---|---|---|")
    for row in joining(300, (2, 5, 20, 49), (0.1, 0.3, 1.0, 3.0), range(5)):
        numbers = (*row.joint, *row.alone)
        cells = " | ".join(f"{number:.3f}" for number in numbers)
        print(f"| {row.partners} | {row.epsilon:g} | {cells} | {'yes' if row.sure else 'no'} |", flush=True)
    print_gains(Path(sys.argv[1]) if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
