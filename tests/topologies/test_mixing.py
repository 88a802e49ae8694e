"""The kernels against a dense W, conservation, acceleration, and no second compilation."""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InputError
from coterie.topologies import (
    IDENTITY,
    TOPOLOGIES,
    aggregate,
    build,
    contraction,
    from_graphs,
    gossip_steps_for,
    messages_per_round,
    mixer,
    mixing,
)

SIZES = (1, 2, 3, 5, 8, 20, 33)
UNEVEN = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0), (0, 2)])
RUN = jax.jit(lambda apply, arrays, messages, step: apply(arrays, messages, step), static_argnums=0)


def dense(edges, owners):
    matrix = np.zeros((owners, owners))
    np.add.at(matrix, (edges.target, edges.source), edges.weight)
    return matrix


def draw(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mixed(mix, messages, step):
    return jax.tree.map(np.asarray, RUN(mix.apply, mix.arrays, messages, jnp.int32(step)))


@pytest.mark.parametrize("owners", SIZES)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_step_is_that_of_the_dense_matrix(name, owners):
    topology = build(name, owners, seed=4, **({"period": 4} if name == "random_matching" else {}))
    messages = draw((owners, 7))
    mix = mixer(topology)
    for step in range(1, 2 * topology.period + 1):
        expected = dense(topology.schedule[(step - 1) % topology.period], owners) @ messages
        np.testing.assert_allclose(mixed(mix, jnp.asarray(messages), step), expected, atol=2e-6)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 60), st.floats(0.0, 1.0), st.integers(0, 10_000), st.booleans())
def test_random_graphs_mix_as_the_dense_matrix(owners, probability, seed, directed):
    topology = from_graphs("drawn", [nx.gnp_random_graph(owners, probability, seed=seed, directed=directed)])
    messages = draw((owners, 3), seed)
    got = mixed(mixer(topology), jnp.asarray(messages), 1)
    np.testing.assert_allclose(got, dense(topology.schedule[0], owners) @ messages, atol=3e-6)
    np.testing.assert_allclose(got.sum(0), messages.sum(0), atol=1e-4)


@pytest.mark.parametrize(
    ("topology", "arrays"),
    [
        (build("ring", 20), mixing.PaddedNeighbours),
        (
            build("erdos_renyi", 60, probability=0.8),
            mixing.PaddedNeighbours,
        ),  # more in-neighbours than are unrolled
        (build("star", 60), mixing.Links),
        (from_graphs("wheels", [nx.star_graph(40), nx.path_graph(41)]), mixing.Links),
    ],
)
def test_kernels_are_the_intended_ones_and_right(topology, arrays):
    assert isinstance(mixer(topology).arrays, arrays)
    messages = draw((topology.owners, 5))
    for step in range(1, 4):
        expected = dense(topology.schedule[(step - 1) % topology.period], topology.owners) @ messages
        np.testing.assert_allclose(mixed(mixer(topology), jnp.asarray(messages), step), expected, atol=3e-6)


def test_the_complete_graph_keeps_no_edge_list():
    mix = mixer(build("complete", 50), gossip_steps=3)
    assert sum(a.size for a in jax.tree.leaves(mix.arrays)) == 50


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("name", ["ring", "star", "one_peer_exponential", "complete"])
def test_pytrees_of_any_rank(name, steps):
    topology = build(name, 12)
    tree = {"w": draw((12, 3, 2)), "b": draw((12,)), "deep": (draw((12, 1, 1, 4)),)}
    mix = mixer(topology, gossip_steps=steps)
    got = mixed(mix, jax.tree.map(jnp.asarray, tree), 2)
    for leaf, result in zip(jax.tree.leaves(tree), jax.tree.leaves(got), strict=True):
        flat = mixed(mix, jnp.asarray(leaf.reshape(12, -1)), 2)
        np.testing.assert_allclose(result.reshape(12, -1), flat, atol=1e-6)
        assert result.dtype == leaf.dtype


