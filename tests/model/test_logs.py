"""Logs hold what may be shown to anybody; a changed record under fixed messages changes nothing in them."""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from audit.leak_hunt import Replay, experiment, recorded, write_records
from model_world import ended

import coterie
from coterie.errors import InputError
from coterie.experiments import evaluating, logs
from coterie.experiments import run as runs
from coterie.experiments.experiment import Experiment
from coterie.experiments.logs import LogTarget, Wanted, log_of, send, wanted
from coterie.model import load


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> list[Any]:
    """Two runs with the same messages on files that differ in one record, oracle values and all."""
    data = write_records(tmp_path_factory.mktemp("hunt") / "records.csv", changed=False)
    replay, build = Replay(recorded("dual_averaging", data)), evaluating.build
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluating, "build", lambda *given: replay(build(*given)))
        first = runs.run(experiment("dual_averaging", data))
        second = runs.run(experiment("dual_averaging", write_records(data, changed=True)))
    return [first, second]


class Client:
    """MLflow's client as far as it is used; the calls were compared with those of mlflow-skinny 3.17."""

    calls: list[tuple[Any, ...]]

    def __init__(self, tracking_uri: str | None) -> None:
        Client.calls = [("uri", tracking_uri)]

    def get_experiment_by_name(self, name: str) -> Any:
        return None if Client.calls[0][1] is None else SimpleNamespace(experiment_id="7")

    def create_experiment(self, name: str) -> str:
        Client.calls.append(("experiment", name))
        return "8"

    def create_run(self, experiment_id: str, run_name: str) -> Any:
        Client.calls.append(("run", experiment_id, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="r"))

    def log_batch(self, run_id: str, metrics: Any, params: Any) -> None:
        Client.calls.append(("batch", run_id, [one[:2] + one[3:] for one in metrics], params))

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        Client.calls.append(("tag", key, value))

    def log_artifact(self, run_id: str, local_path: str) -> None:
        Client.calls.append(("artifact", load(local_path).to_bytes()))

    def set_terminated(self, run_id: str) -> None:
        Client.calls.append(("end", run_id))


@pytest.fixture
def mlflow(monkeypatch) -> None:
    package: Any = ModuleType("mlflow")
    package.MlflowClient, package.__spec__ = Client, SimpleNamespace()
    entities: Any = ModuleType("mlflow.entities")
    entities.Metric = lambda key, value, timestamp, step: (key, value, timestamp, step)
    entities.Param = lambda key, value: (key, value)
    for name, module in (("mlflow", package), ("mlflow.entities", entities)):
        monkeypatch.setitem(sys.modules, name, module)


def scalars(folder) -> list[tuple[str, int, float]]:
    """What TensorBoard reads: records of a length, its check, an event and its check."""
    from tensorboardX.proto.event_pb2 import Event

    (file,) = folder.iterdir()
    data, found = file.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + length])
        found += [
            (one.tag, event.step, one.simple_value)
            for one in event.summary.value
            if not one.tensor.string_val
        ]
        data = data[16 + length :]
    return found


def sent(result: Any, kind: str, folder, oracles: bool = False) -> Any:
    """What a logger has after the run."""
    folder.mkdir()
    send(result, Wanted((LogTarget(kind, str(folder / "log")),), oracles))
    if kind == "jsonl":
        return (folder / "log").read_text("utf-8")
    return scalars(folder / "log") if kind == "tensorboard" else Client.calls[1:]


@pytest.mark.parametrize("kind", ["jsonl", "tensorboard", "mlflow"])
def test_a_changed_record_changes_no_log(results, kind, tmp_path, mlflow):
    first, second = (sent(one, kind, tmp_path / name) for one, name in zip(results, "ab"))
    assert not np.array_equal(results[0].prepared.shards.x, results[1].prepared.shards.x)
    assert first == second
    first, second = (sent(one, kind, tmp_path / name, oracles=True) for one, name in zip(results, "cd"))
    assert first != second  # the comparison can fail: oracle values are of records


def test_neither_seed_path_nor_time_is_in_it(results):
    result = results[0]
    other = replace(result.experiment, seed=918_273, data="/home/nurse/records.csv")
    assert log_of(replace(result, experiment=other, seconds=99.0)) == log_of(result)


