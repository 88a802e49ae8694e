"""Things from outside the package: handed over, registered, installed; and what is said where one is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import extending_world as world
import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

import coterie
from coterie import plugins, registry, topologies
from coterie.cli import app
from coterie.errors import InputError
from coterie.experiments.experiment import from_toml
from coterie.problems import losses
from coterie.problems.datasets import load
from coterie.problems.feature_steps import FEATURES, pipeline
from coterie.problems.models import MODELS, Model, filled, flat
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Batch
from coterie.testing import check_protocol, small_world

GROUPS = {kind: one.group for kind, one in plugins.KINDS.items()}


def forget() -> None:
    """Which entry points there are, so that they are read again."""
    for one in plugins.KINDS.values():
        vars(one).pop("_plugins", None)


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A folder on Python's path whose distributions are seen, and forgotten afterwards."""
    before = {kind: dict(one._others) for kind, one in plugins.KINDS.items()}
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path
    forget()
    for kind, one in plugins.KINDS.items():
        one._others.clear()
        one._others.update(before[kind])
    for name in [name for name in sys.modules if name.split(".")[0] in ("shore", "broken")]:
        del sys.modules[name]


@pytest.fixture
def installed(outside):
    return world.install(outside)


@pytest.fixture
def as_users_have_it():
    """JAX as it comes, not as strict as these tests have it: Optax, which trains the ceiling, needs that."""
    with jax.numpy_dtype_promotion("standard"):
        yield


EVERYTHING = {
    "data": "tides",
    "protocol": "neighbours",
    "topology": "wheel",
    "loss": "smooth_hinge",
    "model": "ridges",
    "features": "squares,ball",
}


def test_the_page_names_every_kind_and_shows_one_of_each():
    entries = tomllib.loads(world.blocks("toml")[0])["project"]["entry-points"]
    assert set(entries) == set(GROUPS.values())
    page = world.PAGE.read_text(encoding="utf-8")
    for kind, group in GROUPS.items():
        assert f"| `{kind}` | `{group}` |" in page


def test_an_installed_package_runs_by_name_and_its_model_says_what_it_needs(
    installed, outside, as_users_have_it
):
    result = coterie.run(coterie.Experiment(owners=4, epsilon=8.0, **EVERYTHING))
    assert result.joint > 0.8  # of public test rows; always saying the same gives about a half
    assert {one.epsilon <= 8.0 for one in result.certificates} == {True}
    assert "at most 20 releases an owner" in " ".join(result.guarantee["statement"])
    assert result.prepared.task.topology.name == "wheel"
    assert repr(result).startswith("<Result of neighbours on tides, 4 owners: accuracy 0.")
    assert len(repr(result)) < 250
    facts = result.to_json(None)
    assert (facts["protocol"], facts["network"]["topology"]) == ("neighbours", "wheel")
    assert facts["provenance"]["data_sha256"] is None
    file = result.model.save(outside / "model.safetensors")
    rows = {"wind": [0.9, -0.9], "moon": [-0.9, 0.9]}
    assert coterie.load(file).predict(rows).tolist() == ["high", "low"]
    assert coterie.load(file).to_bytes() == file.read_bytes()
    (outside / "shore-1.2.dist-info" / "entry_points.txt").write_text("")
    forget()
    for one in plugins.KINDS.values():
        one._others.clear()
    with pytest.raises(
        InputError, match=r"needs features 'squares', .* entry point of shore 1\.2: install that\.$"
    ):
        coterie.load(file)
    plugins.register("features", "squares", lambda rows: np.hstack([rows, rows**2]))
    with pytest.raises(
        InputError, match=r"needs model 'ridges', .* entry point of shore 1\.2: install that\.$"
    ):
        coterie.load(file)


