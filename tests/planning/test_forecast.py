"""The forecast's recursions are exact on quadratics, and its plans keep budgets without reading a record."""

from dataclasses import replace

import numpy as np
import pytest

from coterie.accounting.plans import certificates_of
from coterie.errors import InputError
from coterie.planning.candidates import bias_of, candidates
from coterie.planning.constants import assumed, from_public_rows, gap_of, loss_at_zero, quadratic, scenarios
from coterie.planning.dynamics import Quadratic, descent, dual_averaging, excess
from coterie.planning.public import Consortium, problem_for
from coterie.planning.search import plan
from coterie.planning.sweep import sweep
from coterie.protocols import build

PROBLEM = Quadratic(np.array([0.5, 0.05]), np.array([1.0, 1.0]), np.array([1.0, -2.0]), strength=0.01)
BASE = Consortium(sizes=(1000,) * 4, dimension=20)


def played(rounds: int, gamma: float, sd: float, runs: int) -> np.ndarray:
    """Accelerated dual averaging written out, many runs side by side: (runs,) excess risks."""
    curve, strength, goal = PROBLEM.curvature, PROBLEM.strength, PROBLEM.optimum
    rng = np.random.default_rng(0)
    z, x, mean, weight = np.zeros((runs, 2)), np.zeros((runs, 2)), np.zeros((runs, 2)), 0.0
    for a in range(1, rounds + 1):
        part = a / (weight + a)
        query = mean + part * (x - mean)
        slope = curve * (query - goal) - strength * goal + sd * rng.standard_normal((runs, 2))
        z, weight = z + a * slope, weight + a
        x = -z / ((weight + a + 1) * strength + gamma)
        mean = mean + part * (x - mean)
    return np.sum(0.5 * (curve + strength) * (mean - goal) ** 2, axis=1)


def test_dual_averaging_is_exact():
    gamma, rounds = np.array([2.0, 30.0]), 25
    found = excess(PROBLEM, dual_averaging(PROBLEM, gamma, rounds), 0.04)
    for at, one in enumerate(gamma):
        silent = played(rounds, one, 0.0, 1)
        assert np.isclose(found.distance[at], silent[0], rtol=1e-9)
        noisy = played(rounds, one, 0.2, 20_000)
        error = 6 * noisy.std() / np.sqrt(len(noisy))
        assert abs(noisy.mean() - found.total[at]) < error
        assert error < 0.5 * found.noise[at]  # the check can tell a wrong variance


def test_descent_is_exact():
    steps, parts = np.array([0.5, 1.5]), 1 / np.arange(1, 31)
    found = excess(PROBLEM, descent(PROBLEM, steps, parts), 0.01)
    rng, runs = np.random.default_rng(1), 20_000
    for at, step in enumerate(steps):
        theta, mean = np.zeros((runs, 2)), np.zeros((runs, 2))
        for part in parts:
            slope = (PROBLEM.curvature + PROBLEM.strength) * (theta - PROBLEM.optimum)
            theta = theta - step * (slope + 0.1 * rng.standard_normal((runs, 2)))
            mean = mean + part * (theta - mean)
        risks = np.sum(0.5 * (PROBLEM.curvature + PROBLEM.strength) * (mean - PROBLEM.optimum) ** 2, axis=1)
        assert abs(risks.mean() - found.total[at]) < 6 * risks.std() / np.sqrt(runs)


def test_a_long_noiseless_run_arrives():
    found = excess(PROBLEM, dual_averaging(PROBLEM, np.array([1.0]), 3000), 0.0)
    assert found.total[0] < 1e-4 * PROBLEM.gap


def test_stand_in_has_the_stated_gap_and_directions():
    for classes in (1, 2, 10):
        problem = problem_for(200, classes)
        one = quadratic(problem, assumed(200))
        assert np.isclose(one.gap, gap_of(problem, assumed(200)) * loss_at_zero(problem), rtol=1e-6)
        assert one.copies.sum() == 200 * max(classes - 1, 1)
    assert np.isclose(loss_at_zero(problem_for(3, 10)), np.log(10), rtol=1e-6)


