"""What (ε, δ) says about a suspicion: how often somebody who accuses people can be right at most."""

from __future__ import annotations

import math

from coterie.relations import named

_MOST = 1e15  # the rarest share in words: 1 in so many
_SLACK = 1e-9  # relative: for rounding errors in shares that are round numbers


def suspicion(prior: float, epsilon: float) -> float:
    """What a suspicion that is right with probability `prior` can at most become, but for δ.

    Argument: an accusation is an event S of what was released. P(S | record) ≤ e^ε P(S | any other) + δ, so also on
    average over records of which the suspicion is true and false. Hence right accusations, of all suspects, are at most
    e^ε p/(1 − p) times the wrong ones, and p δ more: these aside, a share of at most p e^ε/(p e^ε + 1 − p) is right.

    >>> round(suspicion(0.1, 1.0), 4), suspicion(0.1, math.inf)
    (0.232, 1.0)
    """
    return 1 / (1 + (1 - prior) / prior * math.exp(-max(epsilon, 0.0)))


def right_accusations(prior: float, epsilon: float, delta: float, accused: float) -> float:
    """At most what share of accusations is right, δ counted, where a share `accused` of all suspects is accused.

    Argument: as above R ≤ o W + p δ with o = e^ε p/(1 − p) for right and wrong ones, R + W = accused and o/(1 + o) = q;
    solved for R, R ≤ q accused + (1 − q) p δ. And R ≤ p, as no more are guilty.
    """
    share = suspicion(prior, epsilon)
    return min(share + (1 - share) * prior * delta / accused, prior / accused, 1.0)


def of_replacing(epsilon: float, delta: float, relation: str) -> tuple[float, float]:
    """What holds when one record is replaced by any other: as certified, or by taking one away and adding another.

    Argument: P(S | x) ≤ e^ε P(S | neither) + δ ≤ e^ε (e^ε P(S | x′) + δ) + δ.
    """
    if named(relation).steps_to_replace == 1:
        return epsilon, delta
    return 2 * epsilon, min(1.0, (1 + math.exp(min(epsilon, 700.0))) * delta)


def one_in(share: float) -> str:
    """A share as people say it, never below it: 1 in so many up to a half, then so many in 100.

    >>> [one_in(share) for share in (1e-5, 0.00271, 0.1, 0.23197, 0.5, 0.858)]
    ['1 in 100,000', '1 in 369', '1 in 10', '1 in 4.3', '1 in 2', '86 in 100']
    """
    if share > 0.5:
        return in_hundred(share)
    times = min((1 + _SLACK) / share, _MOST)
    if times < 10:
        return f"1 in {math.floor(10 * times) / 10:g}"
    unit = 10 ** max(0, math.floor(math.log10(times)) - 2)  # three digits
    return f"1 in {math.floor(times / unit) * unit:,}"


def in_hundred(share: float) -> str:
    """A share in hundredths, rounded up."""
    return f"{math.ceil(100 * share * (1 - _SLACK)):d} in 100"
