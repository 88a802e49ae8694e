"""What a model is, in words: for `coterie show`, and for the card of those who publish it.

Texts of a file come from whoever wrote it: what is not printable is not printed, and marks of Markdown are escaped.
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
from coterie.problems.fields import Binned, Category, Days, Field, Flag, Parts
from coterie.problems.metrics import METRICS
from coterie.units import counted, several, told_owners

WIDTH = 80
_SHOWN = 10  # weights
_COLUMNS = 100  # columns that are named on a terminal; the card has all


def shown(model: TrainedModel, digest: str) -> str:
    """What it is, its largest weights by column, and what it cost in privacy; at most 80 columns wide."""
    said = model.description
    blocks = [
        _sentence(f"{predicts(said)}, from {rows_in_words(said)}."),
        _sentence(f"{_make(model)}. {trained(said)}."),
        *([f"columns: {_some_columns(said)}"] if said.fields else []),
        f"\nprivacy of one {said.privacy['unit']} ({promise_is_about(said)})",
        *(f"  {name:<11} {value}" for name, value in costs(said)),
        *(f"note: {note}" for note in _notes(said)),
        f"promise: {said.privacy['promise'][0].partition(': ')[2]}",
        f"\n{metric_in_words(said)}",
        f"\n{_weights_title(model)}",
        *(_weight_line(weight) for weight in largest(model, _SHOWN)),
        f"\nsha256 {digest}",
    ]
    return "\n".join(line for block in blocks for line in _wrap(printable(block)))


def card(model: TrainedModel, digest: str) -> str:
    """The model card, in Markdown, from the model's file alone."""
    said = model.description
    sections = {
        "What it does": f"{mark(_sentence(predicts(said)))}. A row is {mark(rows_in_words(said))}. "
        f"{mark(_sentence(_make(model)))}.",
        "What a row has": _columns_table(said),
        "What it was trained on": _training_list(said),
        "What is promised": _promise(said),
        "How good it is": mark(metric_in_words(said)),
        "Largest weights": _weights_table(model),
        "How to use it": _usage(said),
        "How to check it": f"The digest in the file must be `{digest}`; `coterie show` and `coterie.load` compare it "
        "with the file's content. It finds damage, not forgery: take it from whoever published the model. "
        "`coterie certify --from FILE` computes the promise again.",
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return f"# Model card: {mark(said.target)}\n\n{body}\n"


def predicts(said: Description) -> str:
    """What it predicts."""
    if said.range is not None:
        unit = f" {said.unit}" if said.unit else ""
        return f"predicts {said.target!r}, a quantity from {said.range[0]:g} to {said.range[1]:g}{unit}"
    threshold = said.decision.threshold
    when = f" (where its probability is above {threshold:.4g})" if threshold is not None else ""
    return f"predicts {said.target!r}: {', '.join(map(repr, said.classes))}{when}"


def rows_in_words(said: Description) -> str:
    """What a row is."""
    if said.pixels is not None:
        return f"an image of {' x '.join(map(str, said.shape))} values within [{said.pixels[0]:g}, {said.pixels[1]:g}]"
    return f"{len(said.fields)} column{'s' * (len(said.fields) > 1)}"


def trained(said: Description) -> str:
    """How it came to be."""
    facts = said.training
    owners = len(facts["owners"])
    many = f"{owners:,} owner{'s' * (owners > 1)}"
    unit = said.privacy["unit"]
    records = f" with {counted(sum(facts['sizes']), unit)}" if facts["sizes"] is not None else ""
    over = f" over {facts['topology']}" if facts["topology"] else ""
    return (
        f"Trained by {many}{records} of {facts['data']!r}, {facts['where']}: {facts['protocol']} "
        f"({facts['calibration']}), {facts['steps']:,} {facts['step']}s{over}; it is {facts['which']}"
    )


def promise_is_about(said: Description) -> str:
    """What every ε here is about."""
    facts = said.privacy
    return f"{facts['relation']}, {facts['view']}, δ = {facts['delta']:g}"


def costs(said: Description) -> list[tuple[str, str]]:
    """Budget, claim and certificate."""
    facts = said.privacy
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


def metric_in_words(said: Description) -> str:
    """The score on public rows and what owners published, or why there is neither."""
    found = said.metrics
    told = _published(found["published"]) if "published" in found else ""
    return " ".join(part for part in (told, _on_public_rows(found, told)) if part)


def _published(told: Mapping[str, Any]) -> str:
    return f"Published by the owners, and charged: {'; '.join(sentences(told))}. That is of {about(told)}."


def _on_public_rows(found: Mapping[str, Any], told: str) -> str:
    if "name" not in found and told:
        return ""
    if "name" not in found:
        return (
            "No score is given: the rows it could be tested on are the owners' own records, and nothing was charged "
            "for a score on them."
        )
    told = f"{found['name']} {found['value']:.4g} on {found['rows']:,} test rows that are public."
    pairs = [
        f"{METRICS[name].words} {pair['joint']:.4g} (a constant: {pair['constant']:.4g})"
        for name, pair in found.get("all", {}).items()
    ]
    return f"{told} All metrics there: {', '.join(pairs)}." if pairs else told


def printable(text: str) -> str:
    """Text without what steers a terminal."""
    return "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def mark(text: str) -> str:
    """Text that Markdown and HTML show as it is, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", printable(" ".join(text.split())))


def _make(model: TrainedModel) -> str:
    steps = ", ".join(step.name for step in model.steps) or "none"
    said, (first, second) = model.description, model.description.decision.weights
    weighted = f" (class weights {first:.4g} and {second:.4g})" if (first, second) != (1, 1) else ""
    return f"{said.kind} model, {said.loss} loss{weighted}, feature steps: {steps}"


def _field(field: Field) -> str:
    missing = field.missing
    return _holds(field) + (f"; may be empty ({missing})" if missing else "")


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
    low, high = (field.edges[0], field.edges[-1]) if isinstance(field, Binned) else (field.low, field.high)
    return f"a number from {low:g} to {high:g}" + (f" {field.unit}" if field.unit else "")


def _some_columns(said: Description) -> str:
    more = len(said.fields) - _COLUMNS
    return ", ".join(said.names[:_COLUMNS]) + (f" and {more} more" if more > 0 else "")


def _weights_title(model: TrainedModel) -> str:
    if not largest(model, 1):
        return "No weight belongs to a single column in this kind of model."
    return f"largest weights of {model.params['weights'].size:,}"


def _weight_line(weight: Weight) -> str:
    return f"  {weight.value:+9.4f}  {weight.column}: {weight.effect}"


def _columns_table(said: Description) -> str:
    if not said.fields:
        return f"A row is {mark(rows_in_words(said))}."
    rows = [f"| {mark(field.name)} | {mark(_field(field))} |" for field in said.fields]
    outside = (
        "Numbers outside count as the nearest end, as in training. An empty cell, unless it may be, or another value "
        "is refused."
    )
    return "\n".join(["| column | holds |", "|---|---|", *rows, "", outside])


def _training_list(said: Description) -> str:
    facts, unit = said.training, said.privacy["unit"]
    owners, numbers = [mark(name) for name in facts["owners"]], ""
    if facts["sizes"] is not None:
        numbers = f", with their numbers of {mark(several(unit))}"
        owners = [f"{name} ({size:,})" for name, size in zip(owners, facts["sizes"])]
    return "\n".join(
        [
            f"{mark(_sentence(trained(said)))}.",
            "",
            f"* data: {mark(facts['data'])}. {mark(facts['source'])}"
            + (f"; {mark(facts['note'])}" if facts["note"] else ""),
            f"* owners{numbers}: {', '.join(owners)}",
            f"* settings: {mark(_settings(facts['settings']))}; penalty {mark(facts['penalty'])}",
            f"* by coterie {mark(facts['coterie'])}",
        ]
    )


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items()) or "the protocol's own"


def _promise(said: Description) -> str:
    rows = [f"| {name} | {mark(value)} |" for name, value in costs(said)]
    about = f"For one {said.privacy['unit']}: {promise_is_about(said)}."
    notes = [f"**{mark(note)}**\n" for note in _notes(said)]
    plain, technical = ([f"* {mark(line)}" for line in said.privacy[key]] for key in ("promise", "statement"))
    costs_table = ["| ε | |", "|---|---|", *rows]
    words = ["In plain words:", "", *plain, "", "For experts:", "", *technical]
    return "\n".join([mark(about), "", *costs_table, "", *notes, *words])


def _notes(said: Description) -> list[str]:
    """What to beware of before anything else: why nothing is promised, or what the promise rests on."""
    return [
        note for note in (said.training["caveat"], said.privacy["reason"], *said.privacy["warnings"]) if note
    ]


def _weights_table(model: TrainedModel) -> str:
    found = largest(model, _SHOWN)
    if not found:
        return _weights_title(model)
    rows = [f"| {mark(one.column)} | {one.value:+.4f} | {mark(one.effect)} |" for one in found]
    return "\n".join(["| column | weight | speaks |", "|---|---|---|", *rows])


def _usage(said: Description) -> str:
    file = "ROWS.csv" if said.fields else "IMAGES.npz"
    return (
        f"```\ncoterie predict model.safetensors {file} --out predictions.csv\n```\n\n"
        '```python\nimport coterie\n\ncoterie.load("model.safetensors").predict(rows)\n```'
    )


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
