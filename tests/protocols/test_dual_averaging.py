"""Protocol D against a plain NumPy re-implementation, its published noise, and its certificate."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import numpy as np
import pytest
import worlds

from coterie import topologies
from coterie.accounting.plans import certificates_of
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.mechanisms import FixedSize, FullBatch, NoNoise, Poisson, noise
from coterie.problems.losses import hinge, huber, logistic, squared
from coterie.problems.penalties import elastic_net, l2
from coterie.program import Program, Shards
from coterie.protocols.dual_averaging import Settings, build
from coterie.protocols.task import Task

SIZES = (6, 11, 8, 9)


def reference(program: Program, records: Shards, task: Task, variant: str, seed: int, minimise) -> np.ndarray:
    """Algorithm 1 in plain NumPy float64, with the engine's noise and samples: (owners, dim) models."""
    owners, rows, dim = records.x.shape
    x_all, y_all = np.asarray(records.x, np.float64), np.asarray(records.y, np.float64)
    edges = task.topology.schedule[0]
    mixing = np.zeros((owners, owners))
    np.add.at(mixing, (edges.target, edges.source), edges.weight)
    numbers = jax.tree.map(np.asarray, program.numbers)
    spec, sampler = noise.spec(program.plan), program.plan.sampler
    keys = [noise.owner_keys(np.uint32(seed), stream, owners) for stream in (noise.NOISE, noise.SAMPLING)]
    z, average = np.zeros((owners, dim)), np.zeros((owners, dim))
    weight, a = 0.0, (lambda t: 1.0 if variant == "duchi" else float(t))
    gamma = lambda t: numbers.pace.gamma[0] + numbers.pace.root[0] * math.sqrt(t)
    x = minimise(z, a(1), gamma(1))
    for t in range(1, program.schedule + 1):
        message = np.empty_like(z)
        for i in range(owners):
            with jax.threefry_partitionable(False):
                unit = np.asarray(noise.unit_noise(spec, jax.random.fold_in(keys[0][i], t)))[:, 0]
                drawn = sampler.draw(
                    jax.random.fold_in(keys[1][i], t), rows, records.counts[i], np.int32(t - 1)
                )
            chosen = (
                range(SIZES[i]) if drawn is None else np.asarray(drawn.positions)[np.asarray(drawn.mask) > 0]
            )
            query = x[i]
            if variant == "accelerated":
                query = average[i] + a(t) / (weight + a(t)) * (x[i] - average[i])
            total = np.zeros(dim)
            for row in chosen:
                score = x_all[i, row] @ query
                slope = np.asarray(
                    task.problem.loss.slope(np.float32([[score]]), np.float32([y_all[i, row]]))
                )[0, 0]
                gradient = slope * x_all[i, row]
                total += gradient * min(1.0, program.plan.clip_norm / max(np.linalg.norm(gradient), 1e-30))
            message[i] = z[i] + a(t) * numbers.weight[i] * (total + program.plan.noise_scale[i] * unit)
        z = mixing @ message
        new = minimise(z, weight + a(t) + a(t + 1), gamma(t + 1))
        entering = new if variant == "accelerated" else x
        average += a(t) / (weight + a(t)) * (entering - average)
        weight, x = weight + a(t), new
    return average


def shrink(l1: float, strength: float):
    """argmin ⟨z, x⟩ + A (l1 ‖x‖₁ + strength/2 ‖x‖²) + γ/2 ‖x‖², written out."""
    return lambda z, A, g: -np.sign(z) * np.maximum(np.abs(z) - A * l1, 0.0) / (A * strength + g)


CASES = [
    ("paper", "liu", hinge(), elastic_net(0.002, 0.05), shrink(0.002, 0.05), {}),
    ("paper", "duchi", hinge(), l2(0.05), shrink(0.0, 0.05), {}),
    ("certified", "accelerated", logistic(), l2(0.01), shrink(0.0, 0.01), {}),
    ("certified", "liu", hinge(), l2(0.05), shrink(0.0, 0.05), {"rate": 0.5}),
    ("noiseless", "liu", logistic(), l2(0.05), shrink(0.0, 0.05), {}),
]


