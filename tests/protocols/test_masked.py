"""Sums under masks: what is sent, what it adds up to, what it costs, and what is refused."""

import itertools
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds
from dp_accounting import GaussianDpEvent

from coterie import topologies
from coterie.accounting import calibrate, certify
from coterie.accounting.exposure import circulant, complete, exposure
from coterie.accounting.plans import against_all_others, certificates_of
from coterie.audit import audit, worst_case
from coterie.audit.neighbours import AuditWorld
from coterie.engines.owners import context_of, everything
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.mechanisms import noise as noises
from coterie.mechanisms.noise import largest_sum, rounding_slack
from coterie.problems.losses import softmax
from coterie.program import Shards
from coterie.protocols import PROTOCOLS as PROTOCOL_TABLE
from coterie.protocols import _dual, _masked, build
from coterie.protocols.task import radius_for
from coterie.testing import check_protocol, small_world

SIZES, BUDGETS, DIM, DELTA = (24, 9, 15, 30, 12), (0.6, 2.0, 1.0, 1.0, 0.8), 3, 1e-4
PROTOCOLS = {"weighted_erm": {}, "average_erm": {}, "dual_averaging": {"rounds": 6}}
SURE = 1 - 1e-7


def made(name="weighted_erm", sizes=SIZES, epsilon=BUDGETS, **more):
    task = worlds.task(sizes, DIM, epsilon=epsilon, delta=DELTA)
    return build(name, task, {"view": "masked", **PROTOCOLS[name], **more}, "certified")


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize(
    ("sizes", "epsilon", "more"),
    [
        (SIZES, BUDGETS, {}),
        (SIZES, (1.0,) * 5, {"colluding": 0, "absent": 0}),
        (SIZES, BUDGETS, {"colluding": 2, "absent": 1, "spare": 7}),
        ((20, 30, 40), (0.5, 1.0, 1.0), {}),
        (SIZES * 2, BUDGETS * 2, {"degree": 4, "colluding": 3}),
    ],
)
def test_certified_within_every_budget_and_equal_to_the_matrix(name, sizes, epsilon, more):
    program = made(name, sizes, epsilon, **more)
    plan, masked = program.plan, program.plan.masked
    members = len(sizes) - masked.absent
    assert plan.quorum == members
    assert plan.releases == (program.schedule + masked.spare,) * len(sizes)
    # Of everybody's whole-number messages: noise of 2^bits each, a record moves owner i's by 2 · 2^bits / z_i.
    pairs = circulant(members, masked.degree) if masked.degree else complete(members)
    left = 1 / math.sqrt(exposure(np.full(members, plan.lattice[0] ** 2), pairs, masked.colluding)[0])
    for owner, one in enumerate(certificates_of(plan, DELTA)):
        moved = plan.lattice[owner] / plan.noise_multiplier[owner]
        event = GaussianDpEvent(left / moved / math.sqrt(plan.releases[owner]))
        assert one.epsilon == pytest.approx(certify(event, delta=DELTA).epsilon, rel=1e-6)
        assert one.epsilon <= epsilon[owner]
    assert max(one.epsilon / budget for one, budget in zip(certificates_of(plan, DELTA), epsilon)) > 0.999


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_second_number_is_that_of_the_own_noise_alone(name):
    plan = made(name).plan
    for owner, one in enumerate(against_all_others(plan, DELTA)):
        event = GaussianDpEvent(plan.noise_multiplier[owner] / math.sqrt(plan.releases[owner]))
        assert one.epsilon == pytest.approx(certify(event, delta=DELTA).epsilon, rel=1e-9)
        assert one.epsilon > certificates_of(plan, DELTA)[owner].epsilon
        assert "all other owners" in one.view


