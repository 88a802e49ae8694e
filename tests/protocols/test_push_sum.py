"""Push-sum: mass, de-biasing and oracles; what each policy adds; what a record can change; what it costs."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from coterie.accounting.plans import certificates_of
from coterie.engines.owners import context_of
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.mechanisms import FixedSize, FullBatch, NoNoise, Poisson
from coterie.problems.losses import softmax, squared
from coterie.problems.models import linear, two_layer
from coterie.problems.penalties import ball, l2, none
from coterie.problems.problem import Problem, objective
from coterie.program import Batch, Context, Program, Rounds, Shards, State
from coterie.protocols import Task, build, push_sum
from coterie.protocols.push_sum import AVERAGING, CountedNoise, Push, Settings
from coterie.topologies import Topology, from_graphs, mixer
from coterie.topologies import build as topology

HUGE = 1e6  # clips nothing
UNEVEN = [[(0, 1), (0, 2), (0, 3), (1, 2)], [(2, 3), (3, 0), (1, 0), (2, 0)]]  # connected over two rounds


def uneven() -> Topology:
    return from_graphs("uneven", [nx.DiGraph([*edges, *((i, i) for i in range(4))]) for edges in UNEVEN])


def matrices(schedule: Topology) -> list[np.ndarray]:
    found = []
    for edges in schedule.schedule:
        dense = np.zeros((schedule.owners, schedule.owners))
        dense[edges.target, edges.source] = edges.weight
        found.append(dense)
    return found


def task_for(sizes: tuple[int, ...], **more) -> Task:
    given: dict = {
        "problem": Problem(linear(1), squared(), none()),
        "sizes": sizes,
        "clip_norm": HUGE,
        "epsilon": (3.0,) * len(sizes),
        "delta": 1e-5,
        "topology": topology("complete", len(sizes)),
        "params": jnp.zeros((1, 1), jnp.float32),
    }
    return Task(**(given | more))


def single(targets: np.ndarray, x: np.ndarray | None = None) -> Shards:
    """One record an owner, so that drawing one of them is no choice."""
    x = np.ones((len(targets), 1)) if x is None else x
    y = targets if targets.dtype == np.int32 else targets.astype(np.float32)
    return Shards(
        jnp.asarray(x[:, None], jnp.float32), jnp.asarray(y[:, None]), jnp.ones(len(targets), jnp.int32)
    )


def context(program: Program, owner: int = 0) -> Context:
    return context_of(program, owner)


def rounds_of(program: Program) -> Rounds:
    assert isinstance(program.functions, Rounds)
    return program.functions


# ---- push-sum itself


def test_mass_is_conserved_and_the_estimate_unbiased_on_an_uneven_digraph() -> None:
    graph = uneven()
    task = task_for((1,) * 4, topology=graph, params=jnp.full((1, 1), 2.5))
    program = build("push_sum", task, {"rounds": 60}, "noiseless")
    still = single(np.zeros(4), np.zeros((4, 1)))  # features of zero: no gradient, mixing alone
    trace = simulate(program, still, mixer(graph), seed=0, transcript=True)
    sent: Push = trace.messages
    np.testing.assert_allclose(trace.info.weight.sum(1), 4.0, rtol=1e-6)
    np.testing.assert_allclose(sent.x.sum((1, 2, 3)), 10.0, rtol=1e-6)
    assert trace.info.weight.max() > 1.5  # uneven indeed
    assert trace.info.weight.min() < 0.5
    np.testing.assert_allclose(sent.x[:, :, 0, 0] / sent.w, 2.5, rtol=1e-6)


def test_debiased_consensus_is_right_and_biased_is_wrong() -> None:
    """Owner i minimises (θ − y_i)²/2: together, the mean. Against the recursion in NumPy, with and without w."""
    graph, y, step = uneven(), np.array([0.0, 1.0, 2.0, 9.0]), 0.02
    task = task_for((1,) * 4, topology=graph)
    program = build("push_sum", task, {"rounds": 400, "step": step}, "noiseless")
    found = np.asarray(simulate(program, single(y), mixer(graph), seed=0).model)[:, 0, 0]
    x, w, biased = np.zeros(4), np.ones(4), np.zeros(4)
    for k in range(400):
        p = matrices(graph)[k % 2]
        x, w = p @ (x - step * (x / w - y)), p @ w
        biased = p @ (biased - step * (biased - y))
    np.testing.assert_allclose(found, x / w, rtol=1e-4)
    assert np.abs(found - y.mean()).max() < 0.2
    assert np.abs(biased - y.mean()).max() > 1.0


def test_on_the_complete_graph_it_is_centralised_sgd() -> None:
    problem = Problem(two_layer(3, 4, 3), softmax(3), l2(0.1))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)), rng.integers(0, 3, 5).astype(np.int32)
    start = problem.model.init(jax.random.key(1))
    task = task_for((1,) * 5, problem=problem, params=start)
    program = build("push_sum", task, {"rounds": 20, "step": 0.3}, "noiseless")
    found = simulate(program, single(y, x), mixer(task.topology), seed=0).model
    everyone = Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y), jnp.ones(5, jnp.float32))
    gradient = jax.jit(jax.grad(lambda params: objective(problem, params, everyone)))
    for _ in range(20):
        start = jax.tree.map(lambda p, g: p - 0.3 * g, start, gradient(start))
    for got, want in zip(jax.tree.leaves(found), jax.tree.leaves(start)):
        np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), atol=1e-5)


def test_certified_uneven_owners_follow_the_pooled_gradient_and_average() -> None:
    """All records in each round, weighed alike whoever holds them; the model is the running average."""
    sizes, rng = (2, 5, 11), np.random.default_rng(1)
    x, y = rng.normal(size=(3, 11, 2)), rng.normal(size=(3, 11))
    shards = Shards(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.asarray(sizes, jnp.int32))
    problem = Problem(linear(2), squared(), none())
    task = task_for(sizes, problem=problem, params=jnp.zeros((2, 1), jnp.float32))
    program = build("push_sum", task, {"rounds": 12, "step": 0.2, "policy": "clipped"}, "certified")
    program = program._replace(plan=replace(program.plan, noise=NoNoise()))
    found = simulate(program, shards, mixer(task.topology), seed=0).model
    real = np.arange(11) < np.array(sizes)[:, None]
    pooled, target, theta, average = x[real], y[real], np.zeros(2), np.zeros(2)
    for t in range(1, 13):
        theta = theta - 0.2 * pooled.T @ (pooled @ theta - target) / len(target)
        new = (AVERAGING + 1) / (t + AVERAGING)
        average = (1 - new) * average + new * theta
    np.testing.assert_allclose(found[:, :, 0], np.broadcast_to(average, (3, 2)), rtol=1e-4)


@pytest.mark.parametrize("owners", [2, 20])
def test_weights_stay_exactly_one_on_the_one_peer_exponential_graph(owners: int) -> None:
    graph = topology("one_peer_exponential", owners)
    program = build("push_sum", task_for((1,) * owners, topology=graph), {"rounds": 30}, "noiseless")
    trace = simulate(program, single(np.arange(owners)), mixer(graph), seed=0)
    assert (trace.info.weight == 1.0).all()


# ---- what is added, and what one record can change

DIM, CLIP, SHARE = 3, 2.0, 0.2


def emitted(program: Program, batch: Batch, noise: CountedNoise) -> Push:
    functions, ctx = rounds_of(program), context(program)
    state = functions.init(program.params, ctx)
    return jax.jit(functions.emit)(State(state.public, ()), batch, noise, ctx)[0]


def released(program: Program, batch: Batch, noise: CountedNoise | None = None) -> np.ndarray:
    """What a message reveals, in the plan's units: where a record contributes at most 1, noise is multiplied z."""
    noise = CountedNoise(jnp.zeros((DIM, 1)), jnp.float32(0)) if noise is None else noise
    message, ctx = emitted(program, batch, noise), context(program)
    numbers = ctx.numbers
    spent = numbers.count_share
    gradient = (program.params - message.x) / (numbers.step * numbers.weight) / CLIP * jnp.sqrt(1 - spent)
    if isinstance(message.log_threshold, tuple):
        return np.asarray(gradient.ravel())
    moved = (jnp.log(CLIP) - message.log_threshold) / numbers.track - numbers.share * (0.5 - numbers.quantile)
    return np.append(gradient.ravel(), moved / numbers.weight * 2 * jnp.sqrt(spent))


