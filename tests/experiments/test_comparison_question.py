"""What may be compared: checked where it is asked, for files, options and Python alike; and paired differences."""

import math
import tomllib

import numpy as np
import pytest
from scipy import stats

from coterie import Comparison, Experiment, InputError
from coterie.experiments.comparing.paired import difference, spread
from coterie.experiments.comparing.question import from_keys, read_toml


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"protocols": ("push_sun",)}, "Did you mean 'push_sum'?"),
        ({"protocols": ("push_sum", "push_sum")}, "stands there twice"),
        ({"protocols": ()}, "nothing is given"),
        ({"epsilon": (1, 0)}, "epsilon=0.0: must be > 0"),
        ({"epsilon": (1, -2.0)}, "epsilon=-2.0: must be > 0"),
        ({"epsilon": ("much",)}, "epsilon='much': must be a finite number"),
        ({"seeds": 0}, "seeds=0: must be a whole number >= 1"),
        ({"seeds": 2, "shared": Experiment(seed=2**32 - 2)}, "the last is above"),
        ({"settings": {"deep_q": {}}}, "settings='deep_q': unknown"),
        ({"settings": {"dual_averaging": 3}}, "must be a table"),
        ({"settings": {"dual_averaging": {"ronds": 3}}}, "Did you mean 'rounds'?"),
        ({"settings": {"dual_averaging": {"rounds": "many"}}}, "rounds='many': must be a whole number"),
        ({"settings": {"dual_averaging": {"rounds": []}}}, "an empty list"),
        ({"shared": Experiment(protocol="push_sum")}, "Give protocols."),
        ({"shared": Experiment(epsilon=3.0)}, "a comparison decides it"),
        ({"shared": Experiment(engine="spmd")}, "a comparison decides it"),
    ],
)
def test_what_cannot_be_compared_is_one_line(given, told):
    with pytest.raises(InputError) as error:
        Comparison(**given)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_list_of_a_setting_is_a_grid_and_each_of_its_runs_can_be_run_alone():
    asked = Comparison(
        protocols=("dual_averaging", "push_sum"),
        epsilon=(4, 1),
        seeds=2,
        settings={"dual_averaging": {"rounds": [5, 10]}, "push_sum": {"rounds": 7}},
        shared=Experiment(data="visits.csv", seed=3),
    )
    assert asked.epsilon == (1.0, 4.0)
    assert [one.name for one in asked.series()] == [
        "dual_averaging (rounds=5)",
        "dual_averaging (rounds=10)",
        "push_sum",
    ]
    assert asked.seeds_used == [3, 4]
    alone = asked.experiment(asked.series()[1], 4.0, 4)
    assert alone == Experiment(data="visits.csv", epsilon=4.0, seed=4, settings={"rounds": 10})


def test_a_file_holds_all_of_it(tmp_path):
    asked = Comparison(
        protocols=("wor_sgd",),
        settings={"wor_sgd": {"batch": [5, 6]}},
        shared=Experiment(owners=3, delta=1e-6),
    )
    file = tmp_path / "grid.toml"
    file.write_text(asked.to_toml())
    assert read_toml(file) == asked
    assert read_toml(file, {"seeds": 9}).seeds == 9
    assert from_keys(tomllib.loads(asked.to_toml()), "file") == asked


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('protocol = "push_sum"', "Give protocols, a list."),
        ("epsilons = [1]", "Did you mean 'epsilon'?"),
        ('engine = "spmd"', "unknown key 'engine'"),
        ("seeds =", "not valid TOML"),
        ("delta = 2", "delta=2.0: must lie strictly between 0 and 1"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(tmp_path, text, told):
    file = tmp_path / "grid.toml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_toml(file)
    assert told in str(error.value)
    assert str(file) in str(error.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_toml(tmp_path / "absent.toml")


def test_intervals_are_students():
    apart = np.array([0.01, 0.03, -0.01, 0.02, 0.04])
    found = difference(apart)
    expected = stats.ttest_1samp(apart, 0.0).confidence_interval(0.95)
    np.testing.assert_allclose((found.low, found.high), (expected.low, expected.high))
    assert not found.decided
    assert difference(apart + 0.05).decided
    assert difference(-apart - 0.05).decided


def test_intervals_cover_as_often_as_they_say():
    """20,000 differences of 5 pairs: the coverage is 0.95, with a standard deviation of 0.0015."""
    rng = np.random.default_rng(0)
    found = [difference(row) for row in rng.normal(0.3, 2.0, (20_000, 5))]
    assert abs(np.mean([one.low <= 0.3 <= one.high for one in found]) - 0.95) < 0.009


def test_one_pair_has_no_interval_and_decides_nothing():
    found = difference(np.array([3.0]))
    assert found.to_json() == {"mean": 3.0, "error": None, "low": None, "high": None, "pairs": 1}
    assert not found.decided
    assert math.isnan(spread(np.array([3.0]))[1])
