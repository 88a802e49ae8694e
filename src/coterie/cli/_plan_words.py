"""A plan in words, for people, and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, NamedTuple

from coterie._rounding import budget_range, upper
from coterie.accounting import publishing
from coterie.cli._words import in_columns, wrap
from coterie.planning.caps import Cap
from coterie.planning.evaluation import Foreseen
from coterie.planning.gains import WhoGains
from coterie.planning.metric import EVEN, Exchange
from coterie.planning.public import Consortium
from coterie.planning.search import Forecast, Plan
from coterie.planning.sweep import SweepPoint
from coterie.problems.metrics import METRICS
from coterie.reports.amounts import many, number
from coterie.units import RECORD, Unit, counted, several


class Told(NamedTuple):
    """Everything that `coterie plan` prints."""

    base: Consortium  # the consortium that was asked about
    most: int  # rounds
    plan: Plan
    exchange: Exchange  # from excess risk to points of a metric
    table: Foreseen  # the forecast of an evaluation
    share: float  # of the budget for that evaluation; 0: it is only forecast
    caps: tuple[Cap, ...]  # the costs of other caps on a unit's records
    who: WhoGains | None  # gains by joining


def words(told: Told) -> str:
    """The question, the recommended settings, and their forecast."""
    base, plan, exchange, share = told.base, told.plan, told.exchange, told.share
    best = plan.best
    kind = "a regression" if base.classes == 1 else f"{base.classes} classes"
    asked = (
        f"{many(len(base.sizes), 'owner')}, {counted(sum(base.sizes), base.unit.words)}, "
        f"{many(base.dimension, 'feature')}, {kind}. "
        f"{budget_range(base.epsilon)}, δ = {base.delta:g}, topology {base.topology}."
    )
    return "\n".join(
        [
            *wrap(asked),
            "",
            *wrap(
                f"recommended: certified ε ≤ {upper(plan.certified)} for everyone "
                f"({plan.view}{_against_all_others(plan)})"
            ),
            *in_columns(_rows(plan, told.most, base.unit)),
            "",
            "predicted excess risk over the owners' records",
            *in_columns(_parts(best, plan.nothing)),
            *_metrics(best, exchange),
            *_caps(told.caps, exchange, base.unit),
            "",
            *_gains(told.who),
            *_evaluation(told.table, share),
            *_others(plan),
            *_notes(plan, exchange, base),
            "",
            *wrap(
                f"run it: coterie run --data … {_unit(base.unit)}{_budgets(base)} --protocol {best.protocol} "
                f"{sets(best)}{f' --evaluate {share:g}' if share else ''}"
            ),
        ]
    )


def _against_all_others(plan: Plan) -> str:
    """The ε against all other owners together, for masked sums."""
    return "" if plan.all_others is None else f"; ε ≤ {upper(plan.all_others)} against all others together"


def _evaluation(table: Foreseen, share: float) -> list[str]:
    """How precise published metrics could be, and the share of the budget that suits them."""
    what = "accuracy" if table.metric == "accuracy" else "mean absolute error, in halves of the range"
    paid = (
        "of every budget, which the forecast above goes without"
        if share
        else "of every budget: add --evaluate"
    )
    return [
        *wrap(f"evaluation that may be published: 95 % interval of {what}"),
        *wrap(f"  ±{table.half_width:.2g} for a share of {table.share:g} {paid}"),
        *wrap(
            f"  ±{table.recommended_half_width:.2g} for a share of {table.recommended:.2g}, recommended: noise adds "
            "as much as sampling then"
        ),
        *wrap(f"  ±{table.sampling_half_width:.2g} without noise, by sampling alone"),
        *wrap(
            f"choosing among models of the same releases (--select): a share of {table.select:g} is recommended, as a "
            f"choice gains nothing on average; {table.select_share:g} could tell mean losses apart that differ by "
            f"{table.select_tells:.2g}"
        ),
        *wrap(
            f"taking the features' mean off before training (--centre): a share of {table.centre:g} is recommended"
            + _centre_noise(table)
        ),
    ]


def _centre_noise(table: Foreseen) -> str:
    """Why that share."""
    if table.metric != "accuracy":
        return ", as it gains nothing for a quantity"
    length = f"{table.centre_noise:.2g} times as long as a record"
    if table.centre:
        return f": noise on the mean is then {length}"
    return f", as long noise gains nothing: with {table.centre_share:g} it would be {length}"


def all_json(advice: Told) -> dict[str, Any]:
    """The same as plain values; `planned`: whether the evaluation's share is taken off training's budget."""
    return {
        **to_json(advice.plan, advice.exchange),
        "evaluation": {**asdict(advice.table), "planned": bool(advice.share)},
        **_units_json(advice.base, advice.caps, advice.exchange),
        "joining": advice.who and asdict(advice.who),
    }


def sets(best: Forecast) -> str:
    """The settings as options of `coterie run`."""
    settings = best.settings.items()
    return " ".join(
        f"--set {key}={value if isinstance(value, str) else f'{value:g}'}" for key, value in settings
    )


def _budgets(base: Consortium) -> str:
    """Budgets and topology as options of `coterie run`."""
    budgets = base.epsilon[:1] if len(set(base.epsilon)) == 1 else base.epsilon
    epsilon = ",".join(f"{budget:g}" for budget in budgets)
    return f"--epsilon {epsilon} --delta {base.delta:g} --topology {base.topology}"


def _unit(unit: Unit) -> str:
    """The unit as options of `coterie run`; the column is left open, as only the holder of the rows knows it."""
    named = "owner" if unit.kind == "owner" else "column:…"
    return "" if unit == RECORD else f"--unit {named} --records-per-unit {unit.records} "


def _rows(plan: Plan, most: int, protected: Unit) -> list[tuple[str, str, str]]:
    best = plan.best
    whose = (
        f"a record's gradient; {best.clip:.2g} of its bound"
        if protected == RECORD
        else f"one {protected.noun}'s summed gradient; {best.clip:.2g} of a record's bound"
    )
    gossip = f"{plan.gossip_steps} gossip steps a round, " if plan.gossip_steps > 1 else ""
    low, high = min(plan.noise_scale), max(plan.noise_scale)
    noise = f"{low:.3g}" if math.isclose(low, high, rel_tol=1e-3) else f"{low:.3g} to {high:.3g}"
    unit = (
        "in units of the threshold"
        if best.protocol == "push_sum"
        else f"{min(plan.noise_multiplier):.3g} × clip"
    )
    return [
        ("protocol", best.protocol, f"{gossip}{many(plan.messages, 'message')} in all"),
        ("rounds", f"{best.rounds:,}", f"of at most {most:,}"),
        (
            "batch",
            "all" if best.batch is None else f"{best.batch:,}",
            f"{several(protected.words)} of an owner in each release",
        ),
        ("clip", f"{plan.clip_norm:.3g}", f"norm of {whose}"),
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


def _metrics(best: Forecast, exchange: Exchange) -> list[str]:
    """The forecast in the metric's own units."""
    whose = "made-up rows like those assumed" if exchange.made_up else "the declared public rows"
    rows = []
    for metric in exchange.told(best):
        known = (
            ""
            if metric.best is None
            else f"; the best has {metric.best:.3f} there, this about {metric.best - metric.lost:.3f}"
        )
        interval = f"{lost(metric.low)} to {lost(metric.high)}{known}"
        rows.append((METRICS[metric.name].words, lost(metric.lost), interval))
    return ["", *wrap(f"below the best linear model, in points of 100, by {whose}"), *in_columns(rows)]


