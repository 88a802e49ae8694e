"""One-pass SGD: a plain NumPy oracle, the published noise, what one record changes, and what it costs."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import shards, task

from coterie.accounting.plans import certificates_of
from coterie.engines.owners import context_of
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.mechanisms import OnePass
from coterie.problems.losses import hinge, logistic, one_vs_all, softmax
from coterie.problems.models import two_layer
from coterie.problems.penalties import ball, l2, none
from coterie.problems.problem import Problem
from coterie.program import Batch, Context, Program, Visits
from coterie.protocols import build, wor_sgd
from coterie.protocols.task import Task

DIM = 5
DELTA = 1 / 60_000**2


def visits_of(program: Program) -> Visits:
    assert isinstance(program.functions, Visits)
    return program.functions


def context(program: Program, step: int = 1, owner: int = 0, scale: float = 0.0) -> Context:
    ctx = context_of(program, owner, step=step, turn=step - 1)
    return ctx._replace(noise_scale=jnp.float32(scale))


def numpy_sgd(
    x: np.ndarray, y: np.ndarray, batch: int, step, strength: float, radius: float, last: bool
) -> np.ndarray:
    """Plain one-pass SGD on logistic loss with projection, in float64: the last w or the mean of all."""
    w, every = np.zeros(x.shape[1]), []
    for t, first in enumerate(range(0, len(x), batch), start=1):
        bx, by = x[first : first + batch].astype(float), y[first : first + batch].astype(float)
        gradient = -(by / (1 + np.exp(by * (bx @ w)))) @ bx / batch + strength * w
        w = w - step(t) * gradient
        w = w * min(1.0, radius / max(np.linalg.norm(w), 1e-30))
        every.append(w)
    return w if last else np.mean(every, axis=0)


@pytest.mark.parametrize(("strength", "capped"), [(0.0, False), (0.05, False), (0.05, True)])
def test_one_owner_without_noise_is_plain_sgd(strength, capped):
    """`capped`: no step is above 1/(2μ), and the model is the last w."""
    records = shards((23,), DIM)
    given = task((23,), DIM, penalty=l2(strength) if strength else none())
    program = build("wor_sgd", given, {"batch": 4, "capped": capped}, "noiseless")
    found = np.asarray(simulate(program, records, seed=0).model[0, :, 0])
    most = 1 / (2 * (1 + strength)) if capped else math.inf
    step = (lambda t: min(1 / (strength * t), most)) if strength else (lambda t: 0.1)
    wanted = numpy_sgd(
        np.asarray(records.x[0]),
        np.asarray(records.y[0]),
        4,
        step,
        strength,
        1 / strength if strength else np.inf,
        last=capped or not strength,
    )
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5)


def test_owners_in_turn_are_one_owner_with_interleaved_records():
    together = shards((8, 8), DIM)
    mixed = np.empty((16, DIM), np.float32), np.empty(16, np.float32)
    for batch in range(8):  # two records a batch: owner 0, owner 1, owner 0, …
        owner, first = batch % 2, 2 * (batch // 2)
        mixed[0][2 * batch : 2 * batch + 2] = together.x[owner, first : first + 2]
        mixed[1][2 * batch : 2 * batch + 2] = together.y[owner, first : first + 2]
    program = build("wor_sgd", task((8, 8), DIM, penalty=none()), {"batch": 2}, "noiseless")
    found = np.asarray(simulate(program, together, seed=0).model[0, :, 0])
    np.testing.assert_allclose(
        found, numpy_sgd(*mixed, 2, lambda t: 0.1, 0.0, np.inf, last=True), rtol=1e-4, atol=1e-6
    )


def test_published_noise_on_the_step_is_the_papers_formula():
    given = task((100, 100), DIM, penalty=none(), epsilon=0.5)
    program = build("wor_sgd", given, {}, "paper")
    functions, unit = visits_of(program), jnp.ones((DIM, 1))
    register = functions.open(given.params, program.numbers)
    empty = Batch(jnp.zeros((50, DIM)), jnp.ones(50), jnp.zeros(50))
    ctx = context(program, scale=float(program.plan.noise_scale[0]))
    message, _ = functions.emit((), functions.ask(register, ctx), empty, unit, ctx)
    moved, _ = functions.settle(register, message, ctx)
    std = math.sqrt(2 * math.log(1.25 / given.delta)) * 2 * 0.1 * 1.0 / (50 * 0.5)
    np.testing.assert_allclose(np.asarray(moved.w), -std, rtol=1e-5)
    assert program.claim.epsilon == pytest.approx(0.5)
    assert program.claim.note == ""


@pytest.mark.parametrize(("penalty", "joint", "single"), [(none(), 2.85, 0.850), (l2(1e-4), 1.37, 0.413)])
def test_ten_binary_models_are_charged_as_the_joint_release(penalty, joint, single):
    one = build("wor_sgd", task((100,), DIM, loss=logistic(), penalty=penalty, delta=DELTA), {}, "paper")
    assert certificates_of(one.plan, DELTA)[0].epsilon == pytest.approx(single, abs=0.002)
    ten = build("wor_sgd", ova_task((100,), penalty, DELTA), {}, "paper")
    assert ten.claim.epsilon == pytest.approx(1.0)
    assert "one of 10 binary models" in ten.claim.note
    assert certificates_of(ten.plan, DELTA)[0].epsilon == pytest.approx(joint, abs=0.01)


def ova_task(sizes: tuple[int, ...], penalty, delta: float = 1e-5, classes: int = 10) -> Task:
    return replace(
        task(sizes, DIM, loss=one_vs_all(classes), penalty=penalty, delta=delta), clip_norm=math.sqrt(classes)
    )


def test_one_record_changes_the_release_by_at_most_what_the_plan_says_and_reaches_it():
    program = build("wor_sgd", ova_task((6,), none(), classes=4), {"batch": 3}, "paper")
    emit = visits_of(program).emit
    # All four binary models are wrong on e₀ and, by a large weight on e₁, also on −e₀ tilted a little to −e₁.
    sign = np.array([-1.0, 1.0, 1.0, 1.0])
    w = jnp.zeros((DIM, 4)).at[0].set(40 * sign).at[1].set(-1e5 * sign)
    base = Batch(jnp.eye(DIM)[2:5], jnp.zeros(3, jnp.int32), jnp.ones(3))

    def released(x: np.ndarray, y: int) -> np.ndarray:
        batch = base._replace(x=base.x.at[0].set(x), y=base.y.at[0].set(y))
        return np.asarray(emit((), w, batch, jnp.zeros((DIM, 4)), context(program))[0])

    declared, tilt, rng = 2 * program.plan.clip_norm, 0.01, np.random.default_rng(0)
    for size in (0.1, 1.0, 1e3, 1e30):
        pair = [released(rng.standard_normal(DIM) * size, int(rng.integers(4))) for _ in range(2)]
        assert np.linalg.norm(pair[0] - pair[1]) <= declared * (1 + 1e-5)
    opposite = -np.eye(DIM)[0] * math.sqrt(1 - tilt**2) - np.eye(DIM)[1] * tilt
    reached = np.linalg.norm(released(np.eye(DIM)[0], 0) - released(opposite, 0))
    assert 0.95 * declared <= reached <= declared * (1 + 1e-5)


@pytest.mark.parametrize("epsilon", [1.0, (0.3, 2.0, 0.7)])
def test_certified_meets_every_owners_budget(epsilon):
    given = task((40, 300, 7), DIM, epsilon=epsilon)
    program = build("wor_sgd", given, {}, "certified")
    for one, budget in zip(certificates_of(program.plan, given.delta), given.epsilon):
        assert 0.98 * budget <= one.epsilon <= budget
    trace = simulate(program, shards((40, 300, 7), DIM), seed=1)
    assert tuple(trace.turns) == program.plan.releases
    assert np.isfinite(np.asarray(trace.model)).all()


def test_noise_of_a_run_has_the_plans_scale():
    given = task((4000,), 50, penalty=none())
    program = build("wor_sgd", given, {"batch": 40}, "paper")
    quiet = shards((4000,), 50)
    quiet = quiet._replace(x=jnp.zeros_like(quiet.x))  # gradients of zero: messages are noise
    messages = np.asarray(simulate(program, quiet, seed=3, transcript=True).messages)
    assert messages.shape == (100, 50, 1)
    ratio = messages.std() / program.plan.noise_scale[0]
    assert abs(ratio - 1) < 6 / math.sqrt(2 * messages.size)


def test_certified_learns_more_than_published_at_the_same_stated_budget():
    sizes = (500,) * 4
    given, records = task(sizes, DIM, penalty=none(), epsilon=0.2), shards(sizes, DIM)
    x, y = np.asarray(records.x).reshape(-1, DIM), np.asarray(records.y).ravel()

    def right(calibration: str) -> float:
        program = build("wor_sgd", given, {}, calibration)
        runs = [np.asarray(simulate(program, records, seed=seed).model[0, :, 0]) for seed in range(32)]
        return float(np.mean([np.mean(np.sign(x @ w) == y) for w in runs]))

    assert right("certified") > right("paper")  # 0.14 apart, give or take 0.03


def test_batch_step_and_schedule_depend_on_nothing_private():
    one = build("wor_sgd", task((60, 20), DIM), {}, "certified")
    assert isinstance(one.plan.sampler, OnePass)
    assert one.plan.releases == tuple(math.ceil(n / one.plan.sampler.batch) for n in (60, 20))
    schedule = np.asarray(wor_sgd.in_turns((3, 6)))
    assert np.bincount(schedule).tolist() == [3, 6]
    assert all(np.bincount(part, minlength=2).tolist() == [1, 2] for part in schedule.reshape(3, 3))


@pytest.mark.parametrize("loss", [hinge(), softmax(3)])
def test_other_losses_models_and_domains_run(loss):
    records = shards((12, 9), DIM, classes=3 if loss.outputs > 1 else 2)
    program = build("wor_sgd", task((12, 9), DIM, loss=loss, penalty=ball(0.5)), {"batch": 4}, "certified")
    model = np.asarray(simulate(program, records, seed=0).model)
    assert np.linalg.norm(model) <= 0.5 + 1e-5


def test_a_network_is_clipped_and_runs():
    network = two_layer(DIM, 3, 1)
    given = task((12, 9), DIM)
    problem = Problem(network, given.problem.loss, given.problem.penalty)
    given = replace(given, problem=problem, params=network.init(jax.random.key(0)))
    trace = simulate(build("wor_sgd", given, {"batch": 4}, "certified"), shards((12, 9), DIM), seed=0)
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(trace.model))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"capped": True}, "capped=True: is a reading of the published steps"),
        ({"batch": 0}, "batch=0: must be"),
        ({"step": -1.0}, "step=-1.0: must be"),
        ({"radius": 0.0}, "radius=0.0"),
    ],
)
def test_bad_input_is_one_line(options, line):
    with pytest.raises(InputError, match=line) as caught:
        build("wor_sgd", task((10,), DIM), options, "certified")
    assert "\n" not in str(caught.value)
