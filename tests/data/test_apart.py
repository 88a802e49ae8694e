"""A file that is read by a process of its own: the same rows, the same errors, and nothing of pandas here."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

from coterie.errors import InputError, UnforeseenError
from coterie.problems.datasets import apart
from coterie.problems.datasets.frames import read_frame
from coterie.problems.datasets.identity import identity
from coterie.problems.datasets.schema import Schema
from coterie.units import RECORD, Unit

SCHEMA = Schema(target="y", columns={"age": (0.0, 90.0), "sex": ("F", "M")}, classes=("no", "yes"))
ROWS = "age,sex,who,y\n30,F,7,yes\n95,M,8,no\n40,F,7,no\n"
PERSONS = Unit("column", "who", records=2)

# In an interpreter that has not loaded pandas, as a node's has not.
APART = """
import pickle, sys
from coterie.problems.datasets import apart
from coterie.errors import CoterieError
schema, path, unit = pickle.load(sys.stdin.buffer)
try:
    found = apart.read(schema, path, unit)
except CoterieError as error:
    found = error
assert "pandas" not in sys.modules
pickle.dump(found, sys.stdout.buffer)
"""


def read_apart(path: Path, unit: Unit = RECORD, program: str = APART):
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps((SCHEMA, path, unit)),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text(ROWS)
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("unit", [RECORD, PERSONS])
def test_rows_and_hashes_are_those_of_reading_here(path, unit):
    rows, known = read_apart(path, unit)
    here = SCHEMA.read(path, unit)
    np.testing.assert_array_equal(rows.x, here.x)
    np.testing.assert_array_equal(rows.y, here.y)
    assert (rows.findings, rows.read_as) == (here.findings, here.read_as)
    assert (rows.whose is None) == (here.whose is None)
    if rows.whose is not None and here.whose is not None:
        np.testing.assert_array_equal(rows.whose.codes, here.whose.codes)
    assert known == identity(read_frame(path))


def test_errors_are_those_of_reading_here(path):
    path.write_text(ROWS.replace("30,", "old,"))
    with pytest.raises(InputError) as here:
        SCHEMA.read(path)
    found = read_apart(path)
    assert isinstance(found, InputError)
    assert str(found) == str(here.value)


def test_a_reader_that_dies_is_said_in_one_line(path):
    killed = APART.replace(
        "\nschema, path", '\napart._PROGRAM = "import os; os.kill(os.getpid(), 9)"\nschema, path'
    )
    assert killed != APART
    found = read_apart(path, program=killed)
    assert type(found).__name__ == "ProcessError"
    assert "ended with status -9" in str(found)
    assert "\n" not in str(found)


def test_where_pandas_is_loaded_it_is_read_here(path, monkeypatch):
    import pandas  # noqa: F401

    monkeypatch.setattr(apart, "_PROGRAM", "raise SystemExit(1)")
    assert len(apart.read(SCHEMA, path, RECORD)[0].y) == 3


# A library that fails as nobody foresaw, quoting a cell, and writes to standard error by itself before.
FAULTY = (
    "import sys; sys.path[:] = sys.argv[1:]; from coterie.problems.datasets import apart\n"
    "def identity(frame): print('saw', frame['age'][0], file=sys.stderr); return {}[f'cell {frame[\"who\"][0]}']\n"
    "apart.identity = identity; apart.answer()"
)


def test_a_fault_of_a_library_is_told_by_class_and_place_and_quotes_no_cell(path):
    program = APART.replace("\nschema, path", f"\napart._PROGRAM = {FAULTY!r}\nschema, path")
    path.write_text(ROWS.replace("30,F,7", "31,F,4711"))
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps((SCHEMA, path, RECORD)),
        capture_output=True,
        timeout=300,
        check=True,
    )
    found = pickle.loads(done.stdout)
    assert isinstance(found, UnforeseenError)
    assert "unforeseen KeyError at __main__:2, called from coterie.problems.datasets.apart:" in str(found)
    assert b"31" not in done.stderr
    assert "4711" not in str(found) + done.stderr.decode()


def test_the_same_holds_where_it_is_read_here(path, monkeypatch):
    import pandas

    def identity(frame: pandas.DataFrame) -> None:
        raise ValueError(f"could not convert string to float: {frame['sex'][0]!r}")

    monkeypatch.setattr(apart, "identity", identity)
    with pytest.raises(UnforeseenError, match="unforeseen ValueError at ") as told:
        apart.read(SCHEMA, path, RECORD)
    assert "convert" not in str(told.value)
    assert "convert" not in "".join(traceback.format_exception(told.value))


def test_a_file_that_a_library_refuses_is_not_quoted(tmp_path, monkeypatch):
    """Arrow names the value that it cannot hold, and pandas the text that it cannot read."""
    import pandas as pd

    def read_csv(*args: object, **more: object) -> None:
        raise ValueError("could not convert string to float: '4711'")

    (tmp_path / "rows.csv").write_text(ROWS)
    monkeypatch.setattr(pd, "read_csv", read_csv)
    with pytest.raises(InputError, match=r"cannot be read as csv \(ValueError\)") as told:
        read_frame(tmp_path / "rows.csv")
    assert "4711" not in str(told.value)
