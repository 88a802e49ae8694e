"""A model's file is made to be published: nothing in it depends on a record but through what was charged."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import jax
import numpy as np
import pytest
from audit.leak_hunt import Replay, experiment, recorded, write_records
from model_world import ended

from coterie.experiments import evaluating, recompute, trained
from coterie.experiments import run as runs
from coterie.experiments.experiment import Experiment
from coterie.experiments.oracle import OracleArray, oracle
from coterie.federation import outcome
from coterie.federation.agreement import Agreement
from coterie.federation.collaboration import collaboration
from coterie.federation.node import Outcome
from coterie.federation.party import Party
from coterie.federation.releases.side import OwnRecords
from coterie.model import load
from coterie.model.description import to_json
from coterie.model.words import card, shown
from coterie.problems.datasets.schema import Schema


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


def test_a_changed_record_changes_no_byte(results):
    first, second = results
    assert not np.array_equal(first.prepared.shards.x, second.prepared.shards.x)
    assert first.model.to_bytes() == second.model.to_bytes()
    assert card(first.model, "d") == card(second.model, "d")


def test_a_leak_would_be_seen(results, monkeypatch):
    """The same comparison, with a sum over records put among the facts about the training."""
    facts, seen = trained._training, iter(results)

    def leaky(*given: Any) -> dict[str, Any]:
        return facts(*given) | {"coterie": str(float(next(seen).prepared.shards.x.sum()))}

    monkeypatch.setattr(trained, "_training", leaky)
    first, second = (trained.model_of_run(result) for result in results)
    assert first.to_bytes() != second.to_bytes()


def test_neither_oracle_values_nor_held_out_rows_reach_the_file(results):
    """Held-out rows are owners' records too: whatever was measured on them is left out."""
    result = results[0]
    others = {
        one.name: oracle(np.asarray(getattr(result, one.name)) * 0 + 0.123)
        for one in fields(result)
        if isinstance(getattr(result, one.name), OracleArray)
    }
    table = replace(
        result.prepared.table, x_test=-result.prepared.table.x_test, y_test=-result.prepared.table.y_test
    )
    prepared = result.prepared._replace(
        table=table, x_test=-result.prepared.x_test, y_test=-result.prepared.y_test
    )
    changed = replace(
        result, joint=oracle(0.123), central=oracle(0.456), prepared=prepared, seconds=99.0, **others
    )
    assert {"curve", "local_only", "own", "class_counts"} <= others.keys()
    assert changed.model.to_bytes() == result.model.to_bytes()


def test_neither_seed_nor_path_is_in_the_file(results):
    """Who has a simulation's seed can take its noise off again."""
    result = results[0]
    other = replace(
        result.experiment, seed=918_273, data="/home/nurse/records.csv", columns="/home/nurse/columns.toml"
    )
    assert replace(result, experiment=other).model.to_bytes() == result.model.to_bytes()


@pytest.mark.parametrize("calibration", ["certified", "paper", "noiseless"])
def test_where_sizes_are_secret_records_more_change_no_byte(tmp_path, calibration):
    """add_or_remove_one: the number of records is as private as they are."""
    lines = write_records(tmp_path / "records.csv", changed=False).read_text().splitlines()
    settings = {"steps": 2, "relation": "add_or_remove_one", "step_size": 0.1}
    found = []
    for more in ([], ["o0,0.5,0.5,yes"] * 5):
        (tmp_path / "records.csv").write_text("\n".join([*lines, *more]) + "\n")
        chosen = experiment("weighted_erm", tmp_path / "records.csv", calibration=calibration)
        found.append(ended(replace(chosen, settings=settings), np.ones((3, 1), np.float32)))
    first, second = found
    assert first.prepared.task.sizes != second.prepared.task.sizes
    assert to_json(first.model.description) == to_json(second.model.description)
    assert first.model.to_bytes() == second.model.to_bytes()
    certified = first.model.description.privacy["certified_epsilon"]["max"]
    assert certified <= 1.0 if calibration == "certified" else certified == "inf"