def test_the_command_line_finds_an_installed_package(tmp_path):
    world.install(tmp_path)
    options = [word for kind, name in EVERYTHING.items() for word in (f"--{kind}", name)]
    home = str(Path(coterie.__file__).parents[1])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "coterie",
            "run",
            *options,
            "--owners",
            "4",
            "--set",
            "rounds=3",
            "--out",
            "run",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), home])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = tomllib.loads((tmp_path / "run" / "experiment.toml").read_text())
    assert EVERYTHING.items() <= written.items()
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_the_pages_protocol_keeps_the_contract(installed):
    from shore import protocol

    found = check_protocol(protocol.build, protocol.Settings(rounds=3))
    assert 0.5 * found.allowed < found.shift <= found.allowed * (1 + 1e-4)


def test_a_loss_and_a_topology_from_outside_keep_the_contract(installed):
    from shore import protocol

    small = small_world(topology="wheel", loss=losses.LOSSES.find("smooth_hinge")(0))
    assert small.task.topology.name == "wheel"
    check_protocol(protocol.build, protocol.Settings(rounds=2), world=small)


class Dense:
    """As a Flax module is: hashable, with `init` and `apply`, its parameters in nested dictionaries."""

    def init(self, key, x):
        kernel = 0.1 * jax.random.normal(key, (x.shape[1], 1))
        return {"params": {"Dense_0": {"kernel": kernel, "bias": jnp.zeros(1)}}}

    def apply(self, params, x):
        layer = params["params"]["Dense_0"]
        return (x - x.mean(0, keepdims=True) * 0.5) @ layer["kernel"] + layer["bias"][
            None
        ]  # a batch norm's mistake


@jax.tree_util.register_pytree_node_class
class Layer:
    """As an Equinox module is: a tree whose leaves are its arrays and functions, called with one row."""

    def __init__(self, weight, bend=jnp.tanh):
        self.weight, self.bend = weight, bend

    def tree_flatten(self):
        return (self.weight, self.bend), None

    @classmethod
    def tree_unflatten(cls, data, leaves):
        return cls(*leaves)

    def __call__(self, row):
        return self.bend(row @ self.weight)


def test_values_are_handed_over_as_they_are(outside, as_users_have_it):
    """No name anywhere: an Equinox module, a function of rows, a graph, a loss, and a protocol made of two names."""
    world.install(outside)
    from shore import protocol

    own = SimpleNamespace(name="mine", Settings=protocol.Settings, build=protocol.build)
    experiment = coterie.Experiment(
        data="tides", owners=4, epsilon=8.0, settings={"rounds": 8}, protocol=own,
        topology=nx.complete_graph(4), model=Layer(jnp.zeros((2, 1))), features=np.sign,
        loss=losses.own("cubic", lambda s, y: jnp.maximum(1 - y * s[:, 0], 0) ** 3, task="binary"),
    )  # fmt: skip
    result = coterie.run(experiment)
    assert result.joint > 0.7
    assert experiment.protocol == "own:mine"
    assert 'model = "own:Layer"' in experiment.to_toml()
    file = result.model.save(outside / "model.safetensors")
    with pytest.raises(
        InputError, match=r"needs features 'sign', .* coterie\.register\('features', 'sign', …\)\.$"
    ):
        coterie.load(file)
    coterie.register("features", "sign", np.sign)
    coterie.register("model", "Layer", Layer(jnp.zeros((2, 1))))
    x = result.prepared.table.x_test
    np.testing.assert_array_equal(coterie.load(file).scores_of(x), result.model.scores_of(x))


def test_a_file_of_values_that_were_handed_over_says_so(outside):
    text = coterie.Experiment(protocol=SimpleNamespace(name="mine")).to_toml()
    again = from_toml(text)
    with pytest.raises(
        InputError, match=r"^protocol='own:mine': was a value .*coterie\.register\('protocol', 'mine', …\)\.$"
    ):
        coterie.run(again)
    with pytest.raises(
        InputError, match=r"^loss='own:huber': was a value"
    ):  # coterie's own of that name is another
        losses.LOSSES.find("own:huber")(0)


