"""Noise that owners share over gossip: how it is drawn, what it costs, how much mixing it needs, what is refused."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds
from dp_accounting import GaussianDpEvent

from coterie import topologies
from coterie.accounting import certify
from coterie.accounting.exposure import circulant, colluders, complete, exposure
from coterie.accounting.plans import against_all_others, certificates_of
from coterie.audit import audit, whole, worst_case
from coterie.audit.neighbours import AuditWorld
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.federation.agreement import Agreement
from coterie.federation.collaboration import collaboration
from coterie.mechanisms import Shared
from coterie.mechanisms import noise as noises
from coterie.mechanisms.shared import correlated, sharing_of
from coterie.problems.datasets.schema import Schema
from coterie.problems.penalties import none
from coterie.program import Shards
from coterie.protocols import PROTOCOLS, _shared, build
from coterie.protocols.mixing import agreed, leftovers, mixing_of
from coterie.testing import check_protocol, small_world
from coterie.topologies import gossip, spectrum

SIZES, BUDGETS, DIM, DELTA = (24, 9, 15, 30, 12, 20), (0.6, 2.0, 1.0, 1.0, 0.8, 0.7), 3, 1e-4
ROWS = {"dual_averaging": "ring", "push_sum": "one_peer_exponential"}
SURE = 5.5  # standard deviations of a normal number: beyond them once in ten million


def made(name="dual_averaging", sizes=SIZES, epsilon=BUDGETS, topology=None, **more):
    task = worlds.task(sizes, DIM, epsilon=epsilon, delta=DELTA, topology=topology or ROWS[name])
    return task, build(name, task, {"view": "shared", "rounds": 6, **more}, "certified")


def by_hand(plan, graph, colluding):
    """(owners,) ε from the covariance of all messages, every set of colluders tried, composed over releases."""
    # An owner's message is its sum over noise_multiplier · clip_norm, plus unit noise: a record moves it by 2 / z.
    shown = exposure(np.ones(len(plan.sizes)), graph, colluding)
    faced = np.array(plan.noise_multiplier) / np.sqrt(shown) / np.sqrt(plan.releases)
    return [certify(GaussianDpEvent(one), delta=DELTA).epsilon for one in faced]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(
    ("epsilon", "more"),
    [
        (BUDGETS, {}),
        ((1.0,) * 6, {"colluding": 0}),
        (BUDGETS, {"colluding": 3}),
        (BUDGETS, {"degree": 2}),
        ((0.5,) * 6, {"degree": 4, "colluding": 2}),
    ],
)
def test_certified_within_every_budget_and_equal_to_the_matrix(name, epsilon, more):
    _, program = made(name, epsilon=epsilon, **more)
    plan = program.plan
    away, degree = more.get("colluding", 1), more.get("degree", 0)
    assert plan.colluding == away
    ratio = plan.shared.ratio**2
    graph = circulant(6, degree, ratio) if degree else complete(6, ratio)
    np.testing.assert_array_equal(plan.shared.variances(6), graph)
    found = [one.epsilon for one in certificates_of(plan, DELTA)]
    assert found == pytest.approx(by_hand(plan, graph, away), rel=1e-6)
    assert all(one <= budget for one, budget in zip(found, epsilon))
    assert max(one / budget for one, budget in zip(found, epsilon)) > 0.999
    alone = [one.epsilon for one in against_all_others(plan, DELTA)]
    assert alone == pytest.approx(by_hand(plan, np.zeros((6, 6)), 0), rel=1e-6)
    assert all(second > first for first, second in zip(found, alone))


def test_golden_ratios_of_shared_noise():
    """32 owners, 5 % above masks: the complete graph and the ring, with nobody, one and two colluding."""
    assert [_shared.pairs(32, t).ratio for t in (0, 1, 2)] == pytest.approx([3.07] * 3, abs=0.005)
    assert [_shared.pairs(32, t, 2).ratio for t in (0, 1)] == pytest.approx([28.5, 53.9], abs=0.1)
    for degree, colluding in ((0, 0), (0, 4), (2, 1), (4, 2)):
        shared = _shared.pairs(32, colluding, degree)
        masks = 1 / (32 - colluding)
        assert math.sqrt(_shared.exposed(shared, 32) / masks) == pytest.approx(1.05, abs=1e-3)


@pytest.mark.parametrize("name", ROWS)
def test_the_whole_mean_is_that_of_a_trusted_server_and_a_little(name):
    """One budget, even owners: the noise of the mean is 1.05 √(m / (m − 1)) times that of a server's sum."""
    _, program = made(name, sizes=(20,) * 8, epsilon=1.0)
    _, local = made(name, sizes=(20,) * 8, epsilon=1.0, view="untrusted", **_clipped(name))
    ratio = program.plan.noise_multiplier[0] / local.plan.noise_multiplier[0]
    assert ratio * math.sqrt(8) == pytest.approx(1.05 * math.sqrt(8 / 7), rel=1e-3)


