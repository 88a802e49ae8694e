"""How far owners show who share noise: closed forms against matrices and exhaustive search, and published numbers."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent

from coterie.accounting import certify
from coterie.accounting.exposure import MASK, circulant, complete, exposure
from coterie.errors import InputError


def average(own, pairs, colluding):
    """The average's noise over a trusted server's, where everybody's noise is made as large as the worst needs."""
    return math.sqrt(len(own) * exposure(own, pairs, colluding).max())


def by_hand(own, pairs, most):
    """Every set of at most `most` colluders, its covariance inverted; masks as components of a graph."""
    owners, worst = len(own), np.zeros(len(own))
    for count in range(most + 1):
        for gone in itertools.combinations(range(owners), count):
            honest = [one for one in range(owners) if one not in gone]
            graph = nx.from_numpy_array(np.isinf(pairs[np.ix_(honest, honest)]).astype(int))
            if np.isinf(pairs).any():
                shown = {at: 1 / sum(own[honest[k]] for k in part)
                         for part in nx.connected_components(graph) for at in part}  # fmt: skip
            else:
                laplacian = -pairs[np.ix_(honest, honest)]
                laplacian += np.diag(-laplacian.sum(axis=1))
                shown = dict(enumerate(np.diag(np.linalg.inv(np.diag(own[honest]) + laplacian))))
            for at, one in enumerate(honest):
                worst[one] = max(worst[one], shown[at])
    return worst


@pytest.mark.parametrize("seed", range(200))
def test_certified_epsilon_is_that_of_the_matrix_on_random_graphs(seed):
    rng = np.random.default_rng(seed)
    owners, colluding = int(rng.integers(2, 9)), int(rng.integers(0, 4))
    colluding = min(colluding, owners - 1)
    own = rng.uniform(0.2, 5.0, owners)
    linked = np.triu(rng.random((owners, owners)) < rng.uniform(0.2, 1.0), 1)
    if seed % 5 == 0:
        linked = np.triu(circulant(owners, 2) > 0)
    variance = MASK if seed % 2 else float(rng.uniform(0.1, 100.0))
    if seed % 3 == 0 and not seed % 2:
        variance = rng.uniform(0.1, 100.0, (owners, owners))
    pairs = np.where(linked, variance, 0.0)
    pairs = pairs + pairs.T
    expected = by_hand(own, pairs, colluding)
    found = exposure(own, pairs, colluding)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    for one, other in zip(found[:2], expected[:2]):
        certified = [certify(GaussianDpEvent(3.0 / math.sqrt(value)), delta=1e-5) for value in (one, other)]
        assert certified[0].epsilon == pytest.approx(certified[1].epsilon, rel=1e-7)


def test_masks_and_finite_noise_together_are_the_limit_of_wide_noise():
    rng = np.random.default_rng(5)
    own, pairs = rng.uniform(0.5, 2.0, 7), np.zeros((7, 7))
    for one, other, variance in (
        (0, 1, MASK),
        (1, 2, MASK),
        (2, 3, 4.0),
        (3, 4, MASK),
        (4, 5, 0.5),
        (0, 6, 9.0),
    ):
        pairs[one, other] = pairs[other, one] = variance
    wide = np.where(np.isinf(pairs), 1e9, pairs)
    for colluding in (0, 1, 2):
        np.testing.assert_allclose(exposure(own, pairs, colluding), exposure(own, wide, colluding), rtol=1e-5)


@pytest.mark.parametrize(
    ("own", "pairs", "colluding", "expected"),
    [
        (np.ones(32), circulant(32, 2, 100.0), 0, 1.317),
        (np.ones(32), circulant(32, 2, 100.0), 1, 1.748),
        (np.ones(32), circulant(32, 2), 2, 5.657),  # one between two colluders: local noise
        (np.ones(32), complete(32, 9.0), 0, 1.052),
        (np.ones(32), complete(32, 9.0), 1, 1.069),
        (np.ones(32), complete(32), 1, 1.016),
        (np.ones(128), circulant(128, 8), 4, 1.016),
        (np.ones(32), circulant(32, 4), 4, 5.657),
        (np.ones(29), circulant(29, 8), 1, math.sqrt(29 / 28)),
        (np.ones(8), complete(8), 4, 1.414),
    ],
)
def test_golden_noise_of_the_average(own, pairs, colluding, expected):
    assert average(own, pairs, colluding) == pytest.approx(expected, rel=6e-4)


