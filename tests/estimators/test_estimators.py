"""The estimators as their users call them: attributes, owners, names, units, files, and one line for what is wrong."""

import pickle

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import coterie
from coterie import CoterieClassifier, CoterieRegressor, InputError
from coterie.experiments.oracle import is_oracle
from coterie.model.onnx import to_onnx

SETTINGS = {"epsilon": 50.0, "rounds": 20, "random_state": 0, "public": True}
ROWS = 120


def numbers(seed=0):
    x = np.random.default_rng(seed).uniform(0, 10, (ROWS, 3))
    return x, x[:, 0] - x[:, 1]


@pytest.fixture(scope="module")
def binary():
    x, margin = numbers()
    y = np.where(margin > 0, "yes", "no")
    names = np.array(["north", "south", "east"])[np.arange(ROWS) % 3]
    return CoterieClassifier(**SETTINGS, bounds=(0, 10), classes=["yes", "no"]).fit(x, y, owners=names), x, y


def test_a_classifier_has_what_people_look_for(binary):
    private, x, y = binary
    assert private.classes_.tolist() == ["no", "yes"]
    assert private.score(x, y) > 0.9
    probable = private.predict_proba(x)
    assert (probable.argmax(axis=1) == (private.predict(x) == "yes")).all()
    np.testing.assert_allclose(probable.sum(axis=1), 1, atol=1e-6)
    assert ((private.decision_function(x) > 0) == (private.predict(x) == "yes")).all()
    assert (private.coef_.shape, private.intercept_.shape, private.n_features_in_) == ((1, 3), (1,), 3)


def test_weights_in_own_units_decide_as_the_model_does(binary):
    private, x, _ = binary
    margin = (x @ private.coef_.T + private.intercept_)[:, 0]
    length = np.linalg.norm(np.column_stack([x / 5 - 1, np.ones(len(x))]), axis=1)
    np.testing.assert_allclose(margin / length, private.decision_function(x), atol=1e-4)


def test_privacy_and_trace(binary):
    private, *_ = binary
    privacy = private.privacy_
    assert privacy.epsilon <= 50.0
    assert [len(privacy.certificates), privacy.delta] == [3, 1e-5]
    assert privacy.statement[0].startswith("Guarantee:")
    assert privacy.promise[0].startswith("In short:")
    assert privacy.warnings == ()
    assert private.model_.description.training["owners"] == ["east", "north", "south"]
    assert list(private.trace_) == ["step", "accuracy (oracle)", "disagreement"]
    assert is_oracle(private.trace_["accuracy (oracle)"])
    assert private.trace_["step"][-1] == 20


def test_file_pickle_and_onnx_predict_the_same(binary, tmp_path):
    private, x, _ = binary
    loaded = coterie.load(private.model_.save(tmp_path / "model.safetensors"))
    again = pickle.loads(pickle.dumps(private))
    assert loaded.predict(x).tolist() == private.predict(x).tolist() == again.predict(x).tolist()
    np.testing.assert_array_equal(loaded.predict_proba(x), private.predict_proba(x))
    session = onnxruntime.InferenceSession(
        to_onnx(private.model_, "digest"), providers=["CPUExecutionProvider"]
    )
    outputs = session.run(["label", "probabilities"], {f"x{at}": x[:, [at]] for at in range(3)})
    np.testing.assert_allclose(outputs[1], private.predict_proba(x), atol=1e-5)
    assert outputs[0].ravel().tolist() == private.predict(x).tolist()


@pytest.mark.parametrize(
    "y", [np.arange(ROWS) % 2 == 0, (np.arange(ROWS) % 2).astype(float), np.arange(ROWS) % 2 * 10 + 5]
)
def test_classes_keep_their_type(y):
    x = np.column_stack([np.where(y == y[0], 0.5, -0.5), np.zeros(ROWS)])
    predicted = CoterieClassifier(**SETTINGS).fit(x, y).predict(x)
    assert predicted.dtype == y.dtype
    assert (predicted == y).all()


def test_several_classes_and_a_name_for_each_column():
    iris = load_iris(as_frame=True)
    private = CoterieClassifier(**SETTINGS, bounds=(0, 8), classes=[0, 1, 2]).fit(
        iris.data, iris.target, owners=2
    )
    assert private.feature_names_in_.tolist() == iris.feature_names
    assert list(private.model_.description.names) == iris.feature_names
    assert private.model_.description.target == "target"
    assert (private.coef_.shape, private.decision_function(iris.data).shape) == ((3, 4), (150, 3))
    assert private.score(iris.data, iris.target) > 0.6
    chosen = (iris.data.to_numpy() @ private.coef_.T + private.intercept_).argmax(axis=1)
    assert (chosen == private.predict(iris.data)).all()


