"""A small writer of ONNX graphs, and every feature step as part of one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from coterie.errors import InputError
from coterie.problems.features import Step

_ORIENTATIONS = 8  # of the step `gradients`


class Graph:
    """Nodes and constants of a growing graph; every name in it is that of a value."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self._make, self._constant = helper.make_node, numpy_helper.from_array
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, op: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any) -> str:
        """Add a node; return the name of its output, which an output of the graph has already."""
        name = output or f"coterie/{op}_{len(self.nodes)}"
        self.nodes.append(self._make(op, list(inputs), [name], domain=domain, **attributes))
        return name

    def hold(self, value: Any, kind: Any = np.float32) -> str:
        """Add a constant; return its name."""
        name = f"coterie/constant_{len(self.constants)}"
        self.constants.append(self._constant(np.asarray(value, kind), name))
        return name

    def whole(self, *value: int) -> str:
        """A constant list of whole numbers, as shapes and axes are."""
        return self.hold(value, np.int64)

    def flat(self, x: str, shape: tuple[int, ...]) -> str:
        """Rows as vectors."""
        return x if len(shape) == 1 else self("Reshape", x, self.whole(-1, math.prod(shape)))


def apply(graph: Graph, step: Step, x: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Add a step; return its output's name and the shape of a row there. InputError where ONNX cannot express it."""
    if step.name not in _STEPS:
        raise InputError(f"features: step {step.name!r} cannot be exported to ONNX. Train without it.")
    return _STEPS[step.name](graph, step, x, shape)


Applied = tuple[str, tuple[int, ...]]


def _scale(graph: Graph, step: Step, x: str, shape: tuple[int, ...]) -> Applied:
    low, high = step.arrays["bounds"].T
    bottom = step.settings["low"]
    usable = high > low
    slope = np.where(usable, (1.0 - bottom) / np.where(usable, high - low, 1.0), 0.0)
    inside = _clipped(graph, graph.flat(x, shape), low, high)
    part = graph("Mul", graph("Sub", inside, graph.hold(low, np.float64)), graph.hold(slope, np.float64))
    scaled = graph("Add", part, graph.hold(np.where(usable, bottom, 0.0), np.float64))
    cast = graph("Cast", scaled, to=1)
    return (cast if len(shape) == 1 else graph("Reshape", cast, graph.whole(-1, *shape))), shape


def _clipped(graph: Graph, x: str, low: np.ndarray, high: np.ndarray) -> str:
    """Clip in double precision, as in training."""
    wide = graph("Cast", x, to=11)
    return graph("Min", graph("Max", wide, graph.hold(low, np.float64)), graph.hold(high, np.float64))


def _ball(graph: Graph, step: Step, x: str, shape: tuple[int, ...]) -> Applied:
    flat, width = graph.flat(x, shape), math.prod(shape)
    intercept, steady = step.settings["intercept"], step.settings.get("steady", False)
    width += intercept is not None

    def appended(rows: str) -> str:
        return graph("Pad", rows, graph.whole(0, 0, 0, 1), graph.hold(intercept))

    if intercept is not None and not steady:
        flat = appended(flat)
    norm = graph("ReduceL2", flat, graph.whole(1), keepdims=1)
    unit = graph.hold(1.0)
    length = graph("Max", norm, unit)
    if step.settings["surface"]:
        length = graph("Where", graph("Greater", norm, graph.hold(0.0)), norm, unit)
    rows = graph("Div", flat, length)
    if intercept is not None and steady:
        rows = appended(graph("Mul", rows, graph.hold(math.sqrt(1 - intercept**2))))
    return rows, (width,)


def _pool(graph: Graph, step: Step, x: str, shape: tuple[int, ...]) -> Applied:
    factor, (height, width, *rest) = step.settings["factor"], shape
    down, across = height // factor, width // factor
    tiles = graph("Reshape", x, graph.whole(-1, down, factor, across, factor, *rest))
    means = graph("ReduceMean", tiles, graph.whole(2, 4), keepdims=0)
    size = down * across * math.prod(rest)
    return graph("Reshape", means, graph.whole(-1, size)), (size,)


def _fourier(graph: Graph, step: Step, x: str, shape: tuple[int, ...]) -> Applied:
    directions = step.arrays["directions"]
    angles = graph("MatMul", graph.flat(x, shape), graph.hold(directions))
    waves = graph("Concat", graph("Cos", angles), graph("Sin", angles), axis=1)
    half = directions.shape[1]
    return graph("Mul", waves, graph.hold(math.sqrt(1.0 / half))), (2 * half,)


def _piecewise(graph: Graph, step: Step, x: str, shape: tuple[int, ...]) -> Applied:
    low, high = step.arrays["bounds"].T
    knots, width = step.settings["knots"], math.prod(shape)
    slope = np.where(high > low, (knots - 1) / np.where(high > low, high - low, 1.0), 0.0)
    inside = _clipped(graph, graph.flat(x, shape), low, high)
    place = graph("Mul", graph("Sub", inside, graph.hold(low, np.float64)), graph.hold(slope, np.float64))
    passed = np.broadcast_to(step.arrays["binary"], width)
    bent = graph("Gather", graph("Cast", place, to=1), graph.whole(*np.flatnonzero(~passed).tolist()), axis=1)
    column = graph("Unsqueeze", bent, graph.whole(2))
    apart = graph("Abs", graph("Sub", column, graph.hold(np.arange(knots))))
    hats = graph("Relu", graph("Sub", graph.hold(1.0), apart))
    size = int((~passed).sum()) * knots
    features = graph("Reshape", hats, graph.whole(-1, size))
    if passed.any():
        unchanged = graph(
            "Gather", graph("Cast", inside, to=1), graph.whole(*np.flatnonzero(passed).tolist()), axis=1
        )
        features = graph("Concat", unchanged, features, axis=1) if size else unchanged
    return features, (int(passed.sum()) + size,)


def _pca(graph: Graph, step: Step, x: str, shape: tuple[int, ...]) -> Applied:
    centred = graph("Sub", graph.flat(x, shape), graph.hold(step.arrays["centre"]))
    axes = step.arrays["axes"]
    return graph("MatMul", centred, graph.hold(axes)), (axes.shape[1],)


def _centre(graph: Graph, step: Step, x: str, shape: tuple[int, ...]) -> Applied:
    left = graph("Sub", graph.flat(x, shape), graph.hold(step.arrays["mean"]))
    return graph("Div", left, graph.hold(step.settings["distance"])), (math.prod(shape),)


def _gradients(graph: Graph, step: Step, x: str, shape: tuple[int, ...]) -> Applied:
    """As in `image_features`; the angle of two coordinates is computed from that of their quotient, as ONNX has it."""
    cell, (height, width, *channels) = step.settings["cell"], shape
    grey = graph("ReduceMean", x, graph.whole(3), keepdims=0) if channels else x
    dy, dx = _slope(graph, grey, 1, height), _slope(graph, grey, 2, width)
    length = graph("Sqrt", graph("Add", graph("Mul", dx, dx), graph("Mul", dy, dy)))
    angle = _angle(graph, dy, dx)
    place = graph("Mul", angle, graph.hold(_ORIENTATIONS / (2 * math.pi)))
    negative = graph("Less", place, graph.hold(0.0))
    place = graph("Where", negative, graph("Add", place, graph.hold(_ORIENTATIONS)), place)
    wide = graph("Unsqueeze", place, graph.whole(3))
    apart = graph("Abs", graph("Sub", wide, graph.hold(np.arange(_ORIENTATIONS))))
    apart = graph("Min", apart, graph("Sub", graph.hold(_ORIENTATIONS), apart))
    share = graph("Relu", graph("Sub", graph.hold(1.0), apart))
    votes = graph("Mul", graph("Unsqueeze", graph("Sqrt", length), graph.whole(3)), share)
    down, across = height // cell, width // cell
    cropped = graph(
        "Slice", votes, graph.whole(0, 0), graph.whole(down * cell, across * cell), graph.whole(1, 2)
    )
    cells = graph("Reshape", cropped, graph.whole(-1, down, cell, across, cell, _ORIENTATIONS))
    size = down * across * _ORIENTATIONS
    return graph(
        "Reshape", graph("ReduceSum", cells, graph.whole(2, 4), keepdims=0), graph.whole(-1, size)
    ), (size,)


def _slope(graph: Graph, grey: str, axis: int, length: int) -> str:
    """Central differences, one-sided at the ends."""

    def part(first: int, last: int) -> str:
        return graph("Slice", grey, graph.whole(first), graph.whole(last), graph.whole(axis))

    start = graph("Sub", part(1, 2), part(0, 1))
    end = graph("Sub", part(length - 1, length), part(length - 2, length - 1))
    if length == 2:
        return graph("Concat", start, end, axis=axis)
    inner = graph("Mul", graph("Sub", part(2, length), part(0, length - 2)), graph.hold(0.5))
    return graph("Concat", start, inner, end, axis=axis)


def _angle(graph: Graph, dy: str, dx: str) -> str:
    """atan2(dy, dx), with 0 where both are 0: the vote there is 0 as well."""
    zero = graph.hold(0.0)
    upright = graph("Equal", dx, zero)
    base = graph("Atan", graph("Div", dy, graph("Where", upright, graph.hold(1.0), dx)))
    around = graph("Where", graph("Less", dy, zero), graph.hold(-math.pi), graph.hold(math.pi))
    turned = graph("Where", graph("Less", dx, zero), graph("Add", base, around), base)
    return graph("Where", upright, graph("Mul", graph("Sign", dy), graph.hold(math.pi / 2)), turned)


_STEPS: dict[str, Callable[[Graph, Step, str, tuple[int, ...]], Applied]] = {
    "scale": _scale,
    "ball": _ball,
    "pool": _pool,
    "gradients": _gradients,
    "fourier": _fourier,
    "piecewise": _piecewise,
    "pca": _pca,
    "centre": _centre,
}
