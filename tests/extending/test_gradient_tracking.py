"""examples/gradient_tracking.py, a protocol in a file outside the package: engines, certificate, audit, page, owners.

`make docs` also installs it and runs it in processes, as docs/do/protocol.md shows.
"""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path

import extending_world
import jax
import numpy as np
import pytest
import worlds
from typer.testing import CliRunner

import coterie
from coterie import plugins, topologies
from coterie.cli import app
from coterie.engines.simulate import simulate
from coterie.engines.spmd import spmd
from coterie.problems.problem import clipped_sum
from coterie.program import Batch
from coterie.protocols import build
from coterie.testing import check_protocol

SIZES, DIM = (6, 8, 7, 9), 3


def test_the_file_itself_can_be_run(monkeypatch, capsys):
    run = coterie.run
    monkeypatch.setattr(coterie, "run", lambda chosen: run(replace(chosen, owners=3, settings={"rounds": 2})))
    runpy.run_path(str(extending_world.EXAMPLE), run_name="__main__")
    plugins.KINDS["protocol"]._others.pop("gradient_tracking")
    assert re.fullmatch(r"accuracy 0\.\d{4}, at ε ≤ 1\n", capsys.readouterr().out)


@pytest.fixture(scope="module")
def protocol():
    with extending_world.gradient_tracking() as module:
        yield module


def program(rounds, epsilon=1.0):
    task = worlds.task(SIZES, DIM, epsilon=epsilon, delta=1e-4, topology="ring")
    return task, build("gradient_tracking", task, {"rounds": rounds}, "certified")


def test_it_keeps_the_contract(protocol):
    found = check_protocol(protocol.build, protocol.Settings(rounds=4))
    assert 0.5 * found.allowed < found.shift <= found.allowed * (1 + 1e-4)


def test_without_much_noise_every_owner_ends_where_the_gradient_of_all_records_is_zero(protocol):
    """What tracking is for: with a step that stays, owners that followed their own gradients would stop elsewhere."""
    task, made = program(400, epsilon=1e8)
    shards = worlds.shards(SIZES, DIM)
    trace = simulate(made, shards, topologies.mixer(task.topology, 1), seed=0)
    for owner in range(len(SIZES)):
        params = jax.tree.map(lambda leaf, owner=owner: leaf[owner], trace.model)
        total = task.problem.penalty.gradient(params)
        for who, count in enumerate(SIZES):
            batch = Batch(shards.x[who], shards.y[who], np.float32(np.arange(shards.x.shape[1]) < count))
            part = clipped_sum(task.problem, params, batch, made.plan.clip_norm)
            total = jax.tree.map(lambda a, b: a + b / sum(SIZES), total, part)
        assert max(float(abs(leaf).max()) for leaf in jax.tree.leaves(total)) < 2e-3


def test_the_engine_over_devices_says_what_simulate_says(protocol):
    task, made = program(4)
    shards, mixer = worlds.shards(SIZES, DIM), topologies.mixer(task.topology, 2)
    one, other = (engine(made, shards, mixer, seed=3).model for engine in (simulate, spmd))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), one, other)


def test_real_owners_compute_what_simulate_does(protocol, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "federation")
    from gossip_world import World

    world = World(tmp_path, protocol="gradient_tracking", settings={"rounds": 4})
    with world.network() as network:
        network.run(100.0)
        assert not network.refused
        np.testing.assert_allclose(world.models(network), world.simulated(), rtol=1e-3, atol=1e-4)
    world.check(network)


def command(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_the_command_line_runs_certifies_audits_and_reports_it(protocol, tmp_path):
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, (800, 2))
    rows = [f"{'ABCD'[at % 4]},{a:.3f},{b:.3f},{'yes' if 2 * a > b else 'no'}" for at, (a, b) in enumerate(x)]
    (tmp_path / "visits.csv").write_text("\n".join(["owner,age,stay,again", *rows]) + "\n")
    out = tmp_path / "run"
    options = (
        "--data",
        tmp_path / "visits.csv",
        "--target",
        "again",
        "--owner-column",
        "owner",
        "--epsilon",
        8,
    )
    command("run", *options, "--protocol", "gradient_tracking", "--set", "rounds=12", "--out", out)
    result = json.loads((out / "result.json").read_text())
    assert result["metric"]["joint"] > 0.8  # a constant reaches about a half
    assert result["privacy"]["certified_epsilon"]["max"] <= 8
    assert command("certify", "--from", out).startswith("agrees")
    command("audit", out, "--games", 20000)
    assert 0.5 < json.loads((out / "result.json").read_text())["privacy"]["audited_epsilon"] <= 8
    command("report", out)
    page = (out / "report.html").read_text()
    assert "gradient_tracking" in page
    assert "Olshevsky" in page


def test_another_calibration_is_one_line(protocol):
    with pytest.raises(
        coterie.InputError, match=r"^calibration='paper': gradient_tracking has 'certified' only"
    ):
        build("gradient_tracking", program(2)[0], {}, "paper")
