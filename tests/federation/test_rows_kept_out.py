"""A real owner's division of its rows: drawn once in a run, the same after a restart, and known to nobody else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.federation import records
from coterie.federation.agreement import Agreement
from coterie.federation.collaboration import collaboration
from coterie.federation.network import settled
from coterie.federation.releases.journal import Journal
from coterie.problems.datasets.schema import Schema

SIZES = {"north": 900, "south": 1_100}
AGREED = Agreement(
    name="net",
    experiment=Experiment(
        evaluate=0.2,
        hold_out=0.3,
        evaluate_by="ward",
        epsilon=(4.0,),
        settings={"rounds": 2},
        topology="complete",
    ),
    schema=Schema(target="sick", columns={"age": (0.0, 90.0), "ward": ("a", "b")}, classes=("no", "yes")),
    sizes=SIZES,
)


@pytest.fixture(scope="module")
def planned():
    return collaboration(AGREED)


def rows_of(folder: Path, size: int):
    file = folder / "rows.csv"
    lines = [f"{at % 90},{'ab?'[at % 3]},{'yes' if at % 2 else 'no'}" for at in range(size)]
    file.write_text("\n".join(["age,ward,sick", *lines]) + "\n")
    return AGREED.schema.read(file)


def test_a_restart_finds_the_same_division_and_another_run_another(tmp_path, planned):
    found = []
    for path in ("one", "one", "two"):
        with Journal.open(tmp_path / path) as journal:
            found.append(records.division(planned, 0, journal, None))
    assert found[0].held.tolist() == found[1].held.tolist() != found[2].held.tolist()
    assert len(found[0].held) == 270
    assert planned.task.sizes == (630, 770)
    assert planned.program.plan.sizes == (630, 770)
    assert planned.program.plan.evaluation.sizes == (270, 330)


def test_positions_depend_on_the_draw(tmp_path, planned):
    """What is charged by position in one division must not be taken for the same position of another."""
    orders = set()
    for path in ("one", "two"):
        with Journal.open(tmp_path / path) as journal:
            orders.add(records.order("digest", records.division(planned, 0, journal, None)))
    assert len(orders) == 2
    assert records.order("digest", None) == "digest"


def test_what_is_kept_out_is_judged_by_groups_and_not_trained_on(tmp_path, planned):
    rows = rows_of(tmp_path, 900)
    with Journal.open(tmp_path / "journal") as journal:
        division = records.division(planned, 0, journal, None)
    own, judged = records.divided_by(rows, planned, division, (0,))
    assert (len(own.y), len(judged.y)) == (630, 270)
    assert judged.codes.tolist() == (division.held % 3).tolist()
    both = np.concatenate([own.x, judged.x])
    assert np.allclose(np.sort(both, axis=0), np.sort(planned.features.apply(rows.x), axis=0))
    everything = records.divided_by(rows, planned, None, (0,))
    assert len(everything[0].y) == len(everything[1].y) == 900


def test_too_few_rows_to_keep_out_are_refused_and_nothing_is_left_out_in_silence():
    small = replace(AGREED, sizes={"north": 40, "south": 50})
    with pytest.raises(InputError, match="evaluate=0.2: accuracy over 27 records"):
        settled(small, optional=False)
    with pytest.raises(InputError, match="evaluate_by='age': has no declared list of values"):
        collaboration(replace(AGREED, experiment=replace(AGREED.experiment, evaluate_by="age")))
