"""Every builder at every size: stochasticity, connectivity and spectral gap, against dense references."""

import math

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InputError
from coterie.topologies import (
    TOPOLOGIES,
    WEIGHTS,
    Edges,
    Topology,
    build,
    check_gossip,
    check_push_sum,
    from_graphs,
    graphs,
    messages_per_round,
    mixer,
    spectrum,
)
from coterie.topologies.neighbourhood import neighbourhood
from coterie.topologies.weights import weighted

SIZES = (1, 2, 3, 5, 8, 20, 33)
DIRECTED = ("exponential", "one_peer_exponential")
UNEVEN = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0), (0, 2)])


def dense(edges, owners):
    matrix = np.zeros((owners, owners))
    np.add.at(matrix, (edges.target, edges.source), edges.weight)
    return matrix


@pytest.mark.parametrize("owners", SIZES)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_builder_is_stochastic_and_connected(name, owners):
    topology = build(name, owners, seed=3)
    for edges in topology.schedule:
        matrix = dense(edges, owners)
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(0), 1, atol=1e-12)
        np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-12)
    assert topology.owners == owners
    assert topology.is_doubly_stochastic
    assert topology.directed == (name in DIRECTED)
    assert check_push_sum(topology) is topology
    if any((dense(e, owners) != dense(e, owners).T).any() for e in topology.schedule):
        assert name in DIRECTED
        with pytest.raises(InputError, match="directed=false"):
            check_gossip(topology)
    else:
        assert check_gossip(topology) is topology


@pytest.mark.parametrize("owners", SIZES)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_spectral_gap_is_that_of_the_dense_product(name, owners):
    topology = build(name, owners, seed=1)
    product = np.eye(owners)
    for edges in topology.schedule:
        product = dense(edges, owners) @ product
    values = np.linalg.svd(product - 1 / owners, compute_uv=False)
    # A product that averages exactly leaves rounding, which the root over a period would magnify.
    np.testing.assert_allclose(
        (1 - topology.spectral_gap) ** topology.period, values[0], atol=1e-12, rtol=1e-6
    )


@pytest.mark.parametrize("name", ["torus", "star", "random_regular", "erdos_renyi"])
@pytest.mark.parametrize("owners", [210])
def test_sparse_eigenvalues_agree_with_dense_ones(name, owners):
    topology = build(name, owners, seed=2)
    values = np.linalg.eigvalsh(dense(topology.schedule[0], owners))
    np.testing.assert_allclose(topology.eigenvalue_range, (values[0], values[-2]), atol=1e-8)


def test_sparse_singular_values_and_rates_agree_with_dense_ones():
    owners = 250
    topology = build("random_regular", owners, seed=0, period=3)
    product = np.linalg.multi_dot([dense(e, owners) for e in reversed(topology.schedule)])
    norm = np.linalg.svd(product - 1 / owners, compute_uv=False)[0]
    np.testing.assert_allclose((1 - topology.spectral_gap) ** 3, norm, rtol=1e-6)
    graph = nx.gnp_random_graph(owners, 0.05, seed=5, directed=True)
    uneven = from_graphs("uneven", [graph])
    moduli = np.sort(np.abs(np.linalg.eigvals(dense(uneven.schedule[0], owners))))
    np.testing.assert_allclose(1 - uneven.spectral_gap, moduli[-2], rtol=1e-6)


def test_long_thin_graphs_fall_back_to_a_factorisation():
    path = from_graphs("path", [nx.path_graph(1500)])
    assert path.spectral_gap == pytest.approx(2 / 3 * (1 - math.cos(math.pi / 1500)), rel=1e-4)


def test_known_gaps():
    assert build("ring", 20).spectral_gap == pytest.approx(1 - (1 + 2 * math.cos(math.pi / 10)) / 3)
    assert build("complete", 9).spectral_gap == pytest.approx(1)
    assert build("one_peer_exponential", 16).spectral_gap == pytest.approx(
        1, abs=1e-3
    )  # exact averaging in 4 steps
    assert build("exponential", 16).spectral_gap == pytest.approx(2 / 5)


def test_uniform_weights_on_a_ring_are_thirds():
    assert np.allclose(weighted(graphs.ring(20), "uniform").weight, 1 / 3)
    star = weighted(graphs.star(5), "uniform")
    assert np.allclose(star.weight[star.source != star.target], 1 / 5)


@pytest.mark.parametrize(("owners", "window"), [(1, 1), (2, 1), (3, 1), (8, 3), (20, 5), (33, 1)])
def test_window_of_the_one_peer_exponential(owners, window):
    """Even owners need the round of shift 1; odd ones reach everyone by any power of two."""
    topology = build("one_peer_exponential", owners)
    assert topology.period == max(1, math.ceil(math.log2(owners)))
    assert topology.window == window


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 9), st.integers(1, 6), st.floats(0.05, 0.6), st.integers(0, 1000))
def test_window_against_every_union(owners, period, probability, seed):
    steps = [nx.gnp_random_graph(owners, probability, seed=seed + k, directed=True) for k in range(period)]
    topology = from_graphs("drawn", steps)

    def connected(start, length):
        union = nx.compose_all([steps[(start + k) % period] for k in range(length)])
        return nx.is_strongly_connected(union)

    fine = [b for b in range(1, period + 1) if all(connected(s, b) for s in range(period))]
    if fine:
        assert topology.window == fine[0]
    else:
        with pytest.raises(InputError, match=r"disconnected.*Add links"):
            check_push_sum(topology)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.floats(0.01, 0.9), st.integers(0, 10_000), st.sampled_from(sorted(WEIGHTS)))
