"""Images of one's own keep their shape: from NPZ and Parquet, under a declaration, to features and to a ledger."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import feature_map
from coterie.problems.datasets import load_file
from coterie.problems.datasets.frames import read_frame
from coterie.problems.datasets.identity import identity
from coterie.problems.datasets.init import columns_file
from coterie.problems.datasets.schema import from_json
from coterie.problems.fields import Image

ROWS = 20
BYTES = np.random.default_rng(0).integers(0, 256, (ROWS, 4, 6)).astype(np.uint8)
LABELS = np.array(["no", "yes"] * (ROWS // 2))
SAID = {
    "target": "label",
    "classes": ["no", "yes"],
    "columns": {"scan": {"image": [4, 6], "range": [0, 255]}},
}


def npz(path, images=BYTES):
    np.savez(path, scan=images, label=LABELS)
    return path


def lists(path, images=BYTES):
    scan = pa.array(images.tolist(), pa.list_(pa.list_(pa.uint8())))
    parquet.write_table(pa.table({"scan": scan, "label": LABELS.tolist()}), path)
    return path


def tensors(path, images=BYTES):
    scan = pa.FixedShapeTensorArray.from_numpy_ndarray(images)
    parquet.write_table(pa.table({"scan": scan, "label": LABELS.tolist()}), path)
    return path


KINDS = {"own.npz": npz, "lists.parquet": lists, "tensors.parquet": tensors}


@pytest.mark.parametrize("name", KINDS)
def test_images_keep_their_shape_whatever_the_file(tmp_path, name):
    table = load_file(KINDS[name](tmp_path / name), columns=SAID)
    both = np.concatenate([table.x, table.x_test])
    assert sorted(both.tolist()) == sorted(BYTES.tolist())
    assert (table.x.shape, table.x.dtype) == (
        (16, 4, 6),
        np.uint8,
    )  # bytes stay bytes: a quarter of the memory
    assert (table.columns, table.bounds.tolist(), table.findings) == (("scan",), [[0, 255]], ())
    assert table.fields == (Image("scan", (4, 6), 0, 255),)


def test_features_are_those_of_values_from_0_to_1(tmp_path):
    """Whatever unit a file has: bytes give what the same pictures give as known data sets have them."""
    own = load_file(npz(tmp_path / "a.npz"), columns=SAID)
    unit = npz(tmp_path / "b.npz", BYTES / 255)
    as_known = load_file(unit, columns=SAID | {"columns": {"scan": {"image": [4, 6], "range": [0, 1]}}})
    for names in (None, "gradients:2,ball", "pool:2,ball", "none", "piecewise:3"):
        experiment = Experiment(features=names)
        found, known = (feature_map(experiment, one).apply(one.x) for one in (own, as_known))
        np.testing.assert_allclose(found, known, atol=1e-6)


def test_colours_are_a_fourth_axis(tmp_path):
    said = SAID | {"columns": {"scan": {"image": [4, 6, 3], "range": [-1, 1]}}}
    table = load_file(npz(tmp_path / "own.npz", np.full((ROWS, 4, 6, 3), 0.5)), columns=said)
    assert (table.x.shape, table.x.dtype) == ((16, 4, 6, 3), np.float32)


def test_without_a_declaration_values_must_be_small(tmp_path):
    table = load_file(npz(tmp_path / "own.npz", BYTES / 255), "label")
    assert table.fields == (Image("scan", (4, 6), -1, 1),)
    with pytest.raises(InputError, match=r"image \d+ has a value outside .-1, 1.*image = \[4, 6\], range"):
        load_file(npz(tmp_path / "bytes.npz"), "label")


def test_values_outside_the_range_are_counted_and_moved(tmp_path):
    images = BYTES.astype(np.float64)
    images[3, 0, 0], images[5, 1, 1] = 300, -2
    table = load_file(npz(tmp_path / "own.npz", images), columns=SAID)
    assert table.findings == (
        "column 'scan': 2 of 20 rows lie outside [0, 255]; they count as its nearer end",
    )
    features = feature_map(Experiment(features="none"), table).apply(table.x)
    assert (features.min(), features.max()) == (0, 1)


WRONG = {
    "shape": ({"image": [6, 4], "range": [0, 255]}, "image 1 is 4 x 6, must be 6 x 4"),
    "number": ([0, 255], r"holds images. Declare them so.*image = \[4, 6\]"),
    "no range": ({"image": [4, 6]}, "images need the public range"),
    "axes": ({"image": [24], "range": [0, 255]}, r"must be \[height, width\]"),
    "zero": ({"image": [4, 0], "range": [0, 255]}, r"must be \[height, width\]"),
    "missing": ({"image": [4, 6], "range": [0, 255], "missing": "middle"}, "'missing' does not go with 'image'"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_declaration_is_one_line(tmp_path, what):
    spec, words = WRONG[what]
    with pytest.raises(InputError, match=words) as error:
        load_file(npz(tmp_path / "own.npz"), columns=SAID | {"columns": {"scan": spec}})
    assert "\n" not in str(error.value)


def test_what_cannot_be_images_is_refused(tmp_path):
    with pytest.raises(InputError, match="image 3 has a value that is no finite number"):
        load_file(npz(tmp_path / "a.npz", np.where(np.arange(ROWS) == 2, np.nan, 0.0)[:, None, None] + BYTES),
                  columns=SAID)  # fmt: skip
    with pytest.raises(InputError, match="holds no arrays of one shape"):
        load_file(npz(tmp_path / "b.npz", LABELS), columns=SAID)
    with pytest.raises(InputError, match="array 'scan' has 5 axes"):
        load_file(npz(tmp_path / "c.npz", np.zeros((ROWS, 2, 2, 2, 2))), columns=SAID)
    with pytest.raises(InputError, match="column 'scan': holds images"):
        load_file(npz(tmp_path / "d.npz"), "scan", columns={"columns": {"label": ["no", "yes"]}})
    np.savez(tmp_path / "e.npz", scan=BYTES / 255, age=np.zeros(ROWS), label=LABELS)
    with pytest.raises(InputError, match="'scan': holds images, which are the only feature"):
        load_file(tmp_path / "e.npz", "label")
    ragged = pa.array([[[1, 2]]] * 3 + [[[1, 2, 3]]] * (ROWS - 3))
    parquet.write_table(pa.table({"scan": ragged, "label": LABELS.tolist()}), tmp_path / "f.parquet")
    with pytest.raises(InputError, match="holds no arrays of one shape"):
        load_file(tmp_path / "f.parquet", columns=SAID)


def test_init_writes_the_shape_and_reads_no_value(tmp_path):
    path = npz(tmp_path / "own.npz")
    text = columns_file(path, "label", None, False)
    assert "# scan = {image = [4, 6], range = [LOW, HIGH]}  # images" in text
    assert columns_file(npz(tmp_path / "own.npz", BYTES[::-1] // 2), "label", None, False) == text
    read_off = columns_file(npz(path), "label", None, True)
    assert f"scan = {{image = [4, 6], range = [{BYTES.min()}, {BYTES.max()}]}}  # images" in read_off


def test_an_agreement_has_images_and_an_owner_brings_them(tmp_path):
    schema = from_json(SAID, "agreement")
    assert from_json(schema.to_json(), "agreement") == schema
    assert schema.empty("scans").x.shape == (0, 4, 6)
    mapped, empty = (
        feature_map(Experiment(features="gradients:2,ball"), schema.empty("scans")),
        schema.empty("scans"),
    )
    assert (mapped.norm_bound, mapped.apply(empty.x).shape) == (1, (0, 2 * 3 * 8 + 1))
    rows = schema.read(npz(tmp_path / "own.npz"))
    np.testing.assert_array_equal(rows.x, BYTES)


def test_a_ledger_knows_images_by_their_content(tmp_path):
    of = lambda path: identity(read_frame(path))
    first, same = of(npz(tmp_path / "a.npz")), of(lists(tmp_path / "a.parquet"))
    assert first == same
    changed = BYTES.copy()
    changed[7, 2, 2] ^= 1
    assert of(npz(tmp_path / "b.npz", changed)).content != first.content
