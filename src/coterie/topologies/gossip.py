"""Several mixing steps for one release: how much disagreement they leave, and what they cost.

What was released is public, so mixing it again costs no privacy, only messages. On a static symmetric W the
k steps are accelerated: instead of W^k, the polynomial P of degree k with P(1) = 1 that is smallest on the
other eigenvalues, a Chebyshev polynomial. It needs about the square root of the plain number of steps. Where W has no
more than k other eigenvalues, one polynomial is zero on all of them: then owners agree exactly (`annihilating`).
"""

from __future__ import annotations

import math

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.topologies import spectrum
from coterie.topologies.topology import Topology

AGREEMENT = 0.1  # where nobody says how often to gossip: disagreement left by a round's steps, at most
_CONNECTED = 1e-12  # a second eigenvalue nearer to 1 means owners that never agree, up to rounding
_FLAT = 1e-9  # an eigenvalue range this narrow has nothing to accelerate
_APART = 1e-9  # eigenvalues that differ by less are one
_ROUNDED = 1e-4  # what rounding to float32 may leave of a disagreement that should be gone
_LONG = 700.0  # e to this power is a double
_MOST = 100_000  # gossip steps a round; nobody can mean more


def accelerates(topology: Topology, gossip_steps: int) -> bool:
    """Whether Chebyshev acceleration applies: several steps of one symmetric, doubly stochastic W."""
    if gossip_steps < 2 or not topology.is_static_gossip:
        return False
    low, high = topology.eigenvalue_range
    return high - low > _FLAT and high < 1 - _CONNECTED


def chebyshev(topology: Topology, gossip_steps: int) -> np.ndarray:
    """(gossip_steps, 2) numbers (a, c) of x⁺ = x + a (W x - x) + c (x - x⁻), the accelerated gossip.

    This form keeps the mean whatever the rounding of a and c: W x - x and x - x⁻ have mean zero. With
    [low, high] mapped onto [-1, 1] and 1 onto θ, r_j = T_{j-1}(θ) / T_j(θ) has a stable recurrence.
    """
    low, high = topology.eigenvalue_range
    theta = (2.0 - high - low) / (high - low)
    ratios = np.full(gossip_steps, 1.0 / theta)
    for j in range(1, gossip_steps):
        ratios[j] = 1.0 / (2.0 * theta - ratios[j - 1])
    before = np.concatenate([[0.0], ratios[:-1]])
    twice = np.where(np.arange(gossip_steps) == 0, 1.0, 2.0)  # T_1 = x, then T_{j+1} = 2 x T_j - T_{j-1}
    return np.stack([2.0 * twice * ratios / (high - low), ratios * before], axis=1)


def annihilating(topology: Topology) -> np.ndarray | None:
    """(steps, 2) numbers as `chebyshev`'s that leave no disagreement; None where none are, or none are stable.

    x⁺ = x + (W x − x) / (1 − λ) takes the eigenvalue λ out and keeps the mean: one step for each that W has. Taken in
    Leja's order what is left never grows much on the way; how much rounding does is computed, not hoped for.

    >>> from coterie.topologies import build
    >>> len(annihilating(build("ring", 20)))
    10
    """
    if topology.averages or not topology.is_static_gossip:
        return None
    eigenvalues = spectrum.values(topology.schedule[0], topology.owners)
    if eigenvalues is None or not len(eigenvalues) or eigenvalues.max() > 1 - _CONNECTED:
        return None
    distinct = eigenvalues[np.concatenate([[True], np.diff(eigenvalues) > _APART])]
    order = _leja(distinct)
    factors = (distinct[None, :] - order[:, None]) / (1 - order[:, None])  # [step, eigenvalue]
    grown = np.abs(np.cumprod(np.vstack([np.ones_like(distinct), factors[:-1]]), axis=0)).max(axis=1)
    ahead = np.array([np.abs(np.prod(factors[at:], axis=0)).max() for at in range(1, len(order) + 1)])
    error = 2.0**-24 * np.sum((1 + 1 / (1 - order)) * grown * np.maximum(ahead, 1.0))
    if error > _ROUNDED:
        return None
    return np.stack([1 / (1 - order), np.zeros_like(order)], axis=1)


