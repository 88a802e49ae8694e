"""The description in a model's file, as values and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from coterie.problems.datasets.dates import reader
from coterie.problems.fields import (
    MARKED,
    MOST_PIXELS,
    PARTS,
    Binned,
    Category,
    Days,
    Field,
    Flag,
    Image,
    Numeric,
    Parts,
    Plain,
)
from coterie.problems.metrics import METRICS, PLAIN, Decision
from coterie.problems.table import Table, Task

KINDS = ("linear", "two_layer")  # of models that need nothing but coterie
_KINDS: dict[str, type] = {
    "scaled number": Numeric, "number": Plain, "bins": Binned, "category": Category, "yes or no": Flag, "days": Days,
    "date parts": Parts,
}  # fmt: skip
_NAMES = {kind: name for name, kind in _KINDS.items()}


IMAGES = "x"  # the array of images, unless it has a name of its own


@dataclass(frozen=True, kw_only=True)
class Description:
    """All that is needed to use the model, and public facts about its training."""

    task: Task
    target: str
    unit: str  # of a quantity, in words; empty where nobody stated one
    classes: tuple[str, ...]  # in the order of scores; of two, a positive score means the second
    range: tuple[float, float] | None  # of a quantity, in its own unit: scores -1 and 1 stand for its ends
    fields: tuple[Field, ...]  # columns, in order; none where rows are images
    shape: tuple[int, ...]  # of an image; empty where rows have columns
    pixels: tuple[float, float] | None  # range of an image's values
    array: str = ""  # the name of the array of images; empty where rows have columns
    kind: str  # linear, two_layer, or a name from outside coterie
    made_by: str = ""  # the distribution that registered that name from outside; else empty
    activation: str | None
    loss: str
    decision: Decision = PLAIN  # of two classes
    training: Mapping[str, Any]
    privacy: Mapping[str, Any]
    metrics: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that a row must have."""
        return tuple(field.name for field in self.fields)

    @property
    def outputs(self) -> int:
        """How many scores a row has."""
        return len(self.classes) if self.task == "multiclass" else 1


def inputs_of(table: Table) -> dict[str, Any]:
    """The fields of `Description` about a table's rows and target before they are encoded."""
    span = table.target_bounds
    inputs = {
        "task": table.task,
        "target": table.target,
        "unit": table.target_unit,
        "classes": table.classes or (("-1", "+1") if table.task == "binary" else ()),
        "range": None if span is None else (float(span[0]), float(span[1])),
    }
    if table.x.ndim > 2:
        low, high = (float(end) for end in table.bounds[0])
        array = table.fields[0].name if table.fields else IMAGES
        return inputs | {
            "fields": (),
            "shape": tuple(table.x.shape[1:]),
            "pixels": (low, high),
            "array": array,
        }
    as_they_are = tuple(  # a table that was not encoded has numbers within its bounds
        Plain(name, float(low), float(high)) for name, (low, high) in zip(table.columns, table.bounds)
    )
    columns = tuple(field for field in table.fields if not isinstance(field, Image))
    return inputs | {"fields": columns or as_they_are, "shape": (), "pixels": None}


def to_json(description: Description) -> dict[str, Any]:
    """The description as plain values."""
    columns = []
    for field in description.fields:
        values = {
            key: list(entry) if isinstance(entry, tuple) else entry for key, entry in field._asdict().items()
        }
        if values.get("missing") == "":  # empty cells are refused
            del values["missing"]
        columns.append({"kind": _NAMES[type(field)]} | values)
    inputs = {"columns": columns}
    if description.pixels is not None:
        inputs = {
            "image": list(description.shape),
            "range": list(description.pixels),
            "array": description.array,
        }
    target = {"name": description.target, "classes": list(description.classes)}
    if description.range is not None:
        target = {"name": description.target, "range": list(description.range), "unit": description.unit}
    return {
        "task": description.task,
        "inputs": inputs,
        "target": target,
        "model": {"kind": description.kind, "activation": description.activation, "loss": description.loss}
        | ({"from": description.made_by} if description.kind not in KINDS else {}),
        "decision": {**description.decision._asdict(), "weights": list(description.decision.weights)},
        "training": dict(description.training),
        "privacy": dict(description.privacy),
        "metrics": dict(description.metrics),
    }


