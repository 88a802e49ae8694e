"""Estimators as scikit-learn's users expect them: private training behind `fit` and `predict`.

They may know experiments and models, and nothing of how these train."""

from coterie.estimators.classifier import CoterieClassifier
from coterie.estimators.regressor import CoterieRegressor

__all__ = ["CoterieClassifier", "CoterieRegressor"]