def test_a_record_has_its_own_scores_and_slopes_whatever_a_module_does_to_a_batch():
    """Replacing one record moves the sum by 2 clip norms at most; the sum is that of every record by itself."""
    model = MODELS.find(registry.as_name(Dense()))(dim=3, outputs=1)
    mixing = losses.logistic()._replace(slope=lambda s, y: (s - s.mean(0, keepdims=True)) * y[:, None])
    loss = losses.LOSSES.find(registry.as_name(mixing))(0)
    for problem in (
        Problem(model, losses.logistic(), none()),
        Problem(MODELS.find("linear")(dim=3, outputs=1), loss, none()),
    ):
        params = problem.model.init(jax.random.key(1))
        x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
        other = x.copy()
        other[0] = 1e3
        change = jax.tree.map(jnp.subtract, total(problem, params, x), total(problem, params, other))
        assert np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(change))) <= 0.2 * (1 + 1e-5)
        parts = [total(problem, params, x[at : at + 1]) for at in range(6)]
        added = jax.tree.map(lambda *leaves: sum(leaves), *parts)
        jax.tree.map(
            partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7), total(problem, params, x), added
        )


def total(problem, params, rows):
    many = len(rows)
    return clipped_sum(problem, params, Batch(jnp.asarray(rows), jnp.ones(many), jnp.ones(many)), 0.1)


def test_a_map_that_looks_at_several_rows_is_refused():
    table = load("census")
    for name, bad in {
        "centred": lambda rows: rows - rows.mean(0),
        "ranked": lambda rows: rows.argsort(0),
    }.items():
        bad.__name__ = name
        with pytest.raises(
            InputError, match=rf"^features='own:{name}': a row by itself has other features[^\n]*$"
        ):
            pipeline(registry.as_name(bad), table)
    for bad, why in {
        (lambda rows: rows[:2]): "5 rows became an array of shape",
        (lambda rows: rows @ np.ones(3)): "fails on rows of shape",
    }.items():
        with pytest.raises(InputError, match=rf"^features='own:lambda': {why}[^\n]*$"):
            pipeline(registry.as_name(bad), table)


@pytest.mark.parametrize(
    ("kind", "thing", "why"),
    [
        ("protocol", SimpleNamespace(build=print), "must have Settings, a dataclass, and build"),
        ("loss", SimpleNamespace(), "is a SimpleNamespace; must be a Loss"),
        ("model", SimpleNamespace(), "is a SimpleNamespace; must be a Model, a module"),
        ("topology", SimpleNamespace(), "is a SimpleNamespace; must be a networkx graph"),
        ("features", SimpleNamespace(), "is a SimpleNamespace; must be a FeatureMap"),
        ("data", print, "must be a coterie.problems.datasets.Dataset"),
    ],
)
def test_a_thing_of_another_kind_is_one_line(outside, kind, thing, why):
    with pytest.raises(InputError, match=rf"^{kind}='thing': .*{re.escape(why)}[^\n]*$"):
        coterie.register(kind, "thing", thing)


def test_names_are_taken_once_and_are_words(outside):
    coterie.register("topology", "pairs", nx.path_graph)
    assert topologies.build("pairs", 3).links.tolist() == [[0, 1], [1, 2]]
    for name in ("pairs", "ring"):
        with pytest.raises(InputError, match=f"topology='{name}': there is one of that name already"):
            coterie.register("topology", name, nx.path_graph)
    with pytest.raises(InputError, match="name='a,b': must be one word"):
        coterie.register("features", "a,b", np.sign)
    with pytest.raises(InputError, match="kind='metric': unknown. Choose one of: data, features, loss"):
        coterie.register("metric", "mine", np.mean)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (
            Model("two", 2, lambda key: jnp.zeros(3), lambda params, x: x),
            "gives 2 scores a row; the loss takes 1",
        ),
        (
            Model("flat", 1, lambda key: jnp.zeros(3), lambda params, x: x @ params[:2]),
            r"has no scores of rows of 3",
        ),
        (Model("wide", 1, lambda key: jnp.zeros(3), lambda params, x: x), r"have scores of shape \(2, 3\)"),
        (
            Model("whole", 1, lambda key: jnp.zeros(3, int), lambda params, x: x[:, :1]),
            "must be float32 arrays",
        ),
        (lambda dim: 3, "gave a int, where a Model or a module is due"),
    ],
)
def test_a_model_that_does_not_fit_is_one_line(model, why):
    with pytest.raises(InputError, match=rf"^model='own:\w+': [^\n]*{why}[^\n]*$"):
        MODELS.find(registry.as_name(model))(dim=3, outputs=1)