def certified(policy: str, sizes: tuple[int, ...] = (4,)) -> Program:
    problem = Problem(linear(DIM), squared(), none())
    task = task_for(sizes, problem=problem, clip_norm=CLIP, params=jnp.full((DIM, 1), 0.1))
    options = {"policy": policy, "rounds": 5, "count_share": SHARE, "step": 1.0}
    program = build("push_sum", task, options, "certified")
    fast = program.numbers._replace(
        track=jnp.ones(len(sizes))
    )  # so that counts can be read off ln C_t exactly
    return program._replace(numbers=fast)


def rows(targets: list[float], x: np.ndarray | None = None) -> Batch:
    """Records whose gradient is -target along the first axis (params are shifted away)."""
    x = np.eye(1, DIM).repeat(len(targets), 0) if x is None else x
    y = np.array(targets) + 0.1 * x.sum(1)
    return Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.ones(len(y), jnp.float32))


@pytest.mark.parametrize("policy", ["tracked", "clipped"])
def test_one_record_moves_the_joint_release_by_at_most_two_and_nearly_that(policy: str) -> None:
    program, rng = certified(policy), np.random.default_rng(0)
    worst, others = 0.0, [0.3, -1.0, 5.0]
    for _ in range(50):
        x = rng.normal(size=(4, DIM)) * rng.lognormal(sigma=2, size=(4, 1))
        one = rows([*rng.normal(size=4) * 3], x)
        two = one._replace(x=one.x.at[3].set(rng.normal(size=DIM) * 4), y=one.y.at[3].set(rng.normal() * 4))
        gone = one._replace(mask=one.mask.at[3].set(0.0))
        worst = max(worst, np.linalg.norm(released(program, one) - released(program, two)))
        assert np.linalg.norm(released(program, one) - released(program, gone)) <= 1 + 1e-3
    assert worst <= 2 + 1e-3
    # Opposite gradients, one just inside the threshold and one beyond it: both parts of the pair move fully.
    far = released(program, rows([*others, 0.999 * CLIP])) - released(program, rows([*others, -3 * CLIP]))
    assert 1.95 <= np.linalg.norm(far) <= 2 + 1e-3


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_hostile_records_are_bounded_too(value: float) -> None:
    program, honest = certified("tracked"), rows([0.3, -1.0, 0.5, 0.1])
    hostile = honest._replace(x=honest.x.at[3].set(value))
    gone = honest._replace(mask=honest.mask.at[3].set(0.0))
    assert np.linalg.norm(released(program, hostile) - released(program, gone)) <= 1 + 1e-3


