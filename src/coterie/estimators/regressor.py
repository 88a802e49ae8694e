"""`CoterieRegressor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from coterie.errors import InputError
from coterie.estimators.base import FittedTarget, PrivateEstimator
from coterie.estimators.ranges import span_of


@dataclass(kw_only=True, repr=False, eq=False)
class CoterieRegressor(RegressorMixin, PrivateEstimator):
    """A linear regression that several owners train together, each within its privacy budget.

    Parameters and attributes as `CoterieClassifier` has them, but for classes; `target_bounds`, (low, high), is the
    public range of the target: values outside are moved to its ends, and predictions are in its unit.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0, 10, (300, 1))
    >>> private = CoterieRegressor(epsilon=5.0, bounds=(0, 10), target_bounds=(0, 50), random_state=0)
    >>> private.fit(X, 5 * X[:, 0]).score(X, 5 * X[:, 0]) > 0.5
    True
    """

    target_bounds: Any = None

    _y_numeric = True

    def predict(self, X: Any) -> np.ndarray:
        """(rows,) in the target's own unit."""
        return self._asked("predict", X)

    @property
    def coef_(self) -> np.ndarray:
        """(columns,) in the columns' own units; `predict` divides what they add to the middle by a row's length."""
        return self._weights()[0][0]

    @property
    def intercept_(self) -> float:
        """The constant that `predict` adds beside `coef_`."""
        return float(self._weights()[1][0])

    def _target(self, y: np.ndarray) -> FittedTarget:
        if self.target_bounds is None:
            return FittedTarget(y, {"range": span_of(y)}, ("the range of y (target_bounds)",))
        try:
            low, high = (float(end) for end in self.target_bounds)
        except (TypeError, ValueError):
            raise InputError(
                f"target_bounds={self.target_bounds!r}: must be two numbers, (low, high)."
            ) from None
        return FittedTarget(y, {"range": [low, high]}, ())
