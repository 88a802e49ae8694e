"""A forecast in the metric's own units: what it must be at both ends, on made-up rows, and against real runs."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from coterie import topologies
from coterie.cli import app
from coterie.engines.sweep import Lane, sweep
from coterie.planning.constants import GAP, assumed, from_public_rows, groups_of
from coterie.planning.join import ask, look
from coterie.planning.metric import on_made_up, on_rows
from coterie.planning.public import Consortium, problem_for
from coterie.planning.search import End, plan
from coterie.problems.reference import central_optimum
from coterie.program import Shards
from coterie.protocols import build

DIM = 10


def end(reached: float, scatter: float, dimension: int = DIM) -> End:
    groups = len(groups_of(dimension)) - 1
    return End(np.full(groups, reached), np.full(groups, scatter))


def records(rows: int, seed: int = 0, rate_shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """A constant feature and Gaussian ones, of norm at most one; classes as a logistic model has them."""
    rng = np.random.default_rng(seed)
    x = np.hstack([np.full((rows, 1), 2.0), rng.standard_normal((rows, DIM - 1))])
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    truth = np.r_[rate_shift, np.linspace(-8, 8, DIM - 1)]
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-x @ truth)), 1.0, -1.0)
    return x.astype(np.float32), y.astype(np.float32)


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_who_arrives_loses_nothing_and_who_knows_nothing_loses_all(classes):
    exchange = on_made_up(problem_for(DIM, classes), assumed(DIM), classes)
    for name in exchange.names:
        assert exchange.lost(name, end(1.0, 0.0)) == 0.0
        nothing = {"accuracy": 1 / max(classes, 2), "auc": 0.5, "r2": 0.0}[name]
        at_zero = exchange.level(name) - exchange.lost(name, end(0.0, 0.0))
        assert at_zero == pytest.approx(nothing, abs=0.04)
        lost = [exchange.lost(name, end(1.0, scatter)) for scatter in (0.1, 1.0, 10.0, 100.0)]
        assert lost == sorted(lost)
        assert 0 < lost[0] < lost[-1]


@pytest.mark.parametrize("rate", [0.5, 0.25, 0.03])
def test_made_up_classes_are_as_common_as_declared_and_as_hard_as_assumed(rate):
    """4,000 rows: the share has a standard deviation of at most 0.008; the seed is fixed."""
    exchange = on_made_up(problem_for(DIM, 2), assumed(DIM), 2, rate)
    assert np.mean(exchange.y > 0) == pytest.approx(rate, abs=0.03)
    if rate == 0.5:
        saved = 1 - exchange._loss(exchange.best[None]) / np.log(2)
        assert saved == pytest.approx(GAP, abs=0.04)
    assert 0.85 < exchange.level("auc") < 0.95  # as hard to tell apart, however common


def test_told_is_near_what_a_run_loses():
    """The recommended run on records like the public rows: what it loses lies in the interval that was told."""
    public, labels = records(4000, seed=1)
    x, y = records(3000, seed=2)
    base = Consortium(sizes=(1000,) * 3, dimension=DIM, topology="complete", epsilon=(0.5,))
    task = base.task()
    found = plan(task, 40, from_public_rows(public, labels))
    program = build(found.best.protocol, task, found.best.settings, "certified")
    mixer = topologies.mixer(task.topology, 1)
    if program.aggregate is not None:
        mixer = topologies.aggregate(program.aggregate)
    shards = Shards(jnp.asarray(x.reshape(3, 1000, DIM)), jnp.asarray(y.reshape(3, 1000)), jnp.full(3, 1000))
    steps = program.schedule if isinstance(program.schedule, int) else len(np.asarray(program.schedule))
    _, looks = sweep([Lane(program, mixer, seed) for seed in range(8)], shards, every=steps, probe=np.asarray)
    exchange = on_rows(task.problem, public, labels, 2)
    test, truth = records(20_000, seed=3)
    best = central_optimum(task.problem, x, y)
    for one in exchange.told(found.best):
        at = exchange.judge.names.index(one.name)
        ends = [exchange.judge.all(test @ model, truth)[at] for lane in looks[-1] for model in lane]
        lost = exchange.judge.all(test @ best, truth)[at] - np.mean(ends)
        assert one.low <= lost <= one.high
        assert one.low <= one.lost <= one.high


def test_joining_is_told_in_points_of_the_same_sign():
    base = Consortium(sizes=(1,), dimension=DIM)
    small = ask(look(*records(60), 2), base, partners=10, partner_records=2000, rounds_at_most=40)
    large = ask(look(*records(4000), 2), base, partners=1, partner_records=100, rounds_at_most=40)
    assert [one.name for one in small.in_metric] == ["accuracy", "auc"]
    for mine, other in zip(small.in_metric, large.in_metric):
        assert mine.gain > 0 > other.gain
        assert mine.low <= mine.gain <= mine.high


def told(*more: object) -> tuple[dict, str]:
    asked = [
        str(one)
        for one in ("plan", "--owners", 3, "--records", 900, "--dimension", 8, "--rounds-at-most", 10, *more)
    ]
    done, words = (
        CliRunner().invoke(app, [*asked, *kind], catch_exceptions=False) for kind in (["--json"], [])
    )
    assert done.exit_code == words.exit_code == 0, done.output
    return json.loads(done.stdout)["predicted"], " ".join(words.stdout.split())


def test_a_plan_tells_points_and_says_where_levels_are_not_known():
    found, words = told("--base-rate", 0.1)
    assert [one["name"] for one in found["metrics"]] == ["accuracy", "auc"]
    assert found["metrics_by"] == "made-up rows"
    assert all(one["best"] is None for one in found["metrics"])
    assert "below the best linear model, in points of 100" in words
    assert "10% of them in the rarer class" in words
    assert "nobody knows without public rows" in words


def test_public_rows_with_a_target_tell_levels(tmp_path):
    x, y = records(300)
    names = ",".join([*(f"f{at}" for at in range(DIM)), "sick"])
    lines = [",".join(f"{value:.4f}" for value in (*row, label)) for row, label in zip(x, y)]
    (tmp_path / "rows.csv").write_text("\n".join([names, *lines]))
    found, words = told("--dimension", DIM, "--public-rows", tmp_path / "rows.csv", "--public-target", "sick")
    assert found["metrics_by"] == "public rows"
    assert all(0.5 < one["best"] <= 1 for one in found["metrics"])
    assert "by the declared public rows" in words


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (("--base-rate", 0.7), "base_rate=0.7: must be above 0 and at most 0.5"),
        (("--base-rate", 0.2, "--classes", 3), "the rarer of two classes"),
    ],
)
def test_a_wrong_base_rate_is_one_line(more, names):
    asked = ("plan", "--owners", 3, "--records", 900, "--dimension", 8, *more)
    done = CliRunner().invoke(app, [str(one) for one in asked], catch_exceptions=False)
    assert done.exit_code == 2
    assert names in done.stderr
    assert len(done.stderr.splitlines()) == 1
