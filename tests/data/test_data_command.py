import json

import pytest
from typer.testing import CliRunner

from coterie.cli.data import ORACLE, app

runner = CliRunner()


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch):
    monkeypatch.delenv("COTERIE_DATA", raising=False)


def test_list_as_one_json_object():
    result = runner.invoke(app, ["list", "--json"])
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.stdout)["datasets"]}
    assert rows["census"]["here"] is True
    assert rows["mnist"]["here"] is False
    assert len(rows) == 20


def test_list_for_people():
    result = runner.invoke(app, ["list"])
    assert result.exit_code == 0
    assert "credit_card_balanced" in result.stdout


def test_describe_as_json_counts_every_private_row_once(tmp_path):
    picture = tmp_path / "owners.png"
    result = runner.invoke(app, ["describe", "census", "--json", "--out", str(picture)])
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["warning"] == ORACLE
    assert sum(owner["rows"] for owner in facts["owners"]) == facts["rows"] == 27_530
    assert all(sum(owner["counts"]) == owner["rows"] for owner in facts["owners"])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_describe_for_people_warns_and_draws():
    result = runner.invoke(app, ["describe", "census", "--owners", "50", "--partition", "dirichlet:0.3"])
    assert result.exit_code == 0
    assert "oracle" in result.stdout
    assert "█" in result.stdout
    assert "the 40 largest of 50 owners" in result.stdout


def test_check_names_the_first_problem(tmp_path):
    assert runner.invoke(app, ["check", "census"]).exit_code == 0
    result = runner.invoke(app, ["check", "--json", "--data-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["ok"] is False
    assert result.stderr.startswith("error: 19 of 20 data sets")


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "nope"],
        ["describe", "adult"],
        ["describe", "census", "--owners", "0"],
        ["describe", "census", "--partition", "iid"],
        ["describe", "census", "--out", "picture.gif"],
        ["describe", "census", "--out", "/no/such/folder/x.png"],
        ["check", "nope"],
    ],
)
def test_bad_input_is_one_line_and_status_2(words):
    result = runner.invoke(app, words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("content", [b"", b"\n", b"PK\x03\x04\x14\x00\x06\x00,x\n1,2\n"])
def test_no_columns_file_is_made_of_a_file_without_a_header(tmp_path, content):
    file, out = tmp_path / "sheet.csv", tmp_path / "columns.toml"
    file.write_bytes(content)
    result = runner.invoke(app, ["init", str(file), "--out", str(out)])
    assert result.exit_code == 2
    assert "has no header of column names" in result.stderr
    assert not out.exists()


def test_a_file_that_is_not_there_is_named_before_what_its_target_is(tmp_path):
    result = runner.invoke(app, ["describe", str(tmp_path / "nowhere.csv")])
    assert result.exit_code == 2
    assert "no such file. Check the path." in result.stderr
