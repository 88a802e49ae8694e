"""scikit-learn's own checks of what an estimator is, none of them excepted."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from coterie import CoterieClassifier, CoterieRegressor

# Rows of the checks are public. A budget so large that their few rows can be learnt from; few rounds, to be quick.
CHECKED = {"epsilon": 1e3, "rounds": 20, "public": True}


@pytest.mark.filterwarnings(
    "ignore::coterie.model.OutOfRange"
)  # ranges are read off rows, and others come to predict
@parametrize_with_checks([CoterieClassifier(**CHECKED), CoterieRegressor(**CHECKED)])
def test_it_is_an_estimator(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else the check of array namespaces would be skipped
    check(estimator)
