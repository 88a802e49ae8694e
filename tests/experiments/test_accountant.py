"""Mechanisms in words: equal to dp-accounting where it has the pair, sounder where it does not, both ways round."""

import dp_accounting as dp
import pytest
from dp_accounting import pld, rdp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coterie._rounding import at_most
from coterie.errors import BudgetError, InputError
from coterie.experiments.accountant import MOST_STEPS, Mechanism, answer, from_words, read_plan

ADD, REPLACE = "add_or_remove_one", "replace_one"
USUAL = {"multiplier": 1.1, "rate": 0.01, "steps": 10_000}


def epsilon(relation=REPLACE, delta=1e-5, **words):
    return answer([Mechanism(**words)], delta=delta, relation=relation).certificate.epsilon


def library(accountant, event, relation, delta=1e-5):
    one = accountant(neighboring_relation=dp.NeighboringRelation[relation.upper()])
    one.compose(event)
    return one.get_epsilon(delta)


GOLDEN = [
    (USUAL, ADD, 5.193),
    (USUAL, REPLACE, 9.424),
    (USUAL | {"cap": 700, "records": 60_000}, ADD, 5.206),
    ({"multiplier": 1.1, "batch": 600, "records": 60_000, "steps": 10_000}, REPLACE, 39.96),
    ({"multiplier": 1.1, "steps": 10}, ADD, 15.79),
    ({"multiplier": 1.1, "steps": 10, "rate": 1}, REPLACE, 40.31),
    ({"noise": "laplace", "multiplier": 10, "steps": 20}, ADD, 1.593),
    ({"noise": "laplace", "multiplier": 10, "steps": 20}, REPLACE, 3.398),
    ({"noise": "laplace", "multiplier": 1, "rate": 0.01, "steps": 200}, ADD, 0.4758),
]


@pytest.mark.parametrize(("words", "relation", "expected"), GOLDEN)
def test_costs_are_dp_accountings_where_it_has_the_pair(words, relation, expected):
    mechanism = Mechanism(**words)
    found = answer([mechanism], delta=1e-5, relation=relation)
    assert at_most(found.certificate.epsilon) == expected
    if words.get("batch") or (words.get("noise") == "laplace" and relation == REPLACE):
        assert "does not know these releases" in found.beside
        with pytest.raises(dp.UnsupportedEventError):
            library(pld.PLDAccountant, mechanism.event(1.0), relation)
    else:
        theirs = library(pld.PLDAccountant, mechanism.event(words["multiplier"]), relation)
        assert found.certificate.epsilon == pytest.approx(theirs, rel=1e-3)
        assert "knows these releases, too" in found.beside


@pytest.mark.parametrize(
    ("words", "half"),
    [
        ({"multiplier": 1.1, "batch": 600, "records": 60_000, "steps": 10_000}, 0.55),
        ({"noise": "laplace", "multiplier": 10.0, "steps": 20}, 5.0),
    ],
)
def test_sounder_and_tighter_where_dp_accounting_counts_a_replaced_record_as_c(words, half):
    """The lower end is what two real data sets give away: more than the Rényi accountant says, who reads z as noise
    over what the sum moves. Told that this is 2C, by half the z, it agrees and is looser."""
    mechanism = Mechanism(**words)
    found = answer([mechanism], delta=1e-5).certificate
    assert (
        library(rdp.RdpAccountant, mechanism.event(mechanism.multiplier), REPLACE) < found.epsilon_optimistic
    )
    assert library(rdp.RdpAccountant, mechanism.event(half), REPLACE) > found.epsilon


@settings(max_examples=40, deadline=None)
@given(
    multiplier=st.floats(0.5, 50),
    steps=st.integers(1, MOST_STEPS),
    delta=st.floats(1e-12, 0.1),
    relation=st.sampled_from([ADD, REPLACE]),
)
def test_there_and_back(multiplier, steps, delta, relation):
    spent = epsilon(relation, delta, multiplier=multiplier, steps=steps)
    assume(
        spent > 0
    )  # delta alone covers much noise: many multipliers then cost nothing, and none is asked for
    back = answer([Mechanism(steps=steps)], delta=delta, relation=relation, epsilon=spent)
    assert back.certificate.epsilon <= spent
    assert back.multiplier == pytest.approx(multiplier, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "relation"),
    [
        ({"rate": 0.05}, ADD),
        ({"rate": 0.05}, REPLACE),
        ({"batch": 5, "records": 100}, REPLACE),
        ({"noise": "laplace"}, ADD),
        ({"noise": "laplace", "rate": 0.05}, ADD),
    ],
)
def test_there_and_back_on_grids(words, relation):
    spent = epsilon(relation, multiplier=2.0, steps=30, **words)
    back = answer([Mechanism(steps=30, **words)], delta=1e-5, relation=relation, epsilon=spent)
    assert back.certificate.epsilon <= spent
    assert back.multiplier == pytest.approx(2.0, rel=0.02)
    assert epsilon(relation, multiplier=back.multiplier * 0.98, steps=30, **words) > spent


