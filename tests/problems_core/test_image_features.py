"""Oriented gradients on images whose edges are known."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import InputError
from coterie.problems.feature_steps import pipeline
from coterie.problems.image_features import oriented_gradients
from coterie.problems.table import Table


def test_an_edge_votes_for_its_direction():
    ramp = np.tile(np.linspace(0, 1, 8), (8, 1))  # brighter to the right: gradient along +x, direction 0
    images = np.stack([ramp, ramp.T, ramp[:, ::-1]])
    found = oriented_gradients(images, 4, orientations=4).reshape(3, 4, 4)
    assert found.argmax(2).tolist() == [[0] * 4, [1] * 4, [2] * 4]
    np.testing.assert_allclose(np.delete(found[0], 0, axis=1), 0, atol=1e-5)


def test_votes_are_shared_between_neighbouring_directions_and_add_up():
    images = np.random.default_rng(0).random((5, 8, 8)).astype(np.float32)
    dy, dx = np.gradient(images, axis=(1, 2))
    found = oriented_gradients(images, 4)
    np.testing.assert_allclose(found.sum(1), np.sqrt(np.hypot(dx, dy)).sum((1, 2)), rtol=1e-4)


def test_colours_are_averaged_and_edges_beyond_whole_cells_are_left_out():
    images = np.random.default_rng(1).random((2, 9, 9, 3))
    assert oriented_gradients(images, 4).shape == (2, 2 * 2 * 8)
    np.testing.assert_allclose(
        oriented_gradients(images, 4), oriented_gradients(images.mean(3), 4), rtol=1e-4
    )


def test_in_a_pipeline_rows_end_in_the_unit_ball():
    images = np.random.default_rng(2).random((4, 8, 8)).astype(np.float32)
    table = Table(
        name="t", task="binary", x=images, y=np.ones(4, np.float32), x_test=images, y_test=np.ones(4, np.float32),
        columns=(), bounds=np.array([[0.0, 1.0]]),
    )  # fmt: skip
    mapped = pipeline("gradients:4,ball", table)
    assert mapped.norm_bound == 1.0
    assert np.linalg.norm(mapped.apply(images), axis=1).max() <= 1 + 1e-6


def test_rows_that_are_no_images_are_refused():
    with pytest.raises(InputError, match="needs images"):
        oriented_gradients(np.zeros((3, 5)), 4)
    with pytest.raises(InputError, match="Use a smaller cell"):
        oriented_gradients(np.zeros((3, 5, 5)), 6)