def polynomial(topology: Topology, gossip_steps: int, values: np.ndarray) -> np.ndarray:
    """What a round of steps on a static symmetric W makes of a disagreement of each of these eigenvalues."""
    if not accelerates(topology, gossip_steps):
        return values**gossip_steps
    now = before = np.ones_like(values)
    for a, c in chebyshev(topology, gossip_steps):
        now, before = now + a * (values * now - now) + c * (now - before), now
    return now


def _leja(points: np.ndarray) -> np.ndarray:
    """The points, each as far from those before it as can be (the product of distances)."""
    left, order = list(points), [points[np.argmax(np.abs(points))]]
    left.remove(order[0])
    while left:
        order.append(max(left, key=lambda point: np.sum(np.log(np.abs(point - np.array(order))))))
        left.remove(order[-1])
    return np.array(order)


def contraction(topology: Topology, gossip_steps: int = 1, accelerate: bool = True) -> float:
    """What a round of `gossip_steps` steps leaves of the largest disagreement: 0 is agreement, 1 no progress.

    Time-varying: the worst round of a period. Not doubly stochastic (push-sum): the average rate.

    >>> from coterie.topologies import build
    >>> ring = build("ring", 20)
    >>> [round(contraction(ring, 10, accelerate), 2) for accelerate in (False, True)]
    [0.72, 0.09]
    """
    _check.count("gossip_steps", gossip_steps)
    if accelerate and accelerates(topology, gossip_steps):
        low, high = topology.eigenvalue_range
        beyond = 2.0 * (1.0 - high) / (high - low)  # 1 + this is 1 where [low, high] is mapped onto [-1, 1]
        grown = math.log1p(beyond + math.sqrt(beyond * (2.0 + beyond)))
        return 1.0 / math.cosh(min(gossip_steps * grown, _LONG))  # 1 / T(1 + beyond), of that degree
    if topology.period == 1 or not topology.is_doubly_stochastic:
        if topology.is_symmetric or not topology.is_doubly_stochastic:
            return (1.0 - topology.spectral_gap) ** gossip_steps
        return spectrum.product_norm(topology.schedule * gossip_steps, topology.owners)
    return max(
        spectrum.product_norm(
            [topology.schedule[(start + j) % topology.period] for j in range(gossip_steps)], topology.owners
        )
        for start in range(topology.period)
    )


def gossip_steps_for(topology: Topology, target: float = AGREEMENT, accelerate: bool = True) -> int:
    """Smallest number of gossip steps a round whose contraction is at most `target`.

    >>> from coterie.topologies import build
    >>> [gossip_steps_for(build("ring", 20), 0.1, accelerate) for accelerate in (False, True)]
    [70, 10]
    """
    _check.probability("target", target)
    _ = topology.window  # an error if the owners never agree
    high = 1
    while contraction(topology, high, accelerate) > target:
        high *= 2
        if high > _MOST:
            raise InputError(
                f"target={target}: topology {topology.name!r} needs more than {_MOST} gossip steps. "
                "Use a better connected one, such as 'exponential' or 'random_regular'."
            )
    low = high // 2  # not enough, and contraction never grows with more steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if contraction(topology, middle, accelerate) <= target else (middle, high)
    return high


def messages_per_round(topology: Topology, gossip_steps: int = 1) -> float:
    """Messages that travel between different owners in one round, averaged over a period."""
    _check.count("gossip_steps", gossip_steps)
    if topology.averages:
        return float(gossip_steps * topology.owners * (topology.owners - 1))
    sent = [np.count_nonzero((e.source != e.target) & (e.weight > 0)) for e in topology.schedule]
    return float(gossip_steps * np.mean(sent))
