"""Sums of whole numbers, under masks: how the noise that a sum needs is shared, who weighs how much, on which lattice.

Each owner's message is whole numbers, k_i = round(a_i Σ g / q) + η_i on a lattice with cells of q that all have in
common (a_i = w_i / n_i), under masks that cancel when all messages of a sum are added. So only the sum is seen, and
every owner's part of the noise protects everybody. `accounting.exposure` says how far that goes against colluders.
An aggregator that is trusted is sent the same numbers without masks (`in_whole_numbers`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from coterie import _check
from coterie.accounting import calibrate
from coterie.accounting.exposure import circulant, complete, exposure
from coterie.errors import InputError
from coterie.mechanisms import Masked, ReleasePlan, Shared
from coterie.mechanisms.noise import largest_sum
from coterie.protocols import _shared
from coterie.protocols.task import Task, with_noise
from coterie.relations import REPLACE_ONE, named

# Bits of the lattice: below 2^8 cells a unit, discrete noise is no longer as good as real.
FINEST, COARSEST = 16, 8
# A sum stays within int32, so that simulations add as exactly as real owners do modulo 2^64.
_MOST = 2**31 - 1
_FEW = 64  # owners up to whom everybody shares a mask with everybody
_ROUNDING = 1e-9

Together: TypeAlias = Masked | Shared


def masks(
    owners: int, colluding: int | None = None, absent: int | None = None, degree: int | None = None
) -> Masked:
    """What may be set of masked sums, filled in; `sized` adds what follows from noise and rounds."""
    colluding = _shared.colluding_of(owners, colluding)
    most = owners - colluding - 2
    if absent is None:
        absent = max(0, min(max(1, owners // 16), most))
    if _check.count("absent", absent, least=0) > most:
        raise InputError(
            f"absent={absent}: must be at most {most}, so that two of {owners} owners are honest and there. "
            "Allow fewer to be away, or fewer to collude."
        )
    if degree is None:
        degree = 0 if owners <= _FEW else 2 * math.ceil((colluding + 1) / 2) + 6
    _shared.check_degree(degree, colluding, owners - absent)
    masked = Masked(colluding=colluding, absent=absent, spare=0, degree=degree)
    graph(masked, owners)
    return masked


def check_view(view: str, aggregation: str, certified: bool, settings: Any) -> None:
    """Masks are for sums of every round under the certified calibration; what is set of them needs them."""
    given = [
        name
        for name in ("colluding", "absent", "spare", "degree")
        if getattr(settings, name, None) is not None
    ]
    if view == "shared":
        return _shared.check_settings(certified, settings)
    if view != "masked":
        if given:
            raise InputError(f"{given[0]}={getattr(settings, given[0])}: only for view=masked. Set that too.")
        return
    if not certified:
        raise InputError("view='masked': masks are for certified noise. Use calibration=certified.")
    if aggregation == "once":
        raise InputError(
            "aggregation='once': steps at home are charged to the owner alone, and masks gain nothing. Use every_round."
        )
    relation = named(getattr(settings, "relation", REPLACE_ONE))
    if not relation.sizes_are_public:
        raise InputError(
            f"relation={str(relation)!r}: shares of the noise follow from sizes, which are private there. "
            "Use replace_one, or view=untrusted."
        )
    if getattr(settings, "missing", None) is not None:
        raise InputError(
            f"missing={settings.missing}: masked sums tell colluders from absent owners. Use colluding and absent."
        )


def graph(masked: Masked, members: int) -> np.ndarray:
    """Who shares a mask with whom, in a sum of so many members in the order of their names."""
    return circulant(members, masked.degree) if masked.degree else complete(members)


def shown(masked: Masked, owners: int) -> float:
    """The exposure of an owner in the smallest sum that owners answer, for even shares of variance 1.

    With even shares it does not matter who is away, and a larger sum has more noise: no sum shows anybody more.
    """
    members = owners - masked.absent
    return float(exposure(np.ones(members), graph(masked, members), masked.colluding)[0])


def shared(needed: np.ndarray, per_record: np.ndarray, exposed: float) -> tuple[np.ndarray, np.ndarray]:
    """(owners,) each owner's own noise and what the view faces, over clip_norm: even shares of what the sum needs.

    `needed` is what each budget asks for over clip_norm, `per_record` a_i, one record's weight in the sum, `exposed`
    the exposure of an owner for even shares of variance 1.

    Guarantee: a record of owner i moves the sum by at most 2 a_i C, and whoever `exposed` was computed for faces noise
    of share / √exposed ≥ needed_i a_i C in it, for every i.
    """
    root = math.sqrt(exposed)
    # A hair above, so that rounding in the shares cannot take back what the calibration found.
    own = float(np.max(needed * per_record)) * (1 + _ROUNDING) * root / per_record
    return own, own / root


def spares(rounds: int, spare: int | None) -> int:
    """Sums that may fail: a tenth of the rounds, unless somebody says otherwise."""
    return math.ceil(rounds / 10) if spare is None else _check.count("spare", spare, least=0)


def together_of(task: Task, settings: Any) -> Together | None:
    """How the settings' view has owners hide together; None: each by itself, or behind somebody whom all trust."""
    if settings.view == "masked":
        return masks(task.owners, settings.colluding, settings.absent, settings.degree)
    if settings.view == "shared":
        return _shared.pairs(task.owners, settings.colluding, settings.degree)
    return None