def test_golden_second_numbers_of_the_defaults():
    """Budget 0.25 at 1e-5, 32 even owners, one colluder: two absent, and nobody absent."""
    for owners, absent, expected in ((32, None, 1.58), (32, 0, 1.637), (8, 0, 0.72), (128, 0, 3.62)):
        task = worlds.task((40,) * owners, DIM, epsilon=0.25)
        settings = {"view": "masked", "steps": 3, "step_size": 1.0, "absent": absent}
        plan = build("weighted_erm", task, settings, "certified").plan
        assert against_all_others(plan, 1e-5)[0].epsilon == pytest.approx(expected, rel=4e-3)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_run_adds_as_owners_with_masks_do_bit_for_bit(name):
    """Every message under masks modulo 2^64, as real owners send them: the sums, and so the model, are the same."""
    program, rng = made(name), np.random.default_rng(0)
    trace = simulate(
        program, worlds.shards(SIZES, DIM), topologies.aggregate(program.aggregate), seed=4, transcript=True
    )
    messages = np.asarray(trace.messages)
    assert messages.dtype == np.int32
    context = context_of(program, 1)
    public = program.functions.init(program.params, context).public
    absorb = jax.jit(program.functions.absorb)
    for step, sent in enumerate(messages, start=1):
        under = sent.astype(np.int64).view(np.uint64).copy()
        for one, other in itertools.combinations(range(len(SIZES)), 2):
            mask = rng.integers(0, 2**64, sent.shape[1:], dtype=np.uint64)
            under[one] += mask
            under[other] -= mask
        assert np.abs(under.view(np.int64).astype(float)).max() > 2**55  # a message alone says nothing
        total = under.sum(axis=0, dtype=np.uint64).view(np.int64)
        assert np.array_equal(total, sent.astype(np.int64).sum(axis=0))
        mixed = jnp.asarray(total.astype(np.float64).astype(np.float32))
        public, _ = absorb(public, mixed, mixed, context._replace(step=jnp.int32(step)))
    assert np.array_equal(program.functions.model(public), trace.model[1])
    assert np.array_equal(trace.model[0], trace.model[4])


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_contract_is_kept(name):
    settings = PROTOCOL_TABLE[name].settings(view="masked", **PROTOCOLS[name])
    found = check_protocol(PROTOCOL_TABLE[name].build, settings, world=small_world())
    assert 0.25 * found.allowed <= found.shift


@pytest.mark.parametrize("name", PROTOCOLS)
def test_neighbours_move_a_message_by_no_more_than_the_noise_is_charged_for(name):
    """Explicit neighbours, no noise: at most 2/z units, and half a cell a number in each of the two worlds."""
    program, records = made(name), worlds.shards(SIZES, DIM)
    lattice, worst = program.plan.lattice[0], 0.0
    for owner, row in ((0, 3), (1, 0), (4, 11)):
        sent = []
        for world in (records, records._replace(x=records.x.at[owner, row].multiply(-1e3))):
            own = jax.tree.map(lambda leaf, at=owner: leaf[at], world)
            context = context_of(program, owner)
            state = program.functions.init(program.params, context)
            zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.int32), program.plan.noise_like)
            message, kept = program.functions.emit(state, everything(own), zeros, context)
            assert not jax.tree.leaves(kept)
            sent.append(np.asarray(message, np.int64))
        moved = np.linalg.norm(sent[0] - sent[1])
        allowed = 2 * lattice / program.plan.noise_multiplier[owner] + math.sqrt(DIM)
        worst = max(worst, moved / allowed)
        assert moved <= allowed * (1 + 1e-5)
    assert worst > 0.2


def test_messages_carry_noise_of_one_width_whatever_the_owners_sizes():
    program = made(sizes=(8,) * 5, steps=2000, step_size=1e-9, epsilon=(1.0,) * 5)
    still = Shards(jnp.zeros((5, 8, DIM)), jnp.ones((5, 8)), jnp.full(5, 8, jnp.int32))
    trace = simulate(program, still, topologies.aggregate(program.aggregate), seed=1, transcript=True)
    spread = np.asarray(trace.messages, float).std(axis=(0, 2, 3)) / program.plan.lattice[0]
    # 6,000 numbers each: a standard deviation is off by 0.9 %; five of these
    assert np.all(np.abs(spread - 1) < 0.05)


def by_grid(n, mu, dimension, t):
    """Another way to the same weights: every cap of a fine grid, filled up by bisection."""
    cap = n * mu

    def fill(v):
        low, high = 0.0, 1.0
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if np.minimum(middle * n, v * cap).sum() < 1 else (low, middle)
        return np.minimum(high * n, v * cap)

    def cost(v):
        return np.sum(fill(v) ** 2 / n) + dimension * (2 * v) ** 2 * len(n) / (len(n) - t)

    grid = np.geomspace(1 / cap.sum(), np.max(1 / (n.sum() * mu)), 2000)[1:]
    return fill(min(grid, key=cost))