def test_a_topology_for_other_owners_is_one_line():
    own = registry.as_name(nx.path_graph(3))
    with pytest.raises(InputError, match="topology='own:Graph': has 3 owners, and 4 take part"):
        topologies.build(own, 4)
    with pytest.raises(InputError, match="topology='own:lambda': is a int; must be a networkx graph"):
        topologies.build(registry.as_name(lambda owners: owners), 4)


def test_parameters_go_to_a_file_and_back_by_their_places():
    model = MODELS.find(registry.as_name(Dense))(dim=3, outputs=1)
    params = model.init(jax.random.key(0))
    named = flat(params)
    assert sorted(named) == ["params/Dense_0/bias", "params/Dense_0/kernel"]
    jax.tree.map(np.testing.assert_array_equal, filled(model, named), params)
    with pytest.raises(ValueError, match="its weights are not those of the model"):
        filled(model, {"params/Dense_0/bias": np.zeros(1)})


def test_a_broken_plug_in_is_one_line_and_breaks_nothing_else(outside):
    (outside / "broken.py").write_text("raise RuntimeError('no such\\nlibrary')\n")
    (outside / "other.py").write_text("thing = 3\n")
    world.install(outside)
    entries = {group: {"cracked": "broken:thing", "odd": "other:thing"} for group in GROUPS.values()}
    world.write_info(outside, "broken", "0.1", entries)
    for kind, one in plugins.KINDS.items():
        whose = rf"^{kind}='cracked': the plug-in broken 0\.1 \(entry point cracked = broken:thing\) cannot be loaded "
        with pytest.raises(
            InputError, match=whose + r"\(RuntimeError: no such library\)\. Repair or uninstall it\.$"
        ):
            one.find("cracked")
        with pytest.raises(
            InputError, match=rf"^{kind}='odd': the plug-in broken 0\.1 .* cannot be used: [^\n]*$"
        ):
            one.find("odd")
    assert topologies.build("wheel", 4).name == "wheel"
    listed = CliRunner().invoke(app, ["data", "list"])
    assert listed.exit_code == 0
    assert "tides" in listed.stdout
    assert "census" in listed.stdout
    assert listed.stderr.count("warning: data=") == 2


def test_two_plug_ins_of_one_name_and_one_of_coteries_own(outside):
    world.write_info(outside, "one", "1.0", {"coterie.topologies": {"twice": "math:sin", "ring": "math:cos"}})
    world.write_info(outside, "two", "2.0", {"coterie.topologies": {"twice": "math:tan"}})
    with pytest.warns(UserWarning, match=r"topology='ring': means coterie's own; .* of one 1\.0 is not used"):
        assert topologies.build("ring", 3).name == "ring"
    with pytest.raises(
        InputError, match=r"topology='twice': is an entry point of one 1\.0 and two 2\.0\. Uninstall"
    ):
        topologies.build("twice", 3)


def test_an_unknown_name_is_answered_with_all_there_are(installed):
    for kind, one in plugins.KINDS.items():
        with pytest.raises(InputError, match=rf"^{kind}='xyzzy': unknown\. Choose one of: [^\n]*\.$"):
            one.find("xyzzy")
    with pytest.raises(InputError, match="Did you mean 'smooth_hinge'"):
        losses.LOSSES.find("smoth_hinge")(0)
    assert set(FEATURES) >= {"ball", "squares"}


def test_looking_at_names_imports_nobodys_package(installed):
    for one in plugins.KINDS.values():
        assert "nothing" not in one
        assert len(one) == len(list(one))
    assert "shore" not in sys.modules


def test_help_reads_no_entry_point_and_loads_no_jax():
    code = (
        "import sys\nfrom coterie.cli import main\nsys.argv = ['coterie', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'jax', 'numpy'} & set(sys.modules), 'slow libraries'\n"
        "from coterie import plugins\nassert not any('_plugins' in vars(one) for one in plugins.KINDS.values())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
