"""Real owners who protect persons: the agreement says it, files become units at home, and only units are counted."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parties import DIM, Trial
from typer.testing import CliRunner

from coterie import topologies
from coterie.accounting.plans import person_of
from coterie.cli import app
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.federation import agreement as agreements
from coterie.federation import check as dry
from coterie.federation import party, records
from coterie.federation.agreement import Agreement
from coterie.federation.collaboration import collaboration
from coterie.federation.releases.journal import Journal
from coterie.model import load
from coterie.model.words import card
from coterie.problems.datasets.schema import Schema
from coterie.problems.holdings import to_shards
from coterie.problems.whose import units_of

SIZES, CAP = (5, 7), 3
SCHEMA = Schema(target="y", columns={f"x{at}": (-1.0, 1.0) for at in range(DIM)}, classes=("no", "yes"))


def experiment(**more) -> Experiment:
    given = {"unit": "column:patient", "records_per_unit": CAP, "settings": {"rounds": 3}, "evaluate": 0.0}
    return Experiment(**given | more)  # type: ignore[arg-type]


def agreed(sizes=SIZES, schema=SCHEMA, **more) -> Agreement:
    owners = dict(zip(("north", "south"), sizes))
    return Agreement(name="trial", experiment=experiment(**more), schema=schema, sizes=owners)


class Visits(Trial):
    """A network whose owners have patients of one to five visits each."""

    def write_records(self, sizes):
        rng = np.random.default_rng(3)
        for at, size in enumerate(sizes):
            with (self.folder / f"owner-{at}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["patient", *(f"x{one}" for one in range(DIM)), "y"])
                rows = [one for one in range(size) for _ in range(1 + one % 5)]
                for patient in rng.permutation(rows):
                    x = rng.uniform(-1, 1, DIM)
                    writer.writerow([f"p{patient}", *(f"{v:.6f}" for v in x), "yes" if x[0] > 0 else "no"])

    def simulated(self):
        planned = self.planned
        unit = planned.agreement.unit
        read = [
            planned.agreement.schema.read(self.folder / f"{name}.csv", unit)
            for name in planned.agreement.owners
        ]
        units, first = [], 0
        for at, one in enumerate(read):
            own = units_of(np.arange(len(one.y)), one.whose, unit, (self.seed, at))
            units.append([rows + first for rows in own])
            first += len(one.y)
        x = np.concatenate([planned.features.apply(one.x) for one in read])
        shards = jax.tree.map(jnp.asarray, to_shards(x, np.concatenate([one.y for one in read]), units))
        mixer = topologies.mixer(planned.task.topology, planned.gossip_steps)
        return simulate(planned.program, shards, mixer, seed=self.seed, transcript=True)


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Visits]:
    made = Visits(
        tmp_path,
        SIZES,
        unit="column:patient",
        records_per_unit=CAP,
        settings={"rounds": 3},
        gossip_steps=1,
    )
    yield made
    made.stop()


def test_processes_learn_what_the_simulator_learns_of_the_same_units(trial):
    for name in trial.names:
        trial.start(name)
    trace = trial.simulated()
    trial.finish()
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(trace.model)]
    for at, name in enumerate(trial.names):
        expected = np.concatenate([leaf[at].ravel() for leaf in leaves])
        np.testing.assert_allclose(trial.model(name), expected, rtol=1e-4, atol=1e-4)
        told = json.loads((trial.place(name) / "result" / "result.json").read_text())
        assert "any patient" in told["promise"][0]  # of a test's noise, nothing is promised
        said = card(load(trial.place(name) / "result"), "d").replace("\\", "")
        assert "one patient with up to 3 records" in said
        assert "owner-0 (5), owner-1 (7)" in said


def test_a_dry_run_says_whom_the_run_protects(trial, monkeypatch):
    monkeypatch.setattr(dry, "PATIENCE", 0.2)
    (found,) = dry.check(
        [(party.read(trial.place("owner-0")), trial.folder / "owner-0.csv")], lambda line: None
    )
    told = dry.summary(found)
    assert (told["unit"], told["units"]) == ("patient with up to 3 records", 5)
    words = dry.words(told)
    assert "5 units (patient), as the agreement says" in words
    assert "A patient who is known to two owners counts at each of them" in words
    assert "cannot be seen by anybody" in words


def test_an_agreement_carries_the_unit_and_says_what_nobody_can_see():
    one = agreed()
    value = json.loads(one.text())
    assert (value["terms"]["unit"], value["terms"]["records_per_unit"]) == ("column:patient", CAP)
    assert "known to two owners" in value["protects"]
    again = agreements.from_json(value, "here")
    assert (again.digest, again.unit) == (one.digest, one.unit)
    with pytest.raises(InputError, match="protects says something else than the terms"):
        agreements.from_json(value | {"protects": "everybody, always"}, "here")
    with pytest.raises(InputError, match="protects says something else"):
        agreements.from_json({key: part for key, part in value.items() if key != "protects"}, "here")
    plain = agreed(unit=None, records_per_unit=None)
    assert "protects" not in json.loads(plain.text())
    assert collaboration(one).program.plan.unit == one.unit


@pytest.mark.parametrize(
    ("sizes", "more", "words"),
    [
        ((1, 7), {}, r"size of north=1: must be at least 2 units \(patient\)"),
        ((1, 2), {"unit": "owner"}, "size of south=2: with unit='owner' each owner is one unit"),
        ((5, 7), {"unit": "column:x0"}, "privacy unit 'x0': is also the target or a feature"),
        ((5, 7), {"unit": "column:y"}, "privacy unit 'y'"),
    ],
)
def test_an_agreement_that_protects_nobody_is_refused(sizes, more, words):
    with pytest.raises(InputError, match=words):
        agreed(sizes, **more)


def test_an_owners_file_becomes_its_units(tmp_path):
    path = tmp_path / "north.csv"
    rows = [("a", 4), ("b", 1), ("c", 2), ("d", 1), ("e", 1)]
    lines = [f"{name},0.{at},0.2,0.3,yes" for name, many in rows for at in range(many)]
    path.write_text("patient,x0,x1,x2,y\n" + "\n".join(lines) + "\n")
    planned = collaboration(agreed())
    own = party.Party(name="north", folder=tmp_path)
    read, _ = records.read(own, planned, path)
    held = records.divided_by(read, planned, None, (1,))[0]
    assert held.x.shape[:2] == held.y.shape == (5, CAP)  # by the agreement, whatever units have
    assert sorted(held.within.tolist()) == [1, 1, 1, 2, 3]
    assert any("1 of 5 units have more than 3 records" in one for one in read.findings)
    assert len({records.divided_by(read, planned, None, (seed,))[0].x[0].tobytes() for seed in range(20)}) > 1
    south = replace(own, name="south")
    with pytest.raises(InputError, match=r"has 5 units \(patient\), the agreement says 7 for 'south'"):
        records.read(south, planned, path)
    path.write_text("x0,x1,x2,y\n0.1,0.2,0.3,yes\n")
    with pytest.raises(InputError, match="unit column='patient': no such column"):
        records.read(own, planned, path)


def test_the_order_of_units_is_drawn_for_a_run_and_kept_through_a_restart(tmp_path):
    """Batches are divided by it: another run's are another partition, whose charges do not add up in parallel."""
    seeds = []
    for run in ("one", "one", "two"):
        with Journal.open(tmp_path / run) as journal:
            seeds.append(records.seed_of(journal, None))
            assert records.seed_of(journal, 5) == 5  # a test's
    assert seeds[0] == seeds[1] != seeds[2]
    orders = {records.order("rows", None, agreed().unit, seed) for seed in seeds}
    assert len(orders | {"rows"}) == 3
    assert records.order("rows", None, seed=seeds[0]) == "rows"  # records stay in the file's order


