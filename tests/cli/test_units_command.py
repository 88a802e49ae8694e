"""Persons, not rows, as a user asks for them: a file of visits, one run, and what report, card and terminal say."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_world import Ran, coterie

from coterie.experiments.experiment import read_toml
from coterie.problems.datasets import Source

ROWS, PATIENTS = 613, 150


def write(path: Path) -> Path:
    """Visits of patients, who have one to a dozen each, in three hospitals."""
    rng = np.random.default_rng(4)
    patient = np.concatenate([np.arange(PATIENTS), rng.geometric(0.02, ROWS - PATIENTS) % PATIENTS])
    x = rng.uniform(-1, 1, (ROWS, 2))
    lines = ["patient,hospital,visited,age,stay,ill"]
    for at in range(ROWS):
        ill = "yes" if x[at] @ [2, -1] > 0 else "no"
        place = ("east", "north", "west")[patient[at] % 3]
        lines.append(f"P{patient[at]},{place},{2000 + at % 20}-01-07,{x[at, 0]:.3f},{x[at, 1]:.3f},{ill}")
    path.write_text("\n".join(lines) + "\n")
    (path.parent / "columns.toml").write_text(
        'target = "ill"\nclasses = ["no", "yes"]\nprivacy_unit = "patient"\n[columns]\nage = [-1, 1]\nstay = [-1, 1]\n'
    )
    bare = (path.parent / "columns.toml").read_text().replace('privacy_unit = "patient"\n', "")
    (path.parent / "bare.toml").write_text(bare)
    return path


@pytest.fixture(scope="module")
def visits(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("units") / "visits.csv")


@pytest.fixture(scope="module")
def ran(visits) -> Ran:
    out = visits.parent / "run"
    return coterie(
        "run", "--data", visits, "--columns", visits.parent / "columns.toml", "--owner-column", "hospital",
        "--unit", "column:patient", "--records-per-unit", "5", "--latest", "visited", "--epsilon", "4",
        "--evaluate", "0.3", "--set", "rounds=5", "--out", out, out=out,
    )  # fmt: skip


def public(value):
    """A result without what no owner released."""
    if not isinstance(value, dict):
        return value
    gone = {*value.get("oracle", ()), "oracle"}
    return {key: public(part) for key, part in value.items() if key not in gone}


def numbers(value) -> Iterator[float]:
    """All that stand in a result, also in its sentences; not the digits of a hash."""
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers(part)
    elif isinstance(value, str):
        yield from (float(one.replace(",", "")) for one in re.findall(r"(?<![\w.,])\d[\d,]*(?![\w.])", value))
    elif isinstance(value, (int, float)):
        yield float(value)


def test_the_terminal_names_the_person(ran):
    assert ran.status == 0, ran.stderr
    said = " ".join(ran.stdout.split())
    assert "3 owners, 120 units (patient)" in said  # a fifth is held out, by patient
    assert "on 30 held-out units (oracle)" in said
    assert "privacy of one patient with up to 5 records" in said
    assert "about one patient with up to 5 records can at most become" in said
    assert re.search(
        r"one record ε ≤ \S+ no more than all of a unit at 2 owners ε ≤ \S+ a person whom they all know", said
    )
    assert "a patient counts once, whatever the number of its records: 3 owners, 120 units (patient)" in said


def test_report_and_card_name_the_person(ran):
    page = re.sub(r"<[^>]+>", "", (ran.out / "report.html").read_text("utf-8"))
    for words in (
        "What one patient with up to 5 records can change is certified at",
        "one patient with up to 5 records, at one owner",
        "numbers of units (patient) are public, and how many records each of them has is not",
        "knows all records but those of one patient",
        "the part of all records of one patient together at most",
        "If two owners know you, which nobody can see",
        "The same ε bounds one record of one patient. For one patient with up to 5 records, at up to 2 owners: ε ≤",
        "Together, 3 owners with 120 units (patient) reach",
    ):
        assert words in " ".join(page.split()), words
    assert coterie("show", ran.out, "--card", ran.out / "card.md").status == 0
    card = (ran.out / "card.md").read_text("utf-8")
    assert "For one patient with up to 5 records" in card
    assert "with their numbers of units (patient)" in card


def test_numbers_of_records_are_written_nowhere(visits, ran):
    """Of the table, of what is learnt from and of what is held out: only the holder's own findings have them."""
    written = (
        (ran.out / "result.json").read_text().replace(str(ran.out.parent), "")
    )  # a path has numbers, too
    told = public(json.loads(written))
    assert sum(told["sizes"]) == 120
    assert told["metric"]["rows"] == 30
    assert told["evaluation"]["rows"] == 120
    assert told["partition"].get("counts") is None
    table = Source(str(visits), columns=str(visits.parent / "columns.toml")).table()
    kept = np.minimum(np.bincount(table.whose.codes), 5).sum()
    assert not {ROWS, len(table.y), len(table.y_test), int(kept)} & set(numbers(told))
    assert ROWS not in set(numbers(coterie("show", ran.out).stdout.replace(str(ran.out.parent), "")))


