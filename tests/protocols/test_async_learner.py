"""The asynchronous learner: its clocks, its published form, what it releases, and what that costs."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.accounting.plans import certificates_of
from coterie.engines.owners import context_of
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.mechanisms import Laplace, NoNoise, ReleasePlan
from coterie.problems.losses import logistic, squared
from coterie.problems.models import linear
from coterie.problems.penalties import l2, none
from coterie.problems.problem import Problem
from coterie.program import Batch, Shards, Visits
from coterie.protocols import Task, async_learner, build
from coterie.protocols.async_learner import Settings, default_cap, poisson_clocks
from coterie.topologies import build as topology

SIGMA = 0.1
SIZES = (40, 20, 12)
DIM = 3


def task_for(sizes: tuple[int, ...], dim: int = DIM, **more) -> Task:
    given: dict = {
        "problem": Problem(linear(dim), squared(), l2(SIGMA)),
        "sizes": sizes,
        "clip_norm": 100.0,  # nothing is clipped unless a test asks for it
        "epsilon": (1.0,) * len(sizes),
        "delta": 1e-6,
        "topology": topology("complete", len(sizes)),
        "params": jnp.zeros((dim, 1), jnp.float32),
    }
    return Task(**(given | more))


def shards_for(sizes: tuple[int, ...], seed: int = 0) -> Shards:
    """Owners that differ: each has its own mean, so that its own optimum is not everyone's."""
    rng = np.random.default_rng(seed)
    rows = max(sizes)
    x = rng.normal(size=(len(sizes), rows, DIM)) / 2 + rng.normal(size=(len(sizes), 1, DIM)) / 4
    y = x @ np.array([1.0, -0.5, 0.25]) + rng.normal(size=(len(sizes), 1)) / 2
    real = np.arange(rows) < np.array(sizes)[:, None]
    padded_x = np.where(real[:, :, None], x, 7.0)  # padding that would show if it were read
    padded_y = np.where(real, y, 7.0)
    return Shards(
        jnp.asarray(padded_x, jnp.float32), jnp.asarray(padded_y, jnp.float32), jnp.asarray(sizes, jnp.int32)
    )


def optimum(shards: Shards, penalty: float = SIGMA) -> np.ndarray:
    """Of mean squared loss + penalty/2 ‖θ‖², over all records."""
    rows = [
        (np.asarray(x[:count], float), np.asarray(y[:count], float))
        for x, y, count in zip(shards.x, shards.y, shards.counts)
    ]
    x, y = np.concatenate([x for x, _ in rows]), np.concatenate([y for _, y in rows])
    return np.linalg.solve(x.T @ x / len(y) + penalty * np.eye(DIM), x.T @ y / len(y))


def final(program, shards, seed: int = 0) -> np.ndarray:
    return np.asarray(simulate(program, shards, seed=seed).model)[0, :, 0]


# ---- clocks


def test_clocks_are_poisson_of_rate_one() -> None:
    owner, time = poisson_clocks(owners=5, ticks=100_000, seed=3)
    assert np.all(np.diff(time) > 0)
    for one in range(5):
        waits = np.diff(time[owner == one])
        # mean and standard deviation of an exponential are 1; 5.5 standard errors, 1 in 10^7
        assert abs(waits.mean() - 1) < 5.5 / np.sqrt(len(waits))
        assert abs(waits.std() - 1) < 5.5 * np.sqrt(2 / len(waits))
        assert np.mean(waits < np.log(2)) == pytest.approx(0.5, abs=5.5 * 0.5 / np.sqrt(len(waits)))
    again = np.mean(owner[1:] == owner[:-1])  # whoever ticked last is as likely as anybody to tick next
    assert again == pytest.approx(0.2, abs=5.5 * 0.4 / np.sqrt(len(owner)))


def test_clocks_come_from_their_seed_alone() -> None:
    first, other = poisson_clocks(3, 50, 0), poisson_clocks(3, 50, 1)
    assert np.array_equal(first[0], poisson_clocks(3, 50, 0)[0])
    assert not np.array_equal(first[0], other[0])
    assert np.array_equal(poisson_clocks(1, 4, 0)[0], np.zeros(4))


# ---- the published algorithm


