"""The ledger's promises while nothing goes wrong: charge once, compose, refuse, remember."""

import math

import dp_accounting as dp
import numpy as np
import pytest

from coterie.accounting import calibrate, certify, event_to_json, recompute
from coterie.accounting.ledger import Ledger, account, data_hash, read
from coterie.errors import BudgetError, InputError

HASH = "ab" * 32
GAUSSIAN = dp.GaussianDpEvent(50.0)
SAMPLED = dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(3.0))


@pytest.fixture
def opened(tmp_path):
    """Open the test's ledger, by default with (1, 1e-5)."""
    books = []

    def open_(**changed):
        terms = {"data_hash": HASH, "epsilon": 1.0, "delta": 1e-5} | changed
        books.append(Ledger.open(tmp_path / "ledger", **terms))
        return books[-1]

    yield open_
    for book in books:
        book.close()


def test_a_round_is_charged_once_and_its_first_message_is_kept(opened):
    ledger = opened()
    assert ledger.stored("run", 0) is None
    assert ledger.charge("run", 0, GAUSSIAN, b"first") == b"first"
    spent = ledger.spent().epsilon
    assert ledger.charge("run", 0, GAUSSIAN, b"second") == b"first"
    assert ledger.stored("run", 0) == b"first"
    assert ledger.spent().epsilon == spent
    ledger.close()
    again = opened()
    assert again.charge("run", 0, GAUSSIAN, b"third") == b"first"
    assert again.spent().epsilon == spent == certify(GAUSSIAN, delta=1e-5).epsilon


def test_the_same_round_with_another_event_is_refused(opened):
    ledger = opened()
    ledger.charge("run", 0, GAUSSIAN, b"m")
    with pytest.raises(InputError, match=r"charged before with another event"):
        ledger.charge("run", 0, dp.GaussianDpEvent(60.0), b"m")
    ledger.charge("run", 1, GAUSSIAN, None)
    assert ledger.charge("run", 1, GAUSSIAN, None) is None
    with pytest.raises(InputError, match="without a message"):
        ledger.charge("run", 1, GAUSSIAN, b"m")


def test_runs_compose_and_a_search_costs_all_its_trials(opened):
    ledger = opened(epsilon=3.0)
    trials = [dp.GaussianDpEvent(z) for z in (40.0, 20.0, 80.0)]
    for number, event in enumerate(trials):
        for round in range(5):
            ledger.charge(f"trial {number}", round, event, b"m")
    whole = dp.ComposedDpEvent([dp.SelfComposedDpEvent(event, 5) for event in trials])
    assert ledger.spent().epsilon == certify(whole, delta=1e-5).epsilon
    best = certify(dp.SelfComposedDpEvent(trials[1], 5), delta=1e-5).epsilon
    assert ledger.spent().epsilon > 1.1 * best
    assert ledger.spent(1e-7).epsilon == certify(whole, delta=1e-7).epsilon
    assert ledger.remaining() == 3.0 - ledger.spent().epsilon


@pytest.mark.parametrize("charge_at_a_time", [1, 4])
def test_a_run_calibrated_to_the_budget_just_fits(opened, charge_at_a_time):
    noise = calibrate(lambda z: dp.SelfComposedDpEvent(dp.GaussianDpEvent(z), 100), epsilon=1.0, delta=1e-5)
    ledger = opened()
    event = dp.SelfComposedDpEvent(dp.GaussianDpEvent(noise), charge_at_a_time)
    for round in range(100 // charge_at_a_time):
        assert not ledger.would_exceed(event)
        ledger.charge("run", round, event, b"m")
    assert ledger.would_exceed(event)
    rows, head = read(ledger._path).head
    with pytest.raises(BudgetError, match=r"epsilon to 1\.0\d+, the budget is 1 at delta=1e-05"):
        ledger.charge("run", 1000, event, b"m")
    assert (rows, head) == read(ledger._path).head
    assert ledger.head == head
    assert ledger.stored("run", 1000) is None
    assert ledger.remaining() < 1e-6


def test_every_kind_of_event_is_read_back_as_it_was_charged(opened):
    events = [
        GAUSSIAN,
        SAMPLED,
        dp.LaplaceDpEvent(300.0),
        dp.SampledWithoutReplacementDpEvent(1000, 10, dp.GaussianDpEvent(5.0)),
        dp.ComposedDpEvent([GAUSSIAN, dp.SelfComposedDpEvent(SAMPLED, 2)]),
        dp.NoOpDpEvent(),
    ]
    ledger = opened(epsilon=5.0)
    for round, event in enumerate(events):
        ledger.charge("run", round, event, None)
    spent = ledger.spent()
    ledger.close()
    again = opened(epsilon=5.0).spent()
    assert again.epsilon == spent.epsilon == certify(dp.ComposedDpEvent(events), delta=1e-5).epsilon
    assert recompute(again.to_json()).epsilon == again.epsilon


def test_what_is_not_private_or_not_known_is_refused(opened):
    ledger = opened()
    with pytest.raises(BudgetError, match="inf"):
        ledger.charge("run", 0, dp.NonPrivateDpEvent(), b"m")
    with pytest.raises(InputError, match="ZCDpEvent"):
        ledger.charge("run", 0, dp.ZCDpEvent(1.0), b"m")
    with pytest.raises(InputError, match="finite"):
        ledger.charge("run", 0, dp.GaussianDpEvent(math.inf), b"m")
    with pytest.raises(InputError, match="round=-1"):
        ledger.charge("run", -1, GAUSSIAN, b"m")
    with pytest.raises(InputError, match="run=''"):
        ledger.charge("", 0, GAUSSIAN, b"m")
    assert read(ledger._path).head.sequence == 0


def test_compose_asks_and_does_not_charge(opened):
    ledger = opened()
    ledger.charge("run", 0, GAUSSIAN, b"m")
    both = ledger.compose(GAUSSIAN)
    assert both.epsilon == certify(dp.SelfComposedDpEvent(GAUSSIAN, 2), delta=1e-5).epsilon
    assert ledger.spent().epsilon < both.epsilon


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"data_hash": "cd" * 32}, "belongs to abababababab"),
        ({"epsilon": 2.0}, "epsilon=2.0: .*created with 1.0"),
        ({"delta": 1e-6}, "delta=1e-06"),
        ({"relation": "add_or_remove_one"}, "relation='add_or_remove_one'"),
        ({"rows_per_unit": 2}, "rows_per_unit=2"),
        ({"data_hash": "short"}, "64 hexadecimal"),
        ({"epsilon": math.inf}, "epsilon=inf"),
    ],
)
def test_the_terms_are_fixed_when_the_file_is_created(opened, changed, match):
    opened().close()
    with pytest.raises(InputError, match=match):
        opened(**changed)
    opened()  # and the refusal let go of the lock


