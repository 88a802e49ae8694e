"""An experiment is a value: what is written reads back equal, and what is not known is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InputError
from coterie.experiments.experiment import Experiment, from_toml, override, read_toml

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
BUDGETS = st.one_of(
    st.lists(NUMBERS, min_size=1, max_size=4).map(tuple),
    st.dictionaries(st.text(), NUMBERS, min_size=1, max_size=4),
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
    delta=NUMBERS,
    strength=NUMBERS,
    seed=st.integers(0, 2**32),
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