@pytest.mark.parametrize("policy", ["tracked", "clipped"])
def test_every_released_number_carries_the_plans_noise(policy: str) -> None:
    program, batch = certified(policy), rows([0.3, -1.0, 0.5, 0.1])
    unit = CountedNoise(jnp.arange(1.0, DIM + 1)[:, None], jnp.float32(DIM + 1))
    moved = released(program, batch, unit) - released(program, batch)
    expected = program.plan.noise_multiplier[0] * np.arange(1.0, DIM + 2)[: len(moved)]
    np.testing.assert_allclose(np.abs(moved), expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("policy", "std"), [("none", 0.0), ("constant", 0.05 * 3.5), ("clipped", 0.05), ("adaptive", 0.05 * 4.0)]
)
def test_published_noise(policy: str, std: float) -> None:
    task = task_for((3000,), clip_norm=1.0)
    program = build("push_sum", task, {"policy": policy, "step": 1.0}, "paper")
    assert program.plan.sampler == FixedSize(1)
    assert program.schedule == 2200
    batch = Batch(jnp.ones((1, 1)), jnp.asarray([4.0]), jnp.ones(1))  # gradient -4
    quiet, loud = (
        float(emitted(program, batch, CountedNoise(jnp.full((1, 1), u), ())).x[0, 0]) for u in (0.0, 1.0)
    )
    assert quiet == pytest.approx(1.0 if policy == "clipped" else 4.0)
    assert quiet - loud == pytest.approx(std, abs=1e-6)


