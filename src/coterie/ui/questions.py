"""The page's questions as command lines. Only known fields of a form are passed on, each as --name=value."""

from __future__ import annotations

from typing import Any

from coterie import _check
from coterie._rounding import upper
from coterie.errors import InputError
from coterie.program import HUBS
from coterie.relations import REPLACE_ONE
from coterie.ui.asking import Teller
from coterie.units import MOST

_PLAN = ("sizes", "owners", "records", "dimension", "classes", "epsilon", "delta", "topology", "rounds_at_most",
         "base_rate", "protocol", "colluding", "unit", "records_per_person", "records_per_unit")  # fmt: skip
_JOIN = ("owner", "data", "target", "owner_column", "columns", "partners", "partner_records", "epsilon", "delta",
         "topology", "rounds_at_most")  # fmt: skip
_RUN = ("protocol", "data", "target", "owner_column", "columns", "owners", "unit", "records_per_unit", "topology",
        "delta", "seed", "evaluate")  # fmt: skip
_SETTINGS = ("view", "colluding")  # a protocol's settings on who must be honest
_MOST = 500  # the most owners whose topology is drawn while a slider moves


def words_of(given: dict[str, Any], known: tuple[str, ...]) -> list[str]:
    """A form as options."""
    options = []
    for key, value in _filled(given, known).items():
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise InputError(f"{key}: must be a number or text.")
        options.append(f"--{key.replace('_', '-')}={value}")
    return options


async def plan(teller: Teller, given: dict[str, Any]) -> dict[str, Any]:
    """The forecast as `coterie plan --json` prints it; the promise; and the command that says the same."""
    from coterie.reports.odds import of_replacing
    from coterie.reports.promise import at_most

    options = words_of(given, _PLAN)
    forecast = await teller.ask("plan", *options)
    delta = float(given.get("delta") or 1e-5)
    certified = float(forecast["certified_epsilon"])
    promised = at_most(*of_replacing(certified, delta, REPLACE_ONE), forecast["unit"])
    return {
        "plan": forecast,
        "certified": upper(certified),
        "promise": promised[0].upper() + promised[1:],
        "command": " ".join(["coterie plan", *options]),
    }


async def join(teller: Teller, given: dict[str, Any]) -> dict[str, Any]:
    """The answer as `coterie plan join --json` prints it: from the asking owner's records, for that owner alone."""
    options = words_of(given, _JOIN)
    return {
        "join": await teller.ask("plan", "join", *options),
        "command": " ".join(["coterie plan join", *options]),
    }


def topology(given: dict[str, Any]) -> dict[str, Any]:
    """The drawing of a topology; None where there are too many owners."""
    from coterie.ui.shown import topology as drawn

    sizes, name = given.get("sizes"), given.get("topology")
    fits = (
        isinstance(sizes, list)
        and sizes
        and all(type(size) is int and 0 < size <= _check.MOST for size in sizes)
    )
    if not isinstance(sizes, list) or not fits or not isinstance(name, str):
        raise InputError(
            f"topology: give its name, and sizes as a list of whole numbers from 1 to {_check.MOST:,}."
        )
    hub = None if given.get("hub") is None else _check.one_of("hub", given["hub"], HUBS)
    return {"drawing": drawn(name, tuple(sizes), hub) if len(sizes) <= _MOST else None}


def experiment(given: dict[str, Any]) -> dict[str, Any]:
    """Keys of an experiment from those of the form; budgets as `--epsilon` takes them: 1, or 0.5,1,2."""
    answers = _filled(given, (*_RUN, *_SETTINGS, "epsilon"))
    settings = {key: answers.pop(key) for key in _SETTINGS if key in answers}
    if settings:
        answers["settings"] = settings
    if (epsilon := answers.get("epsilon")) is not None:
        try:
            answers["epsilon"] = [float(part) for part in str(epsilon).split(",")]
        except ValueError:
            raise InputError(
                f"epsilon={epsilon!r}: must be a number, or numbers with commas, one for each owner."
            ) from None
    return answers


def _filled(given: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """A form without its empty fields; unknown ones are refused."""
    for key, value in given.items():
        if key not in known:
            raise InputError(f"{key}={value!r}: unknown. Known: {', '.join(known)}.")
    return {key: value for key, value in given.items() if value not in (None, "")}


def choices() -> dict[str, Any]:
    """The choices that forms offer."""
    from coterie.planning.candidates import KNOWN
    from coterie.protocols import PROTOCOLS
    from coterie.topologies import TOPOLOGIES

    return {
        "protocols": sorted(PROTOCOLS),
        "topologies": list(TOPOLOGIES),
        "forecast": list(KNOWN),
        "caps": {kind: most for kind, most in MOST.items() if kind != "record"},
    }