@pytest.mark.parametrize(("calibration", "variant", "loss", "penalty", "minimise", "options"), CASES)
def test_engine_equals_numpy(calibration, variant, loss, penalty, minimise, options):
    task = worlds.task(SIZES, 5, loss=loss, penalty=penalty, delta=1e-2, epsilon=(0.5, 1.0, 2.0, 1.0))
    program = build(task, Settings(variant=variant, rounds=7, **options), calibration)
    records = worlds.shards(SIZES, 5)
    trace = simulate(program, records, topologies.mixer(task.topology), seed=3, every=3)
    expected = reference(program, records, task, variant, 3, minimise)
    np.testing.assert_allclose(trace.model[..., 0], expected, rtol=2e-4, atol=2e-5)


def test_published_noise_is_theorem_1():
    task = worlds.task((40, 50), 3, loss=hinge(), epsilon=(0.5, 1.0), delta=0.01)
    plan = build(task, Settings(rounds=120), "paper").plan
    assert plan.sampler == FixedSize(1)
    sigma = [math.sqrt(12 * 120 * math.log(100)) / (40 * epsilon) for epsilon in (0.5, 1.0)]
    np.testing.assert_allclose(plan.noise_scale, sigma, rtol=1e-6)


def test_claim_of_the_paper_is_what_was_asked_for_and_the_certificate_refutes_it():
    task = worlds.task((200,) * 3, 3, loss=hinge(), epsilon=0.8, delta=0.001)
    program = build(task, Settings(), "paper")
    assert program.schedule == 3 * 200
    assert program.claim.epsilon == pytest.approx(0.8)
    assert min(one.epsilon for one in certificates_of(program.plan, 0.001)) > 1.5 * 0.8


def test_claim_outside_the_theorem_says_so():
    task = worlds.task((50, 50), 3, loss=hinge(), epsilon=2.0, delta=0.01)
    assert "outside" in build(task, Settings(rounds=10), "paper").claim.note


@pytest.mark.parametrize("sizes", [(30,), (30, 40), (5, 80, 17)])
@pytest.mark.parametrize("options", [{}, {"rate": 0.2, "rounds": 10}])
def test_certified_budget_is_a_hard_limit(sizes, options):
    budgets = tuple(0.5 * (i + 1) for i in range(len(sizes)))
    task = worlds.task(sizes, 3, epsilon=budgets, delta=1e-3)
    certificates = certificates_of(build(task, Settings(**options), "certified").plan, 1e-3)
    for one, budget in zip(certificates, budgets):
        assert 0.9 * budget < one.epsilon <= budget


def test_default_uses_all_records_and_poisson_on_request():
    task = worlds.task((30, 40), 3, delta=1e-3)
    assert build(task, Settings(), "certified").plan.sampler == FullBatch()
    assert isinstance(build(task, Settings(rate=0.2, rounds=5), "certified").plan.sampler, Poisson)


@pytest.mark.parametrize(("loss", "score"), [(logistic(), 2.5), (huber(), 0.85 / 3**0.5)])
def test_default_radius_is_what_the_loss_guesses(loss, score):
    """So γ follows from public numbers: 2.5 √9 for classes, 0.85 · 9^¼ for quantities."""
    task = worlds.task((300, 400), 9, loss=loss, delta=1e-4)
    for rounds in (None, 60):
        default = build(task, Settings(rounds=rounds), "certified")
        stated = build(task, Settings(rounds=rounds, radius=score * 3.0), "certified")
        np.testing.assert_array_equal(default.numbers.pace.gamma, stated.numbers.pace.gamma)
        assert default.schedule == stated.schedule
    wider = build(task, Settings(rounds=60, radius=score * 1.5), "certified")
    usual = build(task, Settings(rounds=60), "certified")
    assert wider.numbers.pace.gamma[0] > 1.5 * usual.numbers.pace.gamma[0]


