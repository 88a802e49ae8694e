"""Finished cells are kept until something that they depend on changes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.protocols import PROTOCOLS
from papers.reproductions import depends

SOME = ("dual_averaging", "wor_sgd", "deep_q")


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> dict[str, Path]:
    """Our source, to be edited."""
    folder = tmp_path_factory.mktemp("source")
    for name, package in depends.OURS.items():
        shutil.copytree(
            package, folder / name, ignore=shutil.ignore_patterns("*.so", "*.json", "__pycache__")
        )
    return {name: folder / name for name in depends.OURS}


def versions(folders, libraries=None) -> dict[str, str]:
    """By protocol, for cells on the embedded table."""
    known = depends.libraries() if libraries is None else libraries
    return {name: depends.digest(depends.source(name, "census", folders), known, "census") for name in SOME}


def changed(folders, file: str, old: str, new: str) -> set[str]:
    """The protocols whose cells are computed again after an edit, which is then taken back."""
    path = folders["coterie"] / file
    text, before = path.read_text(encoding="utf-8"), versions(folders)
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    after = versions(folders)
    path.write_text(text, encoding="utf-8")
    return {name for name in SOME if before[name] != after[name]}


def test_comments_docstrings_and_layout_keep_cells(copied):
    walk = "protocols/wor_sgd.py"
    assert (
        changed(copied, walk, "BATCH = 50  # the paper's experiments", "BATCH  =  50  # as published")
        == set()
    )
    assert changed(copied, walk, '"""The protocol for this task.', '"""A protocol for a task.') == set()


def test_a_protocols_line_discards_its_own_cells_and_those_of_protocols_made_of_it(copied):
    assert changed(copied, "protocols/dual_averaging.py", "import math", "import math as math") == {
        "dual_averaging"
    }
    assert changed(copied, "protocols/wor_sgd.py", "BATCH = 50", "BATCH = 51") == {"wor_sgd", "deep_q"}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("mechanisms/onepass.c", "float", "float /* another */"),
        ("mechanisms/onepass_vectors.h", "#", "# "),
        ("mechanisms/noise.py", "import jax", "import jax as jax"),
        ("accounting/profiles.py", "import numpy", "import numpy  as numpy; import numpy"),
        ("problems/datasets/census.py", "from __future__", "import math\nfrom __future__"),
    ],
)
def test_what_every_cell_is_computed_with_discards_all(copied, file, old, new):
    assert changed(copied, file, old, new) == set(SOME)


@pytest.mark.parametrize(
    ("file", "old"),
    [
        ("federation/shapes/rounds.py", "import"),
        ("cli/run.py", "import"),
        ("reports/html.py", "import"),
        ("problems/datasets/loans.py", "import"),  # of data sets that these cells do not read
    ],
)
def test_what_no_cell_is_computed_with_keeps_all(copied, file, old):
    assert changed(copied, file, old, f"import sys; sys.exit()\n{old}") == set()


def test_another_version_of_a_library_discards_cells():
    known = depends.libraries()
    before = versions(depends.OURS)
    for name in ("jax", "jaxlib", "numpy", "optax", "scipy", "dp_accounting"):
        assert name in known
        after = versions(depends.OURS, known | {name: "another"})
        assert all(before[protocol] != after[protocol] for protocol in SOME)
    assert versions(depends.OURS, known | {"typer": "another"}) == before  # which no cell uses


def test_other_records_are_other_cells(copied):
    table = copied["coterie"] / "problems" / "embedded" / "census.npz"
    held, before = table.read_bytes(), versions(copied)
    table.write_bytes(held + b"x")
    assert all(now != before[name] for name, now in versions(copied).items())
    table.write_bytes(held)


def test_whatever_a_running_cell_imports_is_covered():
    """Followed by reading source, imports could be missed; here is what Python really loads."""
    program = """
import sys
from papers.reproductions.cases import case
from papers.reproductions.measure import measure
from papers.reproductions.spec import Cell, Data
data = Data(name="census", owners=2, rows=20, test=20)
cell = Cell(data=data, protocol="dual_averaging", calibration="certified", epsilon=1.0, delta=0.01,
            settings={"rounds": 2}, gossip=1)
list(measure([cell], case(data)))
print(*(name for name in sys.modules if name.partition(".")[0] in sys.argv[1:]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, *depends.OURS], capture_output=True, encoding="utf-8", check=True
    )
    loaded = set(ran.stdout.split())
    assert "coterie.protocols.dual_averaging" in loaded
    # The registry loads every protocol: nobody's cells depend on more than what is reached from one of them.
    assert loaded <= set().union(*(depends.source(name, "census", depends.OURS) for name in PROTOCOLS))
