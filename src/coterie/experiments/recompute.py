"""A run's certificates as JSON, and the check that a third party makes of them. Imports no JAX."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from coterie._rounding import upper
from coterie.accounting import Certificate, certify, warnings_of
from coterie.accounting.persons import of_events
from coterie.accounting.plans import named_against
from coterie.errors import InputError
from coterie.experiments.one_certificate import SAME, Recomputed, checked, number, recomputed, same, texts
from coterie.experiments.settings import fit
from coterie.model.format import FILE as MODEL
from coterie.model.format import SUFFIX, read, unpack
from coterie.relations import named
from coterie.reports.promise import promise
from coterie.reports.statement import KEPT, SOMETIMES, Facts, statement
from coterie.units import at_owners, told_owners

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_TABLES = ("centre", "selection", "evaluation")  # in the order in which they are released


def to_json(certificates: Sequence[Certificate]) -> list[dict[str, Any]]:
    """Each different certificate once, with the indices of the owners that share it."""
    distinct: dict[str, dict[str, Any]] = {}
    for owner, certificate in enumerate(certificates):
        plain = certificate.to_json()
        if certificate.size is not None and not named(certificate.relation).sizes_are_public:
            plain["oracle"] = ["size", "warnings"]  # what follows from a private number of records
        distinct.setdefault(json.dumps(plain, sort_keys=True), {"owners": []} | plain)["owners"].append(owner)
    return list(distinct.values())


def check(path: Path) -> list[Recomputed]:
    """Recompute every certificate of a run's folder, of its result.json or of a model, or the one that a file holds.

    Guarantee: no number of the file is trusted but the events' own; each is compared with what they cost, and the
    run's summary, its warnings, the privacy statement and the promise in words with what follows from the certificates.
    """
    return check_result(_read(path), f"from={str(path)!r}")


def check_result(obj: dict[str, Any], source: str) -> list[Recomputed]:
    """The same for a result that was read already; errors name its `source`."""
    if "event" in obj:
        return [checked(obj, None)]
    privacy = obj.get("privacy")
    written = privacy.get("certificates") if isinstance(privacy, dict) else None
    if not isinstance(written, list) or not all(isinstance(entry, dict) for entry in written) or not written:
        raise InputError(f"{source}: holds no certificates. Give a run's result.json.")
    called = _called(obj.get("owner_names"))
    checks = [checked(certificate, _indices(certificate.get("owners"))) for certificate in written]
    checks = [check._replace(whose=_whose(check.owners or [], called)) for check in checks]
    more = (*_summary(privacy, checks, called), *_words_follow(obj, written, checks))
    return [*checks[:-1], checks[-1]._replace(problems=(*checks[-1].problems, *more))]


def of_group(certificate: Certificate, group: int) -> Certificate:
    """What the same releases mean for so many records of one person, wherever among the owner's they are.

    Guarantee: as `certify` with `group`; the accountant's name says which bound it is.
    """
    return certify(
        certificate.event,
        delta=certificate.delta,
        relation=certificate.relation,
        view=certificate.view,
        size=certificate.size,
        group=group,
    )


def _read(path: Path) -> dict[str, Any]:
    if path.name.endswith(SUFFIX):
        said = unpack(*read(path)).description
        training = said["training"]
        beside = {name: training.get(name) for name in ("sizes", "calibration", "engine")}
        return said | beside | {"owner_names": training.get("owners")}
    if path.is_dir():
        if "privacy" in (said := _read(path / "result.json")) or not (path / MODEL).exists():
            return said
        return _read(path / MODEL)  # a real owner's: its certificates are in the model that all of them have
    try:
        obj = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except OSError as error:
        raise InputError(
            f"from={str(path)!r}: cannot be read ({error.strerror}). Give a run's folder."
        ) from error
    except ValueError as error:
        raise InputError(f"from={str(path)!r}: is not JSON. Give a run's result.json.") from error
    if not isinstance(obj, dict):
        raise InputError(f"from={str(path)!r}: is not a JSON object. Give a run's result.json.")
    return obj


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _indices(owners: Any) -> list[int]:
    return owners if isinstance(owners, list) and all(type(owner) is int for owner in owners) else []


def _called(names: Any) -> Callable[[int], str]:
    """What an owner is called: by its name, where there is one."""
    known = [" ".join(name.split()) for name in texts(names)]
    return lambda owner: known[owner] if 0 <= owner < len(known) else f"owner {owner + 1}"


def _whose(owners: list[int], called: Callable[[int], str]) -> str:
    """Before the certificate: an owner's name, or how many owners share it."""
    return f"{called(owners[0]) if len(owners) == 1 else f'{len(owners):,} owners'}, "