def _clipped(name):
    return {"policy": "clipped"} if name == "push_sum" else {}


@pytest.mark.parametrize("degree", [0, 2])
def test_noise_as_drawn_has_the_covariance_that_is_charged(degree):
    """20,000 numbers of five owners: every entry within its error; and the sum's noise is the own noise's alone."""
    _, program = made(sizes=(9,) * 5, epsilon=1.0, degree=degree)
    plan = replace(program.plan, noise_like=jax.ShapeDtypeStruct((20_000,), jnp.float32))
    spec, sharing = noises.spec(plan), sharing_of(plan, jnp.uint32(7))
    keys = noises.owner_keys(jnp.uint32(7), noises.NOISE, 5)
    own = jnp.stack([spec.kind.unit(key, spec.size) for key in keys])
    drawn = np.asarray(correlated(spec, sharing, own, jnp.int32(0), jnp.int32(3), None), float)
    expected, found = plan.shared.covariance(5), np.cov(drawn)
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / 20_000)
    assert (np.abs(found - expected) <= SURE * error).all()
    again = np.asarray(correlated(spec, sharing, own, jnp.int32(0), jnp.int32(4), None), float)
    if degree:  # fresh in every round
        assert abs(np.corrcoef((drawn - own)[0], (again - own)[0])[0, 1]) < SURE / math.sqrt(20_000)

    def accepts(sigma):
        """Whether the sum's standard deviation could be this: chance alone moves it by 0.5 %."""
        return abs(drawn.sum(axis=0).std() / (sigma * math.sqrt(5)) - 1) < SURE / math.sqrt(2 * 20_000)

    assert accepts(1.0)
    assert not accepts(2 / 3)
    assert not accepts(3 / 2)


@pytest.mark.parametrize(
    ("name", "more"),
    [("dual_averaging", {}), ("dual_averaging", {"degree": 2}), ("push_sum", {"step": 1.0})],
)
def test_the_mean_of_a_run_holds_no_shared_noise(name, more):
    """On records without gradients: the owners' mean moves by own noise alone, though messages carry far more."""
    task = worlds.task(SIZES, 40, penalty=none(), epsilon=0.5, delta=DELTA, topology=ROWS[name])
    program = build(name, task, {"view": "shared", "rounds": 40, **more}, "certified")
    still = Shards(jnp.zeros((6, 30, 40)), jnp.ones((6, 30)), jnp.asarray(SIZES, jnp.int32))
    trace = simulate(program, still, mixing_of(task, program).mixer, seed=5, transcript=True)
    sent = np.asarray(jax.tree.leaves(trace.messages)[0], float).reshape(40, 6, -1)
    unit = float(np.asarray(program.numbers.weight)[0] * program.plan.noise_scale[0])
    factor = np.arange(1, 41)[:, None] if name == "dual_averaging" else 1.0  # a(t)
    moved = np.diff(sent.mean(axis=1), axis=0, prepend=0.0) / factor / (unit / math.sqrt(6))
    assert sent[0].std() > 4 * unit

    def accepts(sigma):
        return abs(moved.std() / sigma - 1) < SURE / math.sqrt(2 * moved.size)

    assert accepts(1.0)
    assert not accepts(2 / 3)
    assert not accepts(3 / 2)


@pytest.mark.parametrize("name", ROWS)
def test_the_contract_is_kept(name):
    settings = PROTOCOLS[name].settings(view="shared", rounds=6)
    found = check_protocol(PROTOCOLS[name].build, settings, world=small_world(topology=ROWS[name]))
    assert 0.25 * found.allowed <= found.shift


