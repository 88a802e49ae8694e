"""A bound that is printed still holds."""

import math

from hypothesis import given
from hypothesis import strategies as st

from coterie._rounding import at_least, at_most, lower, upper
from coterie.accounting import certify
from coterie.accounting.statements import Finding

POSITIVE = st.floats(1e-12, 1e12)


@given(POSITIVE)
def test_a_rounded_bound_is_on_the_safe_side_and_close(value):
    up, down = at_most(value), at_least(value)
    assert value * (1 - 2e-9) <= up <= value * (1 + 1.001e-3)
    assert value * (1 - 1.001e-3) <= down <= value * (1 + 2e-9)
    assert float(upper(value).replace(",", "")) == up
    assert float(lower(value).replace(",", "")) == down


@given(st.floats(1e-300, 1e300))
def test_a_lower_bound_is_never_printed_above_an_upper_one_of_the_same_value(value):
    """However large: whole numbers of more than nine places were moved by more than a unit, and the wrong way."""
    assert at_least(value) <= at_most(value)
    assert float(lower(value).replace(",", "")) <= float(upper(value).replace(",", ""))
    assert len(upper(value)) <= len("999,999,999")


@given(st.floats(1e-3, 1e3).map(lambda value: float(f"{value:.4g}")))
def test_a_budget_of_few_digits_stays_itself(budget):
    """A certificate that meets its budget, up to the rounding of doubles, prints as the budget."""
    for value in (budget, budget * (1 - 1e-12), budget * (1 + 1e-12)):
        assert at_most(value) == budget == at_least(value)


def test_infinity_and_zero():
    assert (upper(math.inf), upper(0.0), lower(0.0)) == ("∞", "0", "0")


def test_certificates_go_up_and_findings_down():
    from dp_accounting import GaussianDpEvent

    certificate = certify(GaussianDpEvent(3.0), delta=1e-5)
    shown = str(certificate).split("ε ≤ ")[1].split(" ")[0]
    assert certificate.epsilon <= float(shown) < certificate.epsilon * 1.001
    finding = Finding(
        epsilon=1.99999, delta=0.0, relation="replace_one", unit="record", view="v", confidence=0.9, games=1
    )
    assert "ε ≥ 1.999 " in str(finding)
