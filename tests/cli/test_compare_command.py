"""`coterie compare` as a user calls it: the table, the folder, what is refused, and how it goes on after a kill."""

import csv
import errno
import io
import json
import math
import os
import shutil

import numpy as np
import pytest
from cli_world import Ran, coterie, write_visits

from coterie import Comparison, Experiment, InputError, _files, compare, run
from coterie.experiments import kept
from coterie.experiments.comparing import jobs
from coterie.experiments.comparing.store import FORMAT, Store, store_of

FILES = {
    "asked.json",
    "cells",
    "comparison.json",
    "comparison.csv",
    "comparison.toml",
    "comparison.png",
    "report.html",
}


def asks(visits, *more: object) -> tuple[object, ...]:
    return (
        *("compare", "--data", visits, "--target", "readmitted", "--owner-column", "hospital"),
        *("--protocols", "dual_averaging,push_sum", "--epsilon", "4,1", "--seeds", 3),
        *("--set", "dual_averaging.rounds=5", "--set", "push_sum.rounds=5", *more),
    )


@pytest.fixture(scope="module")
def compared(visits, tmp_path_factory) -> Ran:
    out = tmp_path_factory.mktemp("compare") / "first"
    return coterie(*asks(visits, "--out", out, "--json"), out=out)


def test_the_folder_holds_all_of_it(compared):
    assert compared.status == 0
    assert {one.name for one in compared.out.iterdir()} == FILES
    assert json.loads((compared.out / "comparison.json").read_text()) == {
        key: value for key, value in compared.json.items() if key not in ("kept", "out")
    }
    assert (compared.out / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert os.stat(compared.out).st_mode & 0o077 == 0  # oracle values are in it


def test_every_cell_is_certified_and_beside_the_baselines(compared):
    found = compared.json
    assert [(cell["series"], cell["epsilon"]) for cell in found["cells"]] == [
        (series, epsilon) for series in ("dual_averaging", "push_sum") for epsilon in (1.0, 4.0)
    ]
    for cell in found["cells"]:
        assert 0.99 * cell["epsilon"] < cell["certified"] <= cell["epsilon"] * (1 + 1e-9)
        assert (cell["within"], cell["owners"]) == (4, 4)
        assert cell["mean"] == pytest.approx(np.mean(cell["values"]))
        assert cell["deviation"] == pytest.approx(np.std(cell["values"], ddof=1))
    assert [one["epsilon"] for one in found["baselines"]["alone"]] == [1.0, 4.0]
    assert {"alone", "central", "cells", "constant"} <= set(found["oracle"])  # test rows are owners' records
    assert found["seeds"] == [0, 1, 2]


def test_differences_are_paired_by_seed_and_from_the_first(compared):
    found = compared.json
    values = {(cell["series"], cell["epsilon"]): np.array(cell["values"]) for cell in found["cells"]}
    assert [(one["series"], one["from"]) for one in found["differences"]] == [
        ("push_sum", "dual_averaging")
    ] * 2
    for one in found["differences"]:
        apart = values["push_sum", one["epsilon"]] - values["dual_averaging", one["epsilon"]]
        assert one["mean"] == pytest.approx(apart.mean())
        assert one["low"] < one["mean"] < one["high"]
        assert one["verdict"] == (
            "undecided" if one["low"] <= 0 <= one["high"] else "better" if one["mean"] > 0 else "worse"
        )


def test_a_cell_is_the_run_that_coterie_run_makes(visits, compared):
    shared = Experiment(data=str(visits), target="readmitted", owner_column="hospital")
    asked = Comparison(
        protocols=("dual_averaging",), settings={"dual_averaging": {"rounds": 5}}, epsilon=(1,), shared=shared
    )
    alone = run(asked.experiment(asked.series()[0], 1.0, 2))
    found = compared.json
    cell = found["cells"][0]
    assert cell["values"][2] == pytest.approx(float(alone.joint), abs=0.02)  # 40 rows: one may change sides
    assert cell["certified"] == max(one.epsilon for one in alone.certificates)
    assert cell["claimed"] == alone.claim.epsilon
    base = found["baselines"]
    assert base["alone"][0]["values"][2] == pytest.approx(float(alone.local_mean), abs=0.02)
    assert base["central"] == pytest.approx(float(alone.central))
    assert (base["constant"], base["constant_says"]) == (float(alone.constant), alone.constant_says[0])


def test_the_table_has_a_row_for_each_run_and_marks_oracles(compared):
    rows = list(csv.DictReader(io.StringIO((compared.out / "comparison.csv").read_text())))
    assert len(rows) == 2 * 2 * 3
    assert {"accuracy (oracle)", "alone (oracle)", "central (oracle)", "constant (oracle)"} <= set(rows[0])
    by_seed = [float(row["accuracy (oracle)"]) for row in rows[:3]]
    assert by_seed == compared.json["cells"][0]["values"]


def test_the_same_command_again_trains_nothing(visits, compared, monkeypatch):
    monkeypatch.setattr(jobs, "_run", None)  # any training would fail
    again = coterie(*asks(visits, "--out", compared.out))
    assert again.status == 0
    assert "6 cells kept from before" in again.stdout
    told = again.stdout
    assert "mean ± standard deviation over seeds" in told
    assert "difference from dual_averaging, paired by seed, with 95 % intervals" in told
    assert "4 of 4 within budget" in told
    assert max(map(len, told.splitlines()[:-1])) <= 80  # the last one names the folder


def test_killed_it_goes_on_where_it_was(visits, compared, tmp_path, monkeypatch):
    real, out = Store.put, tmp_path / "killed"

    def put(self, name, found):
        real(self, name, found)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", put)
        killed = coterie(*asks(visits, "--out", out))
    assert killed.status == 130
    assert "the same command goes on from there" in killed.stderr
    assert len(list((out / "cells").iterdir())) == 1
    assert not (out / "comparison.json").exists()
    again = coterie(*asks(visits, "--out", out, "--json"))
    assert (again.status, again.json["kept"]) == (0, 1)
    for mine, first in zip(again.json["cells"], compared.json["cells"]):
        assert mine["values"] == pytest.approx(first["values"])


def test_a_damaged_cell_is_done_again(visits, compared, tmp_path):
    out = tmp_path / "damaged"
    shutil.copytree(compared.out, out)
    file = sorted((out / "cells").iterdir())[0]
    file.write_text(file.read_text()[:-20])
    again = coterie(*asks(visits, "--out", out, "--json"))
    assert again.status == 0
    assert "was damaged; that cell was done again" in again.stderr
    assert kept.read(file)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--seeds", 4), "seeds is 3 there and 4 here"),
        (("--delta", 1e-6), "delta is 1e-05 there and 1e-06 here"),
    ],
)
def test_a_folder_of_other_settings_is_refused(visits, compared, more, told):
    before = {file: file.read_bytes() for file in compared.out.iterdir() if file.is_file()}
    refused = coterie(*asks(visits, "--out", compared.out, *more))
    assert refused.status == 2
    assert told in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert {file: file.read_bytes() for file in compared.out.iterdir() if file.is_file()} == before