def _caps(caps: tuple[Cap, ...], exchange: Exchange, unit: Unit) -> list[str]:
    """The cost of each cap with each clip, in the first metric's points."""
    if not caps:
        return []
    name = METRICS[exchange.names[0]].words
    shares = [clip.clip for clip in caps[0].clips]
    most = f"most records of one {unit.noun}"
    lines = [f"  {most:<26}  {'kept':>5}" + "".join(f"  {share:>6.2g}" for share in shares)]
    for cap in caps:
        what = "one record protected" if cap.cap is None else f"{cap.cap:,}"
        points = "".join(f"  {lost(exchange.told(clip)[0].lost):>6}" for clip in cap.clips)
        lines.append(f"  {what:<26}  {cap.kept:>5.0%}{points}")
    head = f"{name}, in the same points, by cap and by clip (as a share of a record's bound)"
    return ["", *wrap(head), *lines]


def _gains(who: WhoGains | None) -> list[str]:
    if who is None:
        return []
    verdict = "nobody: the joint model is no better than knowing nothing"
    if who.below:
        below, low, high = (number(float(f"{bound:.2g}")) for bound in (who.below, who.low, who.high))
        verdict = (
            f"{sum(who.gains):,} of {many(len(who.gains), 'owner')}: it pays for those with fewer than about {below} "
            f"records ({low} to {high})"
        )
    head = "who gains by joining, against a model of its own without privacy"
    return [*wrap(head), *wrap(f"  {verdict}"), ""]


def _units_json(base: Consortium, caps: tuple[Cap, ...], exchange: Exchange) -> dict[str, Any]:
    """The unit of privacy and, where it is not a record, the cost of caps."""
    if not caps:
        return {"unit": base.unit.words}
    rows = [
        {
            "records_per_unit": cap.cap,
            "protects": "record" if cap.cap is None else base.unit.noun,
            "kept": cap.kept,
            "clips": [
                {
                    "clip": clip.clip,
                    "excess_risk": clip.predicted,
                    "metrics": [asdict(metric) for metric in exchange.told(clip)],
                }
                for clip in cap.clips
            ],
        }
        for cap in caps
    ]
    return {"unit": base.unit.words, "units": sum(base.sizes), "caps": rows}


