"""What both estimators share: from rows and parameters to an experiment, and from its outcome to fitted attributes."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie.accounting import Certificate
from coterie.errors import InputError
from coterie.estimators import leaks
from coterie.estimators.ranges import Ranges, columns_of
from coterie.experiments.experiment import MOST_SEED, Experiment, override
from coterie.experiments.fitting import Fitted, fit
from coterie.experiments.oracle import oracle
from coterie.experiments.output import ORACLE
from coterie.experiments.trained import model_of_run
from coterie.model import TrainedModel
from coterie.model.weights import in_own_units
from coterie.problems.datasets.memory import TARGET, Records, free
from coterie.problems.datasets.own import LEAST_ROWS


class BadInput(InputError, ValueError):
    """An InputError that whoever calls scikit-learn's estimators catches, too."""


class Privacy(NamedTuple):
    """What a fit cost, and what that means: see docs/running.md."""

    epsilon: float  # the largest that is certified of any owner
    delta: float
    certificates: tuple[Certificate, ...]  # one for each owner
    statement: tuple[str, ...]
    promise: tuple[str, ...]  # the same in plain words
    warnings: tuple[str, ...]


class FittedTarget(NamedTuple):
    """What is to be learnt."""

    values: np.ndarray
    declaration: dict[str, Any]  # its part of a columns file
    read_off: tuple[str, ...]  # what of it was read off the rows, in words


# `__init__` keeps parameters as they are; the rest is scikit-learn's
@dataclass(kw_only=True, repr=False, eq=False)
class PrivateEstimator(BaseEstimator, ABC):
    """Parameters and attributes that `CoterieClassifier` and `CoterieRegressor` share."""

    protocol: str = "dual_averaging"
    epsilon: Any = 1.0
    delta: float = 1e-5
    bounds: Any = None
    topology: str = "ring"
    loss: str | None = None
    metric: str | None = None
    rounds: int | None = None
    random_state: Any = None
    engine: str = "simulate"
    public: bool = False
    experiment: dict[str, Any] | None = None

    def fit(self, X: Any, y: Any, owners: Any = None, groups: Any = None) -> PrivateEstimator:
        """Train on all rows. `owners`: who holds each row, or how many they are dealt to; None: one owner has them all.

        `groups`: whom each row is about, such as a patient: then all of one's rows together are protected, of which
        `experiment={"records_per_unit": 5}` are kept at most. None: each row by itself.

        Warns (`PrivacyLeakWarning`) of what no certificate covers, unless the rows are `public`.
        """
        try:
            return self._fit(X, y, owners, groups)
        except InputError as error:
            raise BadInput(str(error)) from None

    def _fit(self, X: Any, y: Any, owners: Any, groups: Any) -> PrivateEstimator:
        named = getattr(y, "name", None)
        x, y = self._checked(X, y)
        _check_filled(y)
        target = self._target(y)
        ranges = columns_of(x, self.bounds)
        name = str(named or free(TARGET, ranges.columns))
        experiment = self._experiment(ranges, target, name, owners, groups)
        if not self.public:
            leaks.warn(ranges.frame, (*ranges.read_off, *target.read_off))
        done = fit(experiment)
        if not self.public:
            leaks.remember(ranges.frame)
        self.model_ = model_of_run(done)
        self.privacy_ = _privacy(done, self.model_)
        self.trace_ = _trace(done)
        return self

    def _checked(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Rows as they are, with texts and dates, where columns are declared by name; else as numbers."""
        if not self._by_name(X):
            return self._numbers(X, y)
        validate_data(self, X, skip_check_array=True)
        check_consistent_length(X, y)
        return X, column_or_1d(y, warn=True)

    def _numbers(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        import pandas as pd

        checked: Any = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            y_numeric=self._y_numeric,
            ensure_min_samples=LEAST_ROWS,
        )
        x = checked[0].toarray() if hasattr(checked[0], "toarray") else checked[0]
        names = getattr(self, "feature_names_in_", None)
        return x if names is None else pd.DataFrame(x, columns=names), checked[1]

    def _by_name(self, X: Any) -> bool:
        return isinstance(self.bounds, Mapping) and hasattr(X, "columns")

    def _experiment(
        self, ranges: Ranges, target: FittedTarget, name: str, owners: Any, groups: Any
    ) -> Experiment:
        import pandas as pd

        number = 1 if owners is None else owners if isinstance(owners, Integral) else None
        more = dict(self.experiment or {})
        columns = {"target": name, "columns": ranges.columns, **target.declaration}
        if ranges.read_off or target.read_off:
            columns["from_rows"] = True
        rows = Records(
            (ranges.frame, pd.Series(target.values, name=name)),
            owners if number is None else None,
            groups=groups,
            held_out=False,
        )
        given = {
            "data": rows,
            **({} if rows.group is None else {"unit": f"column:{rows.group}"}),
            "columns": columns,
            "owners": number,
            "protocol": self.protocol,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "topology": self.topology,
            "loss": self.loss,
            "metric": self.metric,
            "engine": self.engine,
            "seed": _seed(self.random_state),
            "settings": {
                **more.pop("settings", {}),
                **({} if self.rounds is None else {"rounds": self.rounds}),
            },
        }
        for key in more:
            if key in given:
                raise InputError(
                    f"experiment: {key!r} is a parameter of its own, or comes with fit. Leave it out."
                )
        return override(Experiment(**given), more, "experiment")

    def _asked(self, what: str, X: Any) -> np.ndarray:
        """What the model says of rows that fit those of `fit`; `what`: one of its methods."""
        check_is_fitted(self)
        if self._by_name(X):
            validate_data(self, X, skip_check_array=True, reset=False)
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        try:
            return getattr(self.model_, what)(X)
        except InputError as error:
            raise BadInput(str(error)) from None

    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        weights = in_own_units(self.model_)
        if weights is None:
            raise AttributeError("coef_: this model's weights belong to no single columns.")
        return weights

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    _y_numeric = False

    @abstractmethod
    def _target(self, y: np.ndarray) -> FittedTarget:
        """What is to be learnt, as the table takes it."""


def _check_filled(y: np.ndarray) -> None:
    import pandas as pd

    if (empty := pd.isna(y)).any():
        raise InputError(f"y: row {int(np.argmax(empty)) + 1} is empty. Remove such rows.")


def _seed(random_state: Any) -> int:
    """None: one that no program tells, unlike NumPy's global state. There are 2³² of them, which can be tried out."""
    if random_state is None:
        return secrets.randbelow(MOST_SEED + 1)
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


def _privacy(done: Fitted, model: TrainedModel) -> Privacy:
    described = model.description.privacy
    return Privacy(
        epsilon=max(certificate.epsilon for certificate in done.certificates),
        delta=done.prepared.task.delta,
        certificates=tuple(done.certificates),
        statement=tuple(described["statement"]),
        promise=tuple(described["promise"]),
        warnings=tuple(described["warnings"]),
    )


def _trace(done: Fitted) -> dict[str, np.ndarray]:
    """Steps, the metric of the owners' models on the rows they were trained on (oracle values), their disagreement."""
    weights = done.prepared.task.sizes if done.curve.shape[1] == done.prepared.task.owners else None
    joint = oracle(np.average(done.curve, axis=1, weights=weights))
    return {
        "step": done.steps,
        f"{done.prepared.judge.metric}{ORACLE}": joint,
        "disagreement": np.asarray(done.disagreement),
    }
