"""Copies of a ledger: made while it is written, put back after a disaster, and never a way to spend twice."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from dp_accounting import GaussianDpEvent

from coterie.accounting.ledger import Ledger, read, verify
from coterie.accounting.ledger.recovery import Owed, backup, opened, restore, write_off
from coterie.errors import BudgetError, InputError, LedgerError

TERMS = {"data_hash": "ab" * 32, "epsilon": 1.0, "delta": 1e-5}
EVENT = GaussianDpEvent(100.0)


def charged(path: Path, *rounds: int, run: str = "run") -> None:
    with Ledger.open(path, **TERMS) as ledger:
        for round in rounds:
            ledger.charge(run, round, EVENT, b"message %d" % round)


def lost(path: Path) -> None:
    """The whole machine: the ledger and all that lies beside it."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "machine").mkdir()
    return tmp_path / "machine" / "ledger"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def test_a_copy_is_whole_while_the_owner_writes(path, copy):
    with Ledger.open(path, **TERMS) as ledger:
        for round in range(20):
            ledger.charge("run", round, EVENT, b"message")
            assert backup(path, copy).sequence == round + 1
        assert read(copy).head == ledger.top
    assert verify(copy).problems == ()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [file.name for file in copy.parent.iterdir() if file.is_file()] == ["copy"]


def test_a_newer_copy_another_ledger_s_and_the_ledger_itself_are_not_overwritten(path, copy, tmp_path):
    charged(path, 1)
    old = path.read_bytes()
    charged(path, 2)
    backup(path, copy)
    lost(path)
    path.write_bytes(old)
    with pytest.raises(InputError, match="has rows that .* has not"):
        backup(path, copy)
    assert read(copy).head.sequence == 2
    charged(tmp_path / "other", 1)
    with pytest.raises(InputError, match="or another ledger's"):
        backup(tmp_path / "other", copy)
    with pytest.raises(InputError, match="is the ledger itself"):
        backup(path, path)
    copy.write_bytes(b"no ledger")
    with pytest.raises(InputError, match="not in order"):
        backup(path, copy)
    with pytest.raises(InputError, match="no such file"):
        backup(path.parent / "nothing", copy)


def test_after_a_machine_was_lost_the_run_is_unsettled_and_nothing_else_changed(path, copy):
    charged(path, 1, 2)
    backup(path, copy)
    charged(path, 3)
    lost(path)
    found = restore(copy, path, ["run"])
    assert (found.complete, found.unsettled) == (False, ("run",))
    assert verify(path).problems == ()
    with opened(path) as ledger:
        assert ledger.unsettled() == ["run"]
        assert (ledger.stored("run", 2), ledger.stored("run", 3)) == (b"message 2", None)
        assert ledger.spent().epsilon == pytest.approx(read(copy).account.spent(1e-5).epsilon)
        ledger.charge("run", 3, EVENT, b"after every peer was heard")
        assert ledger.unsettled() == []
    assert sorted(file.name for file in path.parent.iterdir()) == ["ledger", "ledger.lock"]


def test_a_copy_that_has_all_that_was_noted_is_complete(path, copy):
    charged(path, 1, 2)
    backup(path, copy)
    path.unlink()
    with pytest.raises(LedgerError, match="missing, and 2 rows"):
        charged(path, 3)
    assert restore(copy, path, []).complete
    charged(path, 3)
    with opened(path) as ledger:
        assert ledger.unsettled() == []


def test_a_copy_that_lacks_what_was_noted_is_not(path, copy):
    charged(path, 1, 2)
    backup(path, copy)
    charged(path, 3)
    path.unlink()
    with pytest.raises(InputError, match="none named"):
        restore(copy, path, [])
    assert not path.exists()
    assert not restore(copy, path, ["run"]).complete
    with opened(path) as ledger:  # the note was set back, with the mark in the chain in its stead
        assert ledger.unsettled() == ["run"]


def test_what_is_noted_beside_a_damaged_file_does_not_count(path, copy):
    """A power cut may damage the file and take back the last note: the copy then only seems to have everything."""
    charged(path, 1, 2)
    backup(path, copy)
    note = Path(f"{path}.lock").read_bytes()
    charged(path, 3)
    Path(f"{path}.lock").write_bytes(note)
    path.write_bytes(path.read_bytes()[:3000])
    assert restore(copy, path, ["run"]).unsettled == ("run",)
    with opened(path) as ledger:
        assert ledger.unsettled() == ["run"]


def test_rows_that_are_still_there_are_never_lost(path, copy):
    charged(path, 1)
    backup(path, copy)
    charged(path, 2)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="has rows that the copy .* has not") as raised:
        restore(copy, path, ["run"])
    assert (raised.value.exit_status, path.read_bytes()) == (3, before)
    path.write_bytes(before[:3000])
    restore(copy, path, ["run"])
    assert (path.parent / "ledger.damaged").read_bytes() == before[:3000]
    assert verify(path).problems == ()


def test_a_ledger_in_use_is_left_alone_and_a_broken_copy_refused(path, copy):
    charged(path, 1)
    backup(path, copy)
    with Ledger.open(path, **TERMS), pytest.raises(InputError, match="in use"):
        restore(copy, path, ["run"])
    lost(path)
    copy.write_bytes(copy.read_bytes().replace(b"message 1", b"massage 1"))
    with pytest.raises(InputError, match="not in order"):
        restore(copy, path, ["run"])
    assert not path.exists()


def test_what_is_written_off_counts_whatever_the_budget_and_ends_the_run(path, copy):
    charged(path, 1)
    backup(path, copy)
    lost(path)
    restore(copy, path, ["run", "other"])
    with opened(path) as ledger:
        write_off(ledger, "run", [Owed(GaussianDpEvent(2.0))])
        write_off(ledger, "run", [Owed(GaussianDpEvent(2.0))])  # once
        assert (ledger.unsettled(), ledger.given_up("run"), ledger.given_up("other")) == (
            ["other"],
            True,
            False,
        )
        assert ledger.spent().epsilon > 1.0
        with pytest.raises(BudgetError):
            ledger.charge("later", 1, EVENT, b"nothing may leave")
    assert verify(path).problems == ()
