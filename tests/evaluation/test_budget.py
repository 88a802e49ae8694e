"""The share of the budget: what training gets, what the table costs, and what is refused before anything is trained."""

from dataclasses import replace

import numpy as np
import pytest

from coterie.accounting import certify
from coterie.accounting.gaussian import noise_for
from coterie.accounting.plans import certificates_of, charges_of
from coterie.errors import InputError
from coterie.evaluation import budget
from coterie.evaluation.estimate import half_width
from coterie.evaluation.sheet import Sheet
from coterie.mechanisms import FullBatch, Gaussian, Laplace, OnePass, Poisson, ReleasePlan

SHEET = Sheet("binary", "logistic", 2, True)
DELTA = 1e-5


def plan(**changes) -> ReleasePlan:
    given = {
        "sampler": FullBatch(),
        "clip_norm": 1.0,
        "noise": Gaussian(),
        "noise_multiplier": (60.0, 200.0),
        "releases": (40, 40),
        "sizes": (1_000, 3_000),
        "noise_like": None,
    }
    return ReleasePlan(**(given | changes))


def test_of_gaussian_noise_a_share_is_one_of_its_precision():
    from dp_accounting import GaussianDpEvent

    full = 2 * noise_for(1.0, DELTA)
    left = budget.for_training(1.0, DELTA, 0.05)
    training = plan(noise_multiplier=(full / np.sqrt(0.95) * np.sqrt(40),) * 2)
    assert certify(training.event(0), delta=DELTA).epsilon == pytest.approx(left, rel=1e-6)
    both = budget.with_table(training, SHEET, (1.0, 1.0), DELTA, 0.05, certified=True)
    assert both.evaluation.noise_multiplier[0] == pytest.approx(full / np.sqrt(0.05), rel=5e-3)
    assert certify(GaussianDpEvent(full), delta=DELTA).epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    "made",
    [
        plan(noise_multiplier=(48.0, 250.0)),
        plan(sampler=Poisson(0.05, 400), noise_multiplier=(5.0, 9.0)),
        plan(sampler=OnePass(100), noise_multiplier=(9.0, 11.0), releases=(10, 30)),
        plan(noise=Laplace(), noise_multiplier=(100.0, 120.0)),
        plan(sampler=Poisson(0.05, 400), noise_multiplier=(9.0, 9.0), relation="add_or_remove_one"),
    ],
    ids=["gaussian", "poisson", "one pass", "laplace", "add or remove"],
)
def test_training_and_table_together_keep_the_budget(made):
    epsilon = tuple(1.05 * one.epsilon for one in certificates_of(made, DELTA))
    both = budget.with_table(made, SHEET, epsilon, DELTA, 0.05, certified=True)
    spent = [one.epsilon for one in certificates_of(both, DELTA)]
    assert all(0.99 * limit <= cost <= limit for cost, limit in zip(spent, epsilon, strict=True))
    assert both.evaluation.noise_multiplier[0] != both.evaluation.noise_multiplier[1]


def test_a_ledger_is_charged_what_the_plan_says():
    both = budget.with_table(plan(), SHEET, (2.0, 2.0), DELTA, 0.05, certified=False)
    charges = charges_of(both, 1, 40)
    assert charges.tables == (both.evaluation.event(1),)
    assert charges.each == charges_of(plan(), 1, 40).each


@pytest.mark.parametrize("sizes", [(100, 100), (5, 5)])
def test_too_few_records_are_refused_with_what_would_help(sizes):
    both = budget.with_table(plan(sizes=sizes), SHEET, (1.0, 1.0), DELTA, 0.05, certified=False)
    with pytest.raises(InputError, match="tells nothing") as refused:
        budget.check_tells(both, SHEET, 0.05)
    text = str(refused.value)
    rows = int(text.split(" records; ")[0].split()[-1].replace(",", ""))
    noise = both.evaluation.variance()
    assert half_width(SHEET, noise, rows, 0.5) <= budget.NOTHING < half_width(SHEET, noise, rows - 1, 0.5)
    if "a share of" in text:
        share = float(text.split("a share of ")[1].split(",")[0])
        assert budget.check_tells(
            budget.with_table(plan(sizes=sizes), SHEET, (1.0, 1.0), DELTA, share, certified=False),
            SHEET,
            share,
        )
    else:
        assert sizes == (5, 5)


def test_a_recommended_share_makes_noise_no_larger_than_sampling():
    both = budget.with_table(plan(sizes=(4_000, 4_000)), SHEET, (1.0, 1.0), DELTA, 0.05, certified=False)
    noise, rows = both.evaluation.variance(), 8_000
    share = budget.recommended(SHEET, noise, 0.05, rows, 0.8)
    assert budget.LEAST < share < budget.MOST
    whole, sampled = (half_width(SHEET, one, rows, 0.8) for one in (noise * 0.05 / share, 0.0))
    assert whole == pytest.approx(np.sqrt(2) * sampled, rel=1e-6)


def test_owners_with_other_tables_have_other_certificates():
    both = budget.with_table(
        plan(noise_multiplier=(60.0, 60.0)), SHEET, (1.0, 2.0), DELTA, 0.05, certified=True
    )
    one, other = certificates_of(replace(both, sizes=(1_000, 1_000)), DELTA)
    assert one.epsilon == pytest.approx(1.0, rel=1e-2)
    assert other.epsilon == pytest.approx(2.0, rel=1e-2)