def finished(folder, records: OwnRecords, injected: bool = False) -> Outcome:
    """A node's end, with a model that is held fixed."""
    agreement = Agreement(
        name="trial",
        experiment=Experiment(
            settings={"rounds": 3}, epsilon=(1.0,), topology="complete", features="scale,ball"
        ),
        schema=Schema(
            target="readmitted", classes=("no", "yes"), columns={"age": (0.0, 120.0), "ward": ("A", "B", "C")}
        ),
        sizes={"north": 40, "south": 60, "east": 50},
    )
    planned = collaboration(agreement)
    rng = np.random.default_rng(0)
    return Outcome(
        party=Party(name="south", folder=folder),
        collaboration=planned,
        finished=True,
        model=jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), planned.task.params),
        selected=None,
        published=None,
        spent=None,
        charged=3,
        status={"step": 3, "of": 3, "note": "", "traffic": {}, "refusals": {}},
        records=records,
        injected=injected,
    )


def test_a_node_writes_its_own_model_and_nothing_of_its_records(tmp_path):
    written = []
    for at, sign in enumerate((1.0, -1.0)):
        records = OwnRecords(np.full((60, 5), sign, np.float32), np.full(60, sign, np.float32))
        folder = outcome.write(finished(tmp_path, records), tmp_path / str(at))
        assert not (folder / "model.npz").exists()
        written.append((folder / "model.safetensors").read_bytes())
    assert written[0] == written[1]
    model = load(tmp_path / "0")
    said = model.description
    assert said.training["which"] == "the model of south after the last round"
    assert said.training["owners"] == ["north", "south", "east"]
    assert said.privacy["certified_epsilon"]["max"] == pytest.approx(1.0, rel=1e-3)
    assert said.privacy["statement"][0].startswith("Guarantee: for every owner")
    assert "simulation" not in " ".join(said.privacy["statement"])
    assert set(model.predict({"age": [30, 90], "ward": ["A", "C"]})) <= {"no", "yes"}


def test_a_model_says_first_what_its_promise_rests_on(results, tmp_path):
    """A simulation's seed can be guessed, and a test's is known."""
    nothing = OwnRecords(np.zeros((60, 5), np.float32), np.zeros(60, np.float32))
    assert "Whoever guesses the seed can take the noise off" in card(results[0].model, "d")
    assert "note: Simulated: " in shown(results[0].model, "d")
    for injected in (False, True):
        place = outcome.write(finished(tmp_path, nothing, injected), tmp_path / str(injected))
        assert ("TEST NOISE" in card(load(place), "d")) is injected
        assert ("note: TEST NOISE" in shown(load(place), "d")) is injected
        assert ("nothing is promised about any record" in card(load(place), "d")) is injected
        assert all(not one.problems for one in recompute.check(place / "model.safetensors"))


def test_a_nodes_model_predicts_what_the_node_computes(tmp_path):
    """The owner's file through the agreement's schema and JAX, and through the model's own file."""
    (tmp_path / "rows.csv").write_text("age,ward,readmitted\n30,A,no\n90,C,yes\n61,B,no\n")
    end = finished(tmp_path, OwnRecords(np.zeros((60, 5), np.float32), np.zeros(60, np.float32)))
    planned = end.collaboration
    rows = planned.agreement.schema.read(tmp_path / "rows.csv")
    x = jax.numpy.asarray(planned.features.apply(rows.x))
    expected = np.asarray(planned.task.problem.model.scores(jax.numpy.asarray(end.model), x))
    model = load(outcome.write(end, tmp_path / "result"))
    found = model.decision_function({"age": [30, 90, 61], "ward": ["A", "C", "B"]})
    np.testing.assert_allclose(found, expected[:, 0], atol=1e-6)
