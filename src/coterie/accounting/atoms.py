"""An event tree as its simple events, composed: for one record, or several of one person. The unknown is refused."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from coterie import _check
from coterie.accounting.groups import Grouped
from coterie.errors import InputError

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_LEAST_RATE = 2.0**-40
_LEAST_PRECISION = 2.0**-1000  # of wider noise still: it is not for nothing, and at δ = 0 has no bound at all
WIDEST = 2.0**40  # noise over C; of more, losses have no digits that a grid could hold

Parts: TypeAlias = tuple[tuple[Any, int], ...]  # (atomic event, how many times)


class Flat(NamedTuple):
    """An event tree, composed: plain Gaussians as one, everything else counted; or why there is no bound."""

    precision: float  # sum of 1 / noise_multiplier² over the plain Gaussians
    parts: Parts
    reason: str


def flatten(event: DpEvent) -> Flat:
    """Compose the tree: order does not matter, and Gaussians add their 1/z² exactly.

    >>> from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent
    >>> twice = [GaussianDpEvent(1.0), SelfComposedDpEvent(GaussianDpEvent(2.0), 4)]
    >>> flatten(ComposedDpEvent(twice)).precision
    2.0
    """
    import dp_accounting as dp

    counts: Counter[Any] = Counter()
    left: list[tuple[Any, int]] = [(event, 1)]
    while left:
        node, times = left.pop()
        if isinstance(node, dp.ComposedDpEvent):
            left += [(part, times) for part in reversed(node.events)]
        elif isinstance(node, dp.SelfComposedDpEvent):
            left.append((node.event, times * _check.count("count", node.count, 0)))
        elif times and (atom := _atom(node)) is not None:
            counts[atom] += times
    gaussians = {atom: n for atom, n in counts.items() if isinstance(atom, dp.GaussianDpEvent)}
    rest = {atom: n for atom, n in counts.items() if atom not in gaussians}
    if any(isinstance(atom, dp.NonPrivateDpEvent) for atom in rest):
        return Flat(
            0.0, (), "a release is not private: it carries no noise, or noise that depends on the data"
        )
    precision = math.fsum(n / atom.noise_multiplier / atom.noise_multiplier for atom, n in gaussians.items())
    precision = max(precision, _LEAST_PRECISION) if gaussians else 0.0
    if math.isinf(precision):
        return Flat(0.0, (), "a release has so little noise that no number holds what it costs")
    return Flat(precision, tuple(sorted(rest.items(), key=repr)), "")


def _atom(event: Any) -> Any:
    """The event in its simplest form; None where it releases nothing; InputError where it is unknown."""
    import dp_accounting as dp

    match event:
        case dp.NoOpDpEvent():
            return None
        case dp.NonPrivateDpEvent():
            return event
        case dp.GaussianDpEvent() | dp.LaplaceDpEvent():
            if not event.noise_multiplier >= 0:
                raise InputError(f"noise_multiplier={event.noise_multiplier}: must be >= 0.")
            return event if event.noise_multiplier > 0 else dp.NonPrivateDpEvent()
        case dp.RandomizedResponseDpEvent():
            return _response(event)
        case dp.PoissonSampledDpEvent():
            return _sampled(event, event.sampling_probability)
        case dp.SampledWithoutReplacementDpEvent():
            _check.count("source_dataset_size", event.source_dataset_size)
            _check.count("sample_size", event.sample_size, 0)
            return _sampled(event, event.sample_size / event.source_dataset_size)
        case dp.TruncatedSubsampledGaussianDpEvent():
            return _capped(event)
    raise _unsupported(event)


def _response(event: Any) -> Any:
    import dp_accounting as dp

    _check.count("num_buckets", event.num_buckets)
    _share("noise_parameter", event.noise_parameter)
    if event.num_buckets == 1 or event.noise_parameter == 1:
        return None
    return event if event.noise_parameter > 0 else dp.NonPrivateDpEvent()


def _sampled(event: Any, rate: float) -> Any:
    """A sampled release: nothing at rate 0, the release itself at rate 1; else of Gaussian or Laplace noise only.

    Rates too small for 1 − rate to hold their digits are raised to `_LEAST_RATE`: a higher rate never costs less. Nor
    does less noise, to which what is wider than `WIDEST` is lowered.
    """
    import attr
    import dp_accounting as dp

    _share("sampling rate", rate)
    inner = _atom(event.event)
    if rate == 0 or inner is None:
        return None
    if rate == 1 or isinstance(inner, dp.NonPrivateDpEvent):
        return inner
    poisson_laplace = isinstance(event, dp.PoissonSampledDpEvent) and isinstance(inner, dp.LaplaceDpEvent)
    if not (isinstance(inner, dp.GaussianDpEvent) or poisson_laplace):
        raise _unsupported(event)
    if rate < _LEAST_RATE:
        event = dp.PoissonSampledDpEvent(_LEAST_RATE, inner)
    return attr.evolve(event, event=type(inner)(WIDEST)) if inner.noise_multiplier > WIDEST else event


def _capped(event: Any) -> Any:
    import attr
    import dp_accounting as dp

    _check.count("dataset_size", event.dataset_size)
    _check.count("truncated_batch_size", event.truncated_batch_size, 0)
    if event.truncated_batch_size >= event.dataset_size:
        return _atom(
            dp.PoissonSampledDpEvent(event.sampling_probability, dp.GaussianDpEvent(event.noise_multiplier))
        )
    if event.sampling_probability == 0 or event.truncated_batch_size == 0:
        return None
    _check.probability("sampling_probability", event.sampling_probability)
    single = _atom(dp.GaussianDpEvent(event.noise_multiplier))
    if not isinstance(single, dp.GaussianDpEvent):
        return single
    return attr.evolve(event, noise_multiplier=min(event.noise_multiplier, WIDEST))


def grouped(flat: Flat, group: int) -> Flat:
    """Sensitivity: k records, each moving a sum by at most Δ, move it by at most k Δ, in either norm.

    Where batches are disjoint and charged as one, k records in several of them show no more than k in one: a shift of a
    Gaussian or Laplace number by k is tested as well as the worst of any k steps of one. Each answers for itself.
    """
    import dp_accounting as dp

    parts: Counter[Any] = Counter()
    for atom, n in flat.parts:
        match atom:
            case dp.LaplaceDpEvent(z):
                parts[dp.LaplaceDpEvent(z / group)] += n
            case dp.RandomizedResponseDpEvent():
                parts[atom] += n * group
            case _:
                parts[Grouped(atom, group)] += n
    return Flat(flat.precision * group**2, tuple(sorted(parts.items(), key=repr)), flat.reason)


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name}={value}: must lie between 0 and 1.")


def _unsupported(event: Any) -> InputError:
    return InputError(f"event={event!r}: no certificate is known for it. Compose it from supported events.")