def by_hand(shards: Shards, owner: np.ndarray, pace: float, printed: bool, theta_max: float) -> np.ndarray:
    """Algorithm 1 as the paper writes it, without noise; `pace` is α/σ."""
    n, owners = np.asarray(shards.counts, float), len(shards.counts)
    learner, copies = np.zeros(DIM), np.zeros((owners, DIM))
    inertia = (owners - 1) / owners if printed else 0.5
    for i in owner:
        x, y = (np.asarray(part[i, : shards.counts[i]], float) for part in (shards.x, shards.y))
        middle = (learner + copies[i]) / 2
        answer = x.T @ (x @ middle - y) / n[i]
        slope = SIGMA * middle
        step = owners * pace * (slope / (2 * owners) + n[i] / n.sum() * answer)
        copies[i] = np.clip(middle - step, -theta_max, theta_max)
        learner = np.clip(middle - inertia * pace * slope, -theta_max, theta_max)
    return learner


@pytest.mark.parametrize("steps", ["proof", "printed"])
@pytest.mark.parametrize("theta_max", [10.0, 0.2])
def test_copies_are_algorithm_1(steps: str, theta_max: float) -> None:
    sizes, ticks, pace = (20, 7, 13), 60, 0.3
    shards = shards_for(sizes)
    settings = Settings(
        ticks=ticks,
        rho=pace * SIGMA * ticks**2,
        steps=steps,  # type: ignore[arg-type]
        theta_max=theta_max,
        learner="copies",
        cap=ticks,
    )
    program = async_learner.build(task_for(sizes), settings, "noiseless")
    expected = by_hand(shards, program.schedule, pace, steps == "printed", theta_max)  # type: ignore[arg-type]
    assert np.abs(expected).max() <= theta_max
    np.testing.assert_allclose(final(program, shards), expected, atol=2e-6)


def test_one_owner_with_the_proofs_steps_is_gradient_descent() -> None:
    """θ̄ moves by α/(2σ) along the whole gradient, and θ_L is θ̄ of the tick before with g's half step."""
    shards, ticks, pace = shards_for((30,)), 40, 0.5
    settings = Settings(ticks=ticks, rho=pace * SIGMA * ticks**2, learner="copies")
    program = async_learner.build(task_for((30,)), settings, "noiseless")
    x, y = np.asarray(shards.x[0], float), np.asarray(shards.y[0], float)
    theta = np.zeros(DIM)
    for _ in range(ticks - 1):
        theta -= pace / 2 * (x.T @ (x @ theta - y) / len(y) + SIGMA * theta)
    np.testing.assert_allclose(final(program, shards), theta - pace / 2 * SIGMA * theta, atol=2e-6)


@pytest.mark.parametrize(("steps", "penalty"), [("proof", SIGMA), ("printed", SIGMA / 2)])
def test_with_one_owner_the_printed_steps_minimise_half_the_penalty(steps: str, penalty: float) -> None:
    shards, ticks = shards_for((30,)), 400
    settings = Settings(ticks=ticks, rho=SIGMA * ticks**2, steps=steps, learner="copies")  # type: ignore[arg-type]
    found = final(async_learner.build(task_for((30,)), settings, "noiseless"), shards)
    if steps == "proof":  # θ_L is half a penalty step away from θ̄, which is where gradient descent ends
        found = found / (1 - 0.5 * SIGMA)
    np.testing.assert_allclose(found, optimum(shards, penalty), atol=2e-6)
    assert np.abs(optimum(shards, SIGMA) - optimum(shards, SIGMA / 2)).max() > 1e-3


@pytest.mark.parametrize("sizes", [(25,), (30, 10), SIZES])
def test_averaging_finds_everyones_optimum(sizes: tuple[int, ...]) -> None:
    shards = shards_for(sizes)
    program = async_learner.build(
        task_for(sizes), Settings(ticks=3000, smoothness=1.0, cap=3000), "noiseless"
    )
    program = program._replace(numbers=program.numbers._replace(pace=jnp.full(len(sizes), 0.5, jnp.float32)))
    np.testing.assert_allclose(final(program, shards), optimum(shards), atol=1e-3)


def test_the_learner_goes_on_when_an_owner_falls_silent() -> None:
    """Two of three owners stop early; the optimum that is found is still that of all three."""
    shards = shards_for(SIZES)
    program = async_learner.build(
        task_for(SIZES), Settings(ticks=3000, smoothness=1.0, cap=(400, 3000, 400)), "noiseless"
    )
    program = program._replace(numbers=program.numbers._replace(pace=jnp.full(3, 0.3, jnp.float32)))
    trace = simulate(program, shards, seed=0, transcript=True)
    visits = np.bincount(program.schedule, minlength=3)
    assert list(trace.turns) == [400, visits[1], 400]
    assert trace.messages is not None
    late = np.flatnonzero(program.schedule == 0)[400:]
    assert not np.any(trace.messages[late])  # silent: nothing leaves, not even noise
    everyone = np.abs(np.asarray(trace.model)[0, :, 0] - optimum(shards)).max()
    assert (
        everyone
        < 0.02
        < np.abs(optimum(shards) - optimum(jax.tree.map(lambda part: part[1:2], shards))).max()
    )