def _summary(privacy: Any, checks: list[Recomputed], called: Callable[[int], str]) -> list[str]:
    """Whether the numbers that people read first follow from the certificates."""
    pairs = [(owner, check.found.epsilon) for check in checks for owner in check.owners or ()]
    named, by_owner = sorted(owner for owner, _ in pairs), dict(pairs)
    stated = privacy.get("certified_epsilon")
    stated = stated if isinstance(stated, dict) else {}
    per_owner = stated.get("per_owner")
    if named != list(range(len(named))) or not isinstance(per_owner, list) or len(per_owner) != len(named):
        return ["certificates do not name every owner once"]
    wrong = [owner for owner in named if not same(per_owner[owner], by_owner[owner])]
    problems = [f"certified_epsilon of {called(owner)} is not its certificate's" for owner in wrong[:1]]
    if not same(stated.get("max"), max(by_owner.values())):
        problems.append("certified_epsilon.max is not the largest certificate's")
    return problems + [
        f"{name} is {privacy.get(name)!r} in the summary and {getattr(check.found, name)!r} in a certificate"
        for name in ("delta", "relation", "view", "unit")  # of all alike: at another δ another ε would agree
        for check in checks
        if privacy.get(name) != getattr(check.found, name)
    ]


def _words_follow(obj: dict[str, Any], written: list[dict[str, Any]], checks: list[Recomputed]) -> list[str]:
    """Whether what people read follows from the certificates, whose own numbers were compared above."""
    by_owner = {
        owner: certificate for check, certificate in zip(checks, written) for owner in check.owners or ()
    }
    in_order = [by_owner[owner] for owner in sorted(by_owner)] or written
    worst = max(in_order, key=lambda certificate: number(certificate.get("epsilon")))
    problems = _worst_is_named(obj["privacy"], worst) + _warned(obj["privacy"], checks)
    sizes = [certificate.get("size") for certificate in in_order]
    if obj.get("sizes") != (None if sizes == [None] * len(sizes) else sizes):  # None: they are private
        problems.append("sizes are not the certificates'")
    problems += _together(obj["privacy"], checks) + _adding_up(obj["privacy"], checks) + _tables(obj, checks)
    problems += _marks(obj, obj["privacy"].get("facts"), checks[0].found.relation) + _audit(obj["privacy"])
    return problems + _person(obj["privacy"], checks) + _stated(obj, worst)


def _together(privacy: dict[str, Any], checks: list[Recomputed]) -> list[str]:
    """Whether the number against all other owners together is what its own event costs, and none without an event."""
    facts, stated = privacy.get("facts"), privacy.get("all_others_epsilon")
    written = facts.get("all_others") if isinstance(facts, dict) else None
    if not isinstance(written, dict):
        return [] if stated is None else [f"all_others_epsilon is {stated!r} and has no certificate"]
    problems = _more_seen("all others", written, checks)
    if not same(privacy.get("all_others_epsilon", written.get("epsilon")), written.get("epsilon")):
        problems.append(f"all_others_epsilon is {stated!r} in the summary and not its certificate's")
    return problems


def _more_seen(who: str, written: dict[str, Any], checks: list[Recomputed]) -> list[str]:
    """What is wrong with the certificate against somebody who sees more than the certificates' adversary does."""
    again = checked(written, None)
    problems = [f"against {who}: {problem}" for problem in again.problems]
    problems += [
        f"against {who}: {name} is {getattr(again.found, name)!r} and not the certificates'"
        for name in ("delta", "relation", "unit")  # at another δ another ε would agree
        if getattr(again.found, name) != getattr(checks[0].found, name)
    ]
    if again.found.epsilon < max(check.found.epsilon for check in checks) * (1 - SAME):
        problems.append(f"ε against {who}, who sees more, is below a certificate's")
    return problems


