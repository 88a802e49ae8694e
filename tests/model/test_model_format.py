"""The model's file: the same content again, nothing else accepted, and read by others' libraries."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_world import IMAGES, TABLES, made

import coterie
from coterie.errors import InputError
from coterie.model import format as files
from coterie.model.predictor import from_bytes
from coterie.model.words import card, shown

WRITTEN = made("scale,ball").model.to_bytes()
HEADER = 8 + int.from_bytes(WRITTEN[:8], "little")


def refused(data: bytes) -> str:
    """The message with which the bytes are refused: one line, and no traceback."""
    with pytest.raises(InputError) as caught:
        from_bytes(data, "model.safetensors")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("steps", TABLES)
def test_what_is_written_is_read_again(steps, tmp_path):
    first = made(steps).model
    path = first.save(tmp_path / files.FILE)
    second = coterie.load(tmp_path)  # a folder that holds it does as well
    assert second.description == first.description
    assert second.to_bytes() == first.to_bytes() == path.read_bytes()
    assert [step.name for step in second.steps] == [step.name for step in first.steps]


@pytest.mark.parametrize("steps", IMAGES)
def test_models_of_images_are_read_again(steps):
    first = made(steps, "multiclass", image=(8, 8)).model
    assert from_bytes(first.to_bytes(), "m").to_bytes() == first.to_bytes()


def test_a_flipped_bit_of_any_byte_is_refused():
    for at in range(len(WRITTEN)):
        changed = bytearray(WRITTEN)
        changed[at] ^= 1 << at % 8
        refused(bytes(changed))


@given(st.integers(0, 8 * len(WRITTEN) - 1))
@settings(max_examples=300, deadline=None)
def test_any_flipped_bit_is_refused(bit):
    changed = bytearray(WRITTEN)
    changed[bit // 8] ^= 1 << bit % 8
    refused(bytes(changed))


@given(st.integers(0, len(WRITTEN) - 1), st.binary(max_size=9))
@settings(max_examples=100, deadline=None)
def test_a_file_cut_short_or_made_longer_is_refused(end, tail):
    refused(WRITTEN[:end])
    if tail:
        refused(WRITTEN + tail)


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_other_bytes_are_refused(data):
    refused(data)


def test_a_newer_version_says_so(monkeypatch):
    monkeypatch.setattr(files, "VERSION", 2)
    newer = made().model.to_bytes()
    monkeypatch.undo()
    assert "format 2 is newer than 1, the newest known here. Update coterie." in refused(newer)


def test_an_older_version_says_what_to_do(monkeypatch):
    monkeypatch.setattr(files, "VERSION", 0)
    older = made().model.to_bytes()
    monkeypatch.undo()
    assert "format 0 is older than 1" in refused(older)
    assert "train again" in refused(older)


def test_the_arrays_that_nodes_once_wrote_say_what_to_do(tmp_path):
    np.savez(tmp_path / "model.npz", np.zeros((3, 1)))
    with pytest.raises(InputError, match="before models had columns.*Train again with this version"):
        coterie.load(tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"task": "multiclass"}, "classes and range"),
        ({"inputs": {"columns": []}}, "rows have columns"),
        ({"features": [{"step": "unheard", "arrays": []}]}, "'unheard' is unknown here. Update coterie"),
        ({"features": []}, "do not fit|mismatch"),
        ({"model": {"kind": "two_layer", "activation": "tanh", "loss": "logistic"}}, "w1"),
        ({"training": {}}, "must be a table of"),
        ({"privacy": []}, "must be a table of"),
    ],
)
def test_a_whole_file_that_says_something_else_is_refused(change, why):
    content = files.unpack(WRITTEN, "m")
    message = refused(files.pack(content.description | change, content.arrays))
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(message)


JUNK = (None, True, -1, 0, 0.5, 10**400, 1e308, "", "x", "\x1b[2J", [], {}, [[]], [None], {"a": 1})


def places(value, path=()):
    """Every place in nested tables and lists."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from places(one, (*path, key))


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_a_whole_file_with_junk_in_it_is_refused_in_one_line_or_shown(data):
    """Anybody can compute a digest: what follows it is not trusted either."""
    content = files.unpack(WRITTEN, "m")
    said = json.loads(json.dumps(content.description))
    path = data.draw(st.sampled_from([path for path in places(said) if path]))
    inner = said
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = data.draw(st.sampled_from(JUNK))
    written = files.pack(said, content.arrays)
    try:
        model = from_bytes(written, "model.safetensors")
    except InputError:
        refused(written)
    else:
        assert "\x1b" not in shown(model, "d") + card(model, "d")


