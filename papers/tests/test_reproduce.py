"""Reproductions: resumed, a damaged cell redone, missing data named, one compilation for a sweep."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from coterie.cli import app
from coterie.engines import sweep as sweeps
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.problems import datasets
from coterie.topologies import mixer
from papers import reproductions
from papers.reproductions import cache as caches
from papers.reproductions import cases, runner
from papers.reproductions import measure as measures
from papers.reproductions.cases import case, task
from papers.reproductions.measure import _lane
from papers.reproductions.orderings import judge
from papers.reproductions.page import section
from papers.reproductions.spec import Cell, Data, Entry, Fit, Ordering, Paper, View

DATA = Data(name="census", owners=3, rows=300, test=200, strength=1e-3)
CELL = Cell(
    data=DATA, protocol="dual_averaging", calibration="certified", epsilon=1.0, delta=0.01, settings={"rounds": 12},
    topology="ring", gossip=1, looks=3, objective=True,
)  # fmt: skip


def entries(quick: bool) -> list[Entry]:
    found = []
    published = replace(CELL, protocol="weighted_erm", calibration="paper", settings={"steps": 12})
    for label, cell in (("as published", published), ("certified default", CELL)):
        for epsilon in (0.5, 1.0):
            for seed in range(1 if quick else 2):
                one = replace(cell, epsilon=epsilon, seed=seed)
                found.append(Entry("over", label, epsilon, one))
                found += [Entry("run", label, epsilon, one)] * (epsilon == 1.0)
    return found


TINY = Paper(
    name="tiny",
    title="A tiny paper",
    views={
        "over": View("accuracy over ε", "300 rows", "accuracy", published={("as published", 1.0): 70.5}),
        "run": View("suboptimality", "300 rows", "gap", "iteration", True, said="It falls."),
    },
    entries=entries,
    notes=("Nothing is left out, as [the docs](gpu.md) say.",),
    orderings=(
        Ordering("certified above published", "over", "certified default", "as published"),
        Ordering("more budget better", "over", "certified default"),
    ),
)


@pytest.fixture(autouse=True)
def keep_programs(monkeypatch):
    """A reproduction drops its programs once it is through with them; the next test needs the same ones."""
    monkeypatch.setattr(jax, "clear_caches", lambda: None)


@pytest.fixture
def tiny(monkeypatch):
    """The command knows one more paper."""
    monkeypatch.setitem(sys.modules, "papers.reproductions.tiny", SimpleNamespace(PAPER=TINY))
    for module in (reproductions, sys.modules["papers.reproductions.page"]):
        monkeypatch.setattr(module, "NAMES", ("tiny",))


def coterie(*words: object):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


def test_a_lane_is_the_run_that_simulate_makes():
    found = case(DATA)
    cells = [replace(CELL, epsilon=epsilon, seed=seed) for epsilon in (0.5, 1.0) for seed in (0, 1)]
    lanes = [_lane(cell, task(cell, found), found) for cell in cells]
    assert len({sweeps.alike(lane, found.shards) for lane in lanes}) == 1
    _, looks = sweeps.sweep(lanes, found.shards, every=12, probe=np.asarray)
    topology = task(CELL, found).topology
    for lane, got in zip(lanes, looks[-1]):
        alone = simulate(lane.program, found.shards, mixer(topology), seed=lane.seed).model
        np.testing.assert_allclose(got, np.asarray(alone), rtol=1e-4, atol=1e-5)
    assert np.ptp(looks[-1], axis=0).max() > 1e-3  # budgets and seeds do differ


def test_targets_are_counted_from_the_mean_of_public_rows(monkeypatch):
    rng = np.random.default_rng(0)
    table = replace(
        datasets.load("census"),
        task="regression",
        y=rng.normal(size=300) + 5,
        y_test=np.r_[9.0, 1.0, 3.0],
        classes=(),
    )
    monkeypatch.setattr(cases, "load", lambda name, data_dir: table)
    cases._mapped.cache_clear()
    words = ("ball", -1.0, 1.0, False, 2, False, False)
    (as_is, *_), (centred, *_) = (cases._mapped("made up", None, (*words, on)) for on in (False, True))
    cases._mapped.cache_clear()
    np.testing.assert_array_equal(
        centred.y_test, [7.0, -1.0, 1.0]
    )  # the last two are public: their mean is 2
    np.testing.assert_allclose(as_is.y - centred.y, 2.0)  # and nothing of the private ones was looked at


def test_a_sweep_compiles_once(monkeypatch):
    monkeypatch.setattr(measures, "LANES", 2)
    found = case(replace(DATA, rows=310))  # a shape that no other test has
    cells = [replace(CELL, data=replace(DATA, rows=310), epsilon=1 + at, seed=at) for at in range(4)]
    compiled = lambda: sweeps._advance._cache_size()  # type: ignore[attr-defined]
    before = compiled()
    assert len(list(measures.measure(cells, found))) == 4  # two batches
    assert compiled() == before + 1


def test_visits_run_side_by_side_too():
    found = case(DATA)
    cells = [
        replace(CELL, protocol="wor_sgd", settings={"batch": 20}, topology="complete", epsilon=e)
        for e in (1.0, 2.0)
    ]
    lanes = [_lane(cell, task(cell, found), found) for cell in cells]
    _, looks = sweeps.sweep(lanes, found.shards, every=15, probe=np.asarray)
    alone = simulate(lanes[1].program, found.shards, seed=0).model
    np.testing.assert_allclose(looks[-1][1], np.asarray(alone), rtol=1e-4, atol=1e-5)


def test_lanes_that_differ_in_shape_are_refused():
    found = case(DATA)
    cells = [CELL, replace(CELL, settings={"rounds": 6})]
    lanes = [_lane(cell, task(cell, found), found) for cell in cells]
    with pytest.raises(InputError, match="2 runs differ"):
        sweeps.sweep(lanes, found.shards, every=6, probe=np.asarray)


def test_an_interrupted_reproduction_goes_on_where_it_was(tmp_path, monkeypatch):
    real, calls = caches.Cache.put, []

    def put(self, cell, result):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(caches.key(cell))
        real(self, cell, result)

    with monkeypatch.context() as patch:
        patch.setattr(caches.Cache, "put", put)
        with pytest.raises(KeyboardInterrupt):
            runner.reproduce(TINY, False, tmp_path)
    assert sorted(file.stem for file in tmp_path.iterdir()) == sorted(calls)
    again = []
    monkeypatch.setattr(caches.Cache, "put", lambda self, cell, result: again.append(caches.key(cell)) or
                        real(self, cell, result))  # fmt: skip
    done = runner.reproduce(TINY, False, tmp_path)
    assert (done.kept, len(again), set(again) & set(calls)) == (3, 5, set())
    whole = runner.reproduce(TINY, False, tmp_path / "other")  # nothing compiles again
    for got, want in zip(done.found["views"][0]["points"], whole.found["views"][0]["points"]):
        assert got["mean"] == pytest.approx(want["mean"], abs=0.51)  # one of 200 test rows may tip over
        assert got["certified"] == want["certified"]


@pytest.mark.parametrize("damage", ["cut", "edited", "another", "binary"])
def test_a_damaged_cell_is_noticed_and_done_again(tmp_path, damage):
    runner.reproduce(TINY, True, tmp_path)
    files = sorted(tmp_path.iterdir())
    text = files[0].read_text()
    wrong = {
        "cut": text[: len(text) // 2].encode(),
        "edited": text.replace('"records": 300', '"records": 301').encode(),
        "another": files[1].read_bytes(),
        "binary": b"\xff\xfe\x00",
    }[damage]
    assert wrong != text.encode()
    files[0].write_bytes(wrong)
    done = runner.reproduce(TINY, True, tmp_path)
    assert (done.damaged, done.kept) == ((files[0],), len(files) - 1)
    assert json.loads(files[0].read_text())["key"] == files[0].stem
    assert runner.reproduce(TINY, True, tmp_path).damaged == ()


def test_other_settings_or_code_are_other_cells(monkeypatch):
    keys = {
        caches.key(CELL),
        caches.key(replace(CELL, seed=1)),
        caches.key(replace(CELL, settings={"rounds": 13})),
    }
    monkeypatch.setattr(caches, "version", lambda protocol, data: "other")
    assert len(keys | {caches.key(CELL)}) == 4


def test_missing_data_is_named_before_any_work(tmp_path):
    done = coterie("liu_2022", "--quick", "--data-dir", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "a9a.gz: missing. docs/data.md says where to get it" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_command_writes_tables_pictures_and_the_page(tiny, tmp_path):
    done = coterie("tiny", "--json", "--out", tmp_path / "out", "--docs", tmp_path / "docs")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["cells"], found["kept"], found["damaged"]) == (8, 0, 0)
    points = {(one["series"], one["x"]): one for one in found["views"][0]["points"]}
    assert points["as published", 1.0]["published"] == 70.5
    assert points["as published", 1.0]["seeds"] == 2
    assert points["certified default", 0.5]["certified"] <= 0.5
    assert {file.name for file in (tmp_path / "out").glob("tiny*")} == {
        "tiny.html", "tiny.json", "tiny.md", "tiny-over.png", "tiny-run.png"
    }  # fmt: skip
    summary = (tmp_path / "docs" / "results.md").read_text()
    assert "](results/tiny.md) | 8 runs" in summary
    assert "(published 70.50)" not in summary
    page = (tmp_path / "docs" / "results" / "tiny.md").read_text()
    assert "(published 70.50)" in page.partition("<details>")[2]
    assert "as [the docs](../gpu.md) say" in page
    pictures = [line.split("](")[1].rstrip(")") for line in page.splitlines() if line.startswith("![")]
    assert pictures
    assert all((tmp_path / "docs" / "results" / picture).is_file() for picture in pictures)
    words = coterie("tiny", "--out", tmp_path / "out")
    assert "\n".join(section(found, "tiny-")) in words.stdout


def test_an_installed_package_says_that_it_needs_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "coterie.__file__", str(tmp_path / "lib" / "site-packages" / "coterie" / "__init__.py")
    )
    done = coterie("liu_2022", "--quick", "--out", tmp_path / "out")
    assert (done.exit_code, done.stdout, len(done.stderr.strip().splitlines())) == (2, "", 1)
    assert "needs a checkout of coterie" in done.stderr


def test_a_checkout_is_found_from_wherever_the_command_is_called(tmp_path):
    program = [sys.executable, "-m", "coterie", "reproduce", "nobody_1999"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert "name='nobody_1999': unknown" in done.stderr


def test_mistakes_are_one_line(tmp_path):
    for words, part in (
        ((), "name: not given"),
        (("nobody_1999",), "name='nobody_1999': unknown"),
        (("--docs", tmp_path, "--out", tmp_path / "none"), "holds no reproduction"),
    ):
        done = coterie(*words)
        assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1)
        assert part in done.stderr


@pytest.mark.parametrize("name", reproductions.NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_entry_has_its_view_and_every_published_number_its_entry(name, quick):
    paper = reproductions.paper(name)
    places = {(entry.view, entry.series, entry.x) for entry in paper.entries(quick)}
    assert {view for view, _, _ in places} <= set(paper.views)
    if not quick:
        assert {view for view, _, _ in places} == set(paper.views)
        for view, one in paper.views.items():
            assert {(view, *place) for place in one.published} <= places
    spec = Path(reproductions.__file__).with_name(f"{name}.py")
    assert len(spec.read_text().splitlines()) <= 150


def made_up(measure: str, series: dict[str, dict[float, list[float]]]) -> dict:
    points = [
        {"series": name, "x": x, "values": values, "mean": np.mean(values), "records": 3_000}
        for name, own in series.items()
        for x, values in own.items()
    ]
    return {"name": "made up", "title": "made up", "x": "u", "measure": measure, "points": points}


@pytest.mark.parametrize(("measure", "verdicts"), [("accuracy", ["holds", "undecided", "does not hold"]),
                                                   ("gap", ["does not hold", "undecided", "holds"])])  # fmt: skip
def test_an_ordering_is_judged_by_differences_paired_over_seeds(measure, verdicts):
    noise, apart = np.array([-20.0, 0.0, 20.0]), np.array([2.0, 2.1, 1.9])  # paired, the noise cancels
    above = {
        1.0: [*(noise + apart)],
        2.0: [*(noise + np.array([3.0, -3.0, 0.1]))],
        3.0: [*(noise - apart)],
    }
    view = made_up(measure, {"a": above, "b": {x: [*noise] for x in above}})
    found = judge(Ordering("a above b", "made up", "a", "b"), view)
    assert [one["verdict"] for one in found] == verdicts
    assert [one["where"] for one in found] == ["u = 1", "u = 2", "u = 3"]
    assert abs(found[0]["mean"]) == pytest.approx(2.0)
    assert found[0]["error"] == pytest.approx(0.1 / np.sqrt(3))


def test_growth_is_judged_from_the_first_place_to_the_last():
    gap = {1.0: [0.1, 0.2, 0.15], 5.0: [9.0, 9.0, 9.0], 9.0: [1.1, 1.3, 1.2]}
    view = made_up("mse", {"plain": gap, "ours": {x: [0.1] for x in gap}})  # one seed stands for all
    (grows,) = judge(Ordering("growing", "made up", "ours", "plain", grows=True), view)
    assert (grows["verdict"], grows["where"]) == ("holds", "u from 1 to 9")
    assert grows["mean"] == pytest.approx(1.05)
    (better,) = judge(Ordering("better", "made up", "plain"), view)
    assert better["verdict"] == "does not hold"
    one_seed = made_up("accuracy", {"a": {1.0: [2.0]}, "b": {1.0: [1.0]}})
    assert judge(Ordering("a above b", "made up", "a", "b"), one_seed)[0]["verdict"] == "undecided"


def test_the_published_bound_is_fitted_on_the_cost_of_noise():
    cost = {x: 0.01 + 2.0 / 3_000 * np.sqrt(3 / x**2) + 5e5 / 3_000**2 * 3 / x**2 for x in (0.1, 1.0, 10.0)}
    view = made_up("psi", {"noisy": {x: [y] for x, y in cost.items()}, "silent": {1.0: [0.01]}})
    (found,) = runner._fits((Fit("made up", "made up", "noisy", "silent", 3, (0.0, 1.0)),), {"made up": view})
    assert found["first"] == pytest.approx(2.0, rel=1e-3)
    assert found["second"] == pytest.approx(5e5, rel=1e-3)
    assert found["error"] < 1e-6
    # The smallest budget has reached the edge of Θ.
    edge = {x: [min(y, 0.5)] for x, y in cost.items()}
    view = made_up("psi", {"noisy": edge, "silent": {1.0: [0.01]}})
    fits = [Fit("", "made up", "noisy", "silent", 3, (0.0, 1.0), least) for least in (0.0, 1.0)]
    whole, part = runner._fits(tuple(fits), {"made up": view})
    assert whole["second"] < 3e5
    assert part["second"] == pytest.approx(5e5, rel=1e-3)
    silent = made_up("psi", {"noisy": {1.0: [0.01]}, "silent": {1.0: [0.01]}})
    assert (
        runner._fits((Fit("none", "made up", "noisy", "silent", 3, (0.0, 1.0)),), {"made up": silent}) == []
    )


def test_the_page_of_a_reproduction_needs_nothing_beside_it(tmp_path, tiny):
    coterie("tiny", "--out", tmp_path)
    page = (tmp_path / "tiny.html").read_text()
    assert "Of 3 comparisons that the paper orders" in page
    for outside in ("<script", "http://", "https://", "<img", "<link", "url("):
        assert outside not in page
    assert re.search(r"\b(nan|inf)\b", page) is None
    assert "as the docs say" in page  # and leads nowhere
    for view in TINY.views.values():
        assert view.title in page
