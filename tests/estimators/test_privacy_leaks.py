"""What leaks although certificates hold is said as a warning, with the remedy; the remedy is quiet."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from coterie import CoterieClassifier, CoterieRegressor, PrivacyLeakWarning
from coterie.estimators import leaks

ROWS = 60
CHEAP = {"epsilon": 5.0, "rounds": 2, "random_state": 0}
DECLARED = CHEAP | {"bounds": (-9, 9), "classes": [0, 1]}


@pytest.fixture(autouse=True)
def no_rows_met():
    leaks._met.clear()


def rows(seed=0):
    x = np.random.default_rng(seed).normal(size=(ROWS, 3))
    return x, (x[:, 0] > 0).astype(int)


def told(action):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    assert all(issubclass(one.category, PrivacyLeakWarning) for one in caught)
    return [str(one.message) for one in caught]


def test_declared_columns_and_classes_are_quiet():
    assert told(lambda: CoterieClassifier(**DECLARED).fit(*rows())) == []


@pytest.mark.parametrize(
    ("settings", "leak"),
    [
        ({}, "the ranges of x0, x1, x2 (bounds) and the list of classes (classes)"),
        ({"bounds": (-9, 9)}, "the list of classes (classes)"),
        ({"classes": [0, 1]}, "the ranges of x0, x1, x2 (bounds)"),
        ({"classes": [0, 1], "bounds": {"x0": (-9, 9)}}, "the ranges of x1, x2 (bounds)"),
    ],
)
def test_what_is_read_off_rows(settings, leak):
    private = CoterieClassifier(**CHEAP, **settings)
    (message,) = told(lambda: private.fit(*rows()))
    assert message.startswith(f"{leak}: read off the rows")
    assert (
        "Give what is known without looking at rows, or say that these rows are public (public=True)"
        in message
    )
    assert any("read off the records" in line for line in private.privacy_.warnings)
    assert any("Beware:" in line and "read off the records" in line for line in private.privacy_.statement)
    assert told(lambda: private.set_params(public=True).fit(*rows())) == []


def test_the_range_of_a_target():
    x, _ = rows()
    (message,) = told(lambda: CoterieRegressor(**CHEAP, bounds=(-9, 9)).fit(x, x[:, 0]))
    assert message.startswith("the range of y (target_bounds): read off the rows")
    assert (
        told(lambda: CoterieRegressor(**CHEAP, bounds=(-9, 9), target_bounds=(-9, 9)).fit(-x, x[:, 0])) == []
    )


def test_neighbours_show_in_what_was_read_off_and_not_in_what_was_declared():
    """Two data sets that differ in one record, an outlier of a class of its own."""
    x, y = rows()
    other, label = x.copy(), y.copy()
    other[0], label[0] = 8.0, 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        open_, closed = (
            [
                CoterieClassifier(**CHEAP, **said).fit(*pair).model_.description
                for pair in ((x, y), (other, label))
            ]
            for said in ({}, {"bounds": (-9, 9), "classes": [0, 1, 2]})
        )
    assert open_[0].fields != open_[1].fields
    assert open_[0].classes != open_[1].classes
    assert (closed[0].fields, closed[0].classes) == (closed[1].fields, closed[1].classes)
    assert closed[0].privacy == closed[1].privacy


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (StandardScaler(), "StandardScaler"),
        (PCA(2), "PCA"),
        (make_pipeline(Normalizer(), StandardScaler()), "Pipeline"),
        (make_union(StandardScaler(), Normalizer()), "FeatureUnion"),
        (make_column_transformer((StandardScaler(), [0]), remainder="passthrough"), "ColumnTransformer"),
    ],
)
def test_a_transformer_fitted_on_private_rows(step, name):
    (message,) = told(lambda: make_pipeline(step, CoterieClassifier(**DECLARED)).fit(*rows()))
    assert f"({name}) was fitted on the private rows" in message
    assert "Fit it on public rows and freeze it (sklearn.frozen.FrozenEstimator)" in message


@pytest.mark.parametrize(
    "step",
    [
        "passthrough",
        Normalizer(),
        FunctionTransformer(np.tanh),
        FrozenEstimator(StandardScaler().fit(rows(9)[0])),
        make_union(Normalizer(), FunctionTransformer(np.tanh)),
        make_column_transformer((Normalizer(), [0, 1]), remainder="passthrough"),
    ],
)
def test_a_transformer_that_learns_nothing_is_quiet(step):
    assert told(lambda: make_pipeline(step, CoterieClassifier(**DECLARED)).fit(*rows())) == []


def test_a_transformer_of_the_target():
    x, _ = rows()
    inner = CoterieRegressor(**CHEAP, bounds=(-9, 9), target_bounds=(-9, 9))
    (message,) = told(lambda: TransformedTargetRegressor(inner, transformer=StandardScaler()).fit(x, x[:, 0]))
    assert "step 'transformer' (StandardScaler) was fitted on the private rows" in message


@pytest.mark.parametrize(
    "search",
    [
        lambda private, x, y: GridSearchCV(private, {"epsilon": [1.0, 2.0]}, cv=2, refit=False).fit(x, y),
        lambda private, x, y: cross_val_score(private, x, y, cv=2),
        lambda private, x, y: cross_val_predict(private, x, y, cv=2),
        lambda private, x, y: cross_val_score(make_pipeline(Normalizer(), private), x, y, cv=2),
    ],
)
def test_searches_and_cross_validation(search):
    messages = told(lambda: search(CoterieClassifier(**DECLARED), *rows()))
    assert messages
    assert all("fit was called by sklearn.model_selection" in one for one in messages)
    assert all("Choose settings on public rows" in one for one in messages)
    assert told(lambda: search(CoterieClassifier(**DECLARED, public=True), *rows())) == []


@pytest.mark.parametrize(
    "around",
    [
        lambda private: CalibratedClassifierCV(private, cv=2),  # whose folds share no row
        lambda private: RFE(private, n_features_to_select=2),  # to which rows of fewer columns are other rows
        lambda private: VotingClassifier([("private", private), ("bare", DummyClassifier())]),
    ],
)
def test_other_estimators_of_scikit_learn_that_learn_of_rows_themselves(around):
    made = around(CoterieClassifier(**DECLARED))
    messages = told(lambda: made.fit(*rows()))
    assert messages
    assert all(f"was called by scikit-learn's {type(made).__name__}" in one for one in messages)
    assert told(lambda: around(CoterieClassifier(**DECLARED, public=True)).fit(*rows())) == []


def test_a_second_fit_on_the_same_rows():
    x, y = rows()
    private = CoterieClassifier(**DECLARED)
    assert told(lambda: private.fit(x, y)) == []
    for again in (
        (x, y),
        (x[::-1], y[::-1]),
        (x[:30], y[:30]),
        (x, 1 - y),
        (pd.DataFrame(x, columns=list("abc")), y),
    ):
        (message,) = told(lambda again=again: CoterieClassifier(**DECLARED).fit(*again))
        assert "rows that an earlier fit of this process has used: what the fits cost adds up" in message
    assert told(lambda: private.fit(*rows(1))) == []


def test_few_equal_rows_are_chance():
    x, y = rows()
    other, _ = rows(1)
    other[: ROWS // 10 - 1] = x[: ROWS // 10 - 1]
    CoterieClassifier(**DECLARED).fit(x, y)
    assert told(lambda: CoterieClassifier(**DECLARED).fit(other, y)) == []
    other[: ROWS // 10] = x[: ROWS // 10]
    assert len(told(lambda: CoterieClassifier(**DECLARED).fit(other, y))) == 1


def test_a_fit_that_failed_or_was_public_spent_nothing():
    x, y = rows()
    with pytest.raises(ValueError, match="metric='mse'"):
        CoterieClassifier(**DECLARED, metric="mse").fit(x, y)
    CoterieClassifier(**DECLARED, public=True).fit(x, y)
    assert told(lambda: CoterieClassifier(**DECLARED).fit(x, y)) == []


def test_the_warning_names_the_line_that_called_fit():
    with pytest.warns(PrivacyLeakWarning) as caught:
        CoterieClassifier(**CHEAP).fit(*rows())
    assert caught[0].filename == __file__


def test_who_makes_it_an_error_is_stopped_before_anything_is_trained():
    private = CoterieClassifier(**CHEAP)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        with pytest.raises(PrivacyLeakWarning, match="read off the rows"):
            private.fit(*rows())
    assert not hasattr(private, "model_")
