"""What the page asks, as words of the command line. Only what a form has is passed on, each as --name=value."""

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
_SETTINGS = ("view", "colluding")  # of a protocol: who must be honest
_MOST = 500  # owners whose topology is drawn while somebody moves a slider


def words_of(given: dict[str, Any], known: tuple[str, ...]) -> list[str]:
    """As options; what is empty is left out, what is not known is refused."""
    found = []
    for key, value in given.items():
        if key not in known:
            raise InputError(f"{key}={value!r}: unknown. Known: {', '.join(known)}.")
        if value in (None, ""):
            continue
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise InputError(f"{key}: must be a number or text.")
        found.append(f"--{key.replace('_', '-')}={value}")
    return found


async def plan(teller: Teller, given: dict[str, Any]) -> dict[str, Any]:
    """The forecast as `coterie plan --json` prints it; the promise; and the command that says the same."""
    from coterie.reports.odds import of_replacing
    from coterie.reports.promise import at_most

    options = words_of(given, _PLAN)
    found = await teller.ask("plan", *options)
    delta = float(given.get("delta") or 1e-5)
    promised = at_most(*of_replacing(float(found["certified_epsilon"]), delta, REPLACE_ONE), found["unit"])
    return {
        "plan": found,
        "certified": upper(float(found["certified_epsilon"])),
        "promise": promised[0].upper() + promised[1:],
        "command": " ".join(["coterie plan", *options]),
    }


async def join(teller: Teller, given: dict[str, Any]) -> dict[str, Any]:
    """The answer as `coterie plan join --json` prints it: made of the asking owner's records, for its eyes."""
    options = words_of(given, _JOIN)
    return {
        "join": await teller.ask("plan", "join", *options),
        "command": " ".join(["coterie plan join", *options]),
    }


def topology(given: dict[str, Any]) -> dict[str, Any]:
    """A topology of so many owners, drawn; None where they are too many."""
    from coterie.ui.shown import topology as drawn

    sizes, name = given.get("sizes"), given.get("topology")
    fits = isinstance(sizes, list) and sizes and all(type(size) is int and size > 0 for size in sizes)
    if not isinstance(sizes, list) or not fits or not isinstance(name, str):
        raise InputError("topology: give its name, and sizes as a list of whole numbers above zero.")
    hub = None if given.get("hub") is None else _check.one_of("hub", given["hub"], HUBS)
    return {"drawing": drawn(name, tuple(sizes), hub) if len(sizes) <= _MOST else None}


def experiment(given: dict[str, Any]) -> dict[str, Any]:
    """Keys of an experiment from those of the form; budgets as `--epsilon` takes them: 1, or 0.5,1,2."""
    known = (*_RUN, *_SETTINGS, "epsilon")
    for key in given:
        if key not in known:
            raise InputError(f"{key}={given[key]!r}: unknown. Known: {', '.join(known)}.")
    found, settings = (_filled(given, keys) for keys in (_RUN, _SETTINGS))
    if settings:
        found["settings"] = settings
    if given.get("epsilon") not in (None, ""):
        try:
            found["epsilon"] = [float(part) for part in str(given["epsilon"]).split(",")]
        except ValueError:
            raise InputError(
                f"epsilon={given['epsilon']!r}: must be a number, or numbers with commas, one for each owner."
            ) from None
    return found


def _filled(given: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: given[key] for key in keys if given.get(key) not in (None, "")}


def choices() -> dict[str, Any]:
    """What may be chosen."""
    from coterie.planning.candidates import KNOWN
    from coterie.protocols import PROTOCOLS
    from coterie.topologies import TOPOLOGIES

    return {
        "protocols": sorted(PROTOCOLS),
        "topologies": list(TOPOLOGIES),
        "forecast": list(KNOWN),
        "caps": {kind: most for kind, most in MOST.items() if kind != "record"},
    }
