"""The same records have the same hash however a file writes them, and others have another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coterie.problems.datasets.frames import read_frame
from coterie.problems.datasets.identity import identity

TEXT = "age,ward,note\n1,surgery,x\n-0.5,medicine,\n1,surgery,x\n2e3,7,z\n"


def content(folder: Path, text: str) -> str:
    path = folder / "records.csv"
    path.write_bytes(text.encode())
    return identity(read_frame(path)).content


@pytest.mark.parametrize(
    "written",
    [
        TEXT.replace("\n", "\r\n"),
        "age,ward,note\n2000,7,z\n1.0,surgery,x\n-0.5,medicine,\n1,surgery,x\n",
        'ward,note,"age"\nsurgery,x,1\nmedicine,,-5e-1\nsurgery,x,1\n7.0,z,2000\n',
    ],
)
def test_how_records_are_written_does_not_count(tmp_path, written):
    assert content(tmp_path, written) == content(tmp_path, TEXT)


@pytest.mark.parametrize(
    "written",
    [
        TEXT.replace("-0.5", "-0.6"),
        TEXT.replace("medicine,", "medicine,y"),
        TEXT.replace("age", "years"),
        TEXT.replace("1,surgery,x\n", "", 1),  # how often a record is there counts
        TEXT.replace(
            "1,surgery,x\n-0.5,medicine,", "1,medicine,x\n-0.5,surgery,"
        ),  # and which values go together
        "age,ward\n" + "".join(row.rpartition(",")[0] + "\n" for row in TEXT.splitlines()[1:]),
    ],
)
def test_what_records_hold_counts(tmp_path, written):
    assert content(tmp_path, written) != content(tmp_path, TEXT)


def test_the_kind_of_file_does_not_count(tmp_path):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["u", "v", "w"]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    np.savez(tmp_path / "a.npz", b=np.array(["w", "u", "v"]), a=np.array([3.0, 1.0, 2.0]))
    assert len({identity(read_frame(tmp_path / name)).content for name in ("a.csv", "a.npz")}) == 1
