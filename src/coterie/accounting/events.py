"""Events as JSON, so that a third party can recompute a certificate. Unknown types are refused, both ways.

`DpEvent.from_named_tuple` imports whatever module the data names; a certificate comes from somebody else, so
only the listed classes are built here, by name, and every field is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie import _check
from coterie.errors import InputError

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_KNOWN = (
    "NoOpDpEvent",
    "NonPrivateDpEvent",
    "GaussianDpEvent",
    "LaplaceDpEvent",
    "RandomizedResponseDpEvent",
    "PoissonSampledDpEvent",
    "SampledWithoutReplacementDpEvent",
    "TruncatedSubsampledGaussianDpEvent",
    "SelfComposedDpEvent",
    "ComposedDpEvent",
)
_DEEPEST = 32  # nesting a hostile file could use to exhaust the stack


def event_to_json(event: DpEvent) -> dict[str, Any]:
    """The event as nested dictionaries of plain numbers.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> event_to_json(SelfComposedDpEvent(GaussianDpEvent(2), 10))
    {'type': 'SelfComposedDpEvent', 'event': {'type': 'GaussianDpEvent', 'noise_multiplier': 2}, 'count': 10}
    """
    import attr
    import dp_accounting

    name, written = type(event).__name__, {}
    if name not in _KNOWN or type(event) is not getattr(dp_accounting, name):
        raise InputError(f"event={name}: cannot be written as JSON. Known events: {', '.join(_KNOWN)}.")
    for field in attr.fields(type(event)):
        value = getattr(event, field.name)
        if isinstance(value, (list, tuple)):
            value = [event_to_json(part) for part in value]
        written[field.name] = value if isinstance(value, (int, float, list)) else event_to_json(value)
    return {"type": name} | written


def event_from_json(obj: Any, depth: int = _DEEPEST) -> DpEvent:
    """The event that `event_to_json` wrote, nested as deep at most; one line of InputError for anything else.

    >>> event_from_json({"type": "GaussianDpEvent", "noise_multiplier": 2.0})
    GaussianDpEvent(noise_multiplier=2.0)
    """
    import attr
    import dp_accounting

    if depth == 0:
        raise InputError(f"event: nested deeper than {_DEEPEST} levels. Compose it flat.")
    name = obj.get("type") if isinstance(obj, dict) else None
    if not isinstance(name, str) or name not in _KNOWN:
        raise InputError(f"event type={name!r}: unknown. Known events: {', '.join(_KNOWN)}.")
    cls = getattr(dp_accounting, name)
    wanted = {field.name for field in attr.fields(cls)}
    if set(obj) - {"type"} != wanted:
        raise InputError(f"{name} fields={sorted(set(obj) - {'type'})}: must be exactly {sorted(wanted)}.")
    return cls(**{field: _value_from_json(name, field, obj[field], depth - 1) for field in wanted})


def _value_from_json(name: str, field: str, value: Any, depth: int) -> Any:
    if field == "events":
        if not isinstance(value, list):
            raise InputError(f"{name} events={value!r}: must be a list of events.")
        return [event_from_json(event, depth) for event in value]
    if field == "event":
        return event_from_json(value, depth)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _check.finite(value):
        raise InputError(f"{name} {field}={value!r}: must be a finite number.")
    return value