def from_json(value: Mapping[str, Any]) -> Description:
    """The description from plain values; KeyError, TypeError or ValueError where they break the format."""
    inputs, target, model = value["inputs"], value["target"], value["model"]
    description = Description(
        task=_one_of(value["task"], ("binary", "multiclass", "regression")),
        target=_text(target["name"]),
        unit=_text(target.get("unit", "")),
        classes=tuple(_text(name) for name in target.get("classes", ())),
        range=_span(target["range"]) if "range" in target else None,
        fields=tuple(_field_from_json(column) for column in inputs.get("columns", ())),
        shape=tuple(_whole(size) for size in inputs.get("image", ())),
        pixels=_span(inputs["range"]) if "image" in inputs else None,
        array=_text(inputs.get("array", IMAGES))
        if "image" in inputs
        else "",  # in files from before arrays had names
        kind=_text(model["kind"]),
        made_by=_text(model.get("from", "")),
        activation=_one_of(model["activation"], (None, "tanh", "relu")),
        loss=_text(model["loss"]),
        decision=_decision(value["decision"]) if "decision" in value else PLAIN,  # before there was a choice
        training=_fitting(value["training"], _TRAINING),
        privacy=_fitting(value["privacy"], _PRIVACY),
        metrics=_metrics(value["metrics"]),
    )
    _check_whole(description)
    return description


def _metrics(value: Any) -> Mapping[str, Any]:
    """Empty, or a score on public rows, or published metrics, or both; older files have at most a score."""
    if not value:
        return {}
    wanted = {} if set(value) == {"published"} else dict(_METRICS)
    wanted |= {"all": _all_metrics} if "all" in value else {}
    return _fitting(value, wanted | ({"published": _is_published} if "published" in value else {}))


def _decision(value: Mapping[str, Any]) -> Decision:
    if set(value) != set(Decision._fields):
        raise ValueError("a decision has offset, threshold and weights")
    first, second = (_number(weight) for weight in value["weights"])
    threshold = value["threshold"]
    if threshold is not None and not 0 < _number(threshold) < 1:
        raise ValueError("a threshold is a probability")
    return Decision(_number(value["offset"]), threshold, (first, second))


def _check_whole(description: Description) -> None:
    classes = {
        "binary": len(description.classes) == 2,
        "multiclass": len(description.classes) > 2,
        "regression": not description.classes,
    }
    if not classes[description.task] or (description.task == "regression") != (description.range is not None):
        raise ValueError("classes and range must fit the task")
    if bool(description.fields) == bool(description.shape) or math.prod(description.shape) > MOST_PIXELS:
        raise ValueError("rows have columns, or are images of a bearable size")
    if any(len(set(names)) < len(names) for names in (description.names, description.classes)):
        raise ValueError("a name stands twice")
    if (description.kind == "two_layer") != (description.activation is not None):
        raise ValueError("two layers have an activation, and nothing else has")
    if description.decision != PLAIN and description.task != "binary":
        raise ValueError("a decision is of two classes")


def _field_from_json(value: Mapping[str, Any]) -> Field:
    given = dict(value)
    kind = _KINDS[given.pop("kind")]
    if "missing" in kind._fields:
        word = "none" if kind in (Category, Parts) else "middle"
        given["missing"] = _one_of(given["missing"], (word, MARKED)) if "missing" in given else ""
    if set(given) != set(kind._fields):
        raise ValueError("a column has other keys than its kind")
    _text(given["name"])
    _text(given.get("unit", ""))
    if kind is Category:
        return Category(given["name"], _texts(given["values"]), given["missing"])
    if kind is Flag:
        return Flag(given["name"], _texts(given["true"]), _texts(given["false"]), given["missing"])
    if kind in (Days, Parts):
        reader(given["name"], _text(given["written"]))
    if kind is Parts:
        parts = tuple(_one_of(part, tuple(PARTS)) for part in given["parts"])
        return Parts(given["name"], parts, given["written"], given["missing"])
    if kind is Days:
        date.fromisoformat(_text(given["origin"]))
    if kind is Binned:
        edges = tuple(_number(edge) for edge in given["edges"])
        if len(edges) < 2 or list(edges) != sorted(set(edges)):
            raise ValueError("edges must go up")
        return Binned(given["name"], edges, given["unit"])
    if type(given.get("log", False)) is not bool:
        raise ValueError("log is true or false")
    # a plain number may have a range of one value
    if kind is not Plain or given["low"] != given["high"]:
        _span([given["low"], given["high"]])
    _number(given["low"])
    return kind(**given)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    texts = tuple(_text(value) for value in values)
    if not texts or isinstance(values, str):
        raise ValueError("must be a list of texts")
    return texts


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError("must be a finite number")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise TypeError("must be a whole number above 0")
    return value


