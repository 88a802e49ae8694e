"""Who gains by joining, from sizes alone: own models scatter as told, and the line is where both are equally good."""

from dataclasses import replace

import numpy as np
import pytest

from coterie.planning.constants import assumed, from_public_rows
from coterie.planning.gains import by_sizes, times_records
from coterie.planning.persons import declared
from coterie.planning.public import Consortium, problem_for
from coterie.planning.search import plan
from coterie.problems.problem import Problem
from coterie.problems.reference import central_optimum, objective_value
from coterie.units import Unit

WEIGHTS = np.linspace(-3, 3, 10)


def rows(many: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets that the model can fit: log odds, or a quantity with noise of standard deviation a quarter."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((many, 10))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    if classes == 1:
        return x, np.clip(x @ WEIGHTS / 5 + rng.normal(0, 0.25, many), -1, 1).astype(np.float32)
    likely = 1 / (1 + np.exp(-x @ WEIGHTS))
    return x, np.where(rng.uniform(size=many) < likely, 1.0, -1.0).astype(np.float32)


def alone(problem: Problem, classes: int, records: int, times: int) -> float:
    """The mean excess risk on new rows of models of so many records."""
    x, y = rows(40_000, classes, seed=1)
    least = objective_value(problem, central_optimum(problem, x, y), x, y)
    own = (central_optimum(problem, *rows(records, classes, seed=2 + at)) for at in range(times))
    return float(np.mean([objective_value(problem, params, x, y) - least for params in own]))


@pytest.mark.parametrize("classes", [2, 1])
def test_a_model_of_few_records_is_as_far_off_as_told(classes):
    """Off by a third at most: the curvature near the optimum is assumed, and means of 60 models scatter by a tenth."""
    problem = problem_for(10, classes)
    told = times_records(problem, from_public_rows(*rows(40_000, classes, seed=0), classes)) / 300
    assert told == pytest.approx(alone(problem, classes, records=300, times=60), rel=1 / 3)


def test_the_line_is_where_both_models_are_equally_good():
    base = Consortium(sizes=(200, 800, 5000), dimension=10, topology="complete")
    task = base.task()
    found = plan(task, 20)
    who = by_sizes(task, found)
    assert who is not None
    own = times_records(task.problem, found.constants)
    joint = found.best.predicted + own / 6000
    assert own / who.below == pytest.approx(joint)
    assert who.gains == tuple(own / size > joint for size in base.sizes)
    assert (who.gains[0], who.gains[2]) == (True, False)
    assert who.low < who.below < who.high


def test_nobody_gains_by_a_model_that_knows_nothing():
    base = Consortium(sizes=(30, 30), dimension=10, epsilon=(0.01,), topology="complete")
    who = by_sizes(base.task(), plan(base.task(), 10))
    assert who is not None
    assert (who.below, who.gains) == (0.0, (False, False))


def test_persons_are_counted_by_their_records():
    """Half as many persons of two records each add up to the same beside the same noise, for the same owners."""
    constants = assumed(10)
    records = Consortium(sizes=(200, 5000), dimension=10, topology="complete")
    persons = replace(records, sizes=(100, 2500), unit=Unit("column", column="person", records=2))
    twice = replace(constants, persons=declared("2:1"))
    plain, paired = (
        by_sizes(base.task(), plan(base.task(), 20, known))
        for base, known in ((records, constants), (persons, twice))
    )
    assert plain is not None
    assert paired is not None
    assert paired.below == pytest.approx(plain.below, rel=0.1)
    assert paired.gains == plain.gains == (True, False)


def test_nobody_is_told_who_cannot_be():
    base = Consortium(sizes=(300, 300), dimension=5, topology="complete")
    found = plan(base.task(), 10)
    assert by_sizes(Consortium(sizes=(300,), dimension=5).task(), found) is None
    whole = replace(base, sizes=(1, 1), unit=Unit("owner", records=300))
    assert by_sizes(whole.task(), found) is None