def test_public_rows_give_the_spectrum():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5000, 3)) * [2.0, 1.0, 0.5]
    found = from_public_rows(rows)
    assert found.from_rows
    assert np.allclose(found.spectrum, [4.0, 1.0, 0.25], rtol=0.15)
    problem = problem_for(3, 2)
    assert len(scenarios(problem, found)) < len(scenarios(problem, assumed(3)))
    with pytest.raises(InputError, match="finite numbers"):
        from_public_rows(np.array([[np.nan, 1.0]]))


def test_clipping_costs_more_the_lower_it_is():
    shares = [1.0, 0.9, 0.75, 0.5, 0.25]
    costs = [bias_of(share) for share in shares]
    assert costs == sorted(costs)
    assert costs[0] == 0.0


def test_noise_is_that_of_the_protocol():
    """√T times the noise of one round is what the protocol's own plan for T rounds says."""
    task = replace(BASE, sizes=(500, 1000, 2000, 4000)).task()
    for name, options in (
        ("dual_averaging", {"rounds": 30, "gamma": 1.0, "clip": 1.0}),
        ("weighted_erm", {"steps": 30, "step_size": 1.0, "clip": 1.0}),
    ):
        one = next(one for one in candidates(task, name, (30,)) if one.clip == 1.0)
        program = build(name, task, options, "certified")
        if program.aggregate is not None:
            spread = program.aggregate / np.array(task.sizes) * program.plan.noise_scale
        else:
            spread = np.asarray(program.numbers.weight) * program.plan.noise_scale / task.owners
        assert np.isclose(one.variance, np.sum(np.square(spread)), rtol=1e-4)


@pytest.fixture(scope="module")
def found():
    return plan(BASE.task(), 50)


def test_a_plan_keeps_budget_and_deadline(found):
    task = BASE.task()
    for one in (found.best, *found.others):
        assert one.rounds <= 50
        assert 0 < one.low <= one.predicted <= one.high
        parts = one.distance + one.noise + one.disagreement + one.clipping
        assert np.isclose(parts, one.predicted, rtol=1e-6)
        program = build(one.protocol, task, one.settings, "certified")
        assert all(certificate.epsilon <= 1.0 for certificate in certificates_of(program.plan, 1e-5))
    assert found.certified <= 1.0
    assert found.best.predicted == min(one.predicted for one in (found.best, *found.others))


def test_more_budget_and_more_records_never_hurt(found):
    richer = plan(replace(BASE, epsilon=(4.0,)).task(), 50)
    larger = plan(replace(BASE, sizes=(4000,) * 4).task(), 50)
    assert richer.best.predicted < found.best.predicted
    assert larger.best.predicted < found.best.predicted


def test_a_hopeless_budget_is_called_so():
    assert not plan(replace(BASE, sizes=(20,) * 4, epsilon=(0.01,)).task(), 50).useful


def test_directed_topologies_leave_out_what_cannot_run():
    found = plan(replace(BASE, topology="one_peer_exponential").task(), 20)
    assert all(reason for reason in found.refused.values())
    assert found.best.protocol not in found.refused


def test_a_sweep_falls_with_the_budget():
    points = sweep(BASE, "epsilon", 20)
    risks = [point.plan.best.predicted for point in points]
    assert risks == sorted(risks, reverse=True)
    assert [point.at for point in points][3] == 1.0


def test_masked_sums_share_the_noise_that_everybody_else_adds_alone():
    """With even owners, a share is σ²/(m − colluding − absent) where an owner alone adds σ²; spare sums are paid."""
    task = Consortium(sizes=(1000,) * 20, dimension=5).task()
    (alone, *_), (masked, *_) = (
        candidates(task, "weighted_erm", (20,), colluding) for colluding in (None, 2)
    )
    honest, spare = 20 - 2 - 1, 2
    assert masked.settings(1.0)["colluding"] == 2
    assert masked.variance / alone.variance == pytest.approx((20 + spare) / 20 / honest, rel=1e-3)