def test_half_precision_messages_keep_their_type():
    got = mixed(mixer(build("ring", 6), gossip_steps=3), jnp.ones((6, 2), jnp.bfloat16), 1)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(got.astype(np.float32), 1, atol=0.02)


@pytest.mark.parametrize("name", ["one_peer_exponential", "random_matching", "exponential"])
def test_several_steps_go_on_where_the_last_round_stopped(name):
    topology, messages, k = build(name, 20), draw((20, 3)), 3
    for step in (1, 2, 5):
        expected = messages.astype(np.float64)
        for j in range(k):
            expected = dense(topology.schedule[((step - 1) * k + j) % topology.period], 20) @ expected
        np.testing.assert_allclose(
            mixed(mixer(topology, k), jnp.asarray(messages), step), expected, atol=3e-6
        )


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("steps", [1, 5, 40])
def test_the_mean_is_kept(name, steps):
    messages = draw((20, 6)) + np.float32(3)
    got = mixed(mixer(build(name, 20), steps), jnp.asarray(messages), 1)
    two_units_a_step = 2.4e-7 * (steps + 1)  # rounding in single precision
    np.testing.assert_allclose(got.mean(0, dtype=float), messages.mean(0, dtype=float), rtol=two_units_a_step)


def test_mass_does_not_drift_over_many_rounds():
    """Thirds rounded to single precision add up to 1 + 3e-8: 5e-4 after 20,000 rounds.

    The owners disagree anew in every round: once they agree, rounding hides the error.
    """
    mix = mixer(build("ring", 20))

    def one(carry, step):
        apart = jax.random.normal(jax.random.fold_in(jax.random.key(0), step), carry.shape)
        apart = apart - jnp.mean(apart, 0, keepdims=True)
        return mix.apply(mix.arrays, carry + apart, step), None

    steps = jnp.arange(1, 20_001, dtype=jnp.int32)
    last = jax.jit(lambda m: jax.lax.scan(one, m, steps)[0])(jnp.full((20, 8), 3.0))
    np.testing.assert_allclose(np.mean(last, dtype=float), 3.0, rtol=2e-4)


def test_push_sum_conserves_mass_on_an_uneven_digraph():
    topology = from_graphs("uneven", [UNEVEN, UNEVEN.reverse()])
    mix = mixer(topology)
    messages = (draw((5, 4)), np.ones(5, np.float32))

    def one(carry, step):
        return mix.apply(mix.arrays, carry, step), None

    start = jax.tree.map(jnp.asarray, messages)
    value, weight = jax.lax.scan(one, start, jnp.arange(1, 201, dtype=jnp.int32))[0]
    np.testing.assert_allclose(np.sum(value, 0), messages[0].sum(0), atol=1e-5)
    np.testing.assert_allclose(np.sum(weight), 5, rtol=1e-5)
    assert np.ptp(weight) > 0.1  # the graph is uneven: without the weights the ratio would be wrong
    mean = np.broadcast_to(messages[0].mean(0), (5, 4))
    np.testing.assert_allclose(value / weight[:, None], mean, atol=1e-5)


def measured(topology, steps, accelerate):
    """The largest singular value of the round on disagreements, from its action on the unit vectors."""
    n = topology.owners
    matrix = mixed(mixer(topology, steps, accelerate), jnp.eye(n), 1)
    return np.linalg.norm(matrix - 1 / n, 2)


@pytest.mark.parametrize("name", ["ring", "torus", "star", "erdos_renyi", "random_regular"])
@pytest.mark.parametrize("owners", [20])
def test_acceleration_reaches_its_contraction_and_beats_plain_gossip(name, owners):
    topology = build(name, owners)
    for steps in (2, 9):
        fast, plain = (contraction(topology, steps, accelerate) for accelerate in (True, False))
        assert fast <= plain + 1e-12
        np.testing.assert_allclose(measured(topology, steps, True), fast, atol=1e-5)
        np.testing.assert_allclose(measured(topology, steps, False), plain, atol=1e-5)
    if name == "ring" and owners == 20:
        assert contraction(topology, 9) < contraction(topology, 9, accelerate=False) / 5