def test_what_a_log_holds(results, tmp_path):
    lines = [json.loads(line) for line in sent(results[0], "jsonl", tmp_path / "log").splitlines()]
    about, *points, end = lines
    assert about["about"]["protocol"] == "dual_averaging"
    assert "Guarantee" in end["statement"]
    for point in points:
        assert set(point) == {"step", "messages", "disagreement", "certified_epsilon"}
    spent = [point["certified_epsilon"] for point in points]
    assert spent == sorted(spent)
    assert 0 < spent[0] < spent[-1] == results[0].model.description.privacy["certified_epsilon"]["max"]
    assert points[-1]["messages"] == results[0].messages
    asked = log_of(results[0], oracles=True)
    assert all("oracle/accuracy" in values for _, values in asked.points)
    assert {"oracle/central", "oracle/local_only", "oracle/constant", "oracle/all/auc"} <= set(
        asked.points[-1][1]
    )


def test_metrics_on_public_rows_are_public():
    result = ended(Experiment(owners=3, settings={"rounds": 2}), np.ones((76, 1), np.float32))
    public = replace(result, curve=np.full((1, 3), 0.7))
    assert log_of(public).points[-1][1]["accuracy"] == pytest.approx(0.7)
    assert "accuracy" not in " ".join(log_of(result).points[-1][1])


def test_where_sizes_are_secret_they_weigh_nothing(tmp_path):
    """add_or_remove_one: records more change no byte of a log either, also of its metrics on public rows."""
    lines = write_records(tmp_path / "records.csv", changed=False).read_text().splitlines()
    settings = {"steps": 2, "relation": "add_or_remove_one", "step_size": 0.1}
    found = []
    for more in ([], ["o0,0.5,0.5,yes"] * 5):
        (tmp_path / "records.csv").write_text("\n".join([*lines, *more]) + "\n")
        chosen = replace(experiment("weighted_erm", tmp_path / "records.csv"), settings=settings)
        result = ended(chosen, np.ones((3, 1), np.float32))
        found.append(replace(result, curve=np.arange(float(result.prepared.task.owners))[None]))
    assert found[0].prepared.task.sizes != found[1].prepared.task.sizes
    assert log_of(found[0]) == log_of(found[1])


def test_mlflow_gets_facts_metrics_and_the_model(results, mlflow):
    send(results[0], Wanted((LogTarget("mlflow", ""),)))
    calls = {one[0]: one[1:] for one in Client.calls}
    assert (calls["uri"], calls["experiment"], calls["run"]) == (
        (None,),
        ("coterie",),
        ("8", "records dual_averaging"),
    )
    _, metrics, params = calls["batch"]
    assert ("protocol", "dual_averaging") in params
    assert {key for key, _, _ in metrics} == {"messages", "disagreement", "certified_epsilon"}
    assert calls["artifact"] == (results[0].model.to_bytes(),)
    assert "Guarantee" in calls["tag"][1]
    send(results[0], Wanted((LogTarget("mlflow", "http://localhost:1"),)))
    assert ("run", "7", "records dual_averaging") in Client.calls  # an experiment that is there is used


def test_a_model_that_diverged_is_logged_too(results, tmp_path, mlflow):
    broken = replace(results[0], disagreement=results[0].disagreement * np.nan)
    assert '"disagreement": "nan"' in sent(broken, "jsonl", tmp_path / "a")
    send(broken, Wanted((LogTarget("mlflow", ""),)))
    assert not [
        key for one in Client.calls if one[0] == "batch" for key, _, _ in one[2] if key == "disagreement"
    ]


def test_what_could_not_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "there").touch()
    monkeypatch.setattr(logs, "find_spec", lambda name: None)
    for texts, words in (
        (["wandb"], "log='wandb': unknown"),
        (["jsonl"], "log='jsonl': needs a place here"),
        ([f"jsonl:{tmp_path / 'there'}"], "exists. Name a new file"),
        (["mlflow"], r"pip install 'coterie\[mlflow\]'"),
        (["tensorboard:a"], r"pip install 'coterie\[tensorboard\]'"),
    ):
        with pytest.raises(InputError, match=words):
            wanted(texts)
        with pytest.raises(InputError, match=words):
            coterie.run(Experiment(), log=texts)
    with pytest.raises(InputError, match="no log is asked for"):
        wanted([], oracles=True)


def test_a_log_that_fails_loses_no_run(results, tmp_path):
    place = tmp_path / "absent" / "log.jsonl"
    with pytest.raises(
        InputError, match=r"log='jsonl:.*cannot be written .*The run itself is whole, in runs/one\."
    ):
        send(results[0], Wanted((LogTarget("jsonl", str(place)),)), Path("runs/one"))
    data = write_records(tmp_path / "records.csv", changed=False)
    with pytest.warns(RuntimeWarning, match="The run itself is whole"):
        result = coterie.run(experiment("dual_averaging", data), log=[f"jsonl:{place}"])
    assert result.model.params