def test_a_certificate_is_checked_with_its_unit(ran):
    again = coterie("certify", "--from", ran.out)
    assert again.status == 0, again.stderr
    assert "unit: patient with up to 5 records" in again.stdout
    told = json.loads((ran.out / "result.json").read_text())
    told["privacy"]["unit"] = "record"
    forged = ran.out.parent / "forged.json"
    forged.write_text(json.dumps(told))
    assert coterie("certify", "--from", forged).status != 0


def test_an_experiment_file_keeps_it(ran):
    kept = read_toml(ran.out / "experiment.toml")
    assert (kept.unit, kept.records_per_unit, kept.latest, kept.unit_mean) == (
        "column:patient",
        5,
        "visited",
        False,
    )


def test_a_columns_file_is_enough(visits):
    told = coterie(
        "run", "--data", visits, "--columns", visits.parent / "columns.toml", "--owners", "3", "--set", "rounds=5",
        "--json", "--out", visits.parent / "second",
    ).json  # fmt: skip
    assert told["privacy"]["unit"] == "patient with up to 20 records"
    assert sum(told["sizes"]) == 120


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--unit", "patient"),
            "unit='patient': must be record, column:NAME or owner. Did you mean column:patient?",
        ),
        (("--unit", "column:"), "must be record, column:NAME or owner"),
        (("--unit", "column:who"), "unit column='who': no such column"),
        (("--unit", "column:patient", "--records-per-unit", "0"), "records_per_unit=0: must be"),
        (("--records-per-unit", "5"), "records_per_unit: is for units of several records"),
        (("--latest", "visited"), "latest: is for units of several records"),
        (("--unit", "column:patient", "--owner-column", "patient"), "is also the owner column"),
        (("--unit", "column:patient", "--owners", "100"), "cannot give each at least 2"),
    ],
)
def test_bad_input_gets_one_line(visits, options, words):
    columns = () if "column:who" in options else ("--columns", visits.parent / "bare.toml")
    ran = coterie("run", "--data", visits, *columns, "--target", "ill", *options)
    assert ran.status == 2
    assert ran.stderr.startswith("error: ")
    assert words in ran.stderr.splitlines()[-1]


def test_the_holder_sees_how_many_records_persons_have(visits):
    asked = (
        "data",
        "describe",
        visits,
        "--columns",
        visits.parent / "bare.toml",
        "--owner-column",
        "hospital",
    )
    found = coterie(*asked, "--unit", "column:patient", "--json").json["units"]
    rows = [line.split(",")[0] for line in visits.read_text().splitlines()[1:]]
    table = Source(str(visits), None, "hospital", str(visits.parent / "bare.toml"), "column:patient").table()
    assert table.whose is not None
    sizes = np.unique(table.whose.codes, return_counts=True)[1]  # of those that are not held out
    assert (found["units"], found["largest"]) == (len(sizes), sizes.max())
    assert found["units"] < len(set(rows))
    for span in found["records"]:
        some = sizes[(sizes >= span["from"]) & (sizes <= span["to"])]
        assert (span["units"], span["records"]) == (len(some), some.sum())
    assert sum(span["units"] for span in found["records"]) == len(sizes)
    assert "in no budget" in found["warning"]
    before = sorted(visits.parent.iterdir())
    text = " ".join(coterie(*asked, "--unit", "column:patient").stdout.split())
    assert f"{len(sizes)} units (patient)" in text
    assert "for you alone" in text
    assert sorted(visits.parent.iterdir()) == before  # nothing is written
    assert coterie(*asked, "--json").json["units"] is None


def test_a_person_at_two_owners_is_two_units_of_the_picture(visits):
    """As in a run: no owner sees another's records."""
    asked = (
        "data",
        "describe",
        visits,
        "--columns",
        visits.parent / "bare.toml",
        "--unit",
        "column:patient",
        "--json",
    )
    counts = [
        coterie(*asked, "--owner-column", name).json["units"]["units"] for name in ("hospital", "visited")
    ]
    assert counts[0] < counts[1]


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("owner", "unit='owner': how many rows each owner has is shown anyway"),
        ("patient", "Did you mean column:patient?"),
        ("column:nobody", "'nobody'"),
        ("column:age", "is also the target or a feature"),
    ],
)
def test_units_that_cannot_be_counted_are_one_line(visits, unit, said):
    done = coterie("data", "describe", visits, "--columns", visits.parent / "bare.toml", "--unit", unit)
    assert done.status == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