def test_contraction_of_time_varying_rounds_is_the_worst_of_a_period():
    topology = build("one_peer_exponential", 8)
    assert contraction(topology, 3) == pytest.approx(0, abs=1e-12)
    assert contraction(topology, 2) == pytest.approx(1)  # shifts 2 and 4 never mix even with odd owners
    uneven = from_graphs("uneven", [UNEVEN])
    assert contraction(uneven, 4) == pytest.approx((1 - uneven.spectral_gap) ** 4)


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize(
    "name", ["ring", "star", "complete", "exponential", "one_peer_exponential", "random_matching"]
)
def test_gossip_steps_are_the_fewest(name, accelerate):
    topology = build(name, 12)
    steps = gossip_steps_for(topology, 0.05, accelerate)
    assert contraction(topology, steps, accelerate) <= 0.05
    assert steps == 1 or contraction(topology, steps - 1, accelerate) > 0.05


def test_gossip_steps_refuse_what_cannot_be():
    with pytest.raises(InputError, match="Add links"):
        gossip_steps_for(from_graphs("pairs", [nx.Graph([(0, 1), (2, 3)])]), 0.5)
    with pytest.raises(InputError, match="better connected"):
        gossip_steps_for(build("ring", 2000), 0.01, accelerate=False)
    with pytest.raises(InputError, match="gossip_steps=0"):
        mixer(build("ring", 4), gossip_steps=0)


def test_disconnected_graphs_mix_within_their_groups():
    topology = from_graphs("pairs", [nx.Graph([(0, 1), (2, 3)])])
    got = mixed(mixer(topology, 3), jnp.asarray([[2.0], [0.0], [4.0], [8.0]]), 1)
    np.testing.assert_allclose(got.ravel(), [1, 1, 6, 6], atol=1e-6)
    assert contraction(topology, 3) == 1


def test_messages_are_counted():
    assert messages_per_round(build("ring", 20)) == 40
    assert messages_per_round(build("ring", 20), 3) == 120
    assert messages_per_round(build("one_peer_exponential", 20)) == 20
    assert messages_per_round(build("star", 20)) == 38
    assert messages_per_round(build("ring", 1)) == 0


def test_aggregate_and_identity():
    messages = draw((6, 3))
    weights = np.arange(6) / 15
    expected = np.broadcast_to(weights @ messages, (6, 3))
    np.testing.assert_allclose(mixed(aggregate(weights), jnp.asarray(messages), 1), expected, atol=1e-6)
    np.testing.assert_array_equal(mixed(IDENTITY, jnp.asarray(messages), 1), messages)
    with pytest.raises(InputError, match="one finite number for each owner"):
        aggregate(np.asarray([1.0, np.nan]))


@pytest.mark.parametrize("steps", [1, 3])
def test_another_topology_of_the_same_shapes_compiles_nothing(steps):
    traces = []

    def rounds(apply, arrays, messages):
        traces.append(apply)
        return jax.lax.scan(
            lambda m, t: (apply(arrays, m, t), None), messages, jnp.arange(1, 9, dtype=jnp.int32)
        )[0]

    run = jax.jit(rounds, static_argnums=0)
    for seed in range(3):
        mix = mixer(build("random_regular", 20, seed=seed), steps)
        run(mix.apply, mix.arrays, jnp.asarray(draw((20, 5), seed))).block_until_ready()
    assert len(traces) == 1
    mix = mixer(build("random_regular", 20, period=4), steps)
    run(mix.apply, mix.arrays, jnp.asarray(draw((20, 5))))
    assert len(traces) == 2
