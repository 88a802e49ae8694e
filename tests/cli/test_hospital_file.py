"""The walk of docs/data.md from a hospital's file to predictions: init, edit, run, predict, with the output shown."""

import csv
import html
import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest
from cli_world import Ran, coterie

from coterie.problems.datasets import load_file
from coterie.reports.statement import COLUMNS_READ

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d+\.\d+")  # not of counts, which must be the same
INIT = ("--target", "readmitted", "--owner-column", "hospital")
BLOCKS = re.findall(r"^```\w*\n(.*?)^```", (ROOT / "docs/data.md").read_text("utf-8"), re.M | re.S)


def shown(start: str) -> str:
    """The documents' block that begins so."""
    (block,) = [block for block in BLOCKS if block.startswith(start)]
    return block


def make(folder: Path, **more) -> Path:
    """The script's files in a folder."""
    spec = importlib.util.spec_from_file_location("hospital_csv", ROOT / "scripts" / "hospital_csv.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.write(folder, **more)
    return folder


def said(ran: Ran) -> str:
    assert ran.status == 0, ran.stderr
    return ran.stdout + ran.stderr


def assert_alike(found: str, expected: str) -> None:
    """The same words, and numbers that may differ as processors' last digits do."""
    numbers = [[float(one) for one in NUMBER.findall(text)] for text in (found, expected)]
    assert NUMBER.sub("#", found) == NUMBER.sub("#", expected)
    assert numbers[0] == pytest.approx(numbers[1], abs=2e-3)


def beginning(page: Path) -> str:
    """The first sentence of a page."""
    text = re.sub(r"<(style|script|svg).*?</\1>", "", page.read_text("utf-8"), flags=re.DOTALL)
    words = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))
    return words[words.index("Together,") :].partition(" . ")[0].replace(" ; ", "; ") + "."


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make(tmp_path, sizes={"Nordstadt": 40, "Südklinik": 60})


def test_four_commands_lead_to_predictions_and_say_what_the_documents_show(tmp_path, monkeypatch):
    monkeypatch.chdir(make(tmp_path))
    header, *rows = (tmp_path / "visits.csv").read_text("latin-1").splitlines()
    assert [row.split(";")[1] for row in rows].count("Nordstadt") == 300
    assert (len(rows), sum(row.endswith(";ja") for row in rows), header[:7]) == (5300, 159, "case_id")
    assert said(coterie("data", "init", "visits.csv", *INIT)) in shown("$ coterie data init")
    assert shown("$ head -16").partition("\n")[2] in Path("columns.toml").read_text("utf-8")
    Path("columns.toml").write_text(shown('target = "readmitted"\n'), encoding="utf-8")
    command, _, expected = shown("$ coterie run --data visits.csv").partition("\n")
    ran = coterie(*command.split()[2:])
    assert ran.status == 0, ran.stderr
    assert_alike(ran.stdout.rpartition("  (")[0], expected.rstrip("\n"))
    assert_alike(beginning(tmp_path / "visits" / "report.html"), shown("Together, 2 owners").rstrip("\n"))
    found = json.loads((tmp_path / "visits" / "result.json").read_text("utf-8"))["metric"]
    assert (found["name"], found["beats_constant"], found["threshold"]) == ("auc", True, 0.03)
    assert found["all"]["recall"]["joint"] > 0.7 > 0.1 > found["all"]["recall"]["constant"]
    predicted = said(coterie("predict", "visits", "new.csv", "--out", "predicted.csv"))
    lines = shown("$ coterie predict visits").splitlines()[1:]  # notes go to the other stream, and come first
    assert sorted(predicted.splitlines()) == sorted(lines)
    lines = Path("predicted.csv").read_text("utf-8").splitlines()
    assert_alike("\n".join(lines[:4]), shown("$ head -4").partition("\n")[2].rstrip("\n"))
    with Path("predicted.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["row", "prediction", "probability nein", "probability ja"]
    assert (len(found), {one["prediction"] for one in found} <= {"nein", "ja"}) == (20, True)


def test_init_looks_at_no_cell(small):
    coterie("data", "init", "visits.csv", *INIT, "--out", "one.toml")
    header = (small / "visits.csv").read_bytes().partition(b"\n")[0]
    (small / "visits.csv").write_bytes(header + b"\nsomething\xff\x81;;;;else entirely\n")
    assert coterie("data", "init", "visits.csv", *INIT, "--out", "other.toml").status == 0
    assert Path("one.toml").read_bytes() == Path("other.toml").read_bytes()
    left = tomllib.loads(Path("one.toml").read_text("utf-8"))
    assert left == {"target": "readmitted", "leave_out": ["case_id"], "columns": {}}


def test_a_file_made_from_rows_says_so_everywhere(small):
    ran = coterie("data", "init", "visits.csv", *INIT, "--from-rows")
    assert "a release that nobody charges" in said(ran)
    text = Path("columns.toml").read_text("utf-8")
    assert text.startswith("# MADE FROM THE ROWS of visits.csv")
    found = tomllib.loads(text)
    assert found["from_rows"] is True
    assert found["columns"]["ward"] == {"values": ["Chirurgie", "Innere", "Notaufnahme", "Pädiatrie"]}
    assert found["columns"]["crp"]["missing"] == "middle"
    assert found["columns"]["admitted"]["written"] == "DD.MM.YYYY"
    assert not load_file("visits.csv", owner="hospital", columns="columns.toml").columns_declared
    files = ("--data", "visits.csv", "--owner-column", "hospital", "--columns", "columns.toml")
    result = json.loads(coterie("run", *files, "--set", "rounds=2", "--out", "out", "--json").stdout)
    assert COLUMNS_READ in result["privacy"]["warnings"]
    assert any(f"Beware: {COLUMNS_READ}." in line for line in result["privacy"]["statement"])
    assert coterie("certify", "--from", "out/result.json").status == 0
    described = said(coterie("data", "describe", "visits.csv", *files[2:]))
    assert COLUMNS_READ in " ".join(described.split())
    network = coterie(
        "network", "new", "net", "--owners", "a,b", "--sizes", "40,60", "--columns", "columns.toml"
    )
    assert network.status == 2
    assert "columns.toml: was made from rows (from_rows)" in network.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("visits.csv", "--target", "readmited"), "target='readmited': no such column"),
        (("visits.csv", "--target", "age", "--owner-column", "age"), "is also the target"),
        (("absent.csv",), "no such file"),
        (("visits.csv", "--out", "visits.csv"), "exists. Name a new file"),
    ],
)
def test_what_init_cannot_do_is_one_line(small, arguments, words):
    ran = coterie("data", "init", *arguments)
    assert (ran.status, ran.stderr.count("\n")) == (2, 1)
    assert words in ran.stderr
    assert not (small / "columns.toml").exists()