def test_only_the_owner_may_read_the_file(opened):
    ledger = opened()
    ledger.charge("run", 0, GAUSSIAN, b"m")
    files = sorted(ledger._path.parent.glob("ledger*"))
    assert len(files) == 4  # the file, its log, the log's index, the lock
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_a_log_without_its_file_is_not_made_into_a_new_ledger(opened, tmp_path):
    (tmp_path / "ledger-wal").write_bytes(b"rows")
    with pytest.raises(InputError, match="missing, but its log"):
        opened()


def test_data_hash_tells_data_sets_apart():
    x, y = np.arange(6.0).reshape(2, 3), np.array([1, 0])
    assert data_hash(x, y) == data_hash(x.copy(), y)
    others = [data_hash(*a) for a in [(x.T, y), (x.astype(np.float32), y), (y, x), (x,), (x + 1, y)]]
    assert len({data_hash(x, y), *others}) == 6
    assert data_hash(np.asfortranarray(x), y) == data_hash(x, y)


def test_the_head_does_not_depend_on_the_data_alone(tmp_path):
    """A head shown to neighbours must not let them try out guesses of the data's hash."""
    heads = set()
    for name in "ab":
        with Ledger.open(tmp_path / name, data_hash=HASH, epsilon=1.0, delta=1e-5) as ledger:
            heads.add(ledger.head)
    assert len(heads) == 2


def test_rounds_of_an_unannounced_run_are_not_certified_one_by_one(opened, monkeypatch):
    asked, cost = [], account.Account.epsilon
    monkeypatch.setattr(account.Account, "epsilon", lambda self, case: asked.append(1) or cost(self, case))
    ledger = opened(epsilon=0.7)
    round = 0
    while True:
        try:
            ledger.charge("run", round, SAMPLED, b"m")
        except BudgetError:
            break
        round += 1
    assert len(asked) <= 4 * math.log2(round) + 4
    # Exactly as many as fit, no matter that the ledger looked ahead.
    assert certify(dp.SelfComposedDpEvent(SAMPLED, round), delta=1e-5).epsilon <= 0.7
    assert certify(dp.SelfComposedDpEvent(SAMPLED, round + 1), delta=1e-5).epsilon > 0.7


def test_rounds_of_an_announced_run_need_no_certificate(opened, monkeypatch):
    ledger = opened()
    assert not ledger.would_exceed(dp.SelfComposedDpEvent(SAMPLED, 20))
    monkeypatch.setattr(account.Account, "epsilon", None)
    for round in range(20):
        ledger.charge("run", round, SAMPLED, b"m")


def test_events_are_stored_as_json(opened):
    ledger = opened()
    ledger.charge("run", 0, SAMPLED, b"m")
    (run,) = read(ledger._path).runs
    import json

    assert json.loads(next(iter(run.events))) == event_to_json(SAMPLED)


def test_an_event_that_was_just_charged_is_not_taken_for_another(opened):
    """The last event is not read anew for the next round; one that changed meanwhile, or is another, is."""
    ledger, parts = opened(epsilon=3.0), [dp.GaussianDpEvent(40.0)]
    for round, event in enumerate((GAUSSIAN, GAUSSIAN, dp.GaussianDpEvent(30.0), GAUSSIAN)):
        ledger.charge("run", round, event, b"m")
    several = dp.ComposedDpEvent(parts)
    ledger.charge("run", 4, several, b"m")
    parts.append(dp.GaussianDpEvent(20.0))
    ledger.charge("run", 5, several, b"m")
    charged = [50.0, 50.0, 30.0, 50.0, 40.0, 40.0, 20.0]
    together = dp.ComposedDpEvent([dp.GaussianDpEvent(noise) for noise in charged])
    assert ledger.spent().epsilon == pytest.approx(certify(together, delta=1e-5).epsilon, rel=1e-9)
