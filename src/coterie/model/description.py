"""The description in a model's file, as values and as JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from msgspec import Meta, Struct, ValidationError, convert

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

# Of models that need nothing but coterie, the names of each layer's weights and constants; between layers is the bend.
LAYERS: Mapping[str, tuple[tuple[str, str | None], ...]] = {
    "linear": (("weights", None),),
    "two_layer": (("w1", "b1"), ("w2", "b2")),
}
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
        | ({"from": description.made_by} if description.kind not in LAYERS else {}),
        "decision": {**description.decision._asdict(), "weights": list(description.decision.weights)},
        "training": dict(description.training),
        "privacy": dict(description.privacy),
        "metrics": dict(description.metrics),
    }


def from_json(value: Mapping[str, Any]) -> Description:
    """The description from plain values; KeyError, TypeError or ValueError where they break the format."""
    inputs, target, model = value["inputs"], value["target"], value["model"]
    description = Description(
        task=_fit(value["task"], Task),
        target=_fit(target["name"], str),
        unit=_fit(target.get("unit", ""), str),
        classes=tuple(_fit(target.get("classes", []), list[str])),
        range=_span(target["range"]) if "range" in target else None,
        fields=tuple(_field_from_json(column) for column in inputs.get("columns", ())),
        shape=tuple(_fit(inputs.get("image", []), list[_Size])),
        pixels=_span(inputs["range"]) if "image" in inputs else None,
        # in files from before arrays had names
        array=_fit(inputs.get("array", IMAGES), str) if "image" in inputs else "",
        kind=_fit(model["kind"], str),
        made_by=_fit(model.get("from", ""), str),
        activation=_fit(model["activation"], Literal["tanh", "relu"] | None),
        loss=_fit(model["loss"], str),
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
    score = {} if set(value) == {"published"} else {"name": str, "value": _Number, "rows": int}
    further = {
        key: kind for key, kind in (("all", dict[_Metric, _Pair]), ("published", _Published)) if key in value
    }
    return _fitting(value, score | further)


def _decision(value: Mapping[str, Any]) -> Decision:
    _fitting(value, {"offset": _Finite, "threshold": _Chance | None, "weights": tuple[_Finite, _Finite]})
    return Decision(value["offset"], value["threshold"], tuple(value["weights"]))


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
    if (len(LAYERS.get(description.kind, ())) > 1) != (description.activation is not None):
        raise ValueError("several layers have an activation, and nothing else has")
    if description.decision != PLAIN and description.task != "binary":
        raise ValueError("a decision is of two classes")


def _field_from_json(value: Mapping[str, Any]) -> Field:
    given = dict(value)
    kind = _KINDS[given.pop("kind")]
    word = "none" if kind in (Category, Parts) else "middle"
    if "missing" in given and given["missing"] not in (word, MARKED):
        raise ValueError(f"missing must be one of {(word, MARKED)}")
    if "missing" in kind._fields:
        given.setdefault("missing", "")
    _fitting(given, {key: _CELLS[key] for key in kind._fields})
    if "written" in given:
        reader(given["name"], given["written"])
    if "origin" in given:
        date.fromisoformat(given["origin"])
    edges = given.get("edges", [])
    if kind is Binned and (len(edges) < 2 or edges != sorted(set(edges))):
        raise ValueError("edges must go up")
    # a plain number may have a range of one value
    if "low" in given and (kind is not Plain or given["low"] != given["high"]):
        _span([given["low"], given["high"]])
    fixed: dict[str, Any] = {
        key: tuple(part) if isinstance(part, list) else part for key, part in given.items()
    }
    return kind(**fixed)


def _span(value: Any) -> tuple[float, float]:
    low, high = _fit(value, tuple[_Finite, _Finite])
    if not low < high:
        raise ValueError("low must be below high")
    return low, high


def _fit(value: Any, kind: Any) -> Any:
    """The value as it is, if it is of that kind: a whole number stays one where a real one may stand."""
    convert(value, kind)
    return value


def _fitting(value: Any, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or set(value) != set(wanted):
        raise TypeError(f"must be a table of {', '.join(wanted)}")
    for key, kind in wanted.items():
        try:
            convert(value[key], kind)
        except ValidationError:
            raise TypeError(f"{key} is of another kind") from None
    return value


_Finite: TypeAlias = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
_Number: TypeAlias = Annotated[float, Meta(gt=-1e300, lt=1e300)]
_Chance: TypeAlias = Annotated[float, Meta(gt=0, lt=1)]
_Size: TypeAlias = Annotated[int, Meta(ge=1)]
_Epsilon: TypeAlias = _Number | Literal["inf"]
_Part: Any = Literal[tuple(PARTS)]
_Some: TypeAlias = Annotated[list[str], Meta(min_length=1)]

_CELLS: Mapping[str, Any] = {  # of all kinds of fields, by their names
    "name": str, "unit": str, "low": _Finite, "high": _Finite, "log": bool, "edges": list[_Finite], "values": _Some,
    "true": _Some, "false": _Some, "origin": str, "written": str, "parts": list[_Part], "missing": str,
}  # fmt: skip


class _Certified(TypedDict):
    max: _Epsilon
    per_owner: list


class _Claim(TypedDict):
    source: str
    epsilon: _Epsilon | None


class _Interval(Struct, forbid_unknown_fields=True):
    value: _Number | None
    low: _Number | None
    high: _Number | None


class _Pair(Struct, forbid_unknown_fields=True):
    joint: _Number
    constant: _Number


class _Groups(Struct, forbid_unknown_fields=True):
    column: str
    metrics: dict[str, dict[str, _Interval]]


class _Published(Struct, forbid_unknown_fields=True):
    """The form of `evaluation.told.Published`, of which the file has what a card shows."""

    which: str
    share: _Number
    epsilon: _Epsilon
    owners: int
    of: int
    rows: int | None
    unit: str
    tables: str
    diverged: bool
    metrics: dict[str, _Interval]
    groups: _Groups | None


_Metric: Any = Literal[tuple(METRICS)]
_TRAINING: Mapping[str, Any] = {
    "coterie": str, "protocol": str, "calibration": str, "settings": dict, "penalty": str, "step": str,
    "topology": str | None, "owners": list[str], "sizes": list[int] | None, "data": str, "source": str, "note": str,
    "caveat": str, "engine": str, "where": str, "which": str, "steps": int,
}  # fmt: skip
_PRIVACY: Mapping[str, Any] = {
    "relation": str, "unit": str, "view": str, "delta": _Number,
    "budget_epsilon": Annotated[list[_Number], Meta(min_length=1)], "certified_epsilon": _Certified,
    "certificates": list[dict], "claim": _Claim, "accountant": str, "reason": str, "warnings": list[str],
    "statement": list[str], "facts": dict, "promise": _Some,
}  # fmt: skip