def test_golden_weights_of_uneven_budgets():
    """16 owners at 0.25 and 16 at 1.0 with 1,000 records each: the strict half weighs 0.219."""
    needed = np.repeat([calibrate(GaussianDpEvent, epsilon=one, delta=1e-5) for one in (0.25, 1.0)], 16)
    found = _masked.filled((1000,) * 32, needed, 105, 1 / 31)
    assert found.sum() == pytest.approx(1)
    assert found[:16].sum() == pytest.approx(0.219, abs=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_filled_weights_are_those_of_a_search(seed):
    rng = np.random.default_rng(seed)
    n, needed = rng.integers(50, 3000, 12).astype(float), rng.choice([5.0, 20.0, 80.0], 12)
    found = _masked.filled(n.astype(int), needed, 105, 1 / 11)
    np.testing.assert_allclose(found, by_grid(n, 2 / needed, 105, 1), atol=2e-3)


def test_one_budget_weighs_by_records():
    weights = _masked.weights(worlds.task(SIZES, DIM, epsilon=0.5), 1 / 4)
    np.testing.assert_allclose(weights, np.array(SIZES) / sum(SIZES))


def test_strict_owners_do_not_drown_the_sum():
    """One owner of five at a tenth of the others' budgets: filled weights need far less noise than records'."""
    noise = {}
    for weights in (None, "records"):
        program = made(epsilon=(0.1, 2.0, 2.0, 2.0, 2.0), weights=weights, steps=10, step_size=1.0)
        noise[weights] = float(program.numbers.cell[0])
    assert noise[None] < 0.5 * noise["records"]


def test_everyone_widens_by_the_largest_slack_of_any_owner():
    plan = made().plan
    slack = {rounding_slack(plan, owner) for owner in range(5)}
    assert len(slack) == 1
    assert slack.pop() == max(noises._slack(plan, owner) for owner in range(5))
    coarse = replace(plan, lattice=(2.0**8,) * 5)
    assert rounding_slack(coarse, 0) > 100 * noises.spec(plan).size ** 0 * 2**-16


@pytest.mark.parametrize("shares", ["even", "records"])
@pytest.mark.parametrize("missing", [0, 2])
def test_a_trusted_aggregator_adds_up_whole_numbers_of_one_lattice(shares, missing):
    """Real owners' messages: a cell is worth the same in all of them, and the charged noise is in the sum of cells."""
    task = worlds.task(SIZES, DIM, epsilon=BUDGETS, delta=DELTA)
    options = {"view": "aggregator", "shares": shares, "missing": missing, "steps": 6, "step_size": 1.0}
    simulated = build("weighted_erm", task, options, "certified").plan
    task = replace(task, problem=task.problem._replace(careful=True))
    program = build("weighted_erm", task, options, "certified")
    plan, weights = program.plan, np.array(SIZES) / sum(SIZES)
    lattice, own = np.array(plan.lattice), np.array(plan.noise_multiplier)
    assert simulated.lattice is None
    assert replace(plan, lattice=None) == simulated
    cells = weights / np.array(SIZES) * own * plan.clip_norm / lattice
    assert cells == pytest.approx(float(program.numbers.cell[0]))
    assert plan.parts == pytest.approx(weights)
    left = math.sqrt(np.sort(lattice**2)[: len(SIZES) - missing].sum())
    assert left / (lattice / own) == pytest.approx(np.array(plan.charged))
    slack = {rounding_slack(plan, owner) for owner in range(5)}
    assert slack == {max(noises._slack(plan, owner) for owner in range(5))}


def test_the_lattice_grows_coarser_until_a_sum_fits():
    sizes = (2_000_000,) * 4
    task = worlds.task(sizes, DIM, epsilon=8.0, delta=1e-9)
    plan = build("weighted_erm", task, {"view": "masked", "steps": 3, "step_size": 1.0}, "certified").plan
    largest = largest_sum(plan) * plan.lattice[0]
    assert 2**8 <= plan.lattice[0] < 2**16
    assert 2**29 < largest < 2**31
    with pytest.raises(InputError, match="epsilon: so little noise on so many records"):
        build(
            "weighted_erm",
            replace(task, epsilon=(2000.0,) * 4),
            {"view": "masked", "steps": 1, "step_size": 1.0},
            "certified",
        )


def test_models_of_several_classes_are_added_too():
    task = worlds.task(SIZES, DIM, loss=softmax(4), epsilon=1.0)
    program = build("dual_averaging", task, {"view": "masked", "rounds": 3}, "certified")
    trace = simulate(
        program, worlds.shards(SIZES, DIM, classes=4), topologies.aggregate(program.aggregate), seed=0
    )
    assert np.isfinite(trace.model).all()
    assert np.array_equal(trace.model[0], trace.model[3])


@pytest.mark.parametrize(
    ("name", "settings", "calibration", "words"),
    [
        ("weighted_erm", {"view": "masked", "colluding": 4}, "certified", "colluding=4: with 5 owners nobody is left"),
        ("weighted_erm", {"view": "masked", "absent": 3}, "certified", "absent=3: must be at most 2"),
        ("weighted_erm", {"view": "masked", "degree": 3, "absent": 0}, "certified", "degree=3: must be even"),
        ("weighted_erm", {"view": "masked", "degree": 2, "colluding": 2, "absent": 0}, "certified",
         "degree=2: 2 colluders could be all of an owner's neighbours"),
        ("weighted_erm", {"view": "masked", "aggregation": "once"}, "certified", "aggregation='once'"),
        ("weighted_erm", {"view": "masked", "relation": "add_or_remove_one", "steps": 2, "step_size": 1.0},
         "certified", "relation='add_or_remove_one'"),
        ("weighted_erm", {"view": "masked", "missing": 1}, "certified", "missing=1: masked sums tell colluders"),
        ("weighted_erm", {"view": "masked", "weights": "precision"}, "certified", "weights='precision'"),
        ("weighted_erm", {"view": "masked", "aggregation": "every_round"}, "paper", "view='masked'"),
        ("weighted_erm", {"colluding": 2}, "certified", "colluding=2: only for view=masked"),
        ("average_erm", {"spare": 2}, "certified", "spare=2: only for view=masked"),
        ("weighted_erm", {"view": "masked"}, "noiseless", "view='masked': masks are for certified noise"),
        ("average_erm", {"view": "masked"}, "noiseless", "view='masked': masks are for certified noise"),
        ("dual_averaging", {"view": "masked"}, "noiseless", "view='masked': masks are for certified noise"),
        ("dual_averaging", {"degree": 4}, "certified", "degree=4: only for view=masked"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused_in_one_line(name, settings, calibration, words):
    with pytest.raises(InputError, match=words) as caught:
        build(name, worlds.task(SIZES, DIM), settings, calibration)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", ["weighted_erm", "dual_averaging"])
def test_the_attack_with_colluders_stands_and_with_the_forbidden_resend_it_does_not(protocol):
    """Whoever adds up and one colluder stay below ε. Who obtains the same message in two sums of different owners, or
    the masks of an absent one, has the owner's own message, and is caught; it stays below the second number."""
    options = {"view": "masked", "spare": 0, "absent": 0} | (
        {"rounds": 1} if protocol == "dual_averaging" else {"steps": 1, "step_size": 1.0}
    )
    setting = worst_case(protocol, AuditWorld(delta=0.01, owners=12), options)
    program = setting.program
    plan = program.plan
    together = against_all_others(plan, 0.01)[0].epsilon
    resent = program._replace(plan=replace(plan, masked=replace(plan.masked, colluding=plan.quorum - 1)))
    found = {}
    for label, attacked in (("masked", program), ("resent", resent)):
        found[label] = audit(setting._replace(program=attacked), delta=0.01, games=20_000, confidence=SURE)
        assert found[label].certificate.epsilon <= 1.0 + 1e-6
    assert 0.3 < found["masked"].finding.epsilon <= found["masked"].certificate.epsilon
    assert found["resent"].finding.epsilon > 1.2 * found["resent"].certificate.epsilon
    assert found["resent"].finding.epsilon <= together


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("more", [{}, {"spare": 40}, {"colluding": 2, "absent": 1}])
def test_steps_are_for_the_noise_that_the_sum_has(name, more):
    """A cell's worth times the lattice is one owner's noise in the mean; the sum has that of all, spare sums or not."""
    more = {**more, "rounds": 60} if name == "dual_averaging" else more
    program, task = made(name, **more), worlds.task(SIZES, DIM, epsilon=BUDGETS, delta=DELTA)
    numbers, rounds = program.numbers, int(program.schedule)
    in_sum = len(SIZES) * float(numbers.lattice[0] * numbers.cell[0]) ** 2
    far = math.sqrt(rounds**3 / 3 * task.dimension * in_sum) / radius_for(task, None)
    stable = 2 * _dual.curvature(task)[0]
    assert far > stable  # noise decides the steps here
    assert np.asarray(numbers.pace.gamma) == pytest.approx(far, rel=1e-3)
