"""A trained model: from rows as people have them to predictions in the target's own unit and class names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coterie.errors import InputError
from coterie.model import format as files
from coterie.model import rows as given
from coterie.model.description import LAYERS, Description, from_json, to_json
from coterie.model.rows import OutOfRange, Rows
from coterie.problems.datasets import encoded_names
from coterie.problems.feature_steps import FEATURES, rebuilt
from coterie.problems.features import Step
from coterie.problems.metrics import PROBABLE, own_unit, probabilities
from coterie.registry import MARK, Registry

_CHUNK = 8192  # rows whose features are in memory at once


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TrainedModel:
    """A model of a run or a node, with everything that is needed to use it. `load` reads one, `save` writes it."""

    description: Description
    steps: tuple[Step, ...]  # from encoded rows to features
    params: Mapping[str, np.ndarray]
    # linear: weights (features, outputs); two_layer: w1, b1, w2, b2; else as the model from outside names them

    def __repr__(self) -> str:
        about = self.description
        width = (
            f"{len(about.fields)} columns" if about.fields else " × ".join(map(str, about.shape)) + " images"
        )
        return f"<TrainedModel of {about.target!r} from {width}: {about.kind}, {about.loss}>"

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in the order of probabilities; none for a regression."""
        return self.description.classes

    def predict(self, rows: Rows) -> np.ndarray:
        """(rows,) a class name each, or a quantity in the target's own unit.

        `rows`: a mapping of columns, a data frame, or a 2-D array in the columns' order; for images an array
        (rows, height, width[, channels]). Values out of range are moved to its end with a warning (`OutOfRange`).
        """
        return self.decided(self.scores(rows))

    def predict_proba(self, rows: Rows) -> np.ndarray:
        """(rows, classes) probabilities, in the order of `classes`. InputError where the loss gives none."""
        return self.probabilities(self.scores(rows))

    def decision_function(self, rows: Rows) -> np.ndarray:
        """(rows,) scores of the second of two classes, positive where it is predicted; or (rows, classes)."""
        self._need_classes("decision_function")
        scores = self.scores(rows)
        return scores[:, 0] - np.float32(self.description.decision.cut) if scores.shape[1] == 1 else scores

    def score(self, rows: Rows, y: Any) -> float:
        """Accuracy, or R² of a regression; `y` in class names or the target's own unit."""
        scores, y = self.scores(rows), self._targets(y)
        if len(scores) != len(y):
            raise InputError(f"y: has {len(y)} values for {len(scores)} rows. Give one for each.")
        if self.description.range is None:
            return float(np.mean(self._chosen(scores) == y))
        spread = float(np.sum((y - y.mean()) ** 2))
        if spread == 0:
            raise InputError("y: all values are equal, so that R² says nothing. Give rows that differ.")
        return 1.0 - float(np.sum((self.decided(scores) - y) ** 2)) / spread

    def scores(self, rows: Rows) -> np.ndarray:
        """(rows, outputs) float32: the scores of the loss, with the base rate that class weights removed."""
        x, notes = given.encoded(self.description, rows)
        if notes:
            warnings.warn(" ".join(notes), OutOfRange, stacklevel=3)
        return self.scores_of(x)

    def scores_of(self, x: np.ndarray) -> np.ndarray:
        """The scores of encoded rows."""
        if not all(np.isfinite(leaf).all() for leaf in self.params.values()):
            raise InputError(
                "model: its weights are not finite numbers, as its training diverged. Train another."
            )
        parts = (x[first : first + _CHUNK] for first in range(0, len(x), _CHUNK))
        features = rebuilt(self.steps)
        scores = np.concatenate([self._forward(features.apply(part)) for part in parts])
        return scores + np.float32(self.description.decision.offset)

    def decided(self, scores: np.ndarray) -> np.ndarray:
        """The predictions of scores."""
        description = self.description
        if description.range is not None:
            return own_unit(scores[:, 0], description.range)
        return np.array(description.classes)[self._chosen(scores)]

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """The probabilities of scores."""
        self._need_classes("predict_proba")
        if not self.has_probabilities:
            raise InputError(
                f"loss={self.description.loss!r}: its scores are no probabilities. Use decision_function, or train "
                "with logistic, softmax or one_vs_all."
            )
        return probabilities(self.description.loss, scores)

    @property
    def has_probabilities(self) -> bool:
        """Whether `predict_proba` can answer."""
        return self.description.range is None and self.description.loss in PROBABLE

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the model's file, which is verified when it is read."""
        return from_bytes, (self.to_bytes(), "pickle")

    def to_bytes(self) -> bytes:
        """The model's file. Equal models are equal bytes."""
        arrays = {f"model.{name}": np.asarray(leaf) for name, leaf in self.params.items()}
        steps = []
        for at, step in enumerate(self.steps):
            steps.append({"step": step.name, **step.settings, "arrays": sorted(step.arrays)})
            arrays |= {f"features.{at}.{name}": array for name, array in step.arrays.items()}
        return files.pack({**to_json(self.description), "features": steps}, arrays)

    def save(self, path: str | Path) -> Path:
        """Write the model's file atomically."""
        return files.write(Path(path), self.to_bytes())

    def _forward(self, x: np.ndarray) -> np.ndarray:
        """Scores in double precision, so that a row's scores do not depend on the other rows."""
        if self.description.kind not in LAYERS:
            return self._scores_from_outside(x)
        values = x.astype(np.float64)
        for at, (weights, constants) in enumerate(LAYERS[self.description.kind]):
            if at:
                values = np.tanh(values) if self.description.activation == "tanh" else np.maximum(values, 0)
            values = values @ self.params[weights]
            values = values if constants is None else values + self.params[constants]
        return values.astype(np.float32)

    def _scores_from_outside(self, x: np.ndarray) -> np.ndarray:
        """Scores of a model from outside coterie, which needs JAX."""
        import jax.numpy as jnp

        from coterie.problems.models import MODELS, filled

        model = MODELS.find(self.description.kind)(dim=x.shape[1], outputs=self.description.outputs)
        return np.asarray(model.scores(filled(model, self.params), jnp.asarray(x)))

    def _chosen(self, scores: np.ndarray) -> np.ndarray:
        if scores.shape[1] > 1:
            return scores.argmax(axis=1)
        return (scores[:, 0] > np.float32(self.description.decision.cut)).astype(int)

    def _targets(self, y: Any) -> np.ndarray:
        if self.description.range is None:
            return given.labels(self.description, y)
        return given.quantities("y", np.asarray(y).ravel())

    def _need_classes(self, what: str) -> None:
        if self.description.range is not None:
            raise InputError(
                f"{what}: is for classes, and {self.description.target!r} is a quantity. Use predict."
            )


