"""Persons kept out of training whole, and evaluated by groups: on explicit neighbours, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coterie.errors import InputError
from coterie.evaluation.budget import sheet_of
from coterie.evaluation.groups import groups_of
from coterie.evaluation.sheet import Sheet
from coterie.evaluation.tables import in_places, pieces, tallied
from coterie.evaluation.words import sentences
from coterie.experiments import run as runs
from coterie.experiments.evaluating import _evaluated, _most
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import Prepared, prepare
from coterie.federation import records
from coterie.federation.agreement import Agreement
from coterie.federation.collaboration import collaboration
from coterie.federation.releases.journal import Journal
from coterie.problems.datasets.memory import Records
from coterie.problems.datasets.schema import Schema
from coterie.problems.holdings import listed, records_of
from coterie.problems.problem import clipped_sum
from coterie.program import Batch
from coterie.reports.published import told as told_by_owners

MOST, PERSONS = 5, 400
SAID = {
    "target": "ill", "classes": ["no", "yes"], "privacy_unit": "person", "records_per_unit": MOST,
    "columns": {"age": [0.0, 1.0], "dose": [0.0, 1.0], "ward": ["a", "b"]},
}  # fmt: skip


def frame(change: int | None = None, kind: str = "") -> pd.DataFrame:
    """Persons with one to five visits to two clinics, one after the other; `change`: another in that one's place."""
    rng, rows = np.random.default_rng(3), []
    for person in range(PERSONS):
        visits, own = int(rng.integers(1, MOST + 1)), rng.uniform(size=(MOST, 2))
        if person == change:
            visits = MOST if kind else 1
        for visit in range(visits):
            age, dose = own[visit]
            ill = "yes" if age > 0.5 else "no"
            ward = "abc"[int(10 * dose) % 3] if person % 2 else "a"
            if person == change and kind:
                age, dose = (0.0, 1.0) if kind == "aligned" else (float(visit % 2), 1.0 - visit % 2)
                ill, ward = "yes", "ab"[visit % 2]
            rows.append((f"P{person}", ("east", "west")[person % 2], age, dose, ward, ill))
    return pd.DataFrame(rows, columns=["person", "clinic", "age", "dose", "ward", "ill"])


def asked(table: pd.DataFrame, **more) -> Experiment:
    data = Records(table, held_out=False)
    given = {"hold_out": 0.25, "evaluate": 0.3, "evaluate_by": "ward", "epsilon": (4.0,), **more}
    return Experiment(
        data=data, columns=SAID, owner_column="clinic", topology="complete", settings={"rounds": 2}, **given
    )


def ready(change: int | None = None, kind: str = "", **more) -> Prepared:
    return prepare(asked(frame(change, kind), **more))


def test_a_person_is_trained_on_or_kept_out_whole():
    prepared = ready()
    assert prepared.task.sizes == (150, 150)
    assert [len(one) for one in prepared.held] == [50, 50]
    codes = prepared.table.whose.codes
    for owner in range(2):
        trained, held = (set(codes[listed(side[owner])[0]]) for side in (prepared.trained, prepared.held))
        assert not trained & held
        assert len(trained | held) == 200
        for unit in (*prepared.trained[owner], *prepared.held[owner]):
            assert len(unit) == np.sum(codes == codes[unit[0]])  # all of its records


@pytest.mark.parametrize("kind", ["aligned", "cancelling"])
def test_a_replaced_person_moves_nobody_else(kind):
    """One record in place of five: all others are on the side where they were, with the records that they had."""
    for person in (7, 8, 41, 250):
        one, two = ready(person), ready(person, kind)
        assert one.task.sizes == two.task.sizes
        moved = 0
        for owner in range(2):
            for side in ("trained", "held"):
                a, b = (getattr(world, side)[owner] for world in (one, two))
                assert len(a) == len(b)
                for ours, theirs in zip(a, b):
                    same = len(ours) == len(theirs) and np.array_equal(one.table.x[ours], two.table.x[theirs])
                    moved += not same
                    if not same:
                        assert one.table.whose.codes[ours[0]] == two.table.whose.codes[theirs[0]] == person
                        assert (len(ours), len(theirs)) == (1, MOST)
        assert moved == 1


