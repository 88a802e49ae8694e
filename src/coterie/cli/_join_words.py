"""Whether joining pays, in words, for people, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from coterie.cli._plan_words import lost, sets
from coterie.cli._words import wrap
from coterie.planning.join import JoinAnswer
from coterie.problems.metrics import METRICS
from coterie.reports.amounts import many


def words(answer: JoinAnswer, owner: str, epsilon: float, partners: int, records: int) -> str:
    """The answer in one sentence, and its caveats."""
    joint, alone = answer.joint, answer.owner.excess
    verdict = "gains by joining" if answer.gain > 0 else "loses by joining"
    sure = "" if joint.high < alone or joint.low > alone else ", which is within the forecast's uncertainty"
    sentence = (
        f"{owner} {verdict} {many(partners, 'partner')} of {many(records, 'record')} at ε = {epsilon:g}: the joint "
        f"private model's excess risk on new records is predicted as {joint.predicted:.3g} ({joint.low:.2g} to "
        f"{joint.high:.2g}), its own model's without privacy as {alone:.3g}{sure}; {_break_even(answer)}."
    )
    points = "; ".join(
        f"{METRICS[gain.name].words} {_signed(gain.gain)} ({_signed(gain.low)} to {_signed(gain.high)})"
        for gain in answer.in_metric
    )
    points = f"in points of 100, joining against staying alone: {points}."
    secret = (
        f"note: computed from {owner}'s own records, here, and from nobody else's. It is not a release: keep it to "
        "yourself. But a decision made on it is visible, tells a little about these records, and is in no budget."
    )
    alike = "note: partners' records are taken to be like the owner's; the more they differ, the less joining gives."
    best = answer.plan.best
    return "\n".join(
        [
            *wrap(sentence),
            *wrap(points),
            "",
            *wrap(f"with {best.protocol} {sets(best)}"),
            *wrap(secret),
            *wrap(alike),
        ]
    )


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{lost(abs(value))}"


def _break_even(answer: JoinAnswer) -> str:
    epsilon, partners = answer.break_even_epsilon, answer.break_even_partners
    first = "no ε up to 30 makes it pay" if epsilon is None else f"it pays from about ε = {epsilon:.2g}"
    second = (
        "no number of partners up to 128 does"
        if partners is None
        else f"from about {many(partners, 'partner')} on"
    )
    return f"{first}, or {second}" if (epsilon is None) == (partners is None) else f"{first}; {second}"


def to_json(answer: JoinAnswer) -> dict[str, Any]:
    """What `coterie plan join --json` prints."""
    return {
        "predicted_gain": answer.gain,
        "joint": {"excess_risk": answer.joint.predicted, "interval": [answer.joint.low, answer.joint.high]},
        "alone": {"excess_risk": answer.owner.excess, "records": answer.owner.records, "private": False},
        "in_metric": [asdict(gain) for gain in answer.in_metric],
        "break_even_epsilon": answer.break_even_epsilon,
        "break_even_partners": answer.break_even_partners,
        "over_epsilon": [asdict(point) for point in answer.over_epsilon],
        "over_partners": [asdict(point) for point in answer.over_partners],
        "settings": {"protocol": answer.plan.best.protocol, **answer.plan.best.settings},
        "is_release": False,
        "warning": "made of the owner's records: keep it; a decision made on it is visible and in no budget",
    }