@pytest.mark.parametrize(
    ("name", "more"),
    [("dual_averaging", {}), ("dual_averaging", {"degree": 2}), ("push_sum", {"colluding": 2})],
)
def test_an_attack_with_colluders_finds_what_is_certified_and_no_more(name, more):
    """The likelihood ratio of all messages less what colluders know: the worlds are exactly as far apart as charged."""
    task, program = made(name, epsilon=0.8, **more)
    options = {"view": "shared", "rounds": 6, **more}
    setting = whole.of_run(whole.PlayedRun(name, options, "certified", task, program), 3)
    assert len(setting.program.plan.sizes) == 6 - more.get("colluding", 1)
    measured = whole.measure(setting, seed=1)
    assert measured.is_normal
    expected = 2 / setting.program.plan.charged[0]
    np.testing.assert_allclose(measured.shifts, expected, rtol=2e-3)
    found = whole.audit_whole(
        setting, delta=DELTA, games=200_000, confidence=0.999, seed=2, progress=lambda what, done, of: None
    )
    assert 0.2 < found.finding.epsilon <= found.certificate.epsilon <= 0.8


def test_all_others_together_face_the_own_noise():
    """Everybody else colludes: what is left is one owner's own noise, and the attack finds more than is certified."""
    task, program = made(epsilon=0.8)
    alone = replace(program.plan, shared=None, charged=None)
    setting = whole.of_run(
        whole.PlayedRun("dual_averaging", {"rounds": 6}, "certified", task, program._replace(plan=alone)), 3
    )
    measured = whole.measure(setting, seed=1)
    np.testing.assert_allclose(measured.shifts, 2 / program.plan.noise_multiplier[3], rtol=2e-3)
    found = whole.audit_whole(
        setting, delta=DELTA, games=200_000, confidence=0.999, seed=2, progress=lambda what, done, of: None
    )
    second = against_all_others(program.plan, DELTA)[3].epsilon
    assert 0.8 < found.finding.epsilon <= second


@pytest.mark.parametrize(("name", "owners", "colluding"), [("dual_averaging", 4, 1), ("push_sum", 2, 0)])
def test_a_small_world_is_attacked_by_the_same_view(name, owners, colluding):
    options = {"view": "shared", "rounds": 2, "colluding": colluding}
    setting = worst_case(name, AuditWorld(owners=owners, delta=DELTA), options)
    found = audit(setting, delta=DELTA, games=4_000)
    assert found.finding.epsilon <= found.certificate.epsilon <= 1.0
    assert found.score == "likelihood ratio"


def test_the_worst_colluders_of_a_ring_are_the_neighbours():
    pairs = circulant(8, 2, 100.0)
    assert set(colluders(np.ones(8), pairs, 2, 3)) == {2, 4}
    assert exposure(np.ones(8), pairs, 2)[3] == pytest.approx(1.0)
    assert set(colluders(np.arange(1.0, 6.0), complete(5, 2.0), 2, 4)) == {3, 2}


@pytest.mark.parametrize(("owners", "plain", "fast"), [(20, 63, 17), (32, 161, 30)])
def test_golden_steps_until_shared_noise_is_below_the_means_own(owners, plain, fast):
    """A ring whose neighbours share noise, nobody colluding: one round's leftovers fall below 1/m of the own noise."""
    ring, shared = topologies.build("ring", owners), _shared.pairs(owners, 0, 2)
    values, vectors = np.linalg.eigh(spectrum.dense(ring.schedule[0], owners))
    noise = np.diag(vectors.T @ (shared.covariance(owners) - np.eye(owners)) @ vectors)[:-1]

    def enough(left):
        return np.sum(left**2 * noise) <= 1

    assert [enough(values[:-1] ** steps) for steps in (plain - 1, plain)] == [False, True]
    assert [enough(gossip.polynomial(ring, steps, values[:-1])) for steps in (fast - 1, fast)] == [
        False,
        True,
    ]


def test_real_owners_are_refused_shared_noise():
    agreement = Agreement(
        name="n",
        experiment=Experiment(settings={"view": "shared", "rounds": 3}),
        schema=Schema(target="y", columns={"a": (-1.0, 1.0)}, classes=("0", "1")),
        sizes=dict.fromkeys("abcd", 9),
    )
    with pytest.raises(InputError, match="view='shared': real owners cannot draw the same noise"):
        collaboration(agreement)


def test_gossip_is_as_long_as_shared_noise_needs_and_exact_where_it_can_be():
    task, program = made(sizes=(20,) * 20, epsilon=0.5, rounds=60)
    enough = mixing_of(task, program)
    assert not enough.consensus
    left, gathered, _ = leftovers(task.topology, program, enough.gossip_steps)
    fewer, _, _ = leftovers(task.topology, program, enough.gossip_steps - 1)
    assert left <= 0.1 * gathered < fewer
    assert enough.gossip_steps == 10  # the ring's diameter: exactly the mean
    trace = simulate(program, worlds.shards((20,) * 20, DIM), enough.mixer, seed=0)
    assert np.asarray(trace.model).std(axis=0).max() < 1e-5