def _span(value: Any) -> tuple[float, float]:
    low, high = (_number(bound) for bound in value)
    if not low < high:
        raise ValueError("low must be below high")
    return low, high


def _fitting(value: Any, wanted: Mapping[str, Callable[[Any], bool]]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or set(value) != set(wanted):
        raise TypeError(f"must be a table of {', '.join(wanted)}")
    for key, fits in wanted.items():
        if not fits(value[key]):
            raise TypeError(f"{key} is of another kind")
    return value


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _list_of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(type(entry) in kinds for entry in value)


def _is_epsilon(value: Any) -> bool:
    return value == "inf" or _is_number(value)


def _certified(value: Any) -> bool:
    return (
        isinstance(value, dict) and _is_epsilon(value.get("max")) and isinstance(value.get("per_owner"), list)
    )


def _claim(value: Any) -> bool:
    fits = isinstance(value, dict) and isinstance(value.get("source"), str)
    return fits and (value["epsilon"] is None or _is_epsilon(value["epsilon"]))


_TRAINING: Mapping[str, Callable[[Any], bool]] = {
    "coterie": _is(str), "protocol": _is(str), "calibration": _is(str), "settings": _is(dict), "penalty": _is(str),
    "step": _is(str), "topology": _is(str, type(None)), "owners": _list_of(str),
    "sizes": lambda value: value is None or _list_of(int)(value), "data": _is(str), "source": _is(str),
    "note": _is(str), "caveat": _is(str), "engine": _is(str), "where": _is(str), "which": _is(str), "steps": _is(int),
}  # fmt: skip
_PRIVACY: Mapping[str, Callable[[Any], bool]] = {
    "relation": _is(str), "unit": _is(str), "view": _is(str), "delta": _is_number,
    "budget_epsilon": lambda value: isinstance(value, list) and len(value) > 0 and all(map(_is_number, value)),
    "certified_epsilon": _certified, "certificates": _list_of(dict),
    "claim": _claim, "accountant": _is(str), "reason": _is(str), "warnings": _list_of(str), "statement": _list_of(str),
    "facts": _is(dict), "promise": lambda value: _list_of(str)(value) and len(value) > 0,
}  # fmt: skip


def _all_metrics(value: Any) -> bool:
    return isinstance(value, dict) and all(
        name in METRICS and isinstance(pair, dict) and set(pair) == {"joint", "constant"}
        and all(map(_is_number, pair.values()))
        for name, pair in value.items()
    )  # fmt: skip


def _is_published(value: Any) -> bool:
    """Whether a value has the form of `evaluation.told.Published`."""
    kinds = {"which": _is(str), "share": _is_number, "epsilon": _is_epsilon, "owners": _is(int), "of": _is(int),
             "rows": _is(int, type(None)), "unit": _is(str), "tables": _is(str), "diverged": _is(bool),
             "metrics": _intervals, "groups": _are_groups}  # fmt: skip
    return (
        isinstance(value, dict)
        and set(value) == set(kinds)
        and all(fits(value[key]) for key, fits in kinds.items())
    )


def _are_groups(value: Any) -> bool:
    return value is None or (
        isinstance(value, dict) and set(value) == {"column", "metrics"} and isinstance(value["column"], str)
        and isinstance(value["metrics"], dict) and all(map(_intervals, value["metrics"].values()))
    )  # fmt: skip


def _intervals(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(interval, dict) and set(interval) == {"value", "low", "high"}
        and all(end is None or _is_number(end) for end in interval.values())
        for interval in value.values()
    )  # fmt: skip


_METRICS: Mapping[str, Callable[[Any], bool]] = {"name": _is(str), "value": _is_number, "rows": _is(int)}


def _one_of(value: Any, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise ValueError(f"must be one of {known}")
    return value
