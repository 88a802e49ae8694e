"""What the page's server answers: the command line's own numbers, one line for a mistake, runs by their folders."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from coterie.cli import app as commands
from coterie.cli import watched
from coterie.cli.lines import answer
from coterie.cli.watched import Noted
from coterie.errors import InputError
from coterie.ui import questions, server, shown
from coterie.ui.guard import PAGE_POLICY
from coterie.ui.runs import Runs

PORT, TOKEN = 8124, "the-token"
SMALL = {"owners": 3, "records": 2000, "dimension": 10, "rounds_at_most": 10, "epsilon": "1", "delta": 1e-5}
DEADLINE = 600  # seconds


def coterie(*words: object) -> dict:
    done = CliRunner().invoke(commands, [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def visits(place) -> Path:
    """Three owners of forty rows each, with the file that says what is public about the columns."""
    rows = [
        f"{'abc'[at % 3]},{(at * 7 % 40) / 40:.3f},{'yes' if at * 7 % 40 > 20 else 'no'}" for at in range(120)
    ]
    (place / "columns.toml").write_text('target = "sick"\nclasses = ["no", "yes"]\n[columns]\nage = [0, 1]\n')
    (place / "visits.csv").write_text("\n".join(["who,age,sick", *rows]) + "\n")
    return place / "visits.csv"


@pytest.fixture(scope="module")
def client(place) -> Iterator[TestClient]:
    runs = Runs(place / "runs")
    made = server.application(runs, TOKEN, PORT)
    with TestClient(made, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.get("/", params={"token": TOKEN})
        yield client
    for child in runs._children:  # one that is forgotten while it ends would be a warning in another test
        child.wait(DEADLINE)


def until(client: TestClient, name: str, *states: str) -> dict:
    """The run, once it is in one of these states."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        for one in client.get("/api/runs").json()["runs"]:
            if one["name"] == name and one["state"] in states:
                return one
        time.sleep(0.1)
    raise AssertionError(f"{name} did not become {states}: {client.get('/api/runs').json()}")


@pytest.fixture(scope="module")
def ended(client, visits) -> dict:
    asked = {
        "data": str(visits),
        "owner_column": "who",
        "columns": str(visits.with_name("columns.toml")),
        "epsilon": "1,2,4",
    }
    name = client.post("/api/runs", json=asked | {"delta": 1e-3}).json()["name"]
    assert name == "visits-dual_averaging-1"
    return until(client, name, "ended", "failed")


def test_the_page_and_all_it_loads_are_here(client):
    page = client.get("/")
    assert page.status_code == 200
    wanted = set(re.findall(r'(?:src|href)="(/[^"]+)"', page.text))
    for name in list(wanted):
        if name.endswith(".js"):
            wanted |= {
                f"/static/{one}" for one in re.findall(r'from "\./([a-z]+\.js)"', client.get(name).text)
            }
    assert len(wanted) > 8
    for name in wanted:
        found = client.get(name)
        assert found.status_code == 200, name
        assert "http://" not in found.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in found.text


def test_nothing_on_the_page_needs_what_the_policy_forbids(client):
    page = client.get("/").text
    assert not re.search(r"\son[a-z]+=|\sstyle=|<style|javascript:", page)
    assert page.count("<script") == page.count('<script type="module" src=')
    for name in ("app", "plan", "run", "compare", "network", "parts", "drawing", "whom"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|\beval\b", client.get(f"/static/{name}.js").text
        )


def test_a_plan_is_the_command_lines(client):
    asked = SMALL | {"protocol": "weighted_erm", "owners": 5, "colluding": 1}
    words = [f"--{key.replace('_', '-')}={value}" for key, value in asked.items()]
    found = client.post("/api/plan", json=asked).json()
    assert found["plan"] == coterie("plan", *words)
    assert found["plan"]["all_others_epsilon"] > found["plan"]["certified_epsilon"]
    assert found["command"] == " ".join(["coterie plan", *words])
    assert found["promise"].startswith("A suspicion of 1 in 10 about one record can at most become 1 in 4.3")


