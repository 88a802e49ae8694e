"""Weighted, averaged and central private risk minimisation: oracles, published noise, shares, certificates."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent

from coterie import topologies
from coterie._rounding import upper
from coterie.accounting import certify
from coterie.accounting.plans import against_all_others, certificates_of
from coterie.engines.owners import context_of
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.problems.losses import Loss, hinge, logistic, squared
from coterie.problems.models import linear, two_layer
from coterie.problems.penalties import elastic_net, l2, none, sine
from coterie.problems.problem import Problem, objective
from coterie.problems.reference import central_optimum
from coterie.program import Batch, Shards, State
from coterie.protocols import average_erm, build, central_erm, weighted_erm
from coterie.protocols._erm import Descent
from coterie.protocols.task import Task
from coterie.topologies import aggregate
from coterie.topologies import build as topology

DIM, SIZES = 3, (40, 10, 25)
RAMP = Loss(  # linear in the scores: the loss for which the final model is exactly Gaussian
    name="ramp",
    outputs=1,
    value=lambda scores, y: y * scores[:, 0],
    slope=lambda scores, y: y[:, None] * jnp.ones_like(scores),
    lipschitz=1.0,
    smoothness=0.0,
    strong_convexity=0.0,
    length=math.sqrt,
)


def task_of(sizes=SIZES, epsilon: float | tuple[float, ...] = 0.5, problem=None, clip_norm=1.0, dim=DIM):
    problem = problem or Problem(linear(dim), logistic(), l2(0.01))
    budgets = epsilon if isinstance(epsilon, tuple) else (epsilon,) * len(sizes)
    return Task(
        problem=problem,
        sizes=tuple(sizes),
        clip_norm=clip_norm,
        epsilon=budgets,
        delta=1e-5,
        topology=topology("complete", len(sizes)),
        params=problem.model.init(jax.random.key(0)),
    )


def shards_of(sizes=SIZES, dim=DIM, seed=0, real=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(len(sizes), max(sizes), dim)).astype(np.float32)
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    y = np.where(x[..., 0] + 0.3 * rng.normal(size=x.shape[:2]) > 0.1, 1.0, -1.0).astype(np.float32)
    y = (0.5 * x[..., 0] - 0.2 * x[..., 1]).astype(np.float32) if real else y
    return Shards(jnp.asarray(x), jnp.asarray(y), jnp.asarray(sizes, jnp.int32))


def final(program, shards, seed=0):
    return np.asarray(simulate(program, shards, aggregate(program.aggregate), seed=seed).model)


def worth(sizes, epsilon, delta=1e-5):
    """What the published noise certifies: of the final model for a linear loss, and of the smallest party's steps."""
    noise = weighted_erm.published_multipliers(sizes, epsilon, delta)
    return [certify(GaussianDpEvent(multiplier), delta=delta).epsilon for multiplier in noise]


@pytest.mark.parametrize(
    ("parties", "epsilon", "expected"),
    [(32, 0.25, (1.67, 12.6)), (32, 0.1, (0.66, 4.585)), (8, 0.25, (0.777, 2.45))],
)
def test_worth_of_the_papers_claims(parties, epsilon, expected):
    """Theorem 1 claims ε of the final model, and Theorem 2 as many times that as there are parties of their own."""
    for value, golden in zip(worth([50] * parties, epsilon), expected):
        assert value == pytest.approx(golden, abs=0.006 * max(1, golden / 2))


def test_published_noise_follows_the_formula_and_is_the_same_for_everyone():
    task = task_of(clip_norm=0.7)
    plan = weighted_erm.build(task, weighted_erm.Settings(steps=9, constant=2.0), "paper").plan
    sigma = np.array(plan.noise_scale) / np.array(SIZES)
    assert sigma == pytest.approx(math.sqrt(2.0 * 0.7**2 * 9 * math.log(1e5) / (75**2 * 0.5**2)), rel=1e-6)
    smallest = average_erm.build(task, average_erm.Settings(steps=9, constant=2.0), "paper").plan
    assert np.array(smallest.noise_scale) / np.array(SIZES) == pytest.approx(sigma[0] * 75 / 30, rel=1e-6)


