"""The pages' plain values: of a run's folder, a topology, a node. Nothing is computed from records here.

Values that no owner released are listed under "oracle", as in result.json, and pages mark them.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert

from coterie._rounding import at_most, budget_range, upper
from coterie.errors import InputError
from coterie.relations import UNIT
from coterie.reports.amounts import bound, many, number
from coterie.reports.benefit import benefit
from coterie.reports.reading import FILES, Reported, read
from coterie.reports.topology import MOST, placed
from coterie.reports.written import WrittenNetwork
from coterie.units import counted


def read_run(place: Path) -> Reported:
    """A run's files, checked."""
    try:
        return read({name: (place / name).read_bytes() for name in FILES})
    except OSError as error:
        raise InputError(f"run={place.name!r}: cannot be read ({error.strerror}).") from error


def summary(place: Path) -> dict[str, Any]:
    """A run's summary, for lists and comparisons."""
    run = read_run(place)
    metric = run.metric
    return {
        "data": run.data,
        "protocol": run.protocol,
        "owners": len(run.names),
        "counted": counted(sum(run.sizes), run.privacy.unit),
        "unit": run.privacy.unit,
        "metric": metric.name,
        "metric_words": metric.words,
        "rows": metric.rows,
        "joint": plain(metric.joint),
        "local_only": plain(metric.local_only),
        "central": plain(metric.central),
        "constant": plain(metric.constant),
        "constant_says": metric.constant_says,
        "oracle": sorted({*metric.oracle, *["counted"] * run.sizes_are_private}),
        "certified": bound(run.privacy.certified.max),
        "all_others": None if run.privacy.all_others is None else bound(run.privacy.all_others),
        "budget": budget_range(run.privacy.budgets),
        "delta": number(run.privacy.delta),
        "within": sum(run.privacy.within),
        "gains": benefit(run)["gains"],
        "rounds": run.rounds,
        "step": run.step,
        "messages": run.messages,
        "seconds": run.seconds,
        "points": points(run),
    }


def points(run: Reported) -> list[list[float | None]]:
    """The joint model's metric over steps, as trace.csv has it."""
    return [[int(step), plain(float(value))] for step, value in zip(run.steps, run.joint)]


def details(place: Path) -> dict[str, Any]:
    """The values of the page of a run that has ended."""
    run = read_run(place)
    return {
        **summary(place),
        "name": place.name,
        "state": "ended",
        "promise": run.privacy.promise[0].partition(": ")[2],
        "network": drawing(run.network, run.names, run.sizes, run.privacy.unit, run.sizes_are_private),
        "gauges": gauges(run.names, run.privacy.certified.per_owner, run.privacy.budgets),
    }


def gauges(names: Any, spent: Any, budgets: Any) -> list[dict[str, Any]]:
    """ε of each owner's budget, rounded up; owners whose bars are equal share one."""
    groups: dict[tuple[float, float], list[str]] = {}
    for name, epsilon, budget in zip(names, spent, budgets):
        groups.setdefault((math.inf if epsilon is None else at_most(epsilon), budget), []).append(name)
    order = sorted(groups, key=lambda pair: -pair[0] / pair[1])
    return [
        {
            "owners": groups[pair],
            "spent": plain(pair[0]),
            "budget": pair[1],
            "words": f"ε {upper(pair[0])} of {pair[1]:g}" if math.isfinite(pair[0]) else "ε = ∞",
            "within": pair[0] <= pair[1] * (1 + 1e-9),
        }
        for pair in order
    ]


