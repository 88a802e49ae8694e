"""Mixers of owners that are spread over devices, in one process: `vmap` stands for the devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from coterie.topologies import IDENTITY, aggregate, build, from_graphs, mixer
from coterie.topologies.crossing import held, spread
from coterie.topologies.mixing import AXIS, Mixer

MIXERS = {
    "ring": (mixer(build("ring", 10)), 10),
    "exponential": (mixer(build("exponential", 9)), 9),
    "a schedule": (mixer(build("one_peer_exponential", 8), 2), 8),
    "chebyshev": (mixer(build("torus", 12), 3), 12),
    "star": (mixer(build("star", 40)), 40),
    "stars and paths": (mixer(from_graphs("wheels", [nx.star_graph(40), nx.path_graph(41)])), 41),
    "random": (mixer(build("erdos_renyi", 60, probability=0.8)), 60),  # more neighbours than are unrolled
    "complete": (mixer(build("complete", 7)), 7),
    "aggregate": (aggregate(np.linspace(0.0, 1.0, 6)), 6),
    "nobody": (IDENTITY, 5),
}


def over(devices: int, one: Mixer, owners: int, messages: dict) -> dict:
    """Mix in steps 1 and 2 over devices; owners that are made up say something absurd."""
    split, mine = spread(one, owners, devices), held(owners, devices)

    def dealt(leaf: jax.Array) -> np.ndarray:
        absurd = np.full((mine * devices - owners, *leaf.shape[1:]), 1e30, leaf.dtype)
        return np.concatenate([leaf, absurd]).reshape(devices, mine, *leaf.shape[1:])

    apply = jax.jit(jax.vmap(split.apply, (0, 0, None), axis_name=AXIS))
    dealt_out = jax.tree.map(dealt, messages)
    steps = [apply(split.arrays, dealt_out, step) for step in np.array([1, 2], np.int32)]
    return jax.tree.map(lambda *two: np.stack(two, 2).reshape(-1, 2, *two[0].shape[2:])[:owners], *steps)


@pytest.mark.parametrize(
    ("name", "devices"),
    [*((name, 3) for name in MIXERS), ("ring", 7), ("star", 2), ("ring", 1), ("chebyshev", 1)],
)
def test_spreading_owners_changes_nothing_that_they_hear(name, devices):
    one, owners = MIXERS[name]
    rng = np.random.default_rng(devices)
    messages = {
        "w": rng.standard_normal((owners, 3, 2), np.float32),
        "b": rng.standard_normal(owners, np.float32),
        "half": rng.standard_normal((owners, 2), np.float32).astype(jnp.bfloat16),
    }
    apply = jax.jit(one.apply)
    steps = [apply(one.arrays, messages, step) for step in np.array([1, 2], np.int32)]
    got = over(devices, one, owners, messages)
    for key, near in (("w", 1e-5), ("b", 1e-5), ("half", 0.05)):
        assert got[key].dtype == messages[key].dtype
        expected = np.stack([np.asarray(step[key], np.float32) for step in steps], 1)
        np.testing.assert_allclose(got[key].astype(np.float32), expected, rtol=near, atol=near)


def test_only_what_is_heard_travels():
    """A device of a ring sends its first and its last owner's row, however many it has."""
    split = spread(mixer(build("ring", 1000)), 1000, 8)
    assert {hop: rows.shape for hop, rows in split.arrays.fetch.items()} == {1: (8, 1, 1), 7: (8, 1, 1)}


@pytest.mark.parametrize("name", ["ring", "stars and paths", "chebyshev"])
def test_one_device_mixes_as_simulate_does(name):
    """Leaf by leaf: made one array first, as devices exchange them, they would be copied every round."""
    one, owners = MIXERS[name]
    assert spread(one, owners, 1).apply is one.apply
    assert spread(one, owners, 2).apply is not one.apply