def _audit(privacy: dict[str, Any]) -> list[str]:
    """Whether an audit's numbers are those of its finding, and of the certificate of what it attacked."""
    audit, stated = privacy.get("audit"), privacy.get("audited_epsilon")
    if not isinstance(audit, dict):
        return [] if stated is None else [f"audited_epsilon is {stated!r} and there is no audit"]
    finding, written = audit.get("finding"), audit.get("certificate")
    if not isinstance(finding, dict) or not isinstance(written, dict):
        return ["the audit lacks its finding, or the certificate of what it attacked"]
    problems = [f"of the audit: {problem}" for problem in checked(written, None).problems]
    pairs = {
        "audited_epsilon": (stated, finding.get("epsilon")),
        "audit.certified_epsilon": (audit.get("certified_epsilon"), written.get("epsilon")),
    }
    return problems + [
        f"{name} is {shown!r} in the summary and {audited!r} in the audit"
        for name, (shown, audited) in pairs.items()
        if not same(shown, audited)
    ]


def _adding_up(privacy: dict[str, Any], checks: list[Recomputed]) -> list[str]:
    """Whether the ε against whoever adds up, which a view names, is what its own event costs."""
    facts, first = privacy.get("facts"), checks[0].found
    written = facts.get("adding_up") if isinstance(facts, dict) else None
    views = {check.found.view for check in checks}
    named = {named_against(view) for view in views}
    if named == {None} or any(math.isinf(check.found.epsilon) for check in checks):
        return (
            [] if written is None else ["the facts have an ε against whoever adds up, and the view has none"]
        )
    if not isinstance(written, dict):
        return ["the facts lack the certificate against whoever adds up"]
    problems, again = _more_seen("whoever adds up", written, checks), upper(recomputed(written).epsilon)
    if named != {again}:
        problems.append(
            f"the view says {first.view!r} and ε against whoever adds up is {again} when computed"
        )
    return problems


def _marks(obj: dict[str, Any], facts: Any, relation: str) -> list[str]:
    """Whether what no owner released is marked: a page takes everything else for public, in this tool's name."""
    due = {"metric": ["local_only", "central"], "benefit": ["own"]}
    if isinstance(facts, dict) and facts.get("test_is_public") is False:
        due = {
            "metric": ["joint", "constant", "constant_says", "verdict", "all", "confusion", *due["metric"]],
            "benefit": ["joint", "own"],
        }
        if not named(relation).sizes_are_public:
            due["metric"].append("rows")
    there = {part: obj[part] for part in due if isinstance(obj.get(part), dict)}
    return [
        f"{part}.{name} is not marked as an oracle value"
        for part, values in there.items()
        for name in due[part]
        if name not in texts(values.get("oracle"))
    ]


def _tables(obj: dict[str, Any], checks: list[Recomputed]) -> list[str]:
    """Whether what is released beside training costs, by itself, what the last parts of the events do."""
    facts, problems = obj["privacy"].get("facts"), []
    charged = [name for name in _TABLES if isinstance(facts, dict) and facts.get(name)]
    finite = [check.found for check in checks if math.isfinite(check.found.epsilon)]
    for name in (name for name in _TABLES if isinstance(obj.get(name), dict)):  # a model holds them elsewhere
        share = facts[name] if name in charged else None
        if share is None or obj[name].get("share") != share:
            problems.append(f"share of {name} is {obj[name].get('share')!r} and {share!r} in the facts")
            continue
        parts = [
            getattr(certificate.event, "events", ())[charged.index(name) - len(charged) :]
            for certificate in finite
        ]
        costs = [
            certify(some[0], delta=certificate.delta, relation=certificate.relation).epsilon
            for certificate, some in zip(finite, parts)
            if some
        ]
        if finite and not same(obj[name].get("epsilon"), max(costs, default=math.nan)):
            problems.append(
                f"epsilon of {name} is {obj[name].get('epsilon')!r} in the file, and another when computed"
            )
    return problems


def _person(privacy: dict[str, Any], checks: list[Recomputed]) -> list[str]:
    """Whether the number for a person at several owners is what its own event costs, and follows from the owners'.

    Owners with noise of their own compose, so that it is derived again from their certificates. Where they share noise,
    it follows from the plan, which a result does not hold: then no owner's may be above it.
    """
    facts, events = privacy.get("facts"), [check.found.event for check in checks for _ in check.owners or ()]
    if not isinstance(facts, dict):
        return []
    if len(events) < 2:
        entries = (
            facts.get("person"),
            facts.get("pair"),
            privacy.get("person_epsilon"),
            privacy.get("pair_epsilon"),
        )
        return (
            []
            if set(map(type, entries)) == {type(None)}
            else ["one owner has no person whom several owners know"]
        )
    written, owners = facts.get("person"), facts.get("owners_per_person")
    if not isinstance(written, dict) or type(owners) is not int or not 1 <= owners <= len(events):
        return ["the facts lack the certificate for a person whom several owners know"]
    pair, own_noise = facts.get("pair"), facts.get("own_noise") is True
    problems = _at_owners(written, told_owners(owners), own_noise, checks, events)
    if isinstance(pair, dict):
        problems += _at_owners(pair, 2, own_noise, checks, events)
    if (owners > 2) != isinstance(pair, dict):
        problems.append(
            "a certificate for a person whom two owners know belongs to one for more, and only there"
        )
    for name, stated in (
        ("person_epsilon", written.get("epsilon")),
        ("pair_epsilon", pair.get("epsilon") if isinstance(pair, dict) else None),
        ("owners_per_person", owners),
    ):
        if privacy.get(name, stated) != stated:
            problems.append(f"{name} is {privacy[name]!r} in the summary and {stated!r} in the facts")
    return problems