def test_the_default_constant_makes_the_central_claim_exact():
    program = central_erm.build(task_of(), central_erm.Settings(steps=7), "paper")
    assert program.claim.epsilon == pytest.approx(0.5, rel=1e-6)
    assert [one.epsilon for one in certificates_of(program.plan, 1e-5)] == pytest.approx([0.5] * 3, rel=1e-6)


def test_claims_are_theorems_one_and_two_and_the_certificate_is_above_them():
    program = weighted_erm.build(task_of((20,) * 8, 0.25), weighted_erm.Settings(steps=5), "paper")
    assert program.claim.epsilon == pytest.approx(0.25, rel=1e-6)
    assert "claims 2 for" in program.claim.note
    assert certificates_of(program.plan, 1e-5)[0].epsilon == pytest.approx(2.45, abs=0.01)
    assert "own steps" in program.plan.view


def test_a_linear_loss_gets_exactly_the_noise_of_the_weighted_sum():
    sizes, dim, steps = (8,) * 16, 4000, 6
    problem = Problem(linear(dim), RAMP, none())
    task = task_of(sizes, 0.25, problem, dim=dim)
    program = weighted_erm.build(task, weighted_erm.Settings(steps=steps, step_size=0.5), "paper")
    expected = worth(sizes, 0.25)[0]
    assert certificates_of(program.plan, 1e-5)[0].epsilon == pytest.approx(expected, rel=1e-5)
    still = Shards(jnp.zeros((16, 8, dim)), jnp.ones((16, 8)), jnp.full(16, 8, jnp.int32))
    sigma = program.plan.noise_scale[0] / 8
    ratio = final(program, still)[0].std() / (0.5 * math.sqrt(steps) * sigma / math.sqrt(16))
    assert 0.93 < ratio < 1.07  # 6 standard errors of a standard deviation over 4,000 coordinates


@pytest.mark.parametrize("calibration", ["certified", "paper", "noiseless"])
def test_with_one_party_weighted_average_and_central_are_one(calibration):
    task, shards = task_of((30,)), shards_of((30,))
    models = [
        final(module.build(task, module.Settings(steps=12, **more), calibration), shards)
        for module, more in (
            (weighted_erm, {"aggregation": "every_round"}),
            (average_erm, {"aggregation": "every_round"}),
            (central_erm, {}),
        )
    ]
    assert np.array_equal(models[0], models[2])
    assert models[1] == pytest.approx(models[2], rel=1e-5)


@pytest.mark.parametrize(
    ("loss", "penalty"), [(logistic(), l2(0.01)), (hinge(), elastic_net(0.01, 0.01)), (squared(), none())]
)
def test_one_party_steps_as_dual_averaging_does(loss, penalty):
    """The same releases under the same noise, rounds and γ: a server is never behind those who trust nobody."""
    task = task_of((30,), problem=Problem(linear(DIM), loss, penalty))
    ours = build("dual_averaging", task, {}, "certified")
    shards, mixer = shards_of((30,)), topologies.mixer(task.topology, 1)
    expected = np.asarray(simulate(ours, shards, mixer, seed=0).model)
    for name in ("weighted_erm", "average_erm", "central_erm"):
        program = build(name, task, {}, "certified")
        assert program.schedule == ours.schedule
        assert program.plan.noise_scale == pytest.approx(ours.plan.noise_scale, rel=1e-6)
        assert final(program, shards) == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_a_trusted_sum_is_nearer_to_the_optimum_than_owners_who_trust_nobody():
    sizes = (60,) * 6
    task, shards = task_of(sizes, 1.0), shards_of(sizes)
    x, y = np.asarray(shards.x).reshape(-1, DIM), np.asarray(shards.y).reshape(-1)
    batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y)))
    mixer = topologies.mixer(task.topology, 1)

    def height(name: str, options: dict) -> float:
        program = build(name, task, options, "certified")
        mix = mixer if program.aggregate is None else aggregate(program.aggregate)
        models = [simulate(program, shards, mix, seed=seed).model[0] for seed in range(8)]
        return float(np.mean([objective(task.problem, jnp.asarray(model), batch) for model in models]))

    untrusted = height("dual_averaging", {})
    assert height("central_erm", {}) < untrusted
    assert height("weighted_erm", {"view": "aggregator"}) < untrusted