def test_certified_regression_beats_the_mean_where_records_are_few():
    """400 records, six features, ε = 4: with a radius of 40 the error was above the mean's."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (5, 80, 6)).astype(np.float32) / np.float32(6**0.5)
    y = 0.6 * x @ np.array([1, -1, 1, 0, 0, 0.5]) + 0.1 * rng.standard_normal((5, 80)) + 0.1
    records = Shards(jax.numpy.asarray(x), jax.numpy.asarray(y, jax.numpy.float32), jax.numpy.full(5, 80))
    task = worlds.task((80,) * 5, 6, loss=huber(), epsilon=4.0)
    program, mixer = build(task, Settings(), "certified"), topologies.mixer(task.topology, 5)
    for seed in range(3):
        models = np.asarray(simulate(program, records, mixer, seed=seed).model)[:, :, 0]
        assert np.mean(np.square(np.einsum("ord,kd->kor", x, models) - y)) < 0.8 * y.var()


@pytest.mark.parametrize("loss", [logistic(), hinge(), squared()])
@pytest.mark.parametrize("calibration", ["certified", "paper"])
def test_released_sum_moves_by_at_most_the_declared_sensitivity(loss, calibration):
    """Neighbours that differ in one record, chosen to attain the bound: the gradient turns around."""
    dim, size = 3, 4
    task = worlds.task((size,), dim, loss=loss, topology="complete")
    program = build(task, Settings(rounds=3), calibration)
    silent = replace(program.plan, noise=NoNoise())
    quiet = program._replace(plan=silent)
    records = worlds.shards((size,), dim)
    unit = np.float32([1.0, 0, 0])
    changed = []
    for sign in (1.0, -1.0):
        same = records
        for row in range(size if calibration == "paper" else 1):  # the sampled record, whichever it is
            same = worlds.with_record(same, 0, row, unit, sign * (5.0 if loss.name == "squared" else 1.0))
        mixer = topologies.mixer(task.topology)
        changed.append(simulate(quiet, same, mixer, seed=0, transcript=True).messages[0, 0])
    weight = float(program.numbers.weight[0])  # the first message is a(1) × weight × the released sum
    moved = np.linalg.norm(changed[0] - changed[1]) / weight
    bound = 2 * silent.clip_norm
    assert moved <= bound * (1 + 1e-5)
    if (
        loss.name != "logistic" or calibration == "certified"
    ):  # at x = 0 a logistic slope is 1/2, half its bound
        assert moved >= 0.99 * bound


def test_consensus_on_a_quadratic():
    """With squared loss, no noise and full batches, owners agree on the least-squares solution of all records."""
    task = worlds.task((40, 40, 40), 3, loss=squared(), penalty=l2(1e-3))
    program = build(task, Settings(rounds=400, gamma=30.0, clip=50.0), "certified")
    program = program._replace(plan=replace(program.plan, noise=NoNoise()))
    records = worlds.shards((40, 40, 40), 3)
    trace = simulate(program, records, topologies.mixer(task.topology, 4), seed=0)
    x, y = np.asarray(records.x).reshape(-1, 3), np.asarray(records.y).ravel()
    scale = _curvature(task)
    optimum = np.linalg.solve(scale * x.T @ x / 120 + 1e-3 * np.eye(3), scale * x.T @ y / 120)
    np.testing.assert_allclose(trace.model[..., 0], np.tile(optimum, (3, 1)), atol=0.02)


def _curvature(task: Task) -> float:
    """How this library's squared loss is scaled: its slope at score 1, target 0."""
    return float(task.problem.loss.slope(np.float32([[1.0]]), np.float32([0.0]))[0, 0])


def test_bad_input_is_one_clear_line():
    task = worlds.task((10, 10), 3)
    with pytest.raises(InputError, match="variant='other': unknown"):
        build(task, Settings(variant="other"), "certified")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="view='masks': unknown"):
        Settings(view="masks")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rounds=-1"):
        build(task, Settings(rounds=-1), "certified")
    with pytest.raises(InputError, match="rate=1.5"):
        build(task, Settings(rate=1.5), "certified")
    star = replace(task, topology=topologies.build("one_peer_exponential", 2))
    assert build(star, Settings(rounds=2), "certified").schedule == 2  # two owners: symmetric after all
    directed = replace(worlds.task((5, 5, 5), 3), topology=topologies.build("one_peer_exponential", 3))
    with pytest.raises(InputError, match="push-sum"):
        build(directed, Settings(rounds=2), "certified")