def drawing(
    links: WrittenNetwork, names: Any, sizes: tuple[int, ...], unit: str, private: bool = False
) -> dict[str, Any] | None:
    """The places of discs, links and the hub in a square; None where there is too much to draw.

    `private`: no owner tells its size.
    """
    if links.links is None or len(names) > MOST:
        return None
    at, mark = placed(links, sizes), " (oracle)" if private else ""
    what = links.hub or f"{links.topology}, {many(links.number_of_links, 'link')}"
    return {
        "side": at.side,
        "top": at.top,
        "height": at.height,
        "dense": at.dense,
        "hub": links.hub,
        "links": [list(pair) for pair in links.links],
        "owners": [
            {"name": name, "holds": f"{counted(size, unit)}{mark}", "x": x, "y": y, "r": r}
            for name, size, (x, y), r in zip(names, sizes, at.places.tolist(), at.radii.tolist())
        ],
        "words": f"{many(len(names), 'owner')}: {what}",
    }


def in_progress(run: dict[str, Any]) -> dict[str, Any]:
    """A run that has not ended, with picture and gauges; without them if another version wrote it."""
    about = run.get("about")
    if about is None:
        return run
    try:
        return run | _pictured(about, run.get("spent"))
    except (KeyError, TypeError, ValidationError):
        return run | {"about": None}


def _pictured(about: dict[str, Any], spent: list[float] | None) -> dict[str, Any]:
    sizes, names, unit = tuple(about["sizes"]), about["owner_names"], about["unit"]
    network = convert(about["network"], WrittenNetwork)
    return {
        "counted": counted(sum(sizes), unit),
        "network": drawing(network, names, sizes, unit, about["sizes_are_private"]),
        "gauges": gauges(names, spent, about["budgets"]) if spent else [],
    }


def topology(name: str, sizes: tuple[int, ...], hub: str | None) -> dict[str, Any] | None:
    """The drawing of a topology of so many owners, or of a hub in its place."""
    from coterie.experiments.describe import network
    from coterie.topologies import build

    links = network(build(name, len(sizes)) if hub is None else None, hub)
    return drawing(links, [f"owner {at + 1}" for at in range(len(sizes))], sizes, UNIT)


def plain(value: float) -> float | None:
    """A value for JSON: None where it is not finite."""
    return value if math.isfinite(value) else None


def node(folder: str) -> dict[str, Any]:
    """The status of one party's folder, or of all parties in a network's. Reads status files alone."""
    from coterie.federation.local import read_status
    from coterie.federation.local import status as of_network
    from coterie.federation.party import NAME

    try:
        place = Path(folder).expanduser()
        is_network, is_party = (place / "parties").is_dir(), (place / NAME).is_file()
    except (OSError, RuntimeError) as error:  # the second where there is no such user
        why = getattr(error, "strerror", None) or "there is no such user"
        raise InputError(f"folder={folder!r:.200}: cannot be read ({why}). Name another.") from error
    if is_network:
        parties = of_network(place)
    elif is_party:
        status = read_status(place / "status.json")
        parties = [{"name": place.name, "state": "not started"} if status is None else status]
    else:
        raise InputError(
            f"folder={folder!r}: has neither {NAME} nor parties. Give a party's folder, or a network's."
        )
    return {"folder": str(place), "parties": [party(snapshot, time.time()) for snapshot in parties]}


def party(snapshot: dict[str, Any], at: float) -> dict[str, Any]:
    """A party's snapshot with the words of `coterie network watch`."""
    from coterie.federation.standing import below, days_left, head, peer_cells

    try:
        if "step" not in snapshot:
            return {"name": snapshot["name"], "state": snapshot["state"]}
        shown = {key: snapshot[key] for key in ("name", "state", "step", "of", "waiting_for")}
        ends = snapshot.get("certificates", {})
        shown["words"] = head(snapshot, at, None)
        shown["below"] = below(snapshot, at)
        shown["peers"] = [[peer, *peer_cells(snapshot, peer, at)] for peer in snapshot["peers"]]
        shown["certificate_days"] = (
            days_left(ends[snapshot["name"]], at) if snapshot["name"] in ends else None
        )
        if "epsilon_spent" in snapshot:
            spent, budget = snapshot["epsilon_spent"], snapshot["epsilon_budget"]
            shown["gauge"] = gauges([snapshot["name"]], [spent], [budget])[0]
        return shown
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError("status.json: is not what a node of this version writes.") from error
