"""What a ledger would say after a run: read off, and nothing created."""

from __future__ import annotations

from pathlib import Path

import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

from coterie.accounting.ledger import ChargeForecast, Ledger, forecast, terms_for
from coterie.errors import InputError

HASH = "0" * 64
TERMS = {"data_hash": HASH, "epsilon": 1.0, "delta": 1e-5, "relation": "replace_one"}
RUN = SelfComposedDpEvent(GaussianDpEvent(40.0), 6)


def foretold(path: Path, **changes) -> ChargeForecast:
    return forecast(path, "run", RUN, terms_for(**TERMS | changes))


@pytest.mark.parametrize("charged", [0, 2, 6])
def test_the_end_is_the_same_however_much_of_the_run_is_charged(tmp_path, charged):
    path = tmp_path / "ledger"
    with Ledger.open(path, **TERMS) as ledger:
        ledger.charge("earlier", 1, GaussianDpEvent(30.0), b"x")
        end = ledger.compose(RUN).epsilon
        for round in range(charged):
            ledger.charge("run", round, GaussianDpEvent(40.0), b"x")
        spent = ledger.spent().epsilon
    told = foretold(path)
    assert (told.after.epsilon, told.spent) == (pytest.approx(end), pytest.approx(spent))
    assert (told.messages, told.affordable) == (charged, True)


def test_a_ledger_that_is_not_there_is_not_created(tmp_path):
    told = foretold(tmp_path / "ledger")
    assert (told.spent, told.messages, told.affordable) == (0.0, 0, True)
    assert not foretold(tmp_path / "ledger", epsilon=told.after.epsilon * 0.99).affordable
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "words"), [({"epsilon": 2.0}, "created with 1.0"), ({"data_hash": "1" * 64}, "belongs to")]
)
def test_other_terms_than_the_ledger_s_are_refused(tmp_path, change, words):
    Ledger.open(tmp_path / "ledger", **TERMS).close()
    with pytest.raises(InputError, match=words):
        foretold(tmp_path / "ledger", **change)
