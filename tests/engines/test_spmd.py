"""The engine over devices and processes agrees with `simulate`, and goes on from a checkpoint to the same result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import compiling
import jax
import numpy as np
import pytest
import spmd_group
import worlds
from ports import ports
from spmd_group import DIM, LAYOUTS, PROTOCOLS, ROWS, SIZES, case, play

from coterie import protocols
from coterie.engines.simulate import simulate
from coterie.engines.spmd import spmd
from coterie.errors import InputError

# One for each way in which owners meet: links, links that change, an aggregator, a register that is visited.
MEETINGS = ("dual_averaging", "push_sum", "weighted_erm", "async_learner")
# processes, devices of each, rows. Compiling is what costs time here, and every process does it for itself: layouts
# meet two groups only, and four processes are met by what two processes and four devices do not have yet.
GROUPS = {
    "1 process, 2 devices": (1, 2, LAYOUTS),
    "1 process, 4 devices": (1, 4, PROTOCOLS),
    "2 processes": (2, 1, ROWS),
    "4 processes": (4, 1, {name: ROWS[name] for name in MEETINGS}),
}
PATIENCE = 600  # seconds; other people use the machine too


def start(out: Path, processes: int, devices: int, rows) -> list[subprocess.Popen]:
    (port,) = ports(1)
    tests = Path(__file__).parent.parent
    flags = f"{compiling.QUICK} --xla_force_host_platform_device_count={devices}"
    path = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    group = []
    for process in range(processes):
        words = [spmd_group.__file__, out, process, processes, port, *rows]
        with out.with_suffix(f".{process}.err").open("w") as errors:
            group.append(
                subprocess.Popen(
                    [sys.executable, *map(str, words)],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                )
            )
    return group


def read(file: Path) -> dict[str, np.ndarray]:
    with np.load(file) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What every group and `simulate` found, all of them run at the same time."""
    folder = tmp_path_factory.mktemp("groups")
    files = {name: folder / f"{at}.npz" for at, name in enumerate(GROUPS)}
    groups = {name: start(files[name], *group) for name, group in GROUPS.items()}
    try:
        expected = {name: play(simulate, row) for name, row in ROWS.items()}
        for name, group in groups.items():
            for process, one in enumerate(group):
                status = one.wait(PATIENCE)
                assert status == 0, files[name].with_suffix(f".{process}.err").read_text()[-2000:]
        return expected, {name: read(file) for name, file in files.items()}
    finally:
        for one in [one for group in groups.values() for one in group]:
            one.kill()
            one.wait()


def test_every_protocol_has_joined():
    assert set(PROTOCOLS) == set(protocols.PROTOCOLS)


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, (_, _, rows) in GROUPS.items() for name in rows]
)
def test_a_run_over_devices_is_the_run_of_simulate(found, group, name):
    """Messages, models, looks and turns; to the bit on circulant graphs, to float tolerance elsewhere."""
    expected, groups = found
    for at, leaf in enumerate(jax.tree.leaves(expected[name])):
        got = groups[group][f"{name}.{at}"]
        assert got.dtype == leaf.dtype
        if ROWS[name].exact:
            np.testing.assert_array_equal(got, leaf)
        else:
            np.testing.assert_allclose(got, leaf, rtol=1e-4, atol=1e-5)


class Stopped(Exception):
    """Thrown into a run to end it."""


def stop_after(points: int):
    told = []

    def progress(done: int, of: int) -> None:
        told.append(done)
        if len(told) == points:
            raise Stopped

    return progress


@pytest.mark.parametrize("name", ["dual_averaging", "async_learner"])
def test_a_run_that_was_stopped_goes_on_to_the_same_result(tmp_path, name):
    """Rounds and visits; to the bit, looks and transcript included."""
    given, file = case(ROWS[name]), tmp_path / "run.checkpoint"
    options = {"seed": 3, "every": 3, "probe": lambda models: (models, np.float32(1.0)), "transcript": True}
    whole = spmd(*given, **options)
    with pytest.raises(Stopped):
        spmd(*given, **options, keep=file, progress=stop_after(1))
    steps = []
    rest = spmd(*given, **options, keep=file, resume=True, progress=lambda done, of: steps.append(done))
    assert steps[0] == 6  # the first chunk was not run again
    assert jax.tree.structure(rest) == jax.tree.structure(whole)
    for one, two in zip(jax.tree.leaves(rest), jax.tree.leaves(whole)):
        np.testing.assert_array_equal(one, two)


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path):
    program, records, mixer = case(ROWS["dual_averaging"])
    file = tmp_path / "run.checkpoint"
    options = {"every": 3, "keep": file, "resume": True}
    with pytest.raises(InputError, match=r"run.checkpoint': cannot be read \(No such file"):
        spmd(program, records, mixer, seed=3, **options)
    with pytest.raises(Stopped):
        spmd(program, records, mixer, seed=3, every=3, keep=file, progress=stop_after(1))
    assert [one.name for one in tmp_path.iterdir()] == ["run.checkpoint"]
    with pytest.raises(InputError, match="belongs to a run with other records or settings"):
        spmd(program, records, mixer, seed=4, **options)
    other = worlds.with_record(worlds.shards(SIZES, DIM), 2, 1, np.ones(DIM, np.float32), 1.0)
    with pytest.raises(InputError, match="belongs to a run with other records or settings"):
        spmd(program, other, mixer, seed=3, **options)
    content = bytearray(file.read_bytes())
    for at in (len(content) // 2, 3):  # a bit of the state; the first line
        damaged = content.copy()
        damaged[at] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(InputError, match="is damaged, or no checkpoint"):
            spmd(program, records, mixer, seed=3, **options)