def exposed(together: Together, owners: int) -> float:
    """How far an owner shows, for even shares of variance 1 of the noise that owners have together."""
    return _shared.exposed(together, owners) if isinstance(together, Shared) else shown(together, owners)


def pooled(plan: ReleasePlan, per_record: np.ndarray, together: Together, rounds: int) -> ReleasePlan:
    """The plan of noise that each budget asks for by itself, of `rounds` and spare ones, with noise that hides all."""
    own = shared(np.array(plan.noise_multiplier), per_record, exposed(together, len(plan.sizes)))
    return finished(with_noise(plan, *own), together, rounds)


def finished(plan: ReleasePlan, together: Together, rounds: int) -> ReleasePlan:
    """The plan of noise that owners have together, and the view that its certificate is for; under masks with lattice
    and quorum."""
    owners, view = len(plan.sizes), _seen(together)
    if isinstance(together, Shared):
        return replace(plan, shared=together, view=view)
    chosen, lattice = replace(together, spare=plan.releases[0] - rounds), (_finest(plan),) * owners
    return replace(plan, masked=chosen, lattice=lattice, quorum=owners - together.absent, view=view)


def in_whole_numbers(plan: ReleasePlan, per_record: np.ndarray) -> ReleasePlan:
    """The plan with messages that a trusted aggregator can add up exactly; `per_record` as in `shared`.

    Guarantee: all that is told of a sum follows from the sum that is charged. A sum of real numbers is rounded by what
    each owner sent, so that its last bits tell of single messages, with less noise (`test_last_bits_of_a_sum`).
    """
    # Each owner's in the sum: a cell is the same for all.
    noise = np.array(plan.noise_multiplier) * per_record
    return replace(plan, lattice=tuple((_finest(plan) * noise / noise.max()).tolist()))


def _finest(plan: ReleasePlan) -> float:
    """Cells to a unit of the noise of whoever has most of it: as many as keep sums small enough."""
    bits = min(FINEST, math.floor(math.log2(_MOST / largest_sum(plan))))
    if bits < COARSEST:
        raise InputError(
            f"epsilon: so little noise on so many records that sums leave 2^31 at 2^{COARSEST} cells a unit of noise. "
            "Allow a smaller epsilon, or use view=untrusted."
        )
    return 2.0**bits


def cell_of(plan: ReleasePlan, weights: np.ndarray) -> float:
    """What one cell of the sum is worth in the weighted mean: the same for everybody's message."""
    assert plan.lattice is not None
    first = weights[0] / plan.sampler.expected(plan.sizes[0])
    return float(first * plan.noise_multiplier[0] * plan.clip_norm / plan.lattice[0])


def _seen(together: Together) -> str:
    count = together.colluding
    who = "one other owner" if count == 1 else f"up to {count} other owners"
    if isinstance(together, Shared):
        knows = f", and all that {who} know{'s' * (count == 1)}" if count else ""
        return f"public transcript, with noise that owners share in pairs{knows}"
    may = f"; whoever adds up and {who} may collude" if count else ""
    return f"masked messages, of which sums alone can be seen{may}"


def weights(task: Task, exposed: float) -> np.ndarray:
    """(owners,) `filled` for everybody's budget, spent at once."""
    from dp_accounting import GaussianDpEvent

    needed = {
        budget: calibrate(GaussianDpEvent, epsilon=budget, delta=task.delta) for budget in set(task.epsilon)
    }
    return filled(task.sizes, np.array([needed[budget] for budget in task.epsilon]), task.dimension, exposed)


def filled(sizes: Sequence[int], needed: np.ndarray, dimension: int, exposed: float) -> np.ndarray:
    """(owners,) weights of least error where one noise is shared: by records, but for those whose budgets ask for most.

    The noise is v = max w z / n, so w is capped at v n / z and filled up with the rest by records; v balances the
    sampling variance Σ w²/n against the noise's d v² times the exposure of everyone together, both over C².
    `needed` is z, the noise over clip_norm that a budget asks for at once.
    """
    counts, caps = np.array(sizes, float), np.array(sizes) / needed
    exposed_together = len(counts) * exposed

    def cost(cap: float) -> float:
        return float(np.sum(_level(counts, cap * caps) ** 2 / counts)) + dimension * cap**2 * exposed_together

    low, high = 1 / caps.sum(), float(np.max(counts / caps)) / counts.sum()
    if high <= low * (1 + _ROUNDING):  # one budget for all
        return counts / counts.sum()
    from scipy.optimize import minimize_scalar

    # Convex: the least of a convex program over a cap that grows, and a square.
    best = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-9 * high})
    return _level(counts, best.x * caps)  # pyright: ignore[reportAttributeAccessIssue]


def _level(counts: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """min(λ n, cap) with the λ for which it adds up to one; all caps where they do not reach one."""
    order = np.argsort(caps / counts)
    before = np.concatenate([[0.0], np.cumsum(caps[order])[:-1]])  # of those whose cap is met first
    rest = np.cumsum(counts[order][::-1])[::-1]
    levels = (1 - before) / rest  # λ if exactly the first so many are capped
    fits = levels <= caps[order] / counts[order]
    level = levels[np.argmax(fits)] if fits.any() else np.inf
    filled = np.minimum(level * counts, caps)
    return filled / filled.sum()