def test_what_is_not_convex_descends():
    bent = Problem(linear(DIM), squared(), sine())
    network = Problem(two_layer(DIM, 4, 1), logistic(), l2(0.01))
    for problem in (bent, network):
        program = build("weighted_erm", task_of(problem=problem), {"steps": 3}, "certified")
        start = program.functions.init(program.params, context_of(program, 0, step=1, turn=0)).public
        assert isinstance(start, Descent)  # from the task's own start, which dual averaging would forget


def test_steps_at_home_equal_rounds_for_one_party_and_differ_for_three():
    for sizes, same in (((30,), True), (SIZES, False)):
        task, shards = task_of(sizes), shards_of(sizes)
        models = [
            final(
                weighted_erm.build(task, weighted_erm.Settings(steps=15, aggregation=how), "noiseless"),
                shards,
            )
            for how in ("once", "every_round")
        ]
        assert np.allclose(*models, atol=1e-6) == same


@pytest.mark.parametrize(("loss", "penalty"), [(logistic(), l2(0.05)), (squared(), sine())])
def test_without_noise_rounds_reach_the_joint_optimum(loss, penalty):
    problem = Problem(linear(DIM), loss, penalty)
    shards = shards_of(real=loss.name == "squared")
    task = task_of(problem=problem, clip_norm=1.0 if loss.name == "logistic" else 50.0)
    program = weighted_erm.build(task, weighted_erm.Settings(), "noiseless")
    keep = np.arange(max(SIZES)) < np.array(SIZES)[:, None]
    x, y = np.asarray(shards.x)[keep], np.asarray(shards.y)[keep]
    batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y)))
    best = objective(problem, jnp.asarray(central_optimum(problem, x, y)), batch)
    assert float(objective(problem, jnp.asarray(final(program, shards)[0]), batch) - best) < 1e-4


CERTIFIED = [
    {"aggregation": how, "view": view, **relation}
    for how in ("once", "every_round")
    for view in ("untrusted", "aggregator")
    for relation in ({}, {"relation": "add_or_remove_one", "steps": 20, "step_size": 1.0})
]


@pytest.mark.parametrize(
    "options", [*CERTIFIED, {"view": "aggregator", "shares": "records"}, {"weights": "precision"}]
)
@pytest.mark.parametrize("sizes", [SIZES, (12, 30), (9,)])
def test_certified_keeps_every_budget(options, sizes):
    task = task_of(sizes, (0.3, 1.0, 4.0)[: len(sizes)])
    for budgets in (task, task_of(sizes)):
        program = build("weighted_erm", budgets, options, "certified")
        found = certificates_of(program.plan, 1e-5)
        spent = [one.epsilon for one in found]
        assert all(epsilon <= limit for epsilon, limit in zip(spent, budgets.epsilon))
        assert (
            max(np.array(spent) / budgets.epsilon) > 0.99
        )  # not by adding more noise than anybody asked for
        assert found[0].relation == options.get("relation", "replace_one")


@pytest.mark.parametrize("name", ["average_erm", "central_erm"])
def test_the_baselines_keep_every_budget(name):
    for sizes in (SIZES, (9,), (12, 30)):
        task = task_of(sizes, (0.3, 1.0, 4.0)[: len(sizes)])
        views = ("untrusted", "aggregator") if name == "average_erm" else (None,)
        for view in views:
            program = build(name, task, {"view": view} if view else {}, "certified")
            found = certificates_of(program.plan, 1e-5)
            assert all(one.epsilon <= limit for one, limit in zip(found, task.epsilon))