def lost(value: float) -> str:
    """A loss in points of 100, with two digits."""
    return f"{100 * value:.2g}" if value < 0.1 else f"{100 * value:.0f}"


def _others(plan: Plan) -> list[str]:
    if not plan.others and not plan.refused:
        return []
    rows = [
        (
            forecast.protocol,
            f"{forecast.predicted:.3g}",
            f"{forecast.low:.2g} to {forecast.high:.2g}; {sets(forecast)}",
        )
        for forecast in plan.others
    ]
    rows += [(name, "–", reason) for name, reason in plan.refused.items()]
    return ["", "other protocols at their best", *in_columns(rows)]


def _notes(plan: Plan, exchange: Exchange, base: Consortium) -> list[str]:
    source = (
        "declared public rows and their targets"
        if plan.constants.optimum
        else "declared public rows"
        if plan.constants.from_rows
        else "an assumed decay of the features' spectrum"
    )
    notes = [f"note: no record was read; the forecast rests on {source} (docs/planning.md)."]
    if exchange.made_up:
        share = f"{exchange.rate:.0%} of them in the rarer class" if exchange.rate < EVEN else "even classes"
        even = f" with {share} (--base-rate)" if exchange.judge.classes == 2 else ""
        notes.append(
            f"note: points are of made-up rows{even}; how good the best model is nobody knows without public rows "
            "and their target (--public-rows, --public-target)."
        )
    notes += [f"note: {warning}" for warning in publishing(base.delta, base.sizes)]
    if not plan.useful:
        notes.append(
            "note: this budget is too small for anything useful: the forecast is hardly better than a model that "
            "knows nothing. Allow a larger ε, find more records or owners, or use fewer features."
        )
    return ["", *(line for note in notes for line in wrap(note))]


def sweep_table(points: list[SweepPoint], over: str, exchange: Exchange) -> str:
    """A row for each point: the excess risk, and the first metric's points below the best linear model."""
    name = exchange.names[0]
    head = (
        f"{'ε' if over == 'epsilon' else 'owners':>8}  {'excess':>9}  {'from':>9}  {'to':>9}  "
        f"{METRICS[name].words:>8}  settings"
    )
    lines = [head]
    for point in points:
        best = point.plan.best
        mark = "" if point.plan.useful else "  (hardly better than knowing nothing)"
        settings = ", ".join(f"{key}={value:g}" for key, value in best.settings.items())
        lines.append(
            f"{point.at:>8g}  {best.predicted:>9.3g}  {best.low:>9.3g}  {best.high:>9.3g}  "
            f"{lost(exchange.told(best)[0].lost):>8}  {best.protocol} {settings}{mark}"
        )
    legend = f"{METRICS[name].words}: points of 100 below the best linear model"
    return "\n".join([*lines, f"knowing nothing: {points[0].plan.nothing:.3g}; {legend}"])


def to_json(plan: Plan, exchange: Exchange) -> dict[str, Any]:
    """What `coterie plan --json` prints."""
    best = asdict(plan.best)
    return {
        "recommended": {
            **{key: best[key] for key in ("protocol", "settings", "rounds", "batch", "clip")},
            "clip_norm": plan.clip_norm,
            "noise_multiplier": list(plan.noise_multiplier),
            "noise_scale": list(plan.noise_scale),
            "gossip_steps": plan.gossip_steps,
            "messages": plan.messages,
        },
        "certified_epsilon": plan.certified,
        "all_others_epsilon": plan.all_others,
        "view": plan.view,
        "hub": plan.hub,
        "predicted": {
            "excess_risk": best["predicted"],
            "interval": [best["low"], best["high"]],
            "parts": {key: best[key] for key in ("distance", "noise", "disagreement", "clipping")},
            "knowing_nothing": plan.nothing,
            "metrics": [asdict(metric) for metric in exchange.told(plan.best)],
            "metrics_by": "made-up rows" if exchange.made_up else "public rows",
        },
        "useful": plan.useful,
        "others": [
            {
                "protocol": forecast.protocol,
                "settings": forecast.settings,
                "excess_risk": forecast.predicted,
                "interval": [forecast.low, forecast.high],
            }
            for forecast in plan.others
        ],
        "refused": plan.refused,
        "reads_records": False,
        "spectrum": "public rows" if plan.constants.from_rows else "assumed",
        "optimum": "public rows" if plan.constants.optimum else "assumed",
    }
