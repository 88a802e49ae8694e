"""Parallel composition over declared partitions, and several records of one person."""

from collections import Counter

import dp_accounting as dp
import numpy as np
import pytest
from scipy.stats import binom, norm

from coterie.accounting import certify
from coterie.accounting.ledger import Ledger
from coterie.accounting.ledger.account import Account, ChargedParts, Part
from coterie.accounting.ledger.chain import LedgerTerms
from coterie.accounting.ledger.units import tally
from coterie.errors import BudgetError, InputError

G = dp.GaussianDpEvent
TERMS = {"data_hash": "ab" * 32, "epsilon": 4.0, "delta": 1e-5}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "ledger", **TERMS) as book:
        book.declare_partition("epoch", parts=4, digest="p")
        yield book


def cost(*events):
    return certify(dp.ComposedDpEvent(list(events)), delta=1e-5).epsilon


def test_parts_of_one_partition_cost_their_worst(ledger):
    for part, z in enumerate((9.0, 5.0, 7.0, 5.0)):
        ledger.charge("run", part, G(z), b"m", part=("epoch", part))
    assert ledger.spent().epsilon == cost(G(5.0))
    ledger.charge("run", 4, G(9.0), b"m", part=("epoch", 0))  # 2/81 on this part is still below 1/25
    assert ledger.spent().epsilon == cost(G(5.0))
    ledger.charge("run", 5, G(9.0), b"m", part=("epoch", 1))  # the same part again composes
    assert ledger.spent().epsilon == cost(G(5.0), G(9.0))
    ledger.charge("run", 6, G(8.0), b"m")  # and what uses all records is on top
    assert ledger.spent().epsilon == cost(G(5.0), G(9.0), G(8.0))


def test_two_partitions_compose(ledger):
    ledger.declare_partition("another permutation", parts=2, digest="q")
    for part in range(2):
        ledger.charge("run", part, G(6.0), b"m", part=("epoch", part))
        ledger.charge("run", 10 + part, G(6.0), b"m", part=("another permutation", part))
    assert ledger.spent().epsilon == cost(G(6.0), G(6.0))


def test_sampled_events_take_the_worst_choice_of_parts(ledger):
    ledger.declare_partition("second", parts=2, digest="q")
    mild, strong = (dp.PoissonSampledDpEvent(0.1, G(z)) for z in (4.0, 2.0))
    ledger.charge("run", 0, mild, b"m", part=("epoch", 0))
    ledger.charge("run", 1, strong, b"m", part=("epoch", 1))
    ledger.charge("run", 2, mild, b"m", part=("second", 1))
    assert ledger.spent().epsilon == cost(strong, mild)


def test_many_different_parts_are_bounded_from_above():
    """Past the choices that are certified one by one, one case dominates every choice."""
    events = [dp.PoissonSampledDpEvent(0.1, G(4.0 + 0.1 * part)) for part in range(9)]
    account = Account(LedgerTerms(**TERMS, relation="replace_one", rows_per_unit=1, nonce=""))
    for name in ("a", "b"):  # 81 choices
        account.partitions[name] = ChargedParts(9, name)
        for part, event in enumerate(events):
            account.add(tally(dp.ComposedDpEvent([event, G(5.0 + part)]), 1), Part(name, part))
    (case,) = account.worst_cases(Counter(), None)
    assert case == Counter(events * 2) + Counter({G(5.0): 2})
    assert account.epsilon(case) > cost(events[0], events[0], G(5.0), G(5.0))


def test_a_partition_survives_reopening_and_is_declared_once(tmp_path, ledger):
    ledger.charge("run", 0, G(5.0), b"m", part=("epoch", 3))
    ledger.declare_partition("epoch", parts=4, digest="p")
    with pytest.raises(InputError, match="another division"):
        ledger.declare_partition("epoch", parts=4, digest="other")
    with pytest.raises(InputError, match="not declared"):
        ledger.charge("run", 1, G(5.0), b"m", part=("unknown", 0))
    with pytest.raises(InputError, match=r"part=4: must lie in 0\.\.3"):
        ledger.charge("run", 1, G(5.0), b"m", part=("epoch", 4))
    with pytest.raises(InputError, match="another event"):
        ledger.charge("run", 0, G(5.0), b"m", part=("epoch", 2))
    ledger.close()
    with Ledger.open(tmp_path / "ledger", **TERMS) as again:
        again.charge("run", 1, G(5.0), b"m", part=("epoch", 2))
        assert again.spent().epsilon == cost(G(5.0))
        with pytest.raises(BudgetError):
            again.charge("run", 2, G(0.1), b"m", part=("epoch", 0))