def test_a_folder_of_other_records_or_of_no_comparison_is_refused(compared, tmp_path):
    mine = write_visits(tmp_path / "visits.csv")
    out = tmp_path / "out"
    asked = Comparison(
        protocols=("dual_averaging",),
        shared=Experiment(data=str(mine), target="readmitted", owner_column="hospital"),
    )
    store_of(out, asked).begin()
    assert store_of(out, asked).folder == out
    write_visits(mine, rows=204)
    with pytest.raises(InputError, match="holds another comparison: files is"):
        store_of(out, asked)
    kept.write(out / "asked.json", {"protocols": ["dual_averaging"]})
    with pytest.raises(InputError, match="was begun by another version of coterie, .* Name a new folder"):
        store_of(out, asked)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no comparison"):
        store_of(tmp_path / "other", asked)


def test_what_cells_hold_is_what_their_format_says(compared):
    """Cells of another version are told by `FORMAT` alone: raise it with any change here."""
    held = [json.loads(file.read_text()) for file in (compared.out / "cells").iterdir()]
    keys = {frozenset(one["found"]) for one in held}
    alone = {"values", "steps", "seconds"}
    privacy = "claimed claim_source claim_note certified person pair within owners relation unit view accountant reason"
    full = alone | {*privacy.split(), "warnings"}
    assert (FORMAT, keys) == (3, {frozenset({"value"}), frozenset(alone), frozenset(full)})