def total(prepared: Prepared, owner: int, params: np.ndarray) -> np.ndarray:
    """What training adds up, clipped."""
    x, y, within = prepared.shards.rows(owner)
    batch = Batch(x, y, np.ones(len(y), np.float32), within)
    return np.asarray(clipped_sum(prepared.task.problem, params, batch, prepared.task.clip_norm), np.float64)


def table_of(prepared: Prepared, sheet: Sheet, owner: int, params: np.ndarray) -> np.ndarray:
    judged = _evaluated(prepared, groups_of(prepared.table, "ward"), owner)
    return tallied(sheet, prepared.task.problem, params, judged, _most(judged.unit)).astype(float)


@pytest.mark.parametrize("kind", ["aligned", "cancelling"])
def test_neighbours_are_as_far_apart_as_declared_on_one_side_and_not_at_all_on_the_other(kind):
    groups = groups_of(ready().table, "ward")
    sides = set()
    for person in (7, 8, 41, 250):
        one, two = ready(person), ready(person, kind)
        params = 5 * np.random.default_rng(person).normal(size=one.task.params.shape).astype(np.float32)
        sheet = sheet_of(one.table, one.task.problem, "replace_one", groups, one.task.unit)
        for owner in range(2):
            sums = np.linalg.norm(total(one, owner, params) - total(two, owner, params))
            tables = np.linalg.norm(table_of(one, sheet, owner, params) - table_of(two, sheet, owner, params))
            assert sums <= 2 * one.task.clip_norm * 1.0001
            assert tables <= 2 * sheet.reach
            assert not (sums and tables)  # it is on one side
            if owner != person % 2:
                assert sums == tables == 0
            sides |= {"trained"} if sums else {"held"} if tables else set()
    assert sides == {"trained", "held"}


def test_by_groups_a_person_counts_once_in_parts():
    """Means of what records add: three visits to a, one to b are three quarters of a person in a."""
    sheet = Sheet("binary", "logistic", 2, True, 3, of_units=True)
    scores, y, codes = np.ones((4, 1)), np.ones(4), np.array([0, 0, 0, 1])
    one = sheet.tally(scores, y, codes, unit=np.zeros(4, int))
    rest = [sheet.tally(scores[:1], y[:1], np.array([code]), unit=np.zeros(1, int)) for code in (0, 1)]
    assert np.allclose(one, 0.75 * rest[0] + 0.25 * rest[1], atol=0.51)
    far = max(np.linalg.norm(one - other) for other in rest)
    assert far <= 2 * sheet.reach


def test_a_run_with_persons_kept_out_says_so():
    result = runs.run(asked(frame(), epsilon=(40.0,)))
    told = result.published.to_json()
    assert told["rows"] == 100  # persons of two owners
    assert "kept out of training" in told["which"]
    assert "a person counts once" in told["which"]
    assert next(iter(told["groups"]["metrics"])) == "ward=a"
    counts = [told["groups"]["metrics"][f"ward={ward}"]["records"]["value"] for ward in "ab"]
    assert sum(counts) < 110  # persons, not their three hundred records
    assert any(line.startswith("ward=a: units (person) ") for line in sentences(told))
    shown = told_by_owners(told, ("no", "yes"))
    assert shown["what"] == "units (person)"  # in place of rows
    assert shown["groups"]["metrics"][0] == "units (person)"
    assert "rows" not in shown["about"]
    words = " ".join(result.guarantee["statement"])
    assert "0.25 of its units (person), which it drew in secret and kept out of training" in words
    assert all(one.epsilon <= 40.0 for one in result.certificates)


def test_without_it_the_table_is_of_all_that_is_trained_on():
    prepared = ready(hold_out=0.0, evaluate_by=None)
    for owner in range(2):
        found, (x, y, unit) = _evaluated(prepared, None, owner), records_of(prepared.shards, owner)
        assert np.array_equal(found.x, x)
        assert np.array_equal(found.y, y)
        assert np.array_equal(found.unit, unit)


def agreed() -> Agreement:
    return Agreement(
        name="net",
        experiment=Experiment(
            evaluate=0.3,
            hold_out=0.25,
            evaluate_by="ward",
            epsilon=(8.0,),
            topology="complete",
            settings={"rounds": 2},
            unit="column:person",
            records_per_unit=MOST,
        ),
        schema=Schema(
            target="ill",
            columns={"age": (0.0, 1.0), "dose": (0.0, 1.0), "ward": ("a", "b")},
            classes=("no", "yes"),
        ),
        sizes={"east": 200, "west": 200},
    )


