"""The guessed radius: noise of that length moves a record's score by a useful score, whatever the model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.problems.losses import huber, softmax
from coterie.problems.models import Model, linear, two_layer
from coterie.problems.penalties import none
from coterie.problems.problem import Problem
from coterie.protocols.task import Task, radius_for
from coterie.topologies import build as topology

DIM, CLASSES = 12, 3


def task_for(model: Model, params) -> Task:
    return Task(
        problem=Problem(model, softmax(CLASSES), none()),
        sizes=(50, 50),
        clip_norm=1.0,
        epsilon=(1.0, 1.0),
        delta=1e-5,
        topology=topology("complete", 2),
        params=params,
    )


def moved(model: Model, params) -> float:
    """The spread of a score of a record of norm one, under noise as long as the radius around these parameters."""
    task = task_for(model, params)
    std = radius_for(task, None) / np.sqrt(task.dimension)
    leaves, shape = jax.tree.flatten(params)
    x = jnp.full((1, DIM), DIM**-0.5)

    def score(key):
        keys = jax.random.split(key, len(leaves))
        noisy = [leaf + std * jax.random.normal(one, leaf.shape) for leaf, one in zip(leaves, keys)]
        return model.scores(jax.tree.unflatten(shape, noisy), x)[0, 0]

    return float(jnp.std(jax.vmap(score)(jax.random.split(jax.random.key(0), 20_000))))


def test_noise_as_long_as_the_radius_is_a_useful_score_of_a_linear_model():
    params = jnp.zeros((DIM, CLASSES))
    assert moved(linear(DIM, CLASSES), params) == pytest.approx(softmax(CLASSES).length(1), rel=0.05)


@pytest.mark.parametrize("hidden", [1, 8, 128])
def test_and_of_a_network_whose_hidden_values_are_as_long_as_they_get(hidden):
    model = two_layer(DIM, hidden, CLASSES)
    params = model.init(jax.random.key(1)) | {
        "w2": jnp.zeros((hidden, CLASSES)),
        "b1": jnp.full(hidden, 50.0),  # all hidden values are one
    }
    assert moved(model, params) == pytest.approx(softmax(CLASSES).length(1), rel=0.05)


def test_a_radius_that_is_given_stands():
    model = two_layer(DIM, 8, CLASSES)
    assert radius_for(task_for(model, model.init(jax.random.key(0))), 7.0) == 7.0


def test_a_model_of_a_quantity_is_guessed_shorter_than_a_classifier_the_more_columns_there_are():
    few, many = (huber().length(columns) / softmax(CLASSES).length(columns) for columns in (16, 10_000))
    assert few == pytest.approx(0.17)
    assert many == pytest.approx(0.17 / 5)
