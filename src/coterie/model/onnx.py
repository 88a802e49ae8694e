"""A model as ONNX: one input for each column as people have it, or one for images; label and probabilities out.

Numbers come in as doubles (rows, 1), a date as its days since the origin, categories as texts (rows, 1), images as
floats. ONNX has no way to refuse a row: an unknown category counts as none of the list and a missing number gives
NaN. `predict` refuses both. Where a column may be empty, an empty cell is NaN, or the empty text.
An output whose name a column has already is called `coterie/` and that name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.errors import InputError
from coterie.model.description import KINDS
from coterie.model.onnx_graph import Graph, apply
from coterie.model.predictor import TrainedModel
from coterie.problems.datasets import encoded_names
from coterie.problems.datasets.cells import flag_numbers
from coterie.problems.fields import (
    MARKED,
    Binned,
    Category,
    Field,
    Flag,
    Numeric,
    Parts,
    Plain,
)

OPSET, ML_OPSET, IR = 18, 3, 8  # of 2022, so that older runtimes can read it
_ML = "ai.onnx.ml"


def to_onnx(model: TrainedModel, digest: str) -> bytes:
    """The ONNX file's bytes; its metadata have the `digest` of the model's file, and the privacy cost."""
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise InputError(
            "onnx: the package is not installed. Install it: pip install 'coterie[onnx]'."
        ) from error
    description, graph = model.description, Graph()
    if description.shape:
        inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["rows", *description.shape])]
        x, shape = "images", description.shape
    else:
        kinds = {True: TensorProto.STRING, False: TensorProto.DOUBLE}
        inputs = [
            helper.make_tensor_value_info(field.name, kinds[isinstance(field, (Category, Flag))], ["rows", 1])
            for field in description.fields
        ]
        x = graph("Concat", *(_encoded(graph, field) for field in description.fields), axis=1)
        shape = (len(encoded_names(description.fields)),)
    for step in model.steps:
        x, shape = apply(graph, step, x, shape)
    scores = _scores(graph, model, graph.flat(x, shape))
    if description.decision.offset:
        scores = graph("Add", scores, graph.hold(description.decision.offset))
    outputs = _decided(graph, model, scores)
    onnx_model = helper.make_model(
        helper.make_graph(graph.nodes, "coterie", inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(_ML, ML_OPSET)],
        producer_name="coterie",
        ir_version=IR,
    )
    helper.set_model_props(onnx_model, _facts(model, digest))
    checker.check_model(onnx_model)
    return onnx_model.SerializeToString(deterministic=True)


def _encoded(graph: Graph, field: Field) -> str:
    """One column as the floats that `encode` makes of it."""
    if not field.missing:
        return _full(graph, field)
    if isinstance(field, (Category, Flag)):  # an empty text is none of the listed ones
        full, empty = _full(graph, field), _listed(graph, field.name, [""])
    else:
        empty = graph("Cast", graph("IsNaN", field.name), to=1)
        full = graph("Where", graph("IsNaN", field.name), graph.hold(0.0), _full(graph, field))
    return graph("Concat", full, empty, axis=1) if field.missing == MARKED else full


def _listed(graph: Graph, name: str, values: list[str]) -> str:
    known = graph("OneHotEncoder", name, domain=_ML, cats_strings=values, zeros=1)
    return graph("Reshape", known, graph.whole(-1, len(values)))


def _full(graph: Graph, field: Field) -> str:
    """The column's own floats, without a mark of empty cells."""
    if isinstance(field, Parts):
        raise InputError(
            f"column {field.name!r}: parts of a date cannot be exported to ONNX. Train without it, or use predict."
        )
    if isinstance(field, Category):
        return _listed(graph, field.name, list(field.values))
    if isinstance(field, Flag):
        weights = flag_numbers(field)[:-1, None] - 0.5
        middle = graph("MatMul", _listed(graph, field.name, [*field.true, *field.false]), graph.hold(weights))
        return graph("Add", middle, graph.hold(0.5))
    if isinstance(field, Binned):
        inner = field.edges[1:-1]
        if not inner:
            return graph(
                "Cast", graph("Add", graph("Mul", field.name, _double(graph, 0)), _double(graph, 1)), to=1
            )
        above = graph("Cast", graph("GreaterOrEqual", field.name, _double(graph, inner)), to=1)
        at_least = graph("Pad", above, graph.whole(0, 1, 0, 0), graph.hold(1.0))
        beyond = graph("Pad", above, graph.whole(0, 0, 0, 1), graph.hold(0.0))
        return graph("Sub", at_least, beyond)
    inside = graph("Min", graph("Max", field.name, _double(graph, field.low)), _double(graph, field.high))
    if isinstance(field, Plain):
        return graph("Cast", inside, to=1)
    share = graph("Sub", inside, _double(graph, field.low))
    width = field.high - field.low
    if isinstance(field, Numeric) and field.log:
        share, width = graph("Log", graph("Add", share, _double(graph, 1))), float(np.log1p(width))
    share = graph("Div", share, _double(graph, width))
    scaled = graph("Sub", graph("Mul", share, _double(graph, 2)), _double(graph, 1))
    return graph("Cast", scaled, to=1)


