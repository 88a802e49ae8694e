"""Three columns, never mixed; an epsilon never stands alone."""

import dataclasses
import json
import math

import dp_accounting as dp
import pytest

import coterie.accounting as accounting
from coterie.accounting import Certificate, Claim, Finding

CONTEXT = {"delta": 1e-5, "relation": "replace_one", "unit": "record", "view": "public transcript"}
CLAIM = Claim(epsilon=1.0, source="jin_2023, theorem 4", note="one model", **CONTEXT)
CERTIFICATE = Certificate(
    epsilon=math.inf,
    accountant="none",
    epsilon_optimistic=math.inf,
    reason="a norm was sent",
    warnings=("delta is large",),
    event=dp.NonPrivateDpEvent(),
    size=10,
    **CONTEXT,
)
FINDING = Finding(epsilon=0.8, confidence=0.95, games=1000, **CONTEXT)
ALL = [CLAIM, CERTIFICATE, FINDING]


@pytest.mark.parametrize("statement", ALL)
def test_epsilon_is_printed_in_one_line_with_all_it_depends_on(statement):
    line = str(statement)
    assert "\n" not in line
    for needed in ("ε", "1e-05", "replace_one", "unit: record", "view: public transcript"):
        assert needed in line


def test_the_three_kinds_say_which_they_are():
    assert [str(statement).split(":")[0] for statement in ALL] == ["claimed", "certified", "audited"]
    assert "= 1 " in str(CLAIM)
    assert "≤ ∞" in str(CERTIFICATE)
    assert "a norm was sent" in str(CERTIFICATE)
    assert "≥ 0.8" in str(FINDING)


@pytest.mark.parametrize("statement", ALL)
def test_context_has_no_default_and_nothing_is_positional_or_mutable(statement):
    assert all(field.kw_only for field in dataclasses.fields(statement))
    assert all(field.default is dataclasses.MISSING for field in dataclasses.fields(statement))
    with pytest.raises(dataclasses.FrozenInstanceError):
        statement.epsilon = 0.0


def test_kinds_never_compare_equal():
    assert dataclasses.replace(FINDING, epsilon=1.0) != CLAIM


@pytest.mark.parametrize("statement", ALL)
def test_json_is_plain(statement):
    obj = json.loads(json.dumps(statement.to_json(), allow_nan=False))
    assert set(obj) == {field.name for field in dataclasses.fields(statement)}
    assert obj["epsilon"] in (1.0, "inf", 0.8)


def test_no_epsilon_stated_is_neither_zero_nor_infinite():
    silent = dataclasses.replace(CLAIM, epsilon=None)
    assert "no ε stated" in str(silent)
    assert silent.to_json()["epsilon"] is None


def test_exported_names_exist():
    assert sorted(accounting.__all__) == accounting.__all__
    assert all(hasattr(accounting, name) for name in accounting.__all__)
