"""A run's certificates as JSON, and the check that a third party makes of them. Imports no JAX."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coterie.accounting import Certificate, recompute
from coterie.errors import InputError

_SAME = 1e-6  # relative: what two machines' rounding may differ by
_WORDS = ("accountant", "unit", "warnings")


class Check(NamedTuple):
    """One certificate of a file, computed again."""

    owners: list[int] | None  # whose it is; None in a file of a single certificate
    written: Any  # ε as the file has it
    found: Certificate
    problems: tuple[str, ...]


def to_json(certificates: Sequence[Certificate]) -> list[dict[str, Any]]:
    """Each different certificate once, with the indices of the owners that share it."""
    found: dict[str, dict[str, Any]] = {}
    for owner, one in enumerate(certificates):
        plain = one.to_json()
        found.setdefault(json.dumps(plain, sort_keys=True), {"owners": []} | plain)["owners"].append(owner)
    return list(found.values())


def check(path: Path) -> list[Check]:
    """Recompute every certificate of a run's result.json, or the one that a file holds.

    Guarantee: no number of the file is trusted but the events' own; each is compared with what they cost, and the
    run's summary with the certificates.
    """
    obj = _read(path)
    if "event" in obj:
        return [_checked(obj, None)]
    privacy = obj.get("privacy")
    written = privacy.get("certificates") if isinstance(privacy, dict) else None
    if not isinstance(written, list) or not all(isinstance(one, dict) for one in written) or not written:
        raise InputError(f"from={str(path)!r}: holds no certificates. Give a run's result.json.")
    checks = [_checked(one, _indices(one.get("owners"))) for one in written]
    return [*checks[:-1], checks[-1]._replace(problems=(*checks[-1].problems, *_summary(privacy, checks)))]


def _read(path: Path) -> dict[str, Any]:
    try:
        obj = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except OSError as error:
        raise InputError(f"from={str(path)!r}: cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise InputError(f"from={str(path)!r}: is not JSON. Give a run's result.json.") from error
    if not isinstance(obj, dict):
        raise InputError(f"from={str(path)!r}: is not a JSON object. Give a run's result.json.")
    return obj


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _indices(owners: Any) -> list[int]:
    return owners if isinstance(owners, list) and all(type(one) is int for one in owners) else []


def _checked(written: dict[str, Any], owners: list[int] | None) -> Check:
    found = _recomputed(written)
    again, problems = found.to_json(), []
    for name in ("epsilon", "epsilon_optimistic"):
        if not _same(written.get(name), again[name]):
            problems.append(f"{name} is {written.get(name)!r} in the file and {again[name]!r} when computed")
    problems += [
        f"{name} is {written.get(name)!r} in the file and {again[name]!r} when computed"
        for name in _WORDS
        if written.get(name) != again[name]
    ]
    return Check(owners, written.get("epsilon"), found, tuple(problems))


def _recomputed(written: dict[str, Any]) -> Certificate:
    """The file comes from somebody else: what is not of the right kind is named, not computed with."""
    size = written.get("size")
    fits = {
        "delta": math.isfinite(_number(written.get("delta"))),
        "relation": isinstance(written.get("relation"), str),
        "view": isinstance(written.get("view"), str),
        "size": size is None or (type(size) is int and size > 0),
    }
    for name in (name for name, fine in fits.items() if not fine):
        raise InputError(f"certificate {name}={written.get(name)!r}: is not what a certificate holds there.")
    try:
        return recompute(written)
    except (ArithmeticError, ValueError) as error:
        raise InputError(f"certificate event: no certificate can be computed for it ({error}).") from error


def _summary(privacy: Any, checks: list[Check]) -> list[str]:
    """Whether the numbers that people read first follow from the certificates."""
    pairs = [(owner, one.found.epsilon) for one in checks for owner in one.owners or ()]
    named, by_owner = sorted(owner for owner, _ in pairs), dict(pairs)
    stated = privacy.get("certified_epsilon")
    stated = stated if isinstance(stated, dict) else {}
    per_owner = stated.get("per_owner")
    if named != list(range(len(named))) or not isinstance(per_owner, list) or len(per_owner) != len(named):
        return ["certificates do not name every owner once"]
    wrong = [owner for owner in named if not _same(per_owner[owner], by_owner[owner])]
    problems = [f"certified_epsilon of owner {owner} is not its certificate's" for owner in wrong[:1]]
    if not _same(stated.get("max"), max(by_owner.values())):
        problems.append("certified_epsilon.max is not the largest certificate's")
    return problems + [
        f"{name} is {privacy.get(name)!r} in the summary and {getattr(one.found, name)!r} in a certificate"
        for name in ("delta", "relation", "view", "unit")
        for one in checks[:1]
        if privacy.get(name) != getattr(one.found, name)
    ]


def _same(written: Any, found: Any) -> bool:
    one, other = _number(written), _number(found)
    return one == other or math.isclose(one, other, rel_tol=_SAME)


def _number(value: Any) -> float:
    """JSON's number or "inf"; anything else is not a number and equals nothing."""
    if value == "inf":
        return math.inf
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