def load(path: str | Path) -> TrainedModel:
    """The model of a file, of a run's folder or of a node's result; InputError unless it is whole.

    >>> import tempfile, pathlib
    >>> load(pathlib.Path(tempfile.mkdtemp()))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    coterie.errors.InputError: model='...model.safetensors': cannot be read (No such file or directory). Give ...
    """
    return from_bytes(*files.read(path))


def from_bytes(data: bytes, source: str) -> TrainedModel:
    """The model of a file's bytes. `source` is named in messages."""
    content = files.unpack(data, source)
    _check_plugins(content.description, source)
    try:
        description = from_json(content.description)
        steps = tuple(
            _step(at, step, content.arrays) for at, step in enumerate(content.description["features"])
        )
        params = {
            name.removeprefix("model."): array
            for name, array in content.arrays.items()
            if name.startswith("model.")
        }
        model = TrainedModel(description=description, steps=steps, params=params)
        _check_shapes(model)
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        ArithmeticError,
        InputError,
    ) as error:
        raise InputError(
            f"model={source!r}: is whole, but not as docs/model.md specifies ({error}). Ask whoever wrote it."
        ) from error
    return model


def _check_plugins(description: Mapping[str, Any], source: str) -> None:
    """InputError that names the missing plug-in, where a model uses functions from outside coterie."""
    try:
        kind = description["model"]["kind"]
        wanted = [
            ("features", step["step"], step["from"]) for step in description["features"] if "from" in step
        ]
        if kind not in LAYERS:
            wanted.append(("model", kind, description["model"]["from"]))
    except (KeyError, TypeError, AttributeError):
        return  # errors are reported where it is read
    for what, name, made_by in wanted:
        if isinstance(name, str):
            _check_plugin(what, name, str(made_by), source)


def _check_plugin(what: str, name: str, made_by: str, source: str) -> None:
    registry: Registry[Any] = FEATURES
    if what == "model":
        from coterie.problems.models import MODELS  # needs JAX, as models from outside do

        registry = MODELS
    plain = name.removeprefix(MARK)
    if registry.is_own(name) or (plain in registry and not registry.is_own(plain)):
        return
    remedy = f"Register it first: coterie.register({what!r}, {plain!r}, …)."
    if made_by:
        remedy = f"It is an entry point of {made_by}: install that."
    raise InputError(f"model={source!r}: needs {what} {plain!r}, which is not part of coterie. {remedy}")


def _step(at: int, value: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Step:
    settings = {key: setting for key, setting in value.items() if key not in ("step", "arrays")}
    return Step(value["step"], settings, {name: arrays[f"features.{at}.{name}"] for name in value["arrays"]})


def _check_shapes(model: TrainedModel) -> None:
    """ValueError unless a made-up row passes through the whole model."""
    description = model.description
    if description.shape:
        row = np.zeros((1, *description.shape), np.float32)
    else:
        row = np.zeros((1, len(encoded_names(description.fields))), np.float32)
    if model._forward(rebuilt(model.steps).apply(row)).shape != (1, description.outputs):
        raise ValueError("weights do not fit columns and classes")
