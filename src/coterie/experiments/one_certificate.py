"""One certificate of a file, computed again. Imports no JAX."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from coterie import _check
from coterie._rounding import upper
from coterie.accounting import Certificate, recompute
from coterie.errors import InputError

SAME = 1e-6  # relative: what two machines' rounding may differ by
_WORDS = ("accountant", "warnings")


class Recomputed(NamedTuple):
    """One certificate of a file, computed again."""

    owners: list[int] | None  # whose it is; None in a file of a single certificate
    written: Any  # ε as the file has it
    found: Certificate
    problems: tuple[str, ...]
    whose: str = ""  # the same in words, before the certificate


def checked(written: dict[str, Any], owners: list[int] | None) -> Recomputed:
    """A certificate of a file beside what its event costs."""
    certificate = recomputed(written)
    again, problems = certificate.to_json(), []
    for name in ("epsilon", "epsilon_optimistic"):
        if not same(written.get(name), again[name]):
            problems.append(f"{name} is {written.get(name)!r} in the file and {again[name]!r} when computed")
    problems += [
        f"{name} is {written.get(name)!r} in the file and {again[name]!r} when computed"
        for name in _WORDS
        if written.get(name) != again[name]
    ]
    if bool(written.get("reason")) != bool(
        certificate.reason
    ):  # which one is the plan's own word; that there is one is not
        problems.append(
            f"reason is {written.get('reason')!r} in the file of a certificate of ε = {upper(certificate.epsilon)}"
        )
    return Recomputed(owners, written.get("epsilon"), certificate, tuple(problems))


def recomputed(written: dict[str, Any]) -> Certificate:
    """The file comes from somebody else: what is not of the right kind is named, not computed with."""
    size = written.get("size")
    fits = {
        "delta": math.isfinite(number(written.get("delta"))),
        "relation": isinstance(written.get("relation"), str),
        "unit": isinstance(written.get("unit"), str),
        "view": isinstance(written.get("view"), str),
        "size": size is None or (type(size) is int and size > 0),
    }
    for name in (name for name, fine in fits.items() if not fine):
        raise InputError(f"certificate {name}={written.get(name)!r}: is not what a certificate holds there.")
    try:
        return recompute(written)
    except (ArithmeticError, ValueError) as error:
        raise InputError(f"certificate event: no certificate can be computed for it ({error}).") from error


def texts(value: Any) -> list[str]:
    """A list of texts; none of anything else."""
    return value if isinstance(value, list) and all(isinstance(text, str) for text in value) else []


def same(written: Any, computed: Any) -> bool:
    """Whether two numbers of a file are equal, up to rounding."""
    left, right = number(written), number(computed)
    return left == right or math.isclose(left, right, rel_tol=SAME)


def number(value: Any) -> float:
    """JSON's number or "inf"; anything else is not a number and equals nothing."""
    if value == "inf":
        return math.inf
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and _check.finite(value)
    return float(value) if fits else math.nan