def test_one_record_of_each_patient_is_no_mistake_of_one_owner(tmp_path):
    path = tmp_path / "north.csv"
    path.write_text("patient,x0,x1,x2,y\n" + "".join(f"{at},0.1,0.2,0.3,yes\n" for at in range(5)))
    read, _ = records.read(party.Party(name="north", folder=tmp_path), collaboration(agreed()), path)
    assert records.number_of(read, agreed().unit) == 5


def test_a_whole_owner_is_one_unit(tmp_path):
    path = tmp_path / "north.csv"
    path.write_text("x0,x1,x2,y\n" + "".join(f"0.{at},0.2,0.3,yes\n" for at in range(7)))
    planned = collaboration(agreed((1, 1), unit="owner", records_per_unit=4))
    read, _ = records.read(party.Party(name="north", folder=tmp_path), planned, path)
    held = records.divided_by(read, planned, None, (0,))[0]
    assert (held.x.shape, held.within.tolist()) == ((1, 4, DIM + 1), [4])


def test_a_network_is_founded_for_persons(tmp_path):
    columns = tmp_path / "columns.toml"
    columns.write_text(
        'target = "y"\nclasses = ["no", "yes"]\nprivacy_unit = "patient"\n[columns]\nx0 = [-1, 1]\n'
    )
    given = ["network", "new", str(tmp_path / "net"), "--owners", "a,b", "--columns", str(columns)]
    none = CliRunner().invoke(app, given)
    assert none.exit_code == 2
    assert "say how many units (patient) each owner has" in none.stderr
    made = CliRunner().invoke(
        app, [*given, "--sizes", "30,40", "--records-per-unit", "4", "--set", "rounds=3"]
    )
    assert made.exit_code == 0, made.stderr
    assert "Protects one patient with up to 4 records" in made.stdout
    agreement = agreements.read(tmp_path / "net" / "agreement.json")
    assert (str(agreement.unit), agreement.unit.records) == ("column:patient", 4)


