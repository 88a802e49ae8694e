"""`coterie ledger show | verify`, and every way in which a file can be tampered with."""

import json
import os
import sqlite3

import dp_accounting as dp
import pytest
from typer.testing import CliRunner

from coterie.accounting.ledger import Ledger, chain, verify
from coterie.cli import app
from coterie.errors import InputError

TERMS = {"data_hash": "ab" * 32, "epsilon": 1.0, "delta": 1e-5}


@pytest.fixture
def path(tmp_path):
    """A ledger of six rows, the first declaring a partition."""
    with Ledger.open(tmp_path / "ledger", **TERMS) as ledger:
        ledger.declare_partition("epoch", parts=2, digest="p")
        for round in range(4):
            ledger.charge("first run", round, dp.GaussianDpEvent(100.0), bytes(5000))
        ledger.charge("[second]", 0, dp.GaussianDpEvent(90.0), None, part=("epoch", 1))
    return tmp_path / "ledger"


def invoke(*arguments):
    return CliRunner().invoke(app, ["ledger", *map(str, arguments)])


def tamper(path, *statements):
    """What somebody with SQLite can do; the triggers that guard against mistakes are no obstacle."""
    with sqlite3.connect(path) as connection:
        for statement in ("DROP TRIGGER no_update", "DROP TRIGGER no_delete", *statements):
            connection.execute(statement)
    connection.close()


def test_show(path):
    shown = invoke("show", path)
    assert shown.exit_code == 0
    for words in ("budget:    ε = 1 (δ = 1e-05", "spent:     ε ≤ 0.", "remaining: ε = 0.", "first run",
                  "[second]", "4 × Gaussian(100)", "epoch, 1 of 2 parts"):  # fmt: skip
        assert words in shown.stdout


def test_a_party_s_folder_is_no_ledger(path):
    """The ledger in it is meant, which exists."""
    for command in ("show", "verify"):
        done = invoke(command, path.parent)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert "is a folder. Give the file in it" in done.stderr


def test_what_noise_leaves_of_a_budget_by_its_last_digit_is_nothing(tmp_path):
    """It was shown: ε = 2.373e-07."""
    from coterie.accounting.gaussian import noise_for

    noise = noise_for(1.0, TERMS["delta"]) * 2 * (1 + 1e-7)
    with Ledger.open(tmp_path / "ledger", **TERMS) as ledger:
        ledger.charge("run", 0, dp.GaussianDpEvent(noise), bytes(9))
    shown = invoke("show", tmp_path / "ledger").stdout
    assert "remaining: ε = 0\n" in shown
    assert 0 < json.loads(invoke("show", tmp_path / "ledger", "--json").stdout)["remaining"] < 1e-6


def test_show_json(path):
    facts = json.loads(invoke("show", path, "--json").stdout)
    assert facts["budget"] == {"epsilon": 1.0, "delta": 1e-5}
    assert facts["remaining"] == pytest.approx(1.0 - facts["spent"]["epsilon"])
    assert [(run["run"], run["charges"], run["messages"]) for run in facts["runs"]] == [
        ("first run", 4, 4),
        ("[second]", 1, 0),
    ]
    assert facts["rows"] == 6
    assert facts["head"] == json.loads(invoke("verify", path, "--json").stdout)["head"]


def test_reading_while_the_owner_writes(path):
    with Ledger.open(path, **TERMS) as ledger:
        ledger.charge("third", 0, dp.GaussianDpEvent(100.0), b"m")
        assert json.loads(invoke("show", path, "--json").stdout)["rows"] == 7
        assert invoke("verify", path).exit_code == 0
        ledger.charge("third", 1, dp.GaussianDpEvent(100.0), b"m")
    assert json.loads(invoke("show", path, "--json").stdout)["rows"] == 8


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_missing_file_is_one_line_and_stays_missing(tmp_path, command):
    result = invoke(command, tmp_path / "none")
    assert result.exit_code == 2
    assert result.stderr.strip().count("\n") == 0
    assert "no such file" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_verify_accepts_any_head_that_was_ever_written_down(path):
    with Ledger.open(path, **TERMS) as ledger:
        old = ledger.head
        ledger.charge("third", 0, dp.GaussianDpEvent(100.0), b"m")
        new = ledger.head
    assert old != new
    for head in (old, new):
        assert invoke("verify", path, "--head", head).exit_code == 0
    refused = invoke("verify", path, "--head", "0" * 64)
    assert refused.exit_code == 2
    assert "not in the chain" in refused.stderr


