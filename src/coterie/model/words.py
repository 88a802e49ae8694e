"""A model in words, for `coterie show` and for the model card.

Texts of a file come from whoever wrote it: unprintable characters are dropped, and marks of Markdown are escaped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from coterie._rounding import budget_range, upper
from coterie.evaluation.words import about, sentences
from coterie.model.description import Description
from coterie.model.predictor import TrainedModel
from coterie.model.weights import Weight, largest
from coterie.problems.datasets.dates import day
from coterie.problems.fields import Category, Days, Field, Flag, Parts
from coterie.problems.metrics import METRICS
from coterie.units import counted, several, told_owners

WIDTH = 80
_SHOWN = 10  # weights that are listed
_COLUMNS = 100  # columns that are named on a terminal; the card has all


def shown(model: TrainedModel, digest: str) -> str:
    """A description, the largest weights by column, and the privacy cost; at most 80 columns wide."""
    description = model.description
    blocks = [
        _sentence(f"{predicts(description)}, from {rows_in_words(description)}."),
        _sentence(f"{_make(model)}. {trained(description)}."),
        *([f"columns: {_some_columns(description)}"] if description.fields else []),
        f"\nprivacy of one {description.privacy['unit']} ({promise_is_about(description)})",
        *(f"  {name:<11} {value}" for name, value in costs(description)),
        *(f"note: {note}" for note in _notes(description)),
        f"promise: {description.privacy['promise'][0].partition(': ')[2]}",
        f"\n{metric_in_words(description)}",
        f"\n{_weights_title(model)}",
        *(_weight_line(weight) for weight in largest(model, _SHOWN)),
        f"\nsha256 {digest}",
    ]
    return "\n".join(line for block in blocks for line in _wrap(printable(block)))


def card(model: TrainedModel, digest: str) -> str:
    """The model card, in Markdown, from the model's file alone: `templates/card.md`, all that is put in `mark`ed."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    description = model.description
    pages = Environment(
        loader=PackageLoader("coterie.model"),
        finalize=lambda value: mark(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return pages.get_template("card.md").render(
        target=description.target,
        predicts=_sentence(predicts(description)),
        row=rows_in_words(description),
        made=_sentence(_make(model)),
        columns=[(field.name, _field(field)) for field in description.fields],
        trained=_sentence(trained(description)),
        training=description.training,
        units=several(description.privacy["unit"]),
        settings=_settings(description.training["settings"]),
        about=f"For one {description.privacy['unit']}: {promise_is_about(description)}.",
        costs=costs(description),
        notes=_notes(description),
        privacy=description.privacy,
        metric=metric_in_words(description),
        weights=largest(model, _SHOWN),
        no_weights=_weights_title(model),
        digest=digest,
    )


def predicts(description: Description) -> str:
    """The target, in words."""
    if description.range is not None:
        unit = f" {description.unit}" if description.unit else ""
        low, high = description.range
        return f"predicts {description.target!r}, a quantity from {low:g} to {high:g}{unit}"
    threshold = description.decision.threshold
    when = f" (where its probability is above {threshold:.4g})" if threshold is not None else ""
    return f"predicts {description.target!r}: {', '.join(map(repr, description.classes))}{when}"


def rows_in_words(description: Description) -> str:
    """The form of a row, in words."""
    if description.pixels is not None:
        low, high = description.pixels
        return f"an image of {' x '.join(map(str, description.shape))} values within [{low:g}, {high:g}]"
    return f"{len(description.fields)} column{'s' * (len(description.fields) > 1)}"


def trained(description: Description) -> str:
    """The training, in words."""
    facts = description.training
    owners = len(facts["owners"])
    who = f"{owners:,} owner{'s' * (owners > 1)}"
    unit = description.privacy["unit"]
    records = f" with {counted(sum(facts['sizes']), unit)}" if facts["sizes"] is not None else ""
    over = f" over {facts['topology']}" if facts["topology"] else ""
    return (
        f"Trained by {who}{records} of {facts['data']!r}, {facts['where']}: {facts['protocol']} "
        f"({facts['calibration']}), {facts['steps']:,} {facts['step']}s{over}; it is {facts['which']}"
    )


def promise_is_about(description: Description) -> str:
    """The relation, view and δ of every ε in the text."""
    facts = description.privacy
    return f"{facts['relation']}, {facts['view']}, δ = {facts['delta']:g}"


def costs(description: Description) -> list[tuple[str, str]]:
    """Budget, claim and certificate."""
    facts = description.privacy
    together, person, pair = (facts["facts"].get(key) for key in ("all_others", "person", "pair"))
    owners = told_owners(facts["facts"].get("owners_per_person", 1))
    return [
        ("budget", budget_range(facts["budget_epsilon"])),
        ("claimed", f"{_epsilon(facts['claim']['epsilon'], '=')}  {facts['claim']['source']}"),
        ("certified", f"{_epsilon(facts['certified_epsilon']['max'], '≤')}  {facts['accountant']}"),
        *([("against all others", _epsilon(together["epsilon"], "≤"))] if together else []),
        *([(f"at {owners} owners", _epsilon(person["epsilon"], "≤"))] if person else []),
        *([("at 2 owners", _epsilon(pair["epsilon"], "≤"))] if pair else []),
    ]


def metric_in_words(description: Description) -> str:
    """The score on public rows and what owners published, or why there is neither."""
    metrics = description.metrics
    published = _published(metrics["published"]) if "published" in metrics else ""
    return " ".join(part for part in (published, _on_public_rows(metrics, published)) if part)


def _published(evaluation: Mapping[str, Any]) -> str:
    return f"Published by the owners, and charged: {'; '.join(sentences(evaluation))}. That is of {about(evaluation)}."


def _on_public_rows(metrics: Mapping[str, Any], published: str) -> str:
    if "name" not in metrics and published:
        return ""
    if "name" not in metrics:
        return (
            "No score is given: the rows it could be tested on are the owners' own records, and nothing was charged "
            "for a score on them."
        )
    score = f"{metrics['name']} {metrics['value']:.4g} on {metrics['rows']:,} test rows that are public."
    pairs = [
        f"{METRICS[name].words} {pair['joint']:.4g} (a constant: {pair['constant']:.4g})"
        for name, pair in metrics.get("all", {}).items()
    ]
    return f"{score} All metrics there: {', '.join(pairs)}." if pairs else score


def printable(text: str) -> str:
    """Text without control characters."""
    return "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def mark(text: str) -> str:
    """Text escaped for Markdown and HTML, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", printable(" ".join(text.split())))


def _make(model: TrainedModel) -> str:
    steps = ", ".join(step.name for step in model.steps) or "none"
    description, (first, second) = model.description, model.description.decision.weights
    weighted = f" (class weights {first:.4g} and {second:.4g})" if (first, second) != (1, 1) else ""
    return f"{description.kind} model, {description.loss} loss{weighted}, feature steps: {steps}"


def _field(field: Field) -> str:
    return _holds(field) + (f"; may be empty ({field.missing})" if field.missing else "")


def _holds(field: Field) -> str:
    if isinstance(field, Category):
        return f"one of {', '.join(map(repr, field.values))}"
    if isinstance(field, Flag):
        return f"yes ({', '.join(map(repr, field.true))}) or no ({', '.join(map(repr, field.false))})"
    if isinstance(field, Parts):
        return f"a date written as {field.written}, of which {' and '.join(field.parts)} count"
    if isinstance(field, Days):
        ends = f"{day(field, field.low)} to {day(field, field.high)}"
        return f"a date from {ends}, written as {field.written}, in days since {field.origin}"
    return f"a number from {field.low:g} to {field.high:g}" + (f" {field.unit}" if field.unit else "")


def _some_columns(description: Description) -> str:
    more = len(description.fields) - _COLUMNS
    return ", ".join(description.names[:_COLUMNS]) + (f" and {more} more" if more > 0 else "")


def _weights_title(model: TrainedModel) -> str:
    if not largest(model, 1):
        return "No weight belongs to a single column in this kind of model."
    return f"largest weights of {model.params['weights'].size:,}"


def _weight_line(weight: Weight) -> str:
    return f"  {weight.value:+9.4f}  {weight.column}: {weight.effect}"


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items()) or "the protocol's own"


def _notes(description: Description) -> list[str]:
    """Warnings to read first: why nothing is promised, or what the promise rests on."""
    training, privacy = description.training, description.privacy
    return [note for note in (training["caveat"], privacy["reason"], *privacy["warnings"]) if note]


def _epsilon(value: float | str | None, sign: str) -> str:
    if value is None:
        return "none stated"
    if not isinstance(value, (int, float)):
        return "ε = ∞"
    return f"ε {sign} {upper(value) if sign == '≤' else f'{value:,.4g}'}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _wrap(text: str) -> list[str]:
    lines = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) or [""]
    return lines
