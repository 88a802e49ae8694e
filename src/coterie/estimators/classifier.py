"""`CoterieClassifier`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from coterie.errors import InputError
from coterie.estimators.base import FittedTarget, PrivateEstimator
from coterie.problems.metrics import PROBABLE
from coterie.problems.names import number_text


@dataclass(kw_only=True, repr=False, eq=False)
class CoterieClassifier(ClassifierMixin, PrivateEstimator):
    """A linear classifier that several owners train together, each within its privacy budget.

    Parameters: `protocol`, `epsilon` (one budget, one for each owner in order, or by name), `delta`, `topology`,
    `loss` ("hinge" for a support vector machine), `metric` (of `trace_`), `rounds`, `engine`, and `experiment`, a
    dictionary of any other keys of `coterie.Experiment`, as there. Public, and never read off rows without a warning:
    `bounds` of the columns, (low, high) for all, a pair for each, or a dictionary by name; and `classes`.
    `random_state`: of partition, sampling and noise; None draws one of 2³² seeds, which somebody with patience can try
    out. `public=True` says that the rows given to `fit` are public, so that nothing about them can leak.

    Attributes: `classes_`, `coef_`, `intercept_`, `n_features_in_`, `feature_names_in_`, `privacy_` (`epsilon`,
    `certificates`, `statement`, `promise`), `trace_`, and `model_`, the `TrainedModel`, with `save`.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> private = CoterieClassifier(epsilon=2.0, bounds=(-1, 1), classes=["no", "yes"], random_state=0)
    >>> private.fit(X, y, owners=2).score(X, y) > 0.8
    True
    >>> private.privacy_.epsilon <= 2.0
    True
    """

    classes: Any = None

    def predict(self, X: Any) -> np.ndarray:
        """(rows,) one of `classes_` each."""
        names = self._asked("predict", X)
        place = {name: at for at, name in enumerate(self.model_.classes)}  # in the order of `classes_`
        return self.classes_[[place[name] for name in names.tolist()]]

    def decision_function(self, X: Any) -> np.ndarray:
        """(rows,) positive where the second of two classes is predicted; or (rows, classes)."""
        return self._asked("decision_function", X)

    @available_if(lambda self: self.loss is None or self.loss in PROBABLE)
    def predict_proba(self, X: Any) -> np.ndarray:
        """(rows, classes) in the order of `classes_`; only of losses that give probabilities."""
        return self._asked("predict_proba", X)

    @property
    def coef_(self) -> np.ndarray:
        """(1 or classes, columns) in the columns' own units: `X @ coef_.T + intercept_` decides as `predict` does."""
        return self._weights()[0]

    @property
    def intercept_(self) -> np.ndarray:
        """(1 or classes,)."""
        return self._weights()[1]

    def _target(self, y: np.ndarray) -> FittedTarget:
        check_classification_targets(y)
        declared = self.classes is not None
        self.classes_ = np.unique(np.asarray(self.classes) if declared else y)
        if len(self.classes_) < 2:
            raise InputError(
                f"classes={self.classes!r:.80}: must be two or more different values."
                if declared
                else "y: has one class; needs at least 2. Give rows of both, or declare classes."
            )
        known = np.isin(y, self.classes_)
        if not known.all():
            raise InputError(
                f"y: row {int(np.argmin(known)) + 1} is none of the declared classes. Correct it."
            )
        names = [_name(label) for label in self.classes_.tolist()]
        read_off = () if declared else ("the list of classes (classes)",)
        return FittedTarget(
            np.array(names, object)[np.searchsorted(self.classes_, y)], {"classes": names}, read_off
        )


def _name(value: Any) -> str:
    """A class's name as files have it: 1.0 is class 1."""
    return str(value) if isinstance(value, (str, bool)) else number_text(repr(value)) or str(value)
