"""One's own images from `run` to `predict`, as docs/data.md has it."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_world import coterie

import coterie as package

PAGE = (Path(__file__).parents[2] / "docs/data.md").read_text("utf-8")
COLUMNS = 'target = "digit"' + PAGE.partition('```\ntarget = "digit"')[2].partition("```")[0]
(RUN,) = [line.split()[2:] for line in PAGE.splitlines() if line.startswith("coterie run --data scans.npz")]


def scans(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bars that stand or lie, in noise."""
    rng = np.random.default_rng(seed)
    images, lies = rng.integers(0, 60, (rows, 8, 8)), np.arange(rows) % 2
    images[lies == 0, :, 3:5] += 190
    images[lies == 1, 3:5, :] += 190
    return images.astype(np.uint8), lies


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images, lies = scans(300, 0)
    np.savez(
        "scans.npz", scan=images, digit=lies, clinic=np.array(["north", "south", "east"])[np.arange(300) % 3]
    )
    np.savez("new.npz", scan=scans(20, 1)[0])
    (tmp_path / "columns.toml").write_text(COLUMNS)
    return tmp_path


def test_a_model_of_own_images_predicts_new_ones(folder):
    told = coterie("data", "describe", *RUN[1:6])
    assert (told.status, "8 x 8 features" in told.stdout) == (0, True)
    done = coterie("run", *RUN, "--set", "rounds=3", "--epsilon", "8")
    assert done.status == 0, done.stderr
    assert json.loads((folder / "scans" / "result.json").read_text())["metric"]["joint"] == 1
    predicted = coterie("predict", "scans", "new.npz")
    assert predicted.status == 0, predicted.stderr
    rows = [line.split(",")[1] for line in predicted.stdout.splitlines()[1:]]
    assert rows == ["0", "1"] * 10
    model = package.load("scans")
    assert (model.description.shape, model.description.pixels) == ((8, 8), (0, 255))
    assert model.predict(scans(20, 1)[0]).tolist() == rows
    assert "an image of 8 x 8 values within [0, 255]" in " ".join(coterie("show", "scans").stdout.split())
    for images, words in (
        (np.zeros((2, 8, 9)), "image 1 is 8 x 9, must be 8 x 8"),
        (np.full((2, 8, 8), 256), "image 1 has a value outside [0, 255]"),
        (np.zeros(2), "holds no arrays of one shape"),
    ):
        np.savez("wrong.npz", scan=images)
        wrong = coterie("predict", "scans", "wrong.npz")
        assert (wrong.status, wrong.stderr.count("\n")) == (2, 1)
        assert words in wrong.stderr