def _at_owners(
    written: dict[str, Any], owners: int, own_noise: bool, checks: list[Recomputed], events: list[DpEvent]
) -> list[str]:
    """What is wrong with the certificate for a person at so many owners."""
    again, unit = checked(written, None), at_owners(checks[0].found.unit, owners)
    problems = [f"a person at several owners: {problem}" for problem in again.problems]
    for name, due in [(name, getattr(checks[0].found, name)) for name in ("delta", "relation", "view")] + [
        ("unit", unit)
    ]:
        if getattr(again.found, name) != due:
            problems.append(
                f"{name} of a person at several owners is {getattr(again.found, name)!r} and not {due!r}"
            )
    least = of_events(
        events,
        owners if own_noise else 1,
        checks[0].found.delta,
        again.found.relation,
        again.found.view,
        unit,
    ).epsilon
    if not (again.found.epsilon >= least or same(again.found.epsilon, least)):
        problems.append(
            f"a person at several owners has {written.get('epsilon')!r} in the file and {least!r} by the owners'"
        )
    return problems


def _worst_is_named(privacy: dict[str, Any], worst: dict[str, Any]) -> list[str]:
    return [
        f"{name} is {privacy.get(name)!r} in the summary and {worst.get(name)!r} in the largest certificate"
        for name in ("accountant", "reason")
        if privacy.get(name) != worst.get(name)
    ]


def _warned(privacy: dict[str, Any], checks: list[Recomputed]) -> list[str]:
    """More may stand there, of what no certificate covers; nothing may be left out."""
    given = texts(privacy.get("warnings"))
    missing = [due for due in warnings_of([check.found for check in checks]) if due not in given]
    return [f"warnings leave out {missing[0]!r}"] if missing else []


def _stated(obj: dict[str, Any], worst: dict[str, Any]) -> list[str]:
    """The statement and the promise, derived again."""
    try:
        facts = _facts(obj, obj["privacy"], worst)
    except InputError as error:
        return [f"the privacy statement cannot be derived again: {str(error).rstrip('.')}"]
    derived = {"privacy statement": ("statement", statement), "promise": ("promise", promise)}
    return [
        problem
        for what, (key, words) in derived.items()
        for problem in _differs(what, obj["privacy"].get(key), words(facts))
    ]


def _differs(what: str, stated: Any, derived: list[str]) -> list[str]:
    if stated == derived:
        return []
    strange = [line for line in texts(stated) if line not in derived]
    which = f"it says {strange[0]!r}" if strange else "a part of it is missing"
    return [f"the {what} is not what follows from the certificates: {which.rstrip('.')}"]


def _facts(obj: dict[str, Any], privacy: dict[str, Any], worst: dict[str, Any]) -> Facts:
    """The statement's facts: of the largest certificate, of the result, and those that are kept for it alone."""
    facts = privacy.get("facts")
    if not isinstance(facts, dict) or set(facts) - set(SOMETIMES) != set(KEPT):
        raise InputError("privacy.facts is not as this version writes it")
    if (facts["colluding"] is None) != (facts["all_others"] is None):
        raise InputError("privacy.facts lack the certificate against all other owners together")
    given = facts | {
        name: worst.get(name) for name in ("delta", "relation", "unit", "view", "accountant", "reason")
    }
    given |= {"calibration": obj.get("calibration"), "engine": obj.get("engine")}
    hints, sizes = get_type_hints(Facts), obj.get("sizes")
    return Facts(
        epsilon=number(worst.get("epsilon")),
        sizes=() if sizes is None else fit("privacy.sizes", sizes, hints["sizes"]),  # None: they are private
        **{name: fit(f"privacy.{name}", value, hints[name]) for name, value in given.items()},
    )
