"""Features from made-up pictures: what they depend on, what they are bounded by, what they see."""

from collections.abc import Iterator

import numpy as np
import pytest

from coterie.errors import InputError
from papers import patch_features
from papers.patch_features import Bank, Layout, bank, dead_leaves, made_up_patches, responses

SMALL = Layout(size=4, stride=1, threshold=0.5, cells=2)


@pytest.fixture(autouse=True, scope="module")
def few_pictures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patch_features, "_PICTURES", 40)
        patch_features._prepared.cache_clear()
        yield
    patch_features._prepared.cache_clear()


def images(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=(rows, 12, 12, 3)).astype(np.float32)


def test_leaves_cover_the_picture_in_many_colours() -> None:
    pictures = dead_leaves(40, 12, seed=0)
    assert pictures.shape == (40, 12, 12, 3)
    assert pictures.min() >= 0
    assert pictures.max() <= 1
    untouched = np.mean(np.all(pictures == 0.5, axis=3))
    assert untouched < 0.05
    greys = pictures.mean(axis=3)
    step = np.abs(np.diff(greys, axis=2)).mean()
    jump = np.abs(greys[:, :, 6:] - greys[:, :, :-6]).mean()
    assert step < 0.7 * jump  # near pixels are alike, as in photographs: not so in noise


def test_responses_are_by_hand_what_they_are_at_once() -> None:
    rng = np.random.default_rng(1)
    filters = Bank(rng.normal(size=(48, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32))
    picture = images(1)[0]
    expected = np.zeros(2 * 2 * 2 * 3)
    for whole in (picture, picture[:, ::-1]):
        match = np.zeros((9, 9, 3))
        for i in range(9):
            for j in range(9):
                patch = whole[i : i + 4, j : j + 4].ravel().astype(float)
                patch = (patch - patch.mean()) / np.sqrt(patch.var() + 1e-2)
                match[i, j] = patch @ filters.weights - filters.offset
        cells = []
        for rows in (slice(0, 4), slice(4, 9)):
            for columns in (slice(0, 4), slice(4, 9)):
                part = match[rows, columns]
                cells += [np.maximum(sign * part - 0.5, 0).mean(axis=(0, 1)) for sign in (1, -1)]
        expected += np.concatenate(cells)
    np.testing.assert_allclose(responses(picture[None], filters, SMALL)[0], expected, rtol=1e-4, atol=1e-5)


def test_a_record_is_mapped_alone_onto_the_unit_sphere_and_equals_its_mirror_image() -> None:
    features, rows = made_up_patches(5, side=12, layout=SMALL), images(7)
    found = features.apply(rows)
    assert found.shape == (7, 40)
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), features.norm_bound, rtol=1e-5)
    np.testing.assert_allclose(features.apply(rows[3:4])[0], found[3], atol=1e-5)
    np.testing.assert_allclose(features.apply(rows[:, :, ::-1]), found, atol=1e-4)
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_the_map_is_made_of_its_settings_alone() -> None:
    rows = images(2)
    before = made_up_patches(5, side=12, layout=SMALL).apply(rows)
    patch_features._prepared.cache_clear()
    np.testing.assert_array_equal(made_up_patches(5, side=12, layout=SMALL).apply(rows), before)


@pytest.mark.parametrize("hostile", [np.nan, np.inf, 1e30])
def test_hostile_records_stay_within_the_bound(hostile: float) -> None:
    rows = images(2)
    rows[0, 3, 3, 0] = hostile
    norms = np.linalg.norm(made_up_patches(5, side=12, layout=SMALL).apply(rows), axis=1)
    assert np.isfinite(norms).all()
    assert (norms <= 1 + 1e-5).all()


def test_whitened_filters_answer_white_patches_alike() -> None:
    pictures = dead_leaves(40, 12, seed=0)
    made = bank(pictures, 4, 30, seed=0, ridge=1e-6)
    patches = patch_features._normalised(
        patch_features._patches(pictures, 4, 20_000, np.random.default_rng(5))
    )
    spread = (patches @ made.weights).std(axis=0)
    np.testing.assert_allclose(spread, 1.0, rtol=0.25)


def test_other_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"images of shape \(8, 8, 3\): must be \(12, 12, 3\)"):
        made_up_patches(5, side=12, layout=SMALL).apply(np.zeros((1, 8, 8, 3), np.float32))