def _scores(graph: Graph, model: TrainedModel, x: str) -> str:
    kind = model.description.kind
    if kind not in KINDS:
        raise InputError(
            f"model={kind!r}: is not part of coterie, so that no ONNX is known for it. Use predict."
        )
    params = {name: graph.hold(leaf) for name, leaf in model.params.items()}
    if kind == "linear":
        return graph("MatMul", x, params["weights"])
    bend = {"tanh": "Tanh", "relu": "Relu"}[model.description.activation or ""]
    hidden = graph(bend, graph("Add", graph("MatMul", x, params["w1"]), params["b1"]))
    return graph("Add", graph("MatMul", hidden, params["w2"]), params["b2"])


def _decided(graph: Graph, model: TrainedModel, scores: str) -> list[Any]:
    """The graph's outputs: `prediction`, or `label` with `probabilities` (else `scores`)."""
    from onnx import TensorProto, helper

    description = model.description
    if description.range is not None:
        half = (description.range[1] - description.range[0]) / 2
        wide = graph("Cast", scores, to=11)
        scaled = graph("Mul", graph("Add", wide, _double(graph, 1)), _double(graph, half))
        output = _free("prediction", description.names)
        graph.named("Add", scaled, _double(graph, description.range[0]), output=output)
        return [helper.make_tensor_value_info(output, TensorProto.DOUBLE, ["rows", 1])]
    if description.task == "binary":
        chosen = graph("Cast", graph("Greater", scores, graph.hold(description.decision.cut)), to=7)
        chosen = graph("Reshape", chosen, graph.whole(-1))
    else:
        chosen = graph("ArgMax", scores, axis=1, keepdims=0)
    places, decided = list(range(len(description.classes))), _free("label", description.names)
    graph.named(
        "LabelEncoder",
        chosen,
        output=decided,
        domain=_ML,
        keys_int64s=places,
        values_strings=list(description.classes),
    )
    name = _free("probabilities" if model.has_probabilities else "scores", description.names)
    width = len(description.classes) if model.has_probabilities else description.outputs
    if model.has_probabilities:
        _probabilities(graph, description.loss, description.outputs, scores, name)
    else:
        graph.named("Identity", scores, output=name)
    label = helper.make_tensor_value_info(decided, TensorProto.STRING, ["rows"])
    return [label, helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])]


def _probabilities(graph: Graph, loss: str, outputs: int, scores: str, output: str) -> None:
    if loss == "softmax":
        graph.named("Softmax", scores, output=output, axis=1)
    elif outputs == 1:
        negative = graph("Sigmoid", graph("Neg", scores))
        graph.named("Concat", negative, graph("Sigmoid", scores), output=output, axis=1)
    else:  # in logarithms, as `probabilities` has it: shares may all be 0
        shares = graph("Neg", graph("Softplus", graph("Neg", scores)))
        graph.named("Softmax", shares, output=output, axis=1)


def _facts(model: TrainedModel, digest: str) -> dict[str, str]:
    """Metadata of the ONNX file: the model it is from, and its privacy statement."""
    description = model.description
    return {
        "coterie.sha256": digest,
        "coterie.target": description.target,
        "coterie.unit": description.unit,
        "coterie.certified_epsilon": str(description.privacy["certified_epsilon"]["max"]),
        "coterie.delta": str(description.privacy["delta"]),
        "coterie.statement": "\n".join(description.privacy["statement"]),
    }


def _free(output: str, columns: tuple[str, ...]) -> str:
    return f"coterie/{output}" if output in columns else output


def _double(graph: Graph, value: Any) -> str:
    return graph.hold(value, np.float64)