def test_without_delta_laplace_costs_the_sum_of_its_largest_losses():
    found = answer([Mechanism(noise="laplace", multiplier=5, steps=10)], delta=0.0).certificate
    assert (found.epsilon, found.epsilon_optimistic, found.accountant) == (4.0, 4.0, "pure composition")
    back = answer([Mechanism(noise="laplace", steps=10)], delta=0.0, epsilon=4.0)
    assert back.multiplier == pytest.approx(5, rel=2e-3)
    sampled = answer([Mechanism(noise="laplace", multiplier=1, rate=0.5, steps=1)], delta=0.0, relation=ADD)
    assert sampled.certificate.epsilon == pytest.approx(0.6201145)  # ln(1 + (e − 1)/2)


def test_more_releases_than_a_grid_holds_are_infinite_with_a_reason():
    """They were an error of the memory."""
    found = answer([Mechanism(multiplier=1e9, rate=0.01, steps=MOST_STEPS)], delta=1e-5)
    assert found.certificate.epsilon == float("inf")
    assert "no grid here is long enough for 1,000,000,000 releases" in found.lines()[1]
    assert found.beside == ""


PLAN = """
[[mechanism]]
noise = "laplace"
multiplier = 20
steps = 10

[[mechanism]]
rate = 0.01
steps = 1000
{more}
"""


def plan(tmp_path, text):
    path = tmp_path / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_plan_is_composed(tmp_path):
    laplace, gaussian = mechanisms = read_plan(plan(tmp_path, PLAN.format(more="multiplier = 2.0")))
    assert laplace == Mechanism(noise="laplace", multiplier=20.0, steps=10)
    assert gaussian == Mechanism(multiplier=2.0, rate=0.01, steps=1000)
    both = answer(mechanisms, delta=1e-5, relation=ADD).certificate
    event = dp.ComposedDpEvent([laplace.event(20.0), gaussian.event(2.0)])
    assert both.epsilon == pytest.approx(library(pld.PLDAccountant, event, ADD), rel=1e-3)


def test_a_budget_pays_for_what_is_given_and_finds_the_rest():
    fixed, free = Mechanism(noise="laplace", multiplier=20, steps=10), Mechanism(noise="laplace", steps=30)
    found = answer([fixed, free], delta=0.0, relation=ADD, epsilon=2.0)
    assert found.multiplier == pytest.approx(30 / (2 - 10 / 20), rel=2e-3)
    assert found.certificate.epsilon <= 2
    with pytest.raises(BudgetError, match=r"epsilon=0\.4"):  # those that are given cost 0.5
        answer([fixed, free], delta=0.0, relation=ADD, epsilon=0.4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no [[mechanism]] tables"),
        ("mechanism = 3", "holds no [[mechanism]] tables"),
        ("delta = 1e-5\n" + PLAN.format(more=""), "unknown key 'delta'"),
        (
            PLAN.format(more="multiplyer = 2"),
            "mechanism 2: unknown key 'multiplyer'. Known keys: steps, noise, ",
        ),
        (PLAN.format(more="multiplyer = 2"), "Did you mean 'multiplier'?"),
        (PLAN.format(more="multiplier = 'two'"), "mechanism 2: multiplier='two': must be a finite number."),
        (PLAN.format(more="batch = 2"), "mechanism 2: rate and batch: two ways of sampling"),
        ("[[mechanism]]\nmultiplier = 1", "mechanism 1: steps: missing"),
        ("[[mechanism]", "not valid TOML"),
    ],
)
def test_mistakes_in_a_plan_name_the_file_and_the_table(tmp_path, text, words):
    with pytest.raises(InputError) as caught:
        read_plan(plan(tmp_path, text))
    assert "plan.toml" in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"steps": 0}, "steps=0: must be a whole number >= 1."),
        ({"steps": 10**10}, "steps=10000000000: must be <= 1,000,000,000."),
        ({"rate": 1.5}, "rate=1.5: must be > 0 and <= 1."),
        ({"rate": 0.0}, "rate=0.0: must be > 0 and <= 1."),
        ({"multiplier": 0.0}, "multiplier=0.0: must be > 0"),
        ({"multiplier": float("nan")}, "multiplier=nan: must be a finite number."),
        ({"batch": 5}, "batch=5: of how many?"),
        ({"batch": 5, "records": 4}, "batch=5: must be <= records=4."),
        ({"cap": 5, "records": 10}, "cap=5: caps what a rate draws."),
        ({"rate": 0.1, "cap": 5}, "cap=5: of how many?"),
        (
            {"rate": 1, "cap": 5, "records": 9},
            "cap=5: with rate=1 so many are drawn each time. Give batch=5 instead.",
        ),
    ],
)
def test_mistakes_in_a_mechanism_are_one_line(given, words):
    with pytest.raises(InputError, match=".") as caught:
        from_words({"steps": 10, "multiplier": 1.0} | given)
    assert words in str(caught.value)


def test_as_many_records_as_the_smallest_are_warned_for():
    few, many = Mechanism(multiplier=9, steps=1, records=100), Mechanism(multiplier=9, steps=1, records=10**6)
    assert "1/100" in answer([many, few], delta=0.02).lines()[-1]