def test_declared_classes_need_not_be_among_the_rows():
    x, margin = numbers()
    private = CoterieClassifier(**SETTINGS, bounds=(0, 10), classes=[0, 1, 2]).fit(
        x, (margin > 0).astype(int)
    )
    assert private.classes_.tolist() == [0, 1, 2]
    assert private.predict_proba(x).shape == (ROWS, 3)


def test_a_support_vector_machine_has_no_probabilities(binary):
    _, x, y = binary
    machine = CoterieClassifier(**SETTINGS, bounds=(0, 10), loss="hinge").fit(x, y)
    assert machine.model_.description.loss == "hinge"
    assert machine.score(x, y) > 0.9
    assert not hasattr(machine, "predict_proba")


def test_texts_dates_and_empty_cells_by_their_columns_file():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(0, 100, ROWS),
            "ward": rng.choice(["surgery", "medicine"], ROWS),
            "admitted": "2021-03-05",
        }
    )
    frame.loc[4, "age"] = np.nan
    y = (frame["ward"] == "surgery").astype(int).rename("readmitted")
    bounds = {
        "age": {"range": [0, 100], "missing": "middle"},
        "ward": ["surgery", "medicine"],
        "admitted": {"parts": ["month"]},
    }
    private = CoterieClassifier(**SETTINGS, bounds=bounds, classes=[0, 1]).fit(frame, y)
    assert private.score(frame, y) == 1.0
    assert private.model_.description.target == "readmitted"
    assert private.predict(frame[["admitted", "ward", "age"]].loc[:, list(frame.columns)]).shape == (ROWS,)
    assert private.coef_.shape == (1, 1 + 2 + 12)


def test_a_regression_is_in_the_targets_unit():
    x, y = numbers()
    private = CoterieRegressor(**SETTINGS, bounds=(0, 10), target_bounds=(-10, 10)).fit(x, y, owners=3)
    assert private.score(x, y) > 0.8
    assert private.predict(x).min() >= -10
    assert (private.coef_.shape, type(private.intercept_)) == ((3,), float)
    length = np.maximum(np.linalg.norm(x / 5 - 1, axis=1), 1)
    middle = 5 * private.coef_.sum() + private.intercept_
    np.testing.assert_allclose(middle + (x - 5) @ private.coef_ / length, private.predict(x), atol=1e-3)
    assert list(private.trace_)[1] == "mse (oracle)"