@pytest.mark.parametrize(
    ("table", "fits"),
    [
        ({"auc": {"joint": 0.75, "constant": 0.5}}, True),
        ({}, True),
        ({"glory": {"joint": 0.75, "constant": 0.5}}, False),
        ({"auc": {"joint": "0.75", "constant": 0.5}}, False),
        ({"auc": {"joint": 0.75}}, False),
        ([], False),
    ],
)
def test_a_table_of_metrics_is_read_or_refused(table, fits):
    content = files.unpack(WRITTEN, "m")
    score = {"name": "accuracy", "value": 0.5, "rows": 2, "all": table}
    written = files.pack(content.description | {"metrics": score}, content.arrays)
    if fits:
        assert from_bytes(written, "m").description.metrics == score
    else:
        with pytest.raises(InputError):
            from_bytes(written, "m")


def test_the_digest_is_of_everything():
    content = files.unpack(WRITTEN, "m")
    said = content.description | {"metrics": {"name": "accuracy", "value": 0.5, "rows": 2}}
    assert files.unpack(files.pack(said, content.arrays), "m").sha256 != content.sha256
    assert content.sha256.encode() in WRITTEN[:HEADER]


def test_the_library_of_the_format_reads_it():
    from safetensors.numpy import load as load_safetensors

    arrays = load_safetensors(WRITTEN)
    ours = files.unpack(WRITTEN, "m").arrays
    assert arrays.keys() == ours.keys()
    assert all(np.array_equal(arrays[name], ours[name]) for name in ours)
    metadata = json.loads(WRITTEN[8:HEADER])["__metadata__"]
    assert metadata["format"] == "coterie-model"
    assert all(isinstance(value, str) for value in metadata.values())


def test_equal_models_are_equal_files_and_others_are_not():
    one = made("fourier:6").model
    assert one.to_bytes() == made("fourier:6").model.to_bytes()
    other = replace(one, params={"weights": one.params["weights"] + np.float32(1e-3)})
    assert other.to_bytes() != one.to_bytes()


def test_random_directions_are_kept_and_no_seed(monkeypatch):
    """A later version of NumPy may draw others from the same seed."""
    kept = made("fourier:6")
    data = kept.model.to_bytes()
    monkeypatch.setattr("coterie.problems.features.random_directions", None)
    assert np.allclose(from_bytes(data, "m").scores(kept.raw), kept.scored, atol=1e-5)
    assert b"seed" not in data


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read .No such file or directory.. Give a run's folder"):
        coterie.load(tmp_path / "nothing")


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        made().model.save(tmp_path / "no such folder" / "m.safetensors")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a file").touch()
    with pytest.raises(
        InputError, match="cannot be written .Not a directory"
    ):  # nor can a draft be taken away
        made().model.save(tmp_path / "a file" / "m.safetensors")


def keys_of(value, above: str = "") -> set[str]:
    """Every key of the description that the format fixes; what settings and certificates hold is others' business."""
    if not isinstance(value, dict):
        return set()
    fixed = above not in ("settings", "certified_epsilon", "claim")
    return set(value if fixed else ()) | {key for name, one in value.items() for key in keys_of(one, name)}


def test_the_page_specifies_every_key_and_step():
    page = (Path(__file__).parents[2] / "docs" / "model.md").read_text(encoding="utf-8")
    names = {"metrics", "format", "version", "sha256", "description"}
    for found in (made("scale,ball"), made(task="regression"), made("pca:3", "multiclass", image=(8, 8))):
        said = files.unpack(found.model.to_bytes(), "m").description
        names |= keys_of(said) | {key for one in said["inputs"].get("columns", ()) for key in one}
        names |= {one["kind"] for one in said["inputs"].get("columns", ())}
    for steps in (*TABLES, "gradients:4", "pool:2"):
        image = (8, 8) if steps in ("gradients:4", "pool:2") else ()
        for step in made(steps, image=image).model.steps:
            names |= {step.name, *step.settings, *step.arrays}
    missing = {name for name in names if f"`{name}`" not in page and f".{name}`" not in page}
    assert missing == set()