# ---- what is released and what it costs


def test_published_noise_and_claim() -> None:
    task = task_for((100, 50, 80), clip_norm=0.5, epsilon=(1.0, 2.0, 0.5))
    program = async_learner.build(task, Settings(), "paper")
    assert program.plan.noise == Laplace()
    np.testing.assert_allclose(
        program.plan.noise_scale, [2 * 0.5 * 1000 / e for e in task.epsilon], rtol=1e-6
    )
    assert program.claim.epsilon == pytest.approx(2.0)
    assert program.claim.delta == 0.0
    visits = np.bincount(program.schedule, minlength=3)
    assert program.plan.releases == tuple(visits)


def test_what_the_claim_is_worth() -> None:
    """One owner that answers all T: √p ε. 400 of 1000 answers with p = 10: 1.26 for a claimed 1."""
    alone = async_learner.build(task_for((100,), dim=10), Settings(), "paper").plan
    assert pure_cost(alone, 0) == pytest.approx(np.sqrt(10))
    task = task_for((100, 100, 100), dim=10)
    plan = replace(async_learner.build(task, Settings(), "paper").plan, releases=(400, 25, 25))
    assert pure_cost(plan, 0) == pytest.approx(1.26, abs=0.01)
    assert pure_cost(plan, 1) == pytest.approx(0.079, abs=0.001)
    at_delta = certificates_of(plan, 1e-6)
    assert at_delta[0].epsilon == pytest.approx(0.24, abs=0.005)
    assert at_delta[1].epsilon == pytest.approx(0.053, abs=0.001)


def pure_cost(plan: ReleasePlan, owner: int) -> float:
    """Of what the plan charges: a Laplace release costs its replace-one sensitivity 2 over the multiplier."""
    event = plan.event(owner)
    return event.count * 2 / event.event.noise_multiplier  # type: ignore[attr-defined]


@pytest.mark.parametrize(("owners", "cap", "factor"), [(3, 400, 17), (86, 25, 67)])
def test_certified_noise_is_far_smaller(owners: int, cap: int, factor: int) -> None:
    """Standard deviations on the released sum at (1, 1e-6): Laplace of scale b has √2 b."""
    task = task_for((10_000,) * owners, dim=10)
    paper = async_learner.build(task, Settings(), "paper").plan
    ours = async_learner.build(task, Settings(cap=cap), "certified").plan
    assert np.sqrt(2) * paper.noise_scale[0] / ours.noise_scale[0] == pytest.approx(factor, abs=0.5)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("epsilon", [(1.0, 1.0), (0.3, 2.0)])
def test_certified_stays_within_every_budget(noise: str, epsilon: tuple[float, float]) -> None:
    task = task_for((1000, 40), epsilon=epsilon)
    program = async_learner.build(task, Settings(ticks=40, noise=noise, cap=(10, 30)), "certified")  # type: ignore[arg-type]
    assert program.plan.releases == (10, 30)
    for certificate, budget in zip(certificates_of(program.plan, task.delta), epsilon):
        assert 0.98 * budget < certificate.epsilon <= budget


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_measured_sensitivity(noise: str) -> None:
    """Replacing one record moves what emit returns by at most 2 clip_norm of the plan, and can attain it."""
    task = task_for((6,), clip_norm=0.5)
    program = async_learner.build(task, Settings(noise=noise, ticks=5), "certified")  # type: ignore[arg-type]
    order = 1 if noise == "laplace" else 2
    rng = np.random.default_rng(0)
    ctx = context_of(program, 0)
    visits = program.functions
    assert isinstance(visits, Visits)

    @jax.jit
    def emit(x: jax.Array, y: jax.Array, theta: jax.Array) -> jax.Array:
        return visits.emit((), theta, Batch(x, y, jnp.ones(6)), jnp.zeros((DIM, 1)), ctx)[0]

    largest = 0.0
    for trial in range(300):
        scale = 10.0 ** rng.uniform(-2, 3)
        x, theta = scale * rng.normal(size=(6, DIM)), rng.normal(size=(DIM, 1))
        y = rng.normal(size=6)
        x2, y2 = x.copy(), y.copy()
        x2[0], y2[0] = scale * rng.normal(size=DIM), rng.normal()
        if trial == 0:  # equal entries and opposite signs: the worst case of both norms
            x[0], x2[0], y[0], y2[0] = 10.0, -10.0, 1e3, 1e3
        one, two = (
            np.asarray(emit(*(jnp.asarray(a, jnp.float32) for a in (*rows, theta))))
            for rows in ((x, y), (x2, y2))
        )
        largest = max(largest, float(np.linalg.norm((one - two).ravel(), order)))
    declared = 2 * program.plan.clip_norm
    assert 0.95 * declared <= largest <= declared * (1 + 1e-5)