@pytest.mark.parametrize(("missing", "parts"), [(1, "even"), (2, "even"), (1, "records"), (2, "records")])
def test_the_sum_stays_private_whoever_is_missing(missing, parts):
    sizes, budgets = (50, 10, 25, 15, 40), (0.3, 1.0, 4.0, 0.5, 0.4)
    options = {"view": "aggregator", "missing": missing, "shares": parts, "steps": 8}
    plan = build("weighted_erm", task_of(sizes, budgets), options, "certified").plan
    alone = build("weighted_erm", task_of(sizes, budgets), {"steps": 8}, "certified").plan
    variance = (
        np.array(plan.noise_multiplier) ** 2
    )  # every record has the weight 1/n: sums add up as they are
    left = [variance.sum() - variance[list(gone)].sum() for gone in itertools.combinations(range(5), missing)]
    assert min(left) >= max(alone.noise_multiplier) ** 2 * (1 - 1e-9)
    assert plan.charged is not None
    assert min(left) == pytest.approx(plan.charged[0] ** 2)
    assert plan.quorum == 5 - missing
    if parts == "even":
        assert variance == pytest.approx(max(alone.noise_multiplier) ** 2 / (5 - missing), rel=1e-6)
    assert "aggregator trusted" in plan.view
    against = max(one.epsilon for one in against_all_others(plan, 1e-5))
    assert f"(ε against it: {upper(against)})" in plan.view
    assert against > 0.3


def test_the_average_needs_noise_for_its_smallest_party():
    task = task_of((400, 10), 0.5)
    weighted = weighted_erm.build(task, weighted_erm.Settings(steps=5), "certified").plan
    averaged = average_erm.build(task, average_erm.Settings(steps=5), "certified").plan
    assert averaged.noise_multiplier[0] == pytest.approx(40 * weighted.noise_multiplier[0])
    assert averaged.noise_multiplier[1] == pytest.approx(weighted.noise_multiplier[1])


def emitted(program, x, y, unit=0.0, turn=0, private=()):
    """One party's message on explicit records, all unit noise set to `unit`."""
    plan = program.plan
    noise = jax.tree.map(lambda leaf: jnp.full(leaf.shape, unit, leaf.dtype), plan.noise_like)
    ctx = context_of(program, 0, step=turn + 1, turn=turn)
    state = program.functions.init(program.params, ctx)
    state = State(state.public, private if turn else state.private)
    batch = Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.ones(len(y), jnp.float32))
    return jax.jit(program.functions.emit)(state, batch, noise, ctx)


def test_replacing_a_record_moves_a_message_by_what_is_declared():
    task = task_of(
        (10, 10)
    )  # at θ = 0 a slope is 1/2, where a classifier's gradients are clipped: it is attained
    program = weighted_erm.build(task, weighted_erm.Settings(), "certified")
    assert program.plan.clip_norm == 0.5
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, DIM)) * 5, np.sign(rng.normal(size=10))
    base, _ = emitted(program, x, y)
    moved = 0.0
    for _ in range(20):
        other = x.copy()
        other[3] = rng.normal(size=DIM) * 10 ** rng.uniform(-3, 30)
        moved = max(moved, float(jnp.linalg.norm(emitted(program, other, y)[0] - base)))
    flipped = x.copy()
    flipped[3] = -x[3]
    moved = max(moved, worst := float(jnp.linalg.norm(emitted(program, flipped, y)[0] - base)))
    declared = 2 * 0.5 / 10
    assert moved <= declared * (1 + 1e-4)
    assert worst >= 0.95 * declared
    noisy, _ = emitted(program, x, y, unit=1.0)
    assert np.asarray(noisy - base) == pytest.approx(program.plan.noise_scale[0] / 10, rel=1e-4)