LAST_HASH = "(SELECT hash FROM ledger ORDER BY sequence DESC LIMIT 1)"


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["UPDATE ledger SET body = replace(body, '100.0', '900.0') WHERE sequence = 3"], "row 3 was edited"),
        (["UPDATE ledger SET round = 9 WHERE sequence = 2"], "row 2 was edited"),
        (["UPDATE ledger SET time = x'ff' WHERE sequence = 2"], "row 2 was edited"),
        (["UPDATE ledger SET run = CAST(x'ff' AS TEXT) WHERE sequence = 2"], "row 2 was edited"),
        (["UPDATE ledger SET message = x'00' WHERE sequence = 4"], "the message of row 4 was edited"),
        (["UPDATE ledger SET message = NULL WHERE sequence = 4"], "the message of row 4 was edited"),
        (["DELETE FROM ledger WHERE sequence = 3"], "row 3 was removed"),
        (["DELETE FROM ledger WHERE sequence < 3"], "rows 1 to 2 were removed"),
        (["DELETE FROM ledger WHERE sequence = 6"], "row 6 was removed at the end"),
        (["DELETE FROM ledger"], "rows 1 to 6 were removed at the end"),
        (["DELETE FROM ledger WHERE sequence = 3", "UPDATE ledger SET sequence = sequence - 1 WHERE sequence > 3",
          "UPDATE head SET sequence = 5"], "row 3 does not continue what is before it"),
        (["UPDATE head SET hash = 'x'"], "the head record does not match row 6"),
        (["DELETE FROM head"], "its terms or its head were removed"),
        (["UPDATE terms SET body = replace(body, '1.0', '9.0')"], "the terms (budget, data) were replaced"),
        (["DROP TABLE ledger"], "no such table"),
        (["PRAGMA user_version = 2"], "schema 2"),
    ],
)  # fmt: skip
def test_verify_says_what_was_tampered_with(path, statements, found):
    tamper(path, *statements)
    result = invoke("verify", path, "--json")
    assert result.exit_code == 2
    answer = json.loads(result.stdout)
    assert not answer["ok"]
    assert any(found in problem for problem in answer["problems"])
    assert result.stderr.startswith("error: ")
    assert result.stderr.strip().count("\n") == 0
    if "message" not in found:  # messages are checked when they are about to be sent again
        with pytest.raises(InputError):
            Ledger.open(path, **TERMS)
        assert invoke("show", path).exit_code == 2
    else:
        with Ledger.open(path, **TERMS) as ledger, pytest.raises(InputError, match="row 4 was edited"):
            ledger.stored("first run", 2)


def test_only_a_head_kept_elsewhere_notices_a_file_that_was_cut_and_chained_anew(path):
    """What the chain cannot do, as documented: no secret is in it."""
    head = verify(path).head
    tamper(path, "DELETE FROM ledger WHERE sequence = 6", f"UPDATE head SET sequence = 5, hash = {LAST_HASH}")
    assert "row 6 that was written before" in verify(path).problems[0]
    os.remove(f"{path}.lock")  # where that was noted
    assert verify(path).problems == ()
    assert "not in the chain" in verify(path, head).problems[0]


def test_a_forged_row_that_makes_no_sense_is_found(path):
    with sqlite3.connect(path) as connection:
        row = chain.LedgerRow(*connection.execute(
            f"SELECT {', '.join(chain.LedgerRow._fields)} FROM ledger WHERE sequence = 6").fetchone())  # fmt: skip
    connection.close()
    forged = chain.sealed(row._replace(body='{"type":"os.system"}'))
    tamper(path, f"UPDATE ledger SET body = '{forged.body}', hash = '{forged.hash}' WHERE sequence = 6",
           f"UPDATE head SET hash = '{forged.hash}'")  # fmt: skip
    assert "row 6: not understood" in verify(path).problems[0]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.95])
def test_a_truncated_file_is_noticed(path, share):
    os.truncate(path, int(os.path.getsize(path) * share))
    result = invoke("verify", path)
    assert result.exit_code == 2
    assert invoke("show", path).exit_code == 2
    with pytest.raises(InputError):
        Ledger.open(path, **TERMS)
    assert verify(path).problems


@pytest.mark.parametrize("content", [b"", b"not a database, but a text of some length" * 100])
def test_another_file_is_refused_and_left_alone(tmp_path, content):
    other = tmp_path / "notes.txt"
    other.write_bytes(content)
    for command in ("show", "verify"):
        result = invoke(command, other)
        assert result.exit_code == 2
        assert result.stderr.strip().count("\n") == 0
    with pytest.raises(InputError):
        Ledger.open(other, **TERMS)
    assert other.read_bytes() == content


def test_another_programs_database_is_refused(tmp_path):
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    before = other.read_bytes()
    assert "not a ledger" in invoke("verify", other).stderr
    with pytest.raises(InputError, match="not a ledger"):
        Ledger.open(other, **TERMS)
    assert other.read_bytes() == before


def test_rows_cannot_be_changed_by_mistake(path):
    connection = sqlite3.connect(path)
    for statement in ("UPDATE ledger SET run = 'x'", "DELETE FROM ledger"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()
