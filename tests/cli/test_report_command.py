"""`coterie report`: the page of a run's folder, made again from its files."""

import html
import json
import shutil

import pytest
from cli_world import HOSPITALS, coterie, on


@pytest.fixture
def folder(ran, tmp_path):
    return shutil.copytree(ran.out, tmp_path / "run")


def test_a_run_writes_its_page(ran):
    page = (ran.out / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert len(page) < 100_000
    assert all(page.count(name) == 4 for name in HOSPITALS)  # in the budgets and in three pictures
    for value in ("joint", "local_only", "central"):
        assert f"{ran.json['metric'][value]:.4g}" in page


def test_the_same_files_give_the_same_page(ran, folder):
    (folder / "report.html").unlink()
    done = coterie("report", folder)
    assert (done.status, done.stdout) == (0, f"written: {folder / 'report.html'}\n")
    assert (folder / "report.html").read_bytes() == (ran.out / "report.html").read_bytes()
    assert {path.name for path in folder.iterdir()} == {path.name for path in ran.out.iterdir()}


def test_an_audit_gets_onto_the_page(folder):
    found = json.loads((folder / "result.json").read_text())
    attacked = found["privacy"]["certificates"][0]
    audit = {"world": "a small one", "finding": {"epsilon": 0.789}, "certificate": attacked}
    found["privacy"] |= {
        "audited_epsilon": 0.789,
        "audit": audit | {"certified_epsilon": attacked["epsilon"]},
    }
    (folder / "result.json").write_text(json.dumps(found))
    done = coterie("report", folder, "--json")
    assert done.status == 0, done.stderr
    assert done.json["report"] == str(folder / "report.html")
    assert "ε ≥ 0.789" in (folder / "report.html").read_text()
    for change, words in (
        ({"audited_epsilon": 0.1}, "audited_epsilon is 0.1"),
        ({"audit": found["privacy"]["audit"] | {"certified_epsilon": 0.1}}, "audit.certified_epsilon is 0.1"),
        (
            {"audit": found["privacy"]["audit"] | {"certificate": attacked | {"epsilon": 0.1}}},
            "of the audit: epsilon",
        ),
    ):
        forged = found | {"privacy": found["privacy"] | change}
        (folder / "result.json").write_text(json.dumps(forged))
        done = coterie("report", folder)
        assert done.status == 2
        assert words in done.stderr


@pytest.mark.parametrize("name", ["result.json", "trace.csv", "experiment.toml"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    before = (folder / "report.html").read_bytes()
    done = coterie("report", folder)
    assert done.status == 2
    assert done.stderr.startswith("error: ")
    assert name in done.stderr
    assert done.stderr.count("\n") == 1
    assert (folder / "report.html").read_bytes() == before


def test_what_is_no_folder_of_a_run(tmp_path):
    for place in (tmp_path, tmp_path / "none"):
        done = coterie("report", place)
        assert (done.status, done.stdout) == (2, "")
        assert "Give the folder of a run" in done.stderr


def test_a_damaged_result_leaves_the_old_page(folder):
    before = (folder / "report.html").read_bytes()
    (folder / "result.json").write_text('{"owner_names": ["a"]}')
    done = coterie("report", folder)
    assert done.status == 2
    assert done.stderr.count("\n") == 1
    assert (folder / "report.html").read_bytes() == before


def test_the_statement_is_in_the_result_and_on_the_page(ran):
    sentences = ran.json["privacy"]["statement"]
    items = [sentence.partition(": ")[0] for sentence in sentences]
    assert items == [
        "Guarantee",
        "Unit of privacy",
        "Adjacency",
        "Released",
        "Public without charge",
        "Adversary's view",
        "Accountant",
        "δ against 1/n",
        "Noise",
        "Features",
        "Test rows",
        "Tuning",
        "Scope",
        "Trust",
    ]
    text = " ".join(sentences)
    for part in ("ε ≤ 4, δ = 10⁻⁵", "replaced", "at most 5 releases", "all its records", "exact Gaussian"):
        assert part in text
    page = (ran.out / "report.html").read_text()
    assert all(f"<dt>{item.replace(chr(39), '&#39;')}</dt>" in page for item in items)


def test_the_promise_stands_before_the_statement_on_the_page(ran):
    promise = ran.json["privacy"]["promise"]
    short = promise[0].partition(": ")[2]
    assert "a suspicion of 1 in 10 about one record can at most become 86 in 100" in short  # ε = 4
    page = (ran.out / "report.html").read_text()
    places = [
        page.index(f"<h2>{title}</h2>") for title in ("The promise in plain words", "Privacy statement")
    ]
    assert places == sorted(places)
    between = html.unescape(page[places[0] : places[1]])
    for item, words in (one.split(": ", 1) for one in promise[1:]):
        assert f"<dt>{item}</dt><dd>{words[0].upper()}{words[1:]}</dd>" in between


def test_class_counts_are_an_oracles_and_add_up(ran):
    partition = ran.json["partition"]
    assert partition["oracle"] == ["counts"]
    assert partition["classes"] == ["no", "yes"]
    assert [sum(row) for row in partition["counts"]] == ran.json["sizes"]


def test_no_checksum_of_private_records_is_written(ran):
    assert ran.json["provenance"]["data_sha256"] is None


def test_a_sweep_over_budgets_gets_onto_the_page(visits, ran, tmp_path):
    words = (*on(visits), "--epsilon", "0.5,1,2,4", "--sweep", "epsilon", "--json", "--out", tmp_path / "run")
    swept = coterie(*words, "--set", "rounds=20")
    assert swept.status == 0, swept.stderr
    found = swept.json["over_epsilon"]
    assert found["epsilon"] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert found["joint"][3] == pytest.approx(swept.json["metric"]["joint"], abs=1e-6)  # the run itself
    assert found["local_only"][3] == pytest.approx(swept.json["metric"]["local_only"], abs=1e-6)
    assert found["oracle"] == ["joint", "local_only"]
    assert "Accuracy over ε" in (tmp_path / "run" / "report.html").read_text()
    assert ran.json["over_epsilon"] is None


def test_an_unknown_sweep_is_one_line(visits, tmp_path):
    done = coterie(*on(visits), "--sweep", "delta", "--out", tmp_path / "run")
    assert done.status == 2
    assert "sweep='delta'" in done.stderr