def test_owners_may_be_none_a_number_or_a_name_for_each_row(binary):
    _, x, y = binary
    fits = {
        owners: CoterieClassifier(**SETTINGS, bounds=(0, 10)).fit(x, y, owners=given)
        for owners, given in ((1, None), (4, 4), (2, pd.Series(["a", "b"] * (ROWS // 2))))
    }
    assert {owners: len(private.privacy_.certificates) for owners, private in fits.items()} == {
        1: 1,
        4: 4,
        2: 2,
    }


def test_columns_may_be_called_as_what_has_no_name():
    """y, owners and groups of arrays have no names, and take none away from X."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.uniform(-1, 1, (60, 3)), columns=["target", "owner", "group"])
    made = CoterieClassifier(
        bounds=(-1, 1), classes=[0, 1], public=True, experiment={"settings": {"rounds": 3}}
    )
    made.fit(
        x, (x["owner"] > 0).to_numpy().astype(int), owners=rng.integers(0, 2, 60), groups=np.arange(60) // 2
    )
    assert list(made.feature_names_in_) == ["target", "owner", "group"]
    assert len(made.predict(x)) == 60


def test_groups_are_protected_whole(binary):
    _, x, y = binary
    people = pd.Series(np.arange(ROWS) // 3, name="patient")
    kept = {"records_per_unit": 2}
    private = CoterieClassifier(**SETTINGS, bounds=(0, 10), experiment=kept).fit(
        x, y, owners=2, groups=people
    )
    assert {one.unit for one in private.privacy_.certificates} == {"patient with up to 2 records"}
    assert private.model_.description.training["sizes"] == [ROWS // 6] * 2
    assert any("one patient with up to 2 records" in line for line in private.privacy_.promise)
    assert private.score(x, y) > 0.7


def test_budgets_by_name(binary):
    _, x, y = binary
    budgets = {"north": 1.0, "south": 2.0}
    private = CoterieClassifier(**SETTINGS | {"epsilon": budgets}, bounds=(0, 10))
    private.fit(x, y, owners=["south", "north"] * (ROWS // 2))
    assert [round(one.epsilon, 3) for one in private.privacy_.certificates] == [1.0, 2.0]


def test_a_seed_repeats_and_none_does_not(binary):
    _, x, y = binary
    seeds = (7, 7, np.random.RandomState(7), None, None)
    made = [
        CoterieClassifier(**SETTINGS | {"random_state": seed}, bounds=(0, 10)).fit(x, y).coef_
        for seed in seeds
    ]
    assert np.array_equal(made[0], made[1])
    assert not any(np.array_equal(made[at], made[at - 1]) for at in (2, 3, 4))


def test_other_keys_of_an_experiment(binary):
    _, x, y = binary
    more = {"features": "fourier:32", "strength": 1e-3, "settings": {"radius": 5.0}}
    private = CoterieClassifier(**SETTINGS, bounds=(0, 10), experiment=more).fit(x, y)
    assert [step.name for step in private.model_.steps] == ["fourier"]
    assert private.model_.description.training["settings"] == {"radius": 5.0, "rounds": 20}
    assert not hasattr(private, "coef_")


def test_cross_validation_and_pipelines_on_public_rows(binary):
    private, x, y = binary
    whole = make_pipeline(FunctionTransformer(np.sqrt), clone(private))
    assert cross_val_score(whole, x, y, cv=3).mean() > 0.8
    names = np.arange(ROWS) % 2
    assert cross_val_score(clone(private), x, y, cv=3, params={"owners": names}).mean() > 0.8
    assert whole.set_params(coterieclassifier__epsilon=2.0)[-1].epsilon == 2.0


X, Y = numbers()[0], np.arange(ROWS) % 2


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({"epsilon": -1.0}, {}, "epsilon=-1.0: must be > 0"),
        ({"protocol": "dual"}, {}, "protocol='dual': unknown. Choose one of"),
        ({"bounds": (1, 2, 3)}, {}, r"bounds: must be \(low, high\) for all columns, a pair for each of 3"),
        ({"bounds": [(0, 1)] * 4}, {}, "bounds: must be"),
        ({"bounds": (10, 0)}, {}, "low < high"),
        ({"bounds": {"age": (0, 1)}}, {}, "bounds: X has no column 'age'. Columns: x0, x1, x2"),
        ({"bounds": (0, 1), "classes": [0, 2]}, {}, "y: row 2 is none of the declared classes"),
        ({"classes": ["0", "1"]}, {}, "y: row 1 is none of the declared classes"),
        ({}, {"y": np.zeros(ROWS)}, "y: has one class"),
        ({"classes": [1, 1.0]}, {}, r"classes=\[1, 1.0\]: must be two or more different values"),
        (
            {"bounds": {"x0": (0, 9)}, "classes": ["a", "b"]},
            {"X": pd.DataFrame({"x0": np.ones(ROWS)}), "y": pd.array(["a"] * (ROWS - 1) + [None], "string")},
            f"y: row {ROWS} is empty",
        ),
        ({}, {"owners": ["a"]}, r"owners: has shape \(1,\) for 120 rows"),
        ({}, {"owners": ["a"] * 119 + ["b"]}, "owner 'b': 1 of its records"),
        ({}, {"groups": ["a"]}, r"groups: has shape \(1,\) for 120 rows"),
        ({}, {"groups": np.arange(ROWS)}, "another value in every row"),
        ({"loss": "huger"}, {}, "huger"),
        ({"metric": "mse"}, {}, "metric='mse': says nothing of a binary target"),
        ({"protocol": "wor_sgd", "rounds": 3}, {}, "rounds"),
        ({"experiment": {"epsilon": 2}}, {}, "experiment: 'epsilon' is a parameter of its own"),
        ({"experiment": {"feature": "ball"}}, {}, "experiment: unknown key 'feature'"),
        ({"bounds": (50, 60)}, {}, "all 120 rows lie outside"),
    ],
)
def test_bad_input_is_one_line_for_coterie_and_scikit_learn(settings, given, message):
    private = CoterieClassifier(**SETTINGS | settings)
    with pytest.raises(InputError, match=message) as caught:
        private.fit(
            given.get("X", X), given.get("y", Y), owners=given.get("owners"), groups=given.get("groups")
        )
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    assert not hasattr(private, "model_")


def test_bad_input_to_predict():
    frame = pd.DataFrame({"age": np.linspace(0, 9, ROWS), "ward": ["a", "b"] * (ROWS // 2)})
    private = CoterieClassifier(**SETTINGS, bounds={"age": (0, 9), "ward": ["a", "b"]}).fit(frame, Y)
    with pytest.raises(ValueError, match="column 'ward': row 1 is none of its values"):
        private.predict(frame.assign(ward="c"))
    with pytest.raises(ValueError, match="feature names should match"):
        private.predict(frame.rename(columns={"ward": "unit"}))
    text = pd.DataFrame({"age": [1.0] * 9, "ward": ["a"] * 9})
    with pytest.raises(ValueError, match="bounds: 'ward' holds no numbers. List its public values"):
        CoterieClassifier(**SETTINGS, bounds={"age": (0, 9)}).fit(text, [0, 1] * 4 + [0])
    with pytest.raises(ValueError, match="target_bounds=3: must be two numbers"):
        CoterieRegressor(**SETTINGS, bounds=(0, 10), target_bounds=3).fit(X, X[:, 0])
