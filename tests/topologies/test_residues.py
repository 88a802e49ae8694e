"""Gossip that ends in agreement, and what gossip leaves of noise: against matrices and simulated rounds."""

import jax.numpy as jnp
import numpy as np
import pytest

from coterie.topologies import build, mixer, residue
from coterie.topologies.gossip import annihilating


@pytest.mark.parametrize(
    ("name", "owners", "steps"), [("ring", 20, 10), ("ring", 32, 16), ("torus", 16, 4), ("star", 10, 2)]
)
def test_as_many_steps_as_eigenvalues_leave_no_disagreement(name, owners, steps):
    topology = build(name, owners)
    assert len(annihilating(topology)) == steps
    apply, arrays = mixer(topology, steps, exact=True)
    mixed = np.asarray(apply(arrays, jnp.eye(owners), jnp.int32(1)))
    assert np.abs(mixed - 1 / owners).max() < 1e-6
    apply, arrays = mixer(
        topology, steps
    )  # Chebyshev's leaves some, as it does not know where eigenvalues are
    assert np.abs(np.asarray(apply(arrays, jnp.eye(owners), jnp.int32(1))) - 1 / owners).max() > 1e-4


def test_no_exact_steps_where_rounding_would_spoil_them_or_weights_differ():
    assert annihilating(build("ring", 300)) is None
    assert annihilating(build("one_peer_exponential", 8)) is None
    for steps in (1, 9):  # fewer than it takes: as without
        exact, usual = (mixer(build("ring", 20), steps, exact=way) for way in (True, False))
        assert exact.apply is usual.apply
        assert len(exact.arrays) == len(usual.arrays)


def by_matrices(topology, covariance, steps, rounds):
    """Every round's matrix from the mixer itself; weights as push-sum divides by them."""
    owners = topology.owners
    apply, arrays = mixer(topology, steps, exact=True)
    total, weight = np.zeros((owners, owners)), np.ones(owners)
    for number in range(1, rounds + 1):
        one = np.asarray(apply(arrays, jnp.eye(owners), jnp.int32(number)), float)
        total, weight = one @ (total + covariance) @ one.T, one @ weight
    # The mean's part: everyone's weight times the mean of all noise; it is not independent of the rest over digraphs.
    return total, weight


@pytest.mark.parametrize(
    ("name", "owners", "steps"),
    [
        ("ring", 8, 1),
        ("ring", 8, 3),
        ("ring", 8, 4),
        ("random_regular", 10, 2),
        ("one_peer_exponential", 6, 1),
    ],
)
def test_residue_is_that_of_the_mixers_own_matrices(name, owners, steps):
    topology, rounds = build(name, owners, 0), 25
    rng = np.random.default_rng(0)
    root = rng.standard_normal((owners, owners))
    covariance = root @ root.T
    for at, noise in ((0, np.eye(owners)), (1, covariance)):
        total, weight = by_matrices(topology, noise, steps, rounds)
        # Doubly stochastic: the mean's variance is 1ᵀU1/m² a round, and independent of what is beside it in trace.
        centre = np.eye(owners) - 1 / owners
        apart = centre @ (total / np.outer(weight, weight)) @ centre.T
        expected = np.trace(apart) / owners
        found = residue(topology, covariance, steps, rounds)[at]
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_large_graphs_get_a_bound():
    topology = build("ring", 240)
    found = residue(topology, np.eye(240), 40, 100)
    assert found[0] == found[1]
    assert 0 < found[0] <= 100
