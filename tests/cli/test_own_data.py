"""A file of one's own: who takes part with which budget, what is declared, and what its rows are said to hold."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_world import Ran, coterie, on

from coterie.cli._words import budgets_of
from coterie.planning import join

OWNERS = ("1", "2", "3", "10")
COLUMNS = """
target = "ill"
classes = ["no", "yes", "unknown"]

[columns]
age = [0, 100]
ward = ["A", "B"]
"""
CLIPPED = "column 'age': 5 of 61 rows lie outside [0, 100]"


def write_patients(folder: Path) -> Path:
    """60 patients of four owners, five of them older than the declared range allows; one of an owner called 7."""
    rng = np.random.default_rng(5)
    lines = ["clinic,age,ward,note,ill"]
    for row in range(60):
        age = 130 if row < 5 else rng.integers(20, 90)
        lines.append(f"{OWNERS[row % 4]},{age},{'AB'[row % 2]},n{row},{'yes' if age > 55 else 'no'}")
    (folder / "columns.toml").write_text(COLUMNS)
    path = folder / "patients.csv"
    path.write_text("\n".join([*lines, "7,50,A,n,no"]) + "\n")
    return path


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> Ran:
    """A run for people, with the four largest owners at a budget each."""
    folder = tmp_path_factory.mktemp("own")
    path = write_patients(folder)
    options = ("--columns", folder / "columns.toml", "--owner-column", "clinic", "--owners", 4)
    more = ("--epsilon", "1,2,3,4", "--set", "rounds=3", "--out", folder / "out")
    return coterie("run", "--data", path, *options, *more, out=folder / "out")


def text_of(ran: Ran) -> str:
    assert ran.status == 0, ran.stderr
    return " ".join(ran.stdout.split())


def test_a_number_of_owners_keeps_the_largest_of_the_column(told):
    who = "partition column (1, 2, 3, 10; left out: 1 row of 1 other owner)"
    assert f"4 owners, 47 records, {who}" in text_of(told)
    found = json.loads((told.out / "result.json").read_text())
    assert (found["partition"]["how"], found["owner_names"]) == ("column", list(OWNERS))


def test_budgets_go_to_owners_in_natural_order_and_the_summary_says_whose_is_which(told):
    assert "owner = ε: 1 = 1, 2 = 2, 3 = 3, 10 = 4" in text_of(told)
    found = json.loads((told.out / "result.json").read_text())
    assert dict(zip(found["owner_names"], found["privacy"]["budget_epsilon"])) == {
        "1": 1.0,
        "2": 2.0,
        "3": 3.0,
        "10": 4.0,
    }


def test_declared_classes_are_those_of_the_run_and_nothing_is_to_beware_of(told):
    found = json.loads((told.out / "result.json").read_text())
    assert found["partition"]["classes"] == ["no", "yes", "unknown"]
    assert found["partition"]["classes_declared"] is True
    assert not any("list of classes" in one for one in found["privacy"]["warnings"])
    assert "read off the records" not in text_of(told) + " ".join(found["privacy"]["statement"])


def test_what_was_seen_in_rows_is_for_the_terminal_and_marked_in_files(told):
    text = text_of(told)
    assert f"your file (oracle): {CLIPPED}" in text
    assert "your file: not declared and not used: note" in text
    found = json.loads((told.out / "result.json").read_text())
    assert [one.partition(";")[0] for one in found["findings"]["about_rows"]] == [CLIPPED]
    assert found["findings"]["oracle"] == ["about_rows"]
    for name in ("report.html", "experiment.toml", "trace.csv"):
        assert "lie outside" not in (told.out / name).read_text()


def test_classes_that_nobody_declared_are_said_to_be_read_off_rows(ran, visits):
    words = "the list of classes was read off the records"
    assert ran.json["partition"]["classes_declared"] is False
    assert [words in one for one in ran.json["privacy"]["warnings"]].count(True) == 1
    public = next(one for one in ran.json["privacy"]["statement"] if one.startswith("Public without charge"))
    assert words in public
    assert "one record could show in it" in public
    assert words in (ran.out / "report.html").read_text()
    described = coterie("data", "describe", visits, "--target", "readmitted", "--owner-column", "hospital")
    assert words in text_of(described)


def test_describing_a_file_counts_what_does_not_fit(tmp_path):
    path = write_patients(tmp_path)
    done = coterie(
        "data", "describe", path, "--columns", tmp_path / "columns.toml", "--owner-column", "clinic"
    )
    text = text_of(done)
    assert CLIPPED in text
    assert "held-out rows" in text
    assert "read off the records" not in text
    asked = ("--owners", 2, "--json", "--columns", tmp_path / "columns.toml", "--owner-column", "clinic")
    facts = coterie("data", "describe", path, *asked).json
    assert (len(facts["owners"]), facts["partition"], facts["classes_declared"]) == (2, "column", True)


def test_joining_is_judged_with_the_same_columns_file(tmp_path, monkeypatch):
    monkeypatch.setattr(join, "BUDGETS", (1.0,))
    monkeypatch.setattr(join, "PARTNERS", (1,))
    path = write_patients(tmp_path)
    asked = ("plan", "join", "--data", path, "--columns", tmp_path / "columns.toml", "--owner", "me")
    done = coterie(*asked, "--partners", 1, "--rounds-at-most", 4)
    text = text_of(done)
    assert "me " in text
    assert CLIPPED in text


def test_whose_budget_is_readable_for_few_and_for_many():
    assert budgets_of(("a", "b"), (1.0, 1.0)) == []
    assert budgets_of(("north", "south"), (0.5, 2.0)) == ["owner = ε: north = 0.5, south = 2"]
    names = tuple(map(str, range(1, 201)))
    assert budgets_of(names, (0.5,) * 150 + (2.0,) * 50) == [
        "whose budget:",
        "  ε = 0.5: 1, 2, 3 and 147 more",
        "  ε = 2: 151, 152, 153 and 47 more",
    ]
    lines = budgets_of(names, tuple(np.linspace(1, 2, 200).tolist()))
    assert (len(lines), lines[-1]) == (14, "  and 188 larger budgets, in result.json")


def test_dealing_rows_anew_is_done_only_when_it_is_said(visits, tmp_path):
    done = coterie(*on(visits), "--partition", "iid", "--owners", 3, "--out", tmp_path / "out")
    assert "3 owners, 160 records, partition iid." in text_of(done)


def test_a_real_owner_hears_how_many_of_its_rows_do_not_fit(tmp_path):
    (tmp_path / "columns.toml").write_text('target = "y"\nclasses = ["no", "yes"]\n[columns]\na = [0, 1]\n')
    (tmp_path / "a.csv").write_text("a,y\n" + "50,yes\n25,no\n" * 20)
    owners = ("--owners", "a,b,c,d,e,f,g,h,i,j", "--sizes", ",".join(["40"] * 10))
    kind = ("--columns", tmp_path / "columns.toml", "--protocol", "weighted_erm", "--set", "view=aggregator")
    assert coterie("network", "new", tmp_path / "net", *owners, *kind).status == 0
    # It then refuses to rely on an aggregator that it does not trust: nothing has left by that time.
    done = coterie("node", tmp_path / "net" / "parties" / "a", "--data", tmp_path / "a.csv")
    assert (done.status, done.stdout) == (3, "")
    assert "for your eyes: column 'a': 40 of 40 rows lie outside [0, 1]" in done.stderr