def test_real_owners_keep_out_the_persons_that_simulated_ones_do(tmp_path: Path):
    planned, prepared = collaboration(agreed()), ready()
    assert planned.task.sizes == (150, 150)
    assert planned.program.plan.evaluation.sizes == (50, 50)
    for owner, name in enumerate(("east", "west")):
        file = tmp_path / f"{name}.csv"
        whole = frame()
        whole[whole["clinic"] == name].drop(columns="clinic").to_csv(file, index=False)
        rows = planned.agreement.schema.read(file, planned.agreement.unit)
        with Journal.open(tmp_path / name) as journal:
            division = records.division(planned, owner, journal, 0)
            secret = records.division(planned, owner, journal, None)
            again = records.division(planned, owner, journal, None)
        assert np.array_equal(secret.held, again.held)
        assert not np.array_equal(secret.held, division.held)
        own, judged = records.divided_by(rows, planned, division, (0, owner))
        x, _, within = prepared.shards.rows(owner)
        assert np.allclose(own.x[:, : x.shape[1]], x, atol=1e-6)
        assert np.array_equal(own.within, within)
        wanted = _evaluated(prepared, groups_of(prepared.table, "ward"), owner)
        assert np.allclose(judged.x, wanted.x, atol=1e-6)
        for ours, theirs in zip(judged[1:], wanted[1:]):
            assert np.array_equal(ours, theirs)


def by_place(rows: np.ndarray) -> np.ndarray:
    """As a product that rounds by shape and by place would have it, magnified."""
    return np.stack([np.arange(len(rows)), np.full(len(rows), len(rows))], axis=1).astype(np.float32)


def test_the_number_of_somebodys_records_moves_no_last_bit_of_anybody_elses(tmp_path: Path):
    """Features of real owners: products round by where a row stands, which must not follow from others' records."""
    planned = collaboration(agreed())
    planned = replace(planned, features=planned.features._replace(apply=by_place))
    for person in (7, 8, 41, 250):
        found = []
        for kind in ("", "aligned"):  # one record, and five
            whole, file = frame(person, kind), tmp_path / "own.csv"
            whole[whole["clinic"] == ("east", "west")[person % 2]].drop(columns="clinic").to_csv(
                file, index=False
            )
            rows = planned.agreement.schema.read(file, planned.agreement.unit)
            own, judged = records.divided_by(rows, planned, None, (0,))
            found.append((own.x, own.within, [judged.x[judged.unit == unit] for unit in range(200)]))
        (x, within, held), (x2, within2, held2) = found
        (place,) = np.flatnonzero(within != within2)
        others = np.arange(200) != place
        assert (within[place], within2[place]) == (1, MOST)
        assert np.array_equal(x[others], x2[others])
        assert all(np.array_equal(held[one], held2[one]) for one in np.flatnonzero(others))


def test_scores_of_others_do_not_follow_from_the_number_of_somebodys_records():
    few, many = np.repeat(np.arange(6), [2, 1, 3, 1, 2, 1]), np.repeat(np.arange(6), [2, 3, 3, 1, 2, 1])
    one, two = (in_places(by_place, np.zeros((len(unit), 4)), unit, 3) for unit in (few, many))
    assert np.array_equal(one[few != 1], two[many != 1])
    assert len(np.unique(two[:, 0])) == len(many)
    # Pieces are of equally many units, whatever they have.
    for unit in (few, many):
        assert [unit[some.start] for some in pieces(len(unit), 6, unit, 3)] == [0, 2, 4]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"hold_out": 0.001}, r"hold_out=0.001: would keep 0 of an owner's 200 units \(person\)"),
        ({"unit": "owner", "evaluate_by": None}, r"would keep 0 of an owner's 1 unit \(owner\)"),
        ({"hold_out": 0.999}, r"would keep 199 of an owner's 200 units \(person\).*leave 2, at least"),
        ({"evaluate_by": "age"}, "evaluate_by='age': has no declared list of values"),
    ],
)
def test_what_cannot_be_kept_out_is_one_line(more, words):
    with pytest.raises(InputError, match=words):
        runs.run(asked(frame(), **more))