def test_too_little_gossip_is_refused_and_a_little_ends_in_a_consensus():
    task, program = made(sizes=(20,) * 20, epsilon=0.5, rounds=60)
    with pytest.raises(
        InputError, match=r"gossip_steps=1: .* times the noise of view=untrusted. Use 10 steps"
    ):
        mixing_of(task, program, 1)
    some = mixing_of(task, program, 7)
    left, gathered, local = leftovers(task.topology, program, 7)
    assert 0.1 * gathered < left < local - gathered
    models = np.random.default_rng(0).standard_normal((20, DIM, 1)).astype(np.float32)
    together = np.asarray(agreed(task.topology, some.consensus, models))
    np.testing.assert_allclose(together.mean(axis=0), models.mean(axis=0), atol=1e-5)
    assert together.std() < models.std() * math.sqrt(0.1 * gathered / left) * 1.01


def test_a_consensus_over_uneven_digraphs_is_the_mean():
    import networkx as nx

    uneven = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3)])
    topology = topologies.from_graphs("uneven", [uneven])
    assert not topology.is_doubly_stochastic
    models = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    together = np.asarray(agreed(topology, 80, models))
    np.testing.assert_allclose(together, np.tile(models.mean(axis=0), (4, 1)), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("dual_averaging", {"degree": 2, "colluding": 2}, "degree=2: 2 colluders could be all"),
        ("dual_averaging", {"degree": 3}, "degree=3: must be even"),
        ("dual_averaging", {"colluding": 5}, "colluding=5: with 6 owners nobody is left"),
        ("dual_averaging", {"absent": 1}, "absent=1: only for view=masked"),
        ("dual_averaging", {"spare": 1}, "spare=1: only for view=masked"),
        ("push_sum", {"policy": "tracked"}, "policy='tracked': owners' thresholds differ"),
        ("push_sum", {"view": "untrusted", "colluding": 1}, "colluding=1: only for view="),
        ("push_sum", {"view": "masked"}, "view='masked'"),
    ],
)
def test_bad_input_is_refused_in_a_line(name, settings, message):
    with pytest.raises(InputError, match=message):
        made(name, **settings)


def test_only_certified_noise_is_shared():
    task = worlds.task(SIZES, DIM, delta=DELTA)
    for name in ROWS:
        with pytest.raises(InputError, match="Use calibration=certified"):
            build(name, task, {"view": "shared"}, "paper")


def test_strict_owners_weigh_less_where_budgets_differ():
    """Water-filled weights: one owner of six at a tenth of the budget does not drown the mean in noise."""
    noise = {}
    for weights in ("precision", "records"):
        _, program = made(epsilon=(0.1,) + (1.0,) * 5, weights=weights)
        noise[weights] = float(np.asarray(program.numbers.weight)[1] * program.plan.noise_scale[1])
        shares = np.asarray(program.numbers.weight) * np.array(SIZES)
        assert shares.sum() == pytest.approx(6, rel=1e-5)
    assert noise["precision"] < 0.7 * noise["records"]


def test_no_pair_is_drawn_where_all_share_with_all():
    """Nothing of size owners²: the arrays that a run reads have no columns, or as many as an owner has pairs."""
    _, program = made(sizes=(9,) * 40, epsilon=1.0)
    assert sharing_of(program.plan, jnp.uint32(0)).keys.shape == (40, 0, 2)
    _, program = made(sizes=(9,) * 40, epsilon=1.0, degree=4)
    assert sharing_of(program.plan, jnp.uint32(0)).keys.shape == (40, 4, 2)


def test_shared_noise_between_some_owners_is_numbered_anew():
    shared = Shared(ratio=2.0, colluding=1, links=((0, 1), (1, 2), (0, 3), (2, 3)))
    assert shared.among([3, 1, 2]).links == ((1, 2), (0, 2))
    assert shared.among([1]).links == ()
    lone = replace(made(sizes=(9, 9, 9), epsilon=1.0)[1].plan, shared=shared.among([1]))
    own = jnp.ones((3, 4))
    spec, sharing = noises.spec(lone), sharing_of(lone, jnp.uint32(0))
    given = correlated(spec, sharing, own, jnp.int32(0), jnp.int32(1), None)
    np.testing.assert_array_equal(given, own)
