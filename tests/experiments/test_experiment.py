"""An experiment is a value: what is written reads back equal, and what is not known is refused."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InputError
from coterie.experiments.experiment import MOST_SEED, Experiment, from_toml, override, read_toml
from coterie.experiments.prepare import prepare

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
BUDGETS = st.one_of(
    st.lists(POSITIVE, min_size=1, max_size=4).map(tuple),
    st.dictionaries(st.text(), POSITIVE, min_size=1, max_size=4),
)
SETTINGS = st.dictionaries(
    st.text(),
    st.one_of(NUMBERS, st.integers(-(2**62), 2**62), st.booleans(), st.text(), st.lists(st.integers(0, 9))),
)
EXPERIMENTS = st.builds(
    Experiment,
    data=st.text(),
    target=st.none() | st.text(),
    owners=st.none() | st.integers(1, 10**6),
    gossip_steps=st.none() | st.integers(1, 99),
    microbatch=st.none() | st.integers(1, 99),
    epsilon=BUDGETS,
    delta=st.floats(0, 1, exclude_min=True, exclude_max=True),
    strength=POSITIVE,
    seed=st.integers(0, MOST_SEED),
    settings=SETTINGS,
)


@settings(deadline=None)  # a busy machine is not a bug
@given(EXPERIMENTS)
def test_toml_round_trip(experiment):
    assert from_toml(experiment.to_toml()) == experiment


def test_an_empty_file_is_the_demonstration():
    assert from_toml("") == Experiment()


def test_one_number_is_a_budget_for_all():
    assert from_toml("epsilon = 2").epsilon == (2.0,)


def test_null_takes_a_setting_back():
    base = Experiment(settings={"rounds": 5, "rate": 0.1})
    given = {"settings": base.settings | {"rate": None}}
    assert override(base, given, "here").settings == {"rounds": 5}


def test_the_given_values_are_not_changed():
    given = {"epsilon": [1, 2], "settings": {"rate": None}}
    override(Experiment(), given, "here")
    assert given == {"epsilon": [1, 2], "settings": {"rate": None}}


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_file_that_is_no_text_or_a_folder(tmp_path, content):
    path = tmp_path / "experiment.toml"
    path.write_bytes(content) if content else path.mkdir()
    with pytest.raises(InputError, match=r"experiment\.toml"):
        read_toml(path)


@pytest.mark.parametrize("budget", [1, 1.0, np.float32(1.0), [1], (1.0,), [np.int64(1)]])
def test_a_budget_in_python_may_be_a_number_or_several(budget):
    assert Experiment(epsilon=budget).epsilon == (1.0,)


def test_numbers_of_numpy_become_pythons():
    found = Experiment(epsilon={"a": np.float64(2)}, owners=np.int64(3), settings={"rounds": np.int32(5)})
    assert found == Experiment(epsilon={"a": 2.0}, owners=3, settings={"rounds": 5})
    assert from_toml(found.to_toml()) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": "1"}, "epsilon='1': must be a finite number or a list"),
        ({"epsilon": None}, "epsilon=None: must be"),
        ({"epsilon": True}, "epsilon=True: must be"),
        ({"epsilon": ()}, r"epsilon=\[\]: must be"),
        ({"epsilon": {}}, "epsilon={}: must be"),
        ({"epsilon": (1.0, "2")}, "epsilon='2': must be a finite number"),
        ({"epsilon": {"north": None}}, "epsilon.north=None: must be a finite number"),
        ({"epsilon": {1: 1.0}}, "must be"),
        ({"epsilon": np.ones(400)}, "epsilon=array"),
        ({"epsilon": -1.0}, "epsilon=-1.0: must be > 0"),
        ({"epsilon": float("inf")}, "epsilon=inf: must be a finite number"),
        ({"delta": 1}, "delta=1.0: must lie strictly between 0 and 1"),
        ({"owners": 2.0}, "owners=2.0: must be a whole number"),
        ({"owners": 0}, "owners=0: must be a whole number >= 1"),
        ({"seed": -1}, "seed=-1: must lie between"),
        ({"protocol": None}, "protocol=None: must be text"),
        ({"data": 3}, "data: a int holds no rows with columns"),
        ({"data": "visits\udcff.csv"}, "is not text in UTF-8"),
        ({"engine": "cluster"}, "engine='cluster': must be one of simulate, spmd"),
        ({"sweep": "delta"}, "sweep='delta': must be one of epsilon"),
        ({"columns": 3}, "columns=3: must be text or a table"),
        ({"settings": {"rate": float("inf")}}, "settings.rate=inf: must be a finite number"),
        ({"hold_out": 1, "evaluate": 0.1}, "hold_out=1.0: must be at least 0 and below 1, the share of rows"),
        ({"base_rate": 0.6}, "base_rate=0.6: must be above 0 and at most 0.5, the share of the rarer class"),
        ({"threshold": 1.5}, "threshold=1.5: must lie strictly between 0 and 1"),
        ({"settings": [1]}, r"settings=\[1\]: must be a table"),
        ({"settings": {"rate": object}}, "settings.rate=<class 'object'>: must be a number, text"),
        ({"strength": -1}, "strength=-1.0: must be >= 0"),
        ({"unit": "patient"}, "unit='patient': must be record, column:NAME or owner"),
        ({"unit": "column:p", "records_per_unit": 0}, "records_per_unit=0: must be a whole number >= 1"),
        ({"unit": "record", "records_per_unit": 3}, "records_per_unit: is for units of several records"),
        ({"unit_mean": 1}, "unit_mean=1: must be true or false"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_one_line_where_it_is_made(given, message):
    with pytest.raises(InputError, match=message) as caught:
        Experiment(**given)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 2])
def test_a_seed_makes_the_key_that_jax_makes_of_it(seed):
    """Without a program that would be compiled for it; the network's first weights are drawn by it."""
    made = prepare(Experiment(model="two_layer", seed=seed))
    exact = made.task.problem.model.init(jax.random.key(seed))
    jax.tree.map(np.testing.assert_array_equal, made.task.params, exact)