def test_a_full_disk_is_one_line_and_loses_nothing_finished(visits, tmp_path, monkeypatch):
    real, out, calls = _files.put, tmp_path / "full", []

    def put(file, content):
        calls.append(file)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, content)

    with monkeypatch.context() as patch:
        patch.setattr(_files, "put", put)
        full = coterie(*asks(visits, "--out", out))
    assert full.status == 5
    assert "No space left on device" in full.stderr
    assert len(list((out / "cells").iterdir())) == 1
    assert coterie(*asks(visits, "--out", out, "--json")).json["kept"] == 1


def test_a_protocol_that_refuses_has_its_reason_and_the_others_go_on(visits, tmp_path):
    out = tmp_path / "partly"
    some = ("--protocols", "dual_averaging,deep_q", "--loss", "hinge", "--seeds", 1, "--epsilon", "1")
    asked = (
        *("compare", "--data", visits, "--target", "readmitted", "--owner-column", "hospital", "--out", out),
        *("--set", "dual_averaging.rounds=5", *some),
    )
    partly = coterie(*asked)
    assert partly.status == 1
    assert "refused" in partly.stdout
    assert "deep_q needs both smooth" in " ".join(partly.stdout.split())
    assert "one seed: no standard deviation and no interval" in " ".join(partly.stdout.split())
    assert "±" not in partly.stdout
    found = json.loads((out / "comparison.json").read_text())
    assert [bool(cell["refused"]) for cell in found["cells"]] == [False, True]
    assert (found["differences"], found["cells"][0]["deviation"]) == ([], None)
    rows = list(csv.DictReader(io.StringIO((out / "comparison.csv").read_text())))
    assert "deep_q needs both smooth" in rows[-1]["refused"]
    assert "deep_q needs both smooth" in (out / "report.html").read_text()


def test_where_all_refuse_nothing_is_written(visits, tmp_path):
    refused = coterie(
        *asks(visits, "--out", tmp_path / "none", "--loss", "hinge")[:7],
        *("--protocols", "deep_q", "--loss", "hinge", "--out", tmp_path / "none"),
    )
    assert refused.status == 2
    assert "deep_q needs both smooth" in refused.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--protocols", "push_sun"), "Did you mean 'push_sum'?"),
        (("--epsilon", "1,0"), "epsilon=0.0: must be > 0"),
        (("--epsilon", "one"), "must be numbers with commas"),
        (("--seeds", "0"), "seeds=0: must be a whole number >= 1"),
        (("--set", "rounds=5"), "must look like PROTOCOL.KEY=VALUE"),
        (("--data", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, more, told):
    bad = coterie("compare", *more, "--out", tmp_path / "none")
    assert bad.status == 2
    assert told in bad.stderr
    assert len(bad.stderr.splitlines()) == 1
    assert not (tmp_path / "none").exists()


def test_from_python_without_a_folder_and_with_a_model_that_diverges(visits, monkeypatch):
    shared = Experiment(data=str(visits), target="readmitted", owner_column="hospital", metric="auc")
    asked = Comparison(
        protocols=("dual_averaging",),
        settings={"dual_averaging": {"rounds": 5}},
        epsilon=(1.0, 4.0),
        seeds=3,
        shared=shared,
    )
    real = jobs._run
    monkeypatch.setattr(jobs, "_run", lambda *given: [math.nan, *real(*given)[1:]])
    found = compare(asked)
    assert found.cells[0]["values"][0] == "nan"
    assert found.cells[0]["mean"] == "nan"
    assert found.found["metric"]["name"] == "auc"
    assert any("diverged" in note for note in found.found["notes"])
    assert json.dumps(found.found, allow_nan=False)
    assert found.to_csv().count("\n") == 1 + 2 * 3