def test_several_records_of_one_person_cost_more(tmp_path):
    with Ledger.open(tmp_path / "people", rows_per_unit=3, **TERMS) as ledger:
        ledger.charge("run", 0, G(12.0), b"m")
        assert ledger.spent().epsilon == cost(G(4.0))
        assert "unit: up to 3 records" in str(ledger.spent())
        with pytest.raises(InputError, match="RandomizedResponse.*rows_per_unit=3"):
            ledger.charge("run", 1, dp.RandomizedResponseDpEvent(0.9, 2), b"m")
        ledger.declare_partition("epoch", parts=2, digest="p")
        ledger.charge("run", 1, G(24.0), b"m", part=("epoch", 0))
        ledger.charge("run", 2, G(36.0), b"m", part=("epoch", 1))
        assert ledger.spent().epsilon == cost(G(4.0), G(8.0))
        # One person's rows may lie in both parts; without a bound for that they are all composed.
        ledger.charge("run", 3, dp.LaplaceDpEvent(300.0), b"m", part=("epoch", 1))
        assert ledger.spent().epsilon == cost(G(4.0), G(8.0), G(12.0), dp.LaplaceDpEvent(100.0))


def hockey_stick(epsilon, upper, lower, grid):
    return np.sum(np.maximum(upper - np.exp(epsilon) * lower, 0)) * (grid[1] - grid[0])


@pytest.mark.parametrize(("rows", "rate", "z"), [(2, 0.1, 2.0), (3, 0.02, 1.0), (5, 0.3, 4.0)])
def test_poisson_sampling_of_several_records_is_dominated(rows, rate, z):
    """Exactly: all rows of a person at +C, replaced by −C, each drawn by itself. One noisy sum."""
    (event,) = tally(dp.PoissonSampledDpEvent(rate, G(z)), rows)
    grid = np.linspace(-rows - 12 * z, rows + 12 * z, 200_001)

    def density(drawn, distance, noise):
        return sum(p * norm.pdf(grid, j * distance, noise) for j, p in enumerate(drawn))

    drawn = binom.pmf(np.arange(rows + 1), rows, rate)
    once = (1 - event.sampling_probability, event.sampling_probability)
    naive = (1 - rate, rate)
    understated = False
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        exact = hockey_stick(epsilon, density(drawn, 1, z), density(drawn, -1, z), grid)
        bound = hockey_stick(
            epsilon, density(once, 1, event.event.noise_multiplier),
            density(once, -1, event.event.noise_multiplier), grid)  # fmt: skip
        assert exact <= bound + 1e-12
        understated |= exact > 1.01 * hockey_stick(epsilon, density(naive, 1, z), density(naive, -1, z), grid)
    assert understated  # charging a single record's event would have been wrong


def test_fixed_size_sampling_of_several_records():
    (event,) = tally(dp.SampledWithoutReplacementDpEvent(100, 5, G(6.0)), 3)
    assert event == dp.SampledWithoutReplacementDpEvent(100, 15, G(2.0))
    (event,) = tally(dp.SampledWithoutReplacementDpEvent(100, 50, G(6.0)), 3)
    assert event == dp.SampledWithoutReplacementDpEvent(100, 100, G(2.0))


@pytest.mark.parametrize(
    "event",
    [dp.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 2.0), dp.RandomizedResponseDpEvent(0.5, 2)],
)
def test_events_without_a_bound_for_several_records_are_refused(event):
    assert tally(event, 1) == {event: 1}
    with pytest.raises(InputError, match=type(event).__name__):
        tally(dp.SelfComposedDpEvent(event, 3), 2)