def test_weights_on_random_graphs(owners, probability, seed, scheme):
    graph = nx.gnp_random_graph(owners, probability, seed=seed)
    matrix = dense(weighted(graphs.in_order(graph), scheme), owners)
    np.testing.assert_allclose(matrix.sum(0), 1, atol=1e-12)
    assert (matrix.diagonal() > 0).all()
    away = matrix - np.diag(matrix.diagonal())
    np.testing.assert_array_equal(away > 0, nx.to_numpy_array(graph, nodelist=range(owners)) > 0)
    if scheme != "column_stochastic":
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)


def test_column_stochastic_weights_on_an_uneven_digraph():
    topology = from_graphs("uneven", [UNEVEN])
    assert topology.is_column_stochastic
    assert not topology.is_doubly_stochastic
    matrix = dense(topology.schedule[0], 5)
    assert matrix[1, 0] == matrix[2, 0] == matrix[3, 0] == matrix[0, 0] == 1 / 4
    assert check_push_sum(topology) is topology
    with pytest.raises(
        InputError, match=r"row sums of W are in \[.*\]; gossip needs 1\. Use weights='metropolis'"
    ):
        check_gossip(topology)


def test_errors_name_the_remedy():
    with pytest.raises(InputError, match=r"disconnected; 4 owners fall into 2 groups.*Add links"):
        check_gossip(from_graphs("pairs", [nx.Graph([(0, 1), (2, 3)])]))
    with pytest.raises(InputError, match="Use weights='column_stochastic'"):
        from_graphs("uneven", [UNEVEN], "metropolis")
    edges = weighted(graphs.ring(4), "metropolis")
    halved = Topology("halved", 4, (edges._replace(weight=edges.weight / 2),), directed=False)
    with pytest.raises(
        InputError, match=r"column sums of W are in \[0.5, 0.5\]; push-sum needs 1. Use weights='column_"
    ):
        check_push_sum(halved)
    with pytest.raises(InputError, match="Raise probability"):
        build("erdos_renyi", 50, probability=0.001)
    with pytest.raises(InputError, match="Use degree=2 or 4"):
        build("random_regular", 5, degree=3)
    with pytest.raises(InputError, match=r"Choose one of: .*ring.*\.graphml"):
        build("rnig", 5)
    with pytest.raises(
        InputError, match=r"colour='red': topology 'ring' has no such option. It has: weights"
    ):
        build("ring", 5, colour="red")
    with pytest.raises(InputError, match="owners=0"):
        build("ring", 0)
    with pytest.raises(InputError, match="1024 owners at most"):
        graphs.complete(5000)
    with pytest.raises(InputError, match="the same owners in every step"):
        from_graphs("mixed", [graphs.ring(3), graphs.ring(4)])
    bad = Edges(np.asarray([7], np.int32), np.asarray([0], np.int32), np.ones(1))
    with pytest.raises(InputError, match="outside 0 … 3"):
        Topology("bad", 4, (bad,), directed=True)


def test_seeds_choose_random_graphs():
    first, again, other = (build("random_regular", 20, seed=s).links for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_links_are_drawn_once():
    assert build("one_peer_exponential", 4).links.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert len(build("torus", 12).links) == 24
    assert build("ring", 1).links.shape == (0, 2)


def test_groups_ignore_links_of_weight_zero():
    edges = Edges(
        np.asarray([0, 1, 0, 1], np.int32), np.asarray([0, 0, 1, 1], np.int32), np.asarray([1.0, 0, 0, 1])
    )
    assert spectrum.groups([edges], 2) == 2


@pytest.mark.parametrize("weights", ["metropolis", "uniform", "column_stochastic"])
def test_a_large_complete_graph_is_the_mean_without_a_list(weights):
    """Same properties and the same mixing as a listed one; nothing of size owners squared."""
    large, listed = build("complete", 10_000, weights=weights), build("complete", 30, weights=weights)
    assert sum(len(part) for edges in large.schedule for part in edges) == 0
    for one in (large, listed):
        assert check_gossip(one).window == 1
        assert check_push_sum(one).spectral_gap == pytest.approx(1.0)
        assert messages_per_round(one, 3) == 3 * one.owners * (one.owners - 1)
        values = np.random.default_rng(0).standard_normal((one.owners, 2)).astype(np.float32)
        apply, arrays = mixer(one)
        mixed = apply(arrays, jnp.asarray(values), jnp.int32(1))
        np.testing.assert_allclose(mixed, np.broadcast_to(values.mean(0), values.shape), atol=1e-5)
    with pytest.raises(InputError, match="real owners"):
        neighbourhood(large, 0)