def test_noise_of_the_planned_scale_is_what_leaves() -> None:
    """Messages with and without noise differ by the plan's noise: accepts its scale, rejects 2/3 and 3/2."""
    task = task_for((500, 500))
    for calibration, noise in (("paper", "laplace"), ("certified", "gaussian")):
        program = async_learner.build(task, Settings(ticks=1000, cap=1000), calibration)  # type: ignore[arg-type]
        still = program._replace(numbers=program.numbers._replace(pace=jnp.zeros(2), inertia=jnp.zeros(2)))
        loud = simulate(still, shards_for(task.sizes), seed=5, transcript=True).messages
        quiet = simulate(
            still._replace(plan=replace(still.plan, noise=NoNoise())),
            shards_for(task.sizes),
            seed=5,
            transcript=True,
        ).messages
        assert loud is not None
        assert quiet is not None
        draws = np.asarray(loud - quiet).ravel() / program.plan.noise_scale[0]
        expected = 1.0 if noise == "laplace" else np.sqrt(2 / np.pi)  # mean of |unit noise|
        assert np.abs(draws).mean() == pytest.approx(expected, rel=0.1)


def test_noiseless_is_the_certified_run_without_noise() -> None:
    task = task_for((60, 90))
    certified, noiseless = (
        async_learner.build(task, Settings(ticks=30), how) for how in ("certified", "noiseless")
    )  # type: ignore[arg-type]
    assert noiseless.plan == replace(certified.plan, noise=NoNoise())
    assert certificates_of(noiseless.plan, 1e-6)[0].epsilon == np.inf
    assert noiseless.claim.epsilon is None
    for ours, theirs in zip(certified.numbers, noiseless.numbers):
        assert np.array_equal(ours, theirs)


def test_equal_settings_compile_once() -> None:
    task, other = task_for((60, 90)), task_for((60, 90), epsilon=(0.1, 5.0))
    first, second = (async_learner.build(t, Settings(ticks=30), "certified") for t in (task, other))
    assert first.functions is second.functions


def test_penalties_need_not_be_strongly_convex_for_averaging() -> None:
    task = task_for((40, 40), problem=Problem(linear(DIM), logistic(), none()), clip_norm=1.0)
    shards = shards_for(task.sizes)._replace(y=jnp.sign(shards_for(task.sizes).y))
    assert np.all(np.isfinite(final(build("async_learner", task, {"ticks": 20}, "certified"), shards)))
    with pytest.raises(InputError, match="penalty='none': strong convexity is"):
        async_learner.build(task, Settings(ticks=20), "paper")


def test_default_cap_is_seldom_reached() -> None:
    reached = [
        np.bincount(poisson_clocks(3, 300, seed)[0]).max() > default_cap(3, 300) for seed in range(200)
    ]
    assert 0 <= np.mean(reached) < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ticks": 0}, "ticks=0: must be a whole number >= 1"),
        ({"rho": -1.0}, "rho=-1.0: must be > 0"),
        ({"theta_max": 0.0}, "theta_max=0.0: must be > 0"),
        ({"steps": "guessed"}, "steps='guessed': unknown"),
        ({"noise": "uniform"}, "noise='uniform': unknown"),
        ({"learner": "newton"}, "learner='newton': unknown"),
        ({"cap": (3,)}, "cap has 1 entries for 2 owners"),
        ({"cap": 0}, "cap=0: must be a whole number >= 1"),
        ({"smoothness": float("nan")}, "smoothness=nan: must be > 0"),
    ],
)
def test_bad_settings_are_one_clear_line(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        build("async_learner", task_for((10, 10)), options, "certified")
    assert "\n" not in str(caught.value)