def _multiplier(event):
    assert isinstance(event, GaussianDpEvent)
    return event.noise_multiplier


def test_under_add_remove_the_size_is_released_once_with_its_noise():
    task = task_of()
    program = build(
        "weighted_erm", task, {"relation": "add_or_remove_one", "steps": 4, "step_size": 1.0}, "certified"
    )
    x, y = np.eye(3, DIM), np.ones(3)
    first, kept = emitted(program, x, y, unit=1.0)
    scale = float(program.numbers.size_noise[0])
    assert float(first.size) == pytest.approx(3 + scale)
    assert program.plan.extra is not None
    assert _multiplier(program.plan.extra[0]) == pytest.approx(scale, rel=1e-6)
    later, _ = emitted(program, x, y, unit=-2.0, turn=1, private=kept)
    assert float(later.size) == float(first.size)
    base, one_less = emitted(program, x, y)[0], emitted(program, x[:2], y[:2])[0]
    assert float(base.size - one_less.size) == 1.0
    assert float(jnp.linalg.norm(base.value - one_less.value)) == pytest.approx(
        0.5, abs=1e-5
    )  # <= clip_norm = 1
    assert np.isfinite(final(program, shards_of())).all()


def test_the_papers_weight_noise_multiplies_the_model_by_its_noisy_weight():
    task = task_of()
    options = {"relation": "add_or_remove_one", "steps": 3, "constant": 1.5}
    program = build("weighted_erm", task, options, "paper")
    sigma_w = math.sqrt(1.5 * math.log(1 / (0.2e-5)) / (75**2 * 0.1**2))
    assert np.asarray(program.numbers.size_noise) * np.array(SIZES) / 75 == pytest.approx(sigma_w, rel=1e-5)
    assert np.isfinite(final(program, shards_of())).all()


def test_average_of_uneven_parties_weighs_them_evenly():
    program = average_erm.build(task_of(), average_erm.Settings(), "certified")
    assert program.aggregate == pytest.approx(np.full(3, 1 / 3))
    weighted = weighted_erm.build(task_of(), weighted_erm.Settings(), "certified")
    assert weighted.aggregate == pytest.approx(np.array(SIZES) / 75)


@pytest.mark.parametrize(
    ("name", "options", "calibration", "said"),
    [
        ("weighted_erm", {"missing": 3, "view": "aggregator"}, "certified", "missing=3"),
        ("weighted_erm", {"view": "server"}, "certified", "view='server'"),
        ("weighted_erm", {"aggregation": "twice"}, "certified", "aggregation='twice'"),
        ("weighted_erm", {"relation": "other"}, "certified", "relation='other'"),
        ("weighted_erm", {"weight_share": 1.0}, "certified", "weight_share=1.0"),
        ("weighted_erm", {"weights": "precision"}, "paper", "weights='precision'"),
        (
            "weighted_erm",
            {"relation": "add_or_remove_one", "aggregation": "every_round"},
            "paper",
            "aggregation=",
        ),
        ("weighted_erm", {"steps": -1}, "certified", "steps=-1"),
        ("weighted_erm", {"steps": 0}, "certified", "steps=0"),
        ("weighted_erm", {"relation": "add_or_remove_one", "steps": 5}, "certified", "step_size"),
        (
            "weighted_erm",
            {"relation": "add_or_remove_one", "view": "aggregator", "shares": "records"},
            "paper",
            "must not follow",
        ),
        ("weighted_erm", {"constant": -1.0}, "paper", "constant=-1.0"),
        ("average_erm", {"radius": 0.0}, "certified", "radius=0.0"),
        ("central_erm", {"step_size": -1.0}, "paper", "step_size=-1.0"),
    ],
)
def test_bad_settings_are_one_line(name, options, calibration, said):
    with pytest.raises(InputError) as error:
        build(name, task_of(), options, calibration)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