# ---- certificates and claims


@pytest.mark.parametrize(
    ("sigma", "size", "rounds", "epsilon"), [(0.05, 3000, 2200, 5443), (0.04, 2500, 3500, 11157)]
)
def test_published_clipping_costs_what_it_costs(sigma: float, size: int, rounds: int, epsilon: float) -> None:
    task = task_for((size,), clip_norm=1.0)
    options = {"policy": "clipped", "sigma": sigma, "rounds": rounds}
    program = build("push_sum", task, options, "paper")
    (found,) = certificates_of(program.plan, 1e-5)
    assert found.epsilon == pytest.approx(epsilon, rel=0.005)
    assert program.claim.epsilon is None
    assert "c₂" in program.claim.note


@pytest.mark.parametrize(
    ("policy", "word"), [("adaptive", "0.52"), ("constant", "uncharged"), ("none", "not private")]
)
def test_what_has_no_finite_guarantee_says_so(policy: str, word: str) -> None:
    program = build("push_sum", task_for((3000,)), {"policy": policy}, "paper")
    (found,) = certificates_of(program.plan, 1e-5)
    assert math.isinf(found.epsilon)
    assert word in found.reason


@pytest.mark.parametrize("policy", ["tracked", "clipped"])
@pytest.mark.parametrize(
    ("sizes", "epsilon", "rate"),
    [((40,), (1.0,), None), ((30, 80), (0.5, 8.0), None), ((300, 20, 90), (3.0, 3.0, 1.0), 0.1)],
)
def test_certified_stays_within_every_budget(
    policy: str, sizes: tuple, epsilon: tuple, rate: float | None
) -> None:
    task = task_for(sizes, epsilon=epsilon, clip_norm=1.0)
    program = build("push_sum", task, {"policy": policy, "rounds": 7, "rate": rate}, "certified")
    assert isinstance(program.plan.sampler, FullBatch if rate is None else Poisson)
    for found, allowed in zip(certificates_of(program.plan, task.delta), epsilon):
        assert 0.98 * allowed <= found.epsilon <= allowed


# ---- the tracked threshold


def norms_as(norms: np.ndarray) -> Shards:
    """Two owners whose gradients at zero have these norms."""
    half = norms.reshape(2, -1).astype(np.float32)
    return Shards(jnp.ones((*half.shape, 1)), jnp.asarray(half), jnp.full(2, half.shape[1], jnp.int32))


@pytest.mark.parametrize(("start", "quantile"), [(40.0, 0.8), (40.0, 0.3), (1.0, 0.8)])
def test_threshold_follows_the_quantile_from_above_and_is_held_at_the_clip_norm(
    start: float, quantile: float
) -> None:
    norms = np.random.default_rng(0).lognormal(1.0, 0.7, 600)
    task = task_for(
        (300, 300), clip_norm=start, topology=topology("one_peer_exponential", 2), epsilon=(50.0, 50.0)
    )
    options = {"rounds": 150, "step": 1e-9, "quantile": quantile}
    trace = simulate(
        build("push_sum", task, options, "certified"), norms_as(norms), mixer(task.topology), seed=1
    )
    wanted = min(start, np.quantile(norms, quantile))
    np.testing.assert_allclose(trace.info.threshold[-1], wanted, rtol=0.15)
    assert trace.info.threshold.max() <= start * (1 + 1e-5)


