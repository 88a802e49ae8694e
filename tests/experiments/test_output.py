"""A run's folder appears whole or not at all."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from coterie.engines import checkpoint
from coterie.errors import InputError
from coterie.experiments import output
from coterie.experiments.oracle import oracle
from coterie.relations import REPLACE_ONE

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
    with pytest.raises(InputError, match="cannot be written .Not a directory|cannot be written .File exists"):
        checkpoint.write(tmp_path / "kept" / "below", "settings", {"state": np.zeros(2)})


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
        program=SimpleNamespace(plan=SimpleNamespace(relation=REPLACE_ONE)),
        prepared=SimpleNamespace(
            task=SimpleNamespace(sizes=(3, 5)),
            judge=SimpleNamespace(metric="accuracy"),
            partition=SimpleNamespace(names=("north", "south")),
        ),
    )
    return output.trace(result).splitlines()[0]  # type: ignore[arg-type]


def test_columns_that_no_owner_released_say_so():
    assert header(np.zeros((2, 2))) == "step,accuracy,disagreement,north,south"
    marked = header(oracle(np.zeros((2, 2))))
    assert marked == "step,accuracy (oracle),disagreement,north (oracle),south (oracle)"


NAMES = [
    "model.safetensors",
    "result.json",
    "experiment.toml",
    "trace.csv",
    "metric.png",
    "epsilon.png",
    "report.html",
]


@pytest.fixture(scope="module")
def result():
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.run import run

    return run(Experiment(owners=2, settings={"rounds": 2}))


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Where a run is written, and the system's temporary files."""
    for name in ("runs", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path / "runs", tmp_path / "temporary"


def full(monkeypatch, folder: Path, most: int) -> None:
    """A disk on which so many files have room in any folder below `folder`; of the next a part is written."""
    write_bytes = Path.write_bytes

    def write(path: Path, content: bytes) -> int:
        if folder in path.parents and len(list(path.parent.iterdir())) >= most:
            write_bytes(path, content[:5])
            raise OSError(28, "No space left on device")
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", write)


def below(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("most", range(len(NAMES)))
def test_a_disk_that_fills_up_at_any_file_loses_none(result, places, monkeypatch, most):
    runs, temporary = places
    full(monkeypatch, runs, most)
    with pytest.raises(InputError, match="No space left on device") as error:
        output.write(result, runs / "out")
    said = str(error.value)
    assert "\n" not in said
    assert not (runs / "out").exists()
    assert list(below(runs)) == [] if most == 0 else set(below(runs)) == set(NAMES[:most])
    assert set(below(temporary)) == set(NAMES[most:])
    assert (below(runs) | below(temporary))["model.safetensors"] == result.model.to_bytes()
    for folder in (*runs.iterdir(), *temporary.iterdir()):
        assert str(folder) in said
        assert folder.stat().st_mode & 0o077 == 0


def test_the_model_is_kept_where_there_is_room_for_one_file_alone(result, places, monkeypatch):
    runs, temporary = places
    full(monkeypatch, runs.parent, 1)
    with pytest.raises(InputError, match=r"not written: experiment.toml, .*coterie report FOLDER"):
        output.write(result, runs / "out")
    assert below(runs) == {"model.safetensors": result.model.to_bytes()}
    assert set(below(temporary)) == {"result.json"}


def test_where_nothing_can_be_kept_that_is_said_and_nothing_left_behind(result, places, monkeypatch):
    full(monkeypatch, places[0].parent, 0)
    with pytest.raises(InputError, match="Nothing could be kept"):
        output.write(result, places[0] / "out")
    assert not below(places[0].parent)
    assert not [*places[0].iterdir(), *places[1].iterdir()]