@pytest.mark.parametrize(
    ("whom", "protected"),
    [
        ({"records_per_person": "4", "records_per_unit": 5}, "one person with up to 5 records"),
        ({"unit": "owner"}, "one owner with up to 1,000 records"),
    ],
)
def test_a_plan_promises_what_it_protects(client, whom, protected):
    asked = SMALL | {"owners": 500, "records": 20, "protocol": "weighted_erm"} | whom
    found = client.post("/api/plan", json=asked).json()
    assert found["plan"] == coterie(
        "plan", *[f"--{key.replace('_', '-')}={value}" for key, value in asked.items()]
    )
    assert found["promise"].startswith(f"A suspicion of 1 in 10 about {protected} can at most become")


def test_what_is_drawn_is_where_owners_meet(client):
    """The aggregator of the protocol that is recommended, not links that it would not use."""
    plan = {name: client.post("/api/plan", json=SMALL | {"protocol": name}).json()["plan"]["hub"]
            for name in ("weighted_erm", "dual_averaging", "async_learner")}  # fmt: skip
    assert plan == {"weighted_erm": "aggregator", "dual_averaging": None, "async_learner": "shared model"}
    asked = {"topology": "ring", "sizes": [30] * 5}
    ring, star = (
        client.post("/api/topology", json=asked | {"hub": hub}).json()["drawing"]
        for hub in (None, "aggregator")
    )
    assert (len(ring["links"]), ring["hub"]) == (5, None)
    assert (star["links"], star["hub"]) == ([], "aggregator")


def test_joining_is_asked_of_the_command_line():
    class Heard:
        async def ask(self, *words: str) -> dict:
            return {"words": words}

    asked = {"owner": "a b", "data": "f.csv", "partners": 2, "target": "", "topology": "ring"}
    found = asyncio.run(questions.join(Heard(), asked))  # type: ignore[arg-type]
    assert found["join"]["words"] == (
        "plan",
        "join",
        "--owner=a b",
        "--data=f.csv",
        "--partners=2",
        "--topology=ring",
    )