def test_a_network_is_founded_for_persons_at_two_owners(tmp_path, monkeypatch):
    """The agreement has it among its terms and in words, and a dry run says what such a person meets."""
    columns = tmp_path / "columns.toml"
    columns.write_text(
        'target = "y"\nclasses = ["no", "yes"]\nprivacy_unit = "patient"\n[columns]\nx0 = [-1, 1]\n'
    )
    given = [
        "network",
        "new",
        str(tmp_path / "net"),
        "--owners",
        "a,b",
        "--columns",
        str(columns),
        "--sizes",
        "30,40",
    ]
    given += ["--evaluate", "0", "--set", "rounds=3", "--owners-per-person"]
    many = CliRunner().invoke(app, [*given, "3"])
    assert many.exit_code == 2
    assert "owners_per_person=3: must be at most 2, as many as there are owners." in many.stderr
    made = CliRunner().invoke(app, [*given, "2"])
    assert made.exit_code == 0, made.stderr
    promised = "one patient with up to 20 records, at up to 2 owners, by the column 'patient'"
    assert f"Protects {promised}" in made.stdout
    value = json.loads((tmp_path / "net" / "agreement.json").read_text())
    assert value["terms"]["owners_per_person"] == 2
    assert "cannot be seen by anybody" in value["protects"]
    planned = collaboration(agreements.read(tmp_path / "net" / "agreement.json"))
    assert 0.999 <= person_of(planned.program.plan, planned.task.delta, 2).epsilon <= 1.0
    monkeypatch.setattr(dry, "PATIENCE", 0.2)
    rows = tmp_path / "a.csv"
    rows.write_text(
        "patient,x0,y\n" + "".join(f"p{at % 30},0.{at % 9},{'yes' if at % 2 else 'no'}\n" for at in range(61))
    )
    (found,) = dry.check([(party.read(tmp_path / "net" / "parties" / "a"), rows)], lambda line: None)
    words = dry.words(dry.summary(found))
    assert promised in words
    assert "person:    at 2 owners, it costs ε = 1" in words


def test_a_record_at_two_owners_is_protected_where_it_is_promised():
    assert agreed(unit=None, records_per_unit=None).protects == ""
    both = agreed(unit=None, records_per_unit=None, owners_per_person=2)
    assert both.protects.startswith("one record at each of up to 2 owners: all of it together")
    assert agreements.from_json(json.loads(both.text()), "here").digest == both.digest
    said = replace(both, experiment=replace(both.experiment, epsilon={"north": 1.0, "south": 2.0}))
    assert "  protects   one record at each of up to 2 owners" in agreements.words(said)