@pytest.mark.parametrize(
    ("w", "log"), [(1.0, -95.0), (-1e-3, -5.0), (1e-30, -5.0), (1.0, 80.0), (-2.0, 1e30)]
)
def test_no_neighbour_moves_the_threshold_to_where_floats_end(w: float, log: float) -> None:
    """Weights and logarithms are a neighbour's word: a message keeps its ratio of noise to clipped gradients."""
    program = build("push_sum", task_for((8, 8), clip_norm=1.0), {}, "certified")
    rounds, ctx = rounds_of(program), context(program)
    told = Push(jnp.zeros((1, 1)), jnp.float32(w), jnp.float32(log))
    public, info = rounds.absorb(rounds.init(jnp.zeros((1, 1)), ctx).public, told, told, ctx)
    assert 1e-14 < float(info.threshold) <= 1.0 + 1e-6
    record = Batch(jnp.full((1, 1), 1.0), jnp.full(1, 2.0), jnp.ones(1))
    unit, none_ = (CountedNoise(jnp.full((1, 1), 2**16 * one, jnp.int32), jnp.int32(0)) for one in (1, 0))
    moved, noise = (
        float(abs(one.x - other.x)[0, 0])
        for one, other in (
            [
                rounds.emit(State(public, ()), batch, none_, ctx)[0]
                for batch in (record, record._replace(y=-record.y))
            ],
            [rounds.emit(State(public, ()), record, draw, ctx)[0] for draw in (unit, none_)],
        )
    )
    assert moved <= 2.001 * noise / program.plan.noise_multiplier[0]


def test_a_count_drowned_in_noise_moves_the_threshold_little() -> None:
    task = task_for((5, 5), clip_norm=3.0, epsilon=(0.5, 0.5))
    program = build("push_sum", task, {"rounds": 100, "step": 1e-9}, "certified")
    trace = simulate(program, norms_as(np.full(10, 3.0)), mixer(task.topology), seed=1)
    assert np.abs(np.log(trace.info.threshold / 3.0)).max() < 1.5


def test_certified_learns_on_an_uneven_digraph() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 500, 5)) / 2
    y = (x @ rng.normal(size=(5, 3))).argmax(2).astype(np.int32)
    shards = Shards(jnp.asarray(x, jnp.float32), jnp.asarray(y), jnp.full(4, 500, jnp.int32))
    problem = Problem(linear(5, 3), softmax(3), none())
    task = task_for((500,) * 4, problem=problem, clip_norm=1.5, topology=uneven(), params=jnp.zeros((5, 3)))
    found = simulate(build("push_sum", task, {}, "certified"), shards, mixer(task.topology), seed=0).model
    right = [(one @ np.asarray(theta)).argmax(1) == want for one, theta, want in zip(x, found, y)]
    assert np.mean(right) > 0.85


# ---- input


@pytest.mark.parametrize(
    ("more", "options", "calibration", "words"),
    [
        ({}, {"policy": "adaptive"}, "certified", "no finite certificate"),
        ({}, {"policy": "tracked"}, "paper", "was not published"),
        ({}, {"policy": "magic"}, "paper", "policy='magic'"),
        ({}, {"sigma": 0.0}, "paper", "sigma=0.0"),
        ({}, {"rounds": 0}, "certified", "rounds=0"),
        ({}, {"step": -1.0}, "certified", "step=-1.0"),
        ({}, {"quantile": 1.5}, "certified", "quantile=1.5"),
        ({}, {"count_share": 0.0}, "certified", "count_share=0.0"),
        ({}, {"rate": 2.0}, "certified", "rate=2.0"),
        ({"problem": Problem(linear(1), squared(), ball(1.0))}, {}, "certified", "never projects"),
        ({"topology": from_graphs("path", [nx.DiGraph([(0, 1)])])}, {}, "certified", "disconnected"),
    ],
)
def test_bad_input_is_one_clear_line(more: dict, options: dict, calibration: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        build("push_sum", task_for((20, 20), **more), options, calibration)
    assert "\n" not in str(caught.value)


def test_equal_settings_share_one_compilation() -> None:
    one, two = (
        push_sum.build(task_for((20, 20), epsilon=(e, e)), Settings(rounds=3), "certified")
        for e in (1.0, 2.0)
    )
    assert one.functions is two.functions