@pytest.mark.parametrize(
    ("path", "asked", "names"),
    [
        ("/api/plan", SMALL | {"owners": 0}, "owners=0"),
        ("/api/plan", SMALL | {"epsilon": "-1"}, "epsilon"),
        ("/api/plan", SMALL | {"protocol": "hope"}, "hope"),
        ("/api/plan", SMALL | {"colluding": 3}, "colluding=3"),
        ("/api/plan", SMALL | {"public_rows": "/etc/passwd"}, "public_rows"),
        ("/api/plan", SMALL | {"owners": [3]}, "owners"),
        ("/api/join", {"owner": "nobody", "data": "census"}, "nobody"),
        ("/api/topology", {"topology": "ring", "sizes": [1, 0]}, "sizes"),
        ("/api/topology", {"topology": "ring", "sizes": [1, 10**30]}, "sizes"),
        ("/api/topology", {"topology": "moebius", "sizes": [1, 2]}, "moebius"),
        ("/api/topology", {"topology": "ring", "sizes": [1, 2], "hub": "town hall"}, "hub='town hall'"),
        ("/api/plan", SMALL | {"unit": "town"}, "unit='town'"),
        ("/api/plan", SMALL | {"unit": "owner", "records_per_person": "3"}, "unit='owner'"),
        ("/api/runs", {"data": "census", "unit": "patient"}, "unit='patient'"),
        ("/api/runs", {"data": "census", "unit": "owner", "records_per_unit": 0}, "records_per_unit=0"),
        ("/api/runs", {"data": "census", "settings": {"view": "masked"}}, "settings"),
        ("/api/runs", {"data": "census", "epsilon": "much"}, "epsilon='much'"),
        ("/api/runs", {"data": "census", "out": "/tmp/x"}, "out"),
        ("/api/runs", {"data": "census", "engine": "simulate"}, "engine"),
        ("/api/runs", {"protocol": 5}, "protocol"),
        ("/api/runs/none-1/stop", {}, "none-1"),
        ("/api/runs/none-1/resume", {}, "none-1"),
        ("/api/runs/none-1/explode", {}, "explode"),
        ("/api/runs/.hidden/discard", {}, ".hidden"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(client, path, asked, names):
    found = client.post(path, json=asked)
    assert found.status_code == 400, found.text
    line = found.json()["error"]
    assert names in line
    assert "\n" not in line
    assert "Traceback" not in line


@pytest.mark.parametrize("content", [b"[1]", b"{", b"\xff", b" " * (1 << 21), b"[" * 200_000])
def test_what_is_no_question_is_refused(client, content):
    found = client.post("/api/plan", content=content)
    assert found.status_code == 400
    assert found.json()["error"].startswith("question: ")


def test_a_run_ends_in_a_folder_like_any_other(client, ended, place):
    assert ended["state"] == "ended", ended
    written = json.loads((place / "runs" / ended["name"] / "result.json").read_text())
    assert written["engine"] == "spmd"
    assert ended["joint"] == written["metric"]["joint"]
    assert ended["oracle"] == sorted(written["metric"]["oracle"])
    assert "joint" in ended["oracle"]  # held-out rows of a file are the owners'
    found = client.get(f"/api/runs/{ended['name']}").json()
    assert found["promise"] == written["privacy"]["promise"][0].partition(": ")[2]
    assert [one["owners"] for one in found["gauges"]] == [["a"], ["b"], ["c"]]
    assert all(one["within"] for one in found["gauges"])
    assert len(found["network"]["owners"]) == 3
    assert found["points"][-1] == [written["rounds"], pytest.approx(written["metric"]["joint"], abs=1e-5)]
    assert not (place / "runs" / f"{ended['name']}.running").exists()


def test_a_run_that_was_stopped_goes_on_to_the_same_result(ended, place, monkeypatch, interruptible):
    """Stopped after its third look by Ctrl-C, as the page sends it; meanwhile it tells oracle values, marked."""
    whole = place / "runs" / ended["name"]
    running = place / "runs" / "again-1.running"
    running.mkdir(mode=0o700)
    (running / "experiment.toml").write_bytes((whole / "experiment.toml").read_bytes())
    (running / "job.json").write_text('{"data_dir": null}')
    monkeypatch.setenv("COTERIE_CACHE", str(place / "cache"))
    tell = Noted.tell

    def stopped(self: Noted, what: str, done: int, of: int) -> None:
        tell(self, what, done, of)
        if what == "training" and len(self.now["points"]) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Noted, "tell", stopped)
    assert watched.main(running) == 1
    (one,) = [one for one in Runs(place / "runs").all() if one["name"] == "again-1"]
    assert (one["state"], one["kept"], len(one["points"])) == ("stopped", True, 3)
    assert one["about"]["oracle"] is True
    assert len(one["spent"]) == 3
    assert 0 < one["spent"][0] < 1
    monkeypatch.setattr(Noted, "tell", tell)
    checkpoint = shutil.copy(
        running / "checkpoint", place / "checkpoint"
    )  # the terminal goes on from it as well
    words = ("--engine", "spmd", "--checkpoint", checkpoint, "--resume", "--out", place / "terminal")
    assert coterie("run", running / "experiment.toml", *words)["metric"]["joint"] == ended["joint"]
    assert watched.main(running) == 0
    assert not running.exists()
    again = place / "runs" / "again-1"
    assert (again / "trace.csv").read_bytes() == (whole / "trace.csv").read_bytes()
    assert (again / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_run_of_persons_under_masks_says_both_and_no_number_of_records(
    client, place, monkeypatch, interruptible
):
    """Sizes and test rows count persons, also while it runs: how many records a person has is private."""
    rows = [f"{'abcd'[at % 4]},{at % 4}-{at // 8},{(at * 7 % 40) / 40:.3f},{'yes' if at * 7 % 40 > 20 else 'no'}"
            for at in range(320)]  # fmt: skip
    (place / "people.csv").write_text("\n".join(["who,person,age,sick", *rows]) + "\n")
    told: list[dict] = []
    monkeypatch.setattr(watched, "keep_compiled", lambda: None)
    monkeypatch.setattr(Runs, "_begin", lambda self, running: told.append({"folder": running}))
    asked = {"data": str(place / "people.csv"), "owner_column": "who", "columns": str(place / "columns.toml"),
             "unit": "column:person", "records_per_unit": 2, "view": "masked", "colluding": 1,
             "protocol": "weighted_erm", "epsilon": "4", "delta": 1e-3}  # fmt: skip
    name = client.post("/api/runs", json=asked).json()["name"]
    begin = Noted.begin

    def noted(self: Noted, made: Any) -> None:
        begin(self, made)
        told.append(self.now["about"])

    monkeypatch.setattr(Noted, "begin", noted)
    assert watched.main(told[0]["folder"]) == 0
    about = told[1]
    assert about["unit"] == "person with up to 2 records"
    assert (sum(about["sizes"]), about["rows"], about["tested_on"]) == (128, 32, "held-out units")
    found = client.get(f"/api/runs/{name}").json()
    assert (found["counted"], found["unit"]) == ("128 units (person)", about["unit"])
    assert found["all_others"].startswith("ε ≤ ")
    assert about["unit"] in found["promise"]
    assert found["network"]["owners"][0]["holds"] == f"{about['sizes'][0]} units (person)"


def test_a_report_is_shown_without_an_origin(client, ended, place):
    found = client.get(f"/report/{ended['name']}")
    assert found.content == (place / "runs" / ended["name"] / "report.html").read_bytes()
    assert found.headers["content-security-policy"] == PAGE_POLICY
    assert PAGE_POLICY.startswith("sandbox;")
    assert "script-src" not in PAGE_POLICY  # and by default nothing may run


@pytest.mark.parametrize("name", ["..%2f..%2fetc", "%2e%2e", "nothing-1", "a%00b"])
def test_no_name_leads_out_of_the_folder(client, name):
    for path in (f"/report/{name}", f"/api/runs/{name}"):
        assert client.get(path).status_code in (400, 404)


def test_a_bad_file_is_one_line_and_can_be_discarded(client, place):
    name = client.post("/api/runs", json={"data": str(place / "nowhere.csv")}).json()["name"]
    found = until(client, name, "failed", "ended", "stopped")
    assert found["state"] == "failed"
    assert "nowhere.csv" in found["error"]
    assert "Traceback" not in found["error"]
    assert client.post(f"/api/runs/{name}/discard", json={}).status_code == 200
    assert name not in {one["name"] for one in client.get("/api/runs").json()["runs"]}


def test_a_folder_that_is_no_run_is_named_and_breaks_nothing(client, ended, place):
    (place / "runs" / "odd").mkdir(exist_ok=True)
    (place / "runs" / "odd" / "result.json").write_text('{"owner_names": "many"}')
    (place / "runs" / "odd" / "trace.csv").touch()
    (place / "runs" / "odd" / "experiment.toml").touch()
    found = {one["name"]: one for one in client.get("/api/runs").json()["runs"]}
    assert found["odd"]["state"] == "unreadable"
    assert "owner_names" in found["odd"]["error"]
    assert found[ended["name"]]["state"] == "ended"


def test_a_new_server_knows_runs_in_progress_by_their_folders(tmp_path):
    """The lock says whether its process lives; what it wrote says how far it is."""
    running = tmp_path / "census-push_sum-1.running"
    running.mkdir()
    (running / "experiment.toml").write_text('data = "census"\nprotocol = "push_sum"\n')
    (running / "progress.json").write_text(
        json.dumps({"pid": os.getpid(), "what": "training", "done": 3, "of": 9, "points": []})
    )
    with (running / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (one,) = Runs(tmp_path).all()
        assert (one["state"], one["done"], one["protocol"]) == ("running", 3, "push_sum")
        for change in (Runs(tmp_path).resume, Runs(tmp_path).discard):
            with pytest.raises(InputError, match="is running"):
                change("census-push_sum-1")
        with pytest.raises(
            InputError, match="just starting"
        ):  # the number is another process's: it is left alone
            Runs(tmp_path).stop("census-push_sum-1")
    (one,) = Runs(tmp_path).all()
    assert (one["state"], one["kept"]) == ("stopped", False)


def test_a_run_in_progress_of_another_version_is_listed_without_its_picture():
    found = {"name": "old-1", "state": "stopped", "about": {"sizes": [3, 4], "owner_names": ["a", "b"]}}
    assert shown.in_progress(found) == found | {"about": None}
    assert shown.in_progress(found | {"about": {"sizes": 3}})["about"] is None


def test_a_folder_of_another_version_is_shown_and_going_on_with_it_says_what_it_lacks(tmp_path):
    running = tmp_path / "census-push_sum-1.running"
    running.mkdir()
    (running / "progress.json").write_text('{"what": "training"}')
    (running / "job.json").write_text("{}")
    (one,) = Runs(tmp_path).all()
    assert (one["what"], one["points"], one["done"]) == ("training", [], 0)
    held = signal.getsignal(signal.SIGINT)
    try:
        assert watched.main(running) == 1
    finally:
        signal.signal(signal.SIGINT, held)
    (one,) = Runs(tmp_path).all()
    assert (
        one["error"]
        == f"{running / 'job.json'}: is not there, or of another version. Discard this run and begin it again."
    )


def test_names_are_claimed_once(tmp_path):
    (tmp_path / "census-push_sum-1").mkdir()
    (tmp_path / "census-push_sum-2.running").mkdir()
    runs = Runs(tmp_path)
    runs._begin = lambda place: None
    assert runs.start({"protocol": "push_sum"}) == "census-push_sum-3"
    assert (tmp_path / "census-push_sum-3.running").stat().st_mode & 0o77 == 0


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (
            {"protocol": "x/../../../elsewhere"},
            "protocol='x/../../../elsewhere': unknown. Choose one of: async",
        ),
        ({"data": ".."}, "run='..-dual_averaging': is not the name of a run"),  # it would not be listed
        ({"data": "a\0b.csv"}, "is not the name of a run"),
    ],
)
def test_a_run_is_begun_in_its_folder_under_a_name_that_is_listed_or_not_at_all(tmp_path, given, part):
    runs = Runs(tmp_path / "runs")
    runs._begin = lambda place: pytest.fail(f"begun in {place}")
    with pytest.raises(InputError) as refused:
        runs.start(given)
    assert part in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", ["~nobody-of-this-name/x", "a" * 5000])
def test_a_nodes_folder_that_cannot_be_looked_at_is_one_line(client, folder):
    found = client.get("/api/node", params={"folder": folder})
    assert found.status_code == 400
    assert "cannot be read" in found.json()["error"]


def test_choices_are_what_is_there(client):
    found = client.get("/api/choices").json()
    assert {"ring", "complete", "star"} <= set(found["topologies"])
    assert set(found["forecast"]) <= set(found["protocols"])
    assert "census" in {one["name"] for one in found["datasets"]}


def test_a_stream_tells_what_changed_and_only_that(tmp_path):
    async def heard() -> list[str]:
        seen = iter([{"a": 1}, {"a": 1}, {"a": 2}])
        told = server.stream(lambda: next(seen)).body_iterator
        return [await anext(told) for _ in range(2)]  # type: ignore[call-overload]

    assert asyncio.run(heard()) == ['data: {"a": 1}\n\n', 'data: {"a": 2}\n\n']


def test_owners_with_equal_bars_share_one():
    found = shown.gauges(["a", "b", "c"], [1.0, 0.5, 1.0], [1.0, 1.0, 1.0])
    assert [(one["owners"], one["words"]) for one in found] == [
        (["a", "c"], "ε 1 of 1"),
        (["b"], "ε 0.5 of 1"),
    ]


def test_gauges_round_up_and_say_what_is_above():
    (found,) = shown.gauges(["a"], [1.00004], [1.0])
    assert found["words"] == "ε 1.001 of 1"
    assert not found["within"]
    (endless,) = shown.gauges(["a"], [None], [1.0])
    assert (endless["spent"], endless["words"], endless["within"]) == (None, "ε = ∞", False)


def test_lines_answer_as_the_terminal_does():
    assert answer(["data", "list", "--json"])["out"].startswith('{"datasets"')
    wrong = answer(["plan", "--owners=3"])
    assert (wrong["status"], wrong["out"]) == (2, "")
    assert wrong["error"].startswith("dimension=None")
    assert "No such option" in answer(["plan", "--hope"])["error"]


def test_only_what_a_form_has_becomes_an_option():
    assert questions.words_of({"a_b": 1, "c": "", "d": None, "e": "--out=x"}, ("a_b", "c", "d", "e")) == [
        "--a-b=1",
        "--e=--out=x",
    ]


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sys.modules["coterie.cli.ui"], "find_spec", lambda name: None)
    done = CliRunner().invoke(commands, ["ui"])
    assert done.exit_code == 2
    assert done.stderr.strip() == "error: starlette is not installed. Install it: pip install 'coterie[ui]'"


def test_a_port_that_is_taken_is_named(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(commands, ["ui", "--port", str(port), "--runs", str(tmp_path)])
    assert done.exit_code == 2
    assert f"port={port}" in done.stderr


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--port", "99999"), "port=99999: cannot be listened at (it must lie between 0 and 65535)"),
        (("--runs", __file__), "is no folder"),
    ],
)
def test_what_cannot_be_served_is_one_line(asked, words):
    done = CliRunner().invoke(commands, ["ui", *asked])
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
