"""A plan in words, for people, and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from coterie.cli._words import _table, _wrap
from coterie.planning.join import Answer
from coterie.planning.public import Collaboration
from coterie.planning.search import Forecast, Plan
from coterie.planning.sweep import Point
from coterie.reports.markup import many


def words(base: Collaboration, found: Plan, most: int) -> str:
    """What was asked, what is recommended, what to expect of it."""
    best, low, high = found.best, min(base.epsilon), max(base.epsilon)
    budget = f"ε = {low:g}" if low == high else f"ε = {low:g} to {high:g}"
    kind = "a regression" if base.classes == 1 else f"{base.classes} classes"
    asked = (
        f"{many(len(base.sizes), 'owner')}, {many(sum(base.sizes), 'record')}, "
        f"{many(base.dimension, 'feature')}, {kind}. "
        f"{budget}, δ = {base.delta:g}, topology {base.topology}."
    )
    return "\n".join(
        [
            *_wrap(asked),
            "",
            *_wrap(f"recommended: certified ε ≤ {found.certified:.4g} for everyone ({found.view})"),
            *_table(_rows(found, most)),
            "",
            "predicted excess risk over the owners' records",
            *_table(_parts(best, found.nothing)),
            *_others(found),
            *_notes(found),
            "",
            *_wrap(f"run it: coterie run --data … {_budgets(base)} --protocol {best.protocol} {sets(best)}"),
        ]
    )


def sets(best: Forecast) -> str:
    """The settings as options of `coterie run`."""
    return " ".join(f"--set {key}={value:g}" for key, value in best.settings.items())


def _budgets(base: Collaboration) -> str:
    """Budgets and topology as options of `coterie run`."""
    few = sorted(set(base.epsilon))
    budgets = f"{few[0]:g}" if len(few) == 1 else ",".join(f"{one:g}" for one in base.epsilon)
    return f"--epsilon {budgets} --delta {base.delta:g} --topology {base.topology}"


def _rows(found: Plan, most: int) -> list[tuple[str, str, str]]:
    best = found.best
    gossip = f"{found.gossip_steps} gossip steps a round, " if found.gossip_steps > 1 else ""
    low, high = min(found.noise_scale), max(found.noise_scale)
    noise = f"{low:.3g}" if math.isclose(low, high, rel_tol=1e-3) else f"{low:.3g} to {high:.3g}"
    unit = (
        "in units of the threshold"
        if best.protocol == "push_sum"
        else f"{min(found.noise_multiplier):.3g} × clip"
    )
    return [
        ("protocol", best.protocol, f"{gossip}{found.messages:,} messages in all"),
        ("rounds", f"{best.rounds:,}", f"of at most {most:,}"),
        ("batch", "all" if best.batch is None else f"{best.batch:,}", "records of an owner in each release"),
        ("clip", f"{found.clip_norm:.3g}", f"norm of a record's gradient; {best.clip:.2g} of its bound"),
        ("noise", noise, f"standard deviation on an owner's sum; {unit}"),
    ]


def _parts(best: Forecast, nothing: float) -> list[tuple[str, str, str]]:
    return [
        (
            "in all",
            f"{best.predicted:.3g}",
            f"{best.low:.2g} to {best.high:.2g}, by what is assumed of the data",
        ),
        ("  distance", f"{best.distance:.2g}", "not yet learnt when the rounds are over"),
        ("  noise", f"{best.noise:.2g}", "of privacy"),
        ("  disagreement", f"{best.disagreement:.2g}", "of the owners' models"),
        ("  clipping", f"{best.clipping:.2g}", "of gradients below their bound"),
        ("knowing nothing", f"{nothing:.3g}", "the model that is zero"),
    ]


def _others(found: Plan) -> list[str]:
    if not found.others and not found.refused:
        return []
    rows = [
        (other.protocol, f"{other.predicted:.3g}", f"{other.low:.2g} to {other.high:.2g}; {sets(other)}")
        for other in found.others
    ]
    rows += [(name, "–", reason) for name, reason in found.refused.items()]
    return ["", "other protocols at their best", *_table(rows)]


def _notes(found: Plan) -> list[str]:
    source = (
        "declared public rows and their targets"
        if found.constants.optimum
        else "declared public rows"
        if found.constants.from_rows
        else "an assumed decay of the features' spectrum"
    )
    notes = [f"note: no record was read; the forecast rests on {source} (docs/planning.md)."]
    if not found.useful:
        notes.append(
            "note: this budget is too small for anything useful: the forecast is hardly better than a model that "
            "knows nothing. Allow a larger ε, find more records or owners, or use fewer features."
        )
    return ["", *(line for note in notes for line in _wrap(note))]


def sweep_table(points: list[Point], over: str) -> str:
    """One row a point."""
    head = f"{'ε' if over == 'epsilon' else 'owners':>8}  {'excess':>9}  {'from':>9}  {'to':>9}  settings"
    lines = [head]
    for point in points:
        best = point.plan.best
        mark = "" if point.plan.useful else "  (hardly better than knowing nothing)"
        lines.append(
            f"{point.at:>8g}  {best.predicted:>9.3g}  {best.low:>9.3g}  {best.high:>9.3g}  "
            f"{best.protocol} {', '.join(f'{key}={value:g}' for key, value in best.settings.items())}{mark}"
        )
    return "\n".join([*lines, f"knowing nothing: {points[0].plan.nothing:.3g}"])


def to_json(found: Plan) -> dict[str, Any]:
    """What `coterie plan --json` prints."""
    best = asdict(found.best)
    return {
        "recommended": {
            **{key: best[key] for key in ("protocol", "settings", "rounds", "batch", "clip")},
            "clip_norm": found.clip_norm,
            "noise_multiplier": list(found.noise_multiplier),
            "noise_scale": list(found.noise_scale),
            "gossip_steps": found.gossip_steps,
            "messages": found.messages,
        },
        "certified_epsilon": found.certified,
        "view": found.view,
        "predicted": {
            "excess_risk": best["predicted"],
            "interval": [best["low"], best["high"]],
            "parts": {key: best[key] for key in ("distance", "noise", "disagreement", "clipping")},
            "knowing_nothing": found.nothing,
        },
        "useful": found.useful,
        "others": [
            {
                "protocol": one.protocol,
                "settings": one.settings,
                "excess_risk": one.predicted,
                "interval": [one.low, one.high],
            }
            for one in found.others
        ],
        "refused": found.refused,
        "reads_records": False,
        "spectrum": "public rows" if found.constants.from_rows else "assumed",
        "optimum": "public rows" if found.constants.optimum else "assumed",
    }


def join_words(answer: Answer, owner: str, epsilon: float, partners: int, records: int) -> str:
    """One sentence, and what must be said beside it."""
    joint, alone = answer.joint, answer.owner.excess
    verdict = "gains by joining" if answer.gain > 0 else "loses by joining"
    sure = "" if joint.high < alone or joint.low > alone else ", which is within the forecast's uncertainty"
    sentence = (
        f"{owner} {verdict} {partners:,} partners of {records:,} records at ε = {epsilon:g}: the joint private model's "
        f"excess risk on new records is predicted as {joint.predicted:.3g} ({joint.low:.2g} to {joint.high:.2g}), its "
        f"own model's without privacy as {alone:.3g}{sure}; {_break_even(answer)}."
    )
    secret = (
        f"note: computed from {owner}'s own records, here, and from nobody else's. It is not a release: keep it to "
        "yourself. But a decision made on it is visible, tells a little about these records, and is in no budget."
    )
    alike = "note: partners' records are taken to be like the owner's; the more they differ, the less joining gives."
    best = answer.plan.best
    return "\n".join(
        [*_wrap(sentence), "", *_wrap(f"with {best.protocol} {sets(best)}"), *_wrap(secret), *_wrap(alike)]
    )


def _break_even(answer: Answer) -> str:
    epsilon, partners = answer.break_even_epsilon, answer.break_even_partners
    first = "no ε up to 30 makes it pay" if epsilon is None else f"it pays from about ε = {epsilon:.2g}"
    second = (
        "no number of partners up to 128 does"
        if partners is None
        else f"from about {partners:,} partner{'s' * (partners > 1)} on"
    )
    return f"{first}, or {second}" if (epsilon is None) == (partners is None) else f"{first}; {second}"


def join_json(answer: Answer) -> dict[str, Any]:
    """What `coterie plan join --json` prints."""
    return {
        "predicted_gain": answer.gain,
        "joint": {"excess_risk": answer.joint.predicted, "interval": [answer.joint.low, answer.joint.high]},
        "alone": {"excess_risk": answer.owner.excess, "records": answer.owner.records, "private": False},
        "break_even_epsilon": answer.break_even_epsilon,
        "break_even_partners": answer.break_even_partners,
        "over_epsilon": [asdict(point) for point in answer.over_epsilon],
        "over_partners": [asdict(point) for point in answer.over_partners],
        "settings": {"protocol": answer.plan.best.protocol, **answer.plan.best.settings},
        "is_release": False,
        "warning": "made of the owner's records: keep it; a decision made on it is visible and in no budget",
    }
