"""What rounds of gossip leave of noise that enters anew in each of them: computed, in double precision, on the host."""

from __future__ import annotations

import numpy as np

from coterie.topologies import gossip, spectrum
from coterie.topologies.topology import Topology

_GONE = 1e-9  # of all rounds' leftovers, below which those of older rounds do not count


def residue(
    topology: Topology, covariance: np.ndarray, gossip_steps: int, rounds: int
) -> tuple[float, float]:
    """Variances in an owner's value beside the mean's, averaged over owners, after `rounds` rounds of so many steps: of
    noise of variance one that is everyone's own, and of noise of this covariance, fresh in every round.

    Gossip is exact where it can be (`gossip.annihilating`). More than `spectrum.DENSE` owners: an upper bound, as if
    everything mixed as slowly as the slowest part.

    >>> from coterie.topologies import build
    >>> own, _ = residue(build("ring", 20), np.eye(20), 1, 100)
    >>> round(own, 2), residue(build("ring", 20), np.eye(20), 10, 100)
    (1.96, (0.0, 0.0))
    """
    exact = gossip.annihilating(topology)
    if topology.averages or (exact is not None and len(exact) <= gossip_steps):
        return 0.0, 0.0
    if topology.owners > spectrum.DENSE:
        square = gossip.contraction(topology, gossip_steps) ** 2
        worst = min(square / max(1 - square, 1e-12), float(rounds))
        return worst, worst * float(np.mean(np.diag(covariance)))
    compute = _by_spectrum if topology.is_static_gossip else _by_matrices
    return compute(topology, covariance, gossip_steps, rounds)


def _by_spectrum(topology: Topology, covariance: np.ndarray, steps: int, rounds: int) -> tuple[float, float]:
    """A round multiplies an eigenvector by P(λ): Σ_k tr(P^2k U) over the rounds, in the eigenvectors of W."""
    values, vectors = np.linalg.eigh(spectrum.dense(topology.schedule[0], topology.owners))
    left = gossip.polynomial(topology, steps, values[:-1]) ** 2
    ages = np.where(left < 1, left * (1 - left**rounds) / np.maximum(1 - left, 1e-300), float(rounds))
    shared = np.sum((vectors.T @ covariance) * vectors.T, axis=1)[:-1]
    return float(ages.sum() / topology.owners), float((ages * shared).sum() / topology.owners)


def _by_matrices(topology: Topology, covariance: np.ndarray, steps: int, rounds: int) -> tuple[float, float]:
    """Schedules and digraphs: the product of the last rounds' matrices, further back until nothing is left.

    Where push-sum divides by weights, so is what is left here; they are one each where W is doubly stochastic.
    """
    owners, period = topology.owners, topology.period
    step = [spectrum.dense(edges, owners) for edges in topology.schedule]
    weight, last = np.ones(owners), rounds * steps
    for at in range(max(0, last - 50 * owners), last):
        weight = step[at % period] @ weight
    total, past = np.zeros(2), np.eye(owners)
    for back in range(1, rounds + 1):
        for at in range(last - (back - 1) * steps - 1, last - back * steps - 1, -1):
            past = past @ step[at % period]
        apart = past / weight[:, None] - 1 / owners
        of_round = np.array([np.sum(apart**2), np.sum((apart @ covariance) * apart)]) / owners
        total += of_round
        if of_round.sum() <= _GONE * total.sum():
            break
    return float(total[0]), float(total[1])