def test_golden_epsilons():
    """Budget (0.25, 1e-5) among 32 owners, one of whom colludes; then against all others together."""
    mu = 0.07527
    assert certify(GaussianDpEvent(2 / mu), delta=1e-5).epsilon == pytest.approx(0.25, rel=1e-3)
    own = np.full(32, (1 / mu) ** 2 / 31)  # deviation of each value, a record moves it by 1
    for colluding, expected in ((1, 0.25), (31, 1.637)):
        shown = exposure(own, complete(32), colluding)[0]
        found = certify(GaussianDpEvent(2 / math.sqrt(shown)), delta=1e-5).epsilon
        assert found == pytest.approx(expected, rel=1e-3)


def test_a_complete_graph_of_many_owners_and_a_large_circulant_need_no_search():
    own = np.random.default_rng(0).uniform(1, 2, 500)
    top = np.sort(own)[::-1]
    for pairs in (complete(500), circulant(500, 10)):
        found = exposure(own, pairs, 9)
        least = int(own.argmin())
        assert found[least] == pytest.approx(1 / (own.sum() - top[:9].sum()))
        most = int(own.argmax())  # it never colludes against itself
        assert found[most] == pytest.approx(1 / (own.sum() - top[1:10].sum()))


def test_more_colluders_never_show_an_owner_less():
    rng = np.random.default_rng(3)
    own, pairs = rng.uniform(0.5, 2, 7), circulant(7, 4, 3.0)
    shown = [exposure(own, pairs, colluding) for colluding in range(7)]
    assert all(np.all(more >= less * (1 - 1e-12)) for less, more in itertools.pairwise(shown))
    np.testing.assert_allclose(shown[-1], 1 / own)


def test_the_noise_of_messages_is_what_the_certificate_says():
    """y = v + Σ ±z, drawn: the best unbiased guess of one owner's value from all messages has variance 1/exposure."""
    rng, owners = np.random.default_rng(1), 5
    own, pairs = rng.uniform(0.5, 2.0, owners), circulant(owners, 2, 4.0)
    draws = 200_000
    y = rng.normal(size=(draws, owners)) * np.sqrt(own)
    for one, other in itertools.combinations(range(owners), 2):
        shared = rng.normal(size=draws) * math.sqrt(pairs[one, other])
        y[:, one] += shared
        y[:, other] -= shared
    inverse = np.linalg.inv(np.cov(y.T))
    # a sample covariance's inverse is off by √(2/draws) = 0.3 %: five of these, twice
    np.testing.assert_allclose(np.diag(inverse), exposure(own, pairs, 0), rtol=0.03)


@pytest.mark.parametrize(
    ("own", "pairs", "colluding", "words"),
    [
        ([1.0, 0.0], complete(2), 0, "own: must be one finite variance > 0"),
        ([1.0, 1.0], np.ones((3, 3)), 0, "pairs of shape"),
        ([1.0, 1.0], np.ones((2, 2)), 0, "diagonal"),
        ([1.0, 1.0], complete(2), 2, "colluding=2: must be at most 1"),
        (
            [1.0] * 60,
            np.where(circulant(60, 4) > 0, 2.0, 0.0),
            4,
            "colluding=4: 487,635 sets among 60 owners",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(own, pairs, colluding, words):
    with pytest.raises(InputError, match=words) as caught:
        exposure(own, pairs, colluding)
    assert "\n" not in str(caught.value)


def test_an_odd_degree_is_refused():
    with pytest.raises(InputError, match="degree=3: must be even"):
        circulant(8, 3)
