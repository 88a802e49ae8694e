"""A run's folder appears whole or not at all."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from coterie.engines import checkpoint
from coterie.errors import InputError
from coterie.experiments import output
from coterie.experiments.oracle import oracle

FILES = {"a": b"1", "b": b"2", "c": b"3"}


def test_everything_is_written(tmp_path):
    out = tmp_path / "deep" / "er" / "out"
    output._write_all(FILES, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == FILES
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert out.stat().st_mode & 0o077 == 0  # oracle values are in it


def test_a_checkpoint_is_its_owners_alone(tmp_path):
    """Private states of owners are in it."""
    checkpoint.write(tmp_path / "kept", "settings", {"state": np.zeros(2)})
    assert (tmp_path / "kept").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("existing", [False, True])
def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch, stop, existing):
    out = tmp_path / "out"
    if existing:
        out.mkdir()
    write_bytes, written = type(out).write_bytes, []

    def stops_at_the_second(path, content):
        if written:
            raise stop
        written.append(path)
        return write_bytes(path, content)

    monkeypatch.setattr(type(out), "write_bytes", stops_at_the_second)
    with pytest.raises(type(stop)):
        output._write_all(FILES, out)
    assert written
    assert [path.name for path in tmp_path.iterdir()] == ["out"] * existing
    assert not existing or not list(out.iterdir())


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_exists_is_not_replaced(tmp_path, kind):
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    elif kind == "folder":
        (out / "mine").mkdir(parents=True)
    else:
        out.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="a run never overwrites another"):
        output._write_all(FILES, out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_another_run_filled_meanwhile_stays(tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(output, "check_folder", lambda path: (out.mkdir(), (out / "theirs").touch()))
    with pytest.raises(OSError, match="not empty"):
        output._write_all(FILES, out)
    assert [path.name for path in out.iterdir()] == ["theirs"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_names_count_upwards(tmp_path):
    assert output.free_folder(tmp_path, "run") == tmp_path / "run-1"
    (tmp_path / "run-1").mkdir()
    assert output.free_folder(tmp_path, "run") == tmp_path / "run-2"


def test_the_place_is_checked_before_any_work(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="may be written"):
        output.check_place(tmp_path / "file" / "deeper" / "out")
    with pytest.raises(InputError, match="may be written"):  # where permissions say nothing
        output.check_place(Path("/proc/new/out"))
    assert output.check_place(tmp_path / "new" / "out") == tmp_path / "new" / "out"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def header(curve: np.ndarray) -> str:
    result = SimpleNamespace(
        curve=curve,
        disagreement=np.zeros(2),
        steps=np.arange(2),
        sizes=np.array([3, 5]),
        metric="accuracy",
        prepared=SimpleNamespace(partition=SimpleNamespace(names=("north", "south"))),
    )
    return output.trace(result).splitlines()[0]  # type: ignore[arg-type]


def test_columns_that_no_owner_released_say_so():
    assert header(np.zeros((2, 2))) == "step,accuracy,disagreement,north,south"
    marked = header(oracle(np.zeros((2, 2))))
    assert marked == "step,accuracy (oracle),disagreement,north (oracle),south (oracle)"
