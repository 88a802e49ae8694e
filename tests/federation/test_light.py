"""What a node of a linear model does without: libraries, programs, and what its start-up took of memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from parties import Trial

from coterie.accounting.late import import_events
from coterie.federation import node, party

OF_SCIPY = ("fft", "linalg", "optimize", "signal", "sparse", "special", "stats")
HEAVY = (
    "matplotlib.",
    "networkx.",
    "pandas.",
    "pyarrow.",
    "sklearn.",
    *(f"scipy.{part}." for part in OF_SCIPY),
)
NEEDED = ("jax", "dp_accounting.dp_event", "zenoh")
# What starts an owner, what a round calls, and matmul: the metric on one's own records.
COMPILED = ["_made", "_said", "_updated", "matmul"]


def test_a_node_loads_no_library_that_only_reading_or_certifying_others_needs(tmp_path):
    """Of a real process, by the interpreter's own list of what it imported; and it compiles what a round calls."""
    trial = Trial(tmp_path, (12, 9), protocol="dual_averaging", settings={"rounds": 3}, topology="ring")
    nodes = [_node(trial, name) for name in trial.names]
    try:
        ended = [node.wait(400) for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    told = (tmp_path / "owner-0.log").read_text()
    assert ended == [0, 0], told[-2000:]
    loaded = set(re.findall(r"^import time:.*\|\s*(\S+)$", told, re.MULTILINE))
    assert loaded >= set(NEEDED)
    assert not [name for name in loaded if f"{name}.".startswith(HEAVY)]
    assert re.findall(r"Compiling jit\((\w+)\)", told) == COMPILED


def _node(trial: Trial, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-X", "importtime", "-m", "coterie", "node", str(trial.place(name))]
    with (trial.folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--data", str(trial.folder / f"{name}.csv")],
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=os.environ | {"JAX_LOG_COMPILES": "1"},
        )


def test_what_each_part_of_the_way_to_the_first_round_took_is_given_back(tmp_path):
    """Once the run is planned, and once the records are read and the owner's programs compiled."""
    trial = Trial(tmp_path, (12, 9), protocol="dual_averaging", settings={"rounds": 3}, topology="ring")
    own, given = party.read(trial.place("owner-0")), []

    def between() -> None:
        given.append((bool([*own.folder.glob("journal-*")]), own.ledger.exists()))

    found = node.run(
        own,
        trial.folder / "owner-0.csv",
        node.Host(log=lambda line: None, stop=lambda: True, between=between),
    )
    assert (given, found.finished) == ([(False, False), (True, True)], False)


LATE = """
import sys
from coterie.accounting.late import import_events
import_events()
assert "dp_accounting" in sys.modules
assert not [name for name in sys.modules if name.startswith("scipy.stats") or name.startswith("scipy.optimize")]
import dp_accounting as dp
from coterie.accounting import certify
plain = dp.SelfComposedDpEvent(dp.GaussianDpEvent(40.0), 100)
print(certify(plain, delta=1e-5).epsilon, "scipy.stats" in sys.modules)
sampled = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(4.0)), 100)
print(certify(sampled, delta=1e-5, relation="add_or_remove_one").epsilon, "scipy.stats" in sys.modules)
print(dp.get_epsilon_gaussian(2.0, 1e-5), dp.pld.PLDAccountant().compose(dp.LaplaceDpEvent(2.0)).get_epsilon(1e-5))
"""


def test_scipy_comes_when_something_asks_for_it_and_changes_no_number():
    late = _said(LATE)
    at_once = _said(
        "import scipy.stats\n"
        + LATE.replace("import_events()\nassert", "import dp_accounting\nassert").replace(
            "assert not [", "assert ["
        )
    )
    assert [line.split()[-1] for line in late[:2]] == ["False", "True"]
    assert [line.split()[0] for line in late] == [line.split()[0] for line in at_once]
    assert late[2] == at_once[2]


def test_what_is_there_already_is_left_alone():
    import dp_accounting
    import scipy.stats

    import_events()
    assert sys.modules["dp_accounting"] is dp_accounting
    assert type(sys.modules["scipy.stats"]) is type(scipy)


def _said(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


GIVING = """
import jax, jax.numpy as jnp
from coterie.cli._footprint import give_back
assert jax.jit(lambda x: (x @ x).sum())(jnp.ones((8, 8))) == 512
resident = lambda: int(open("/proc/self/statm").read().split()[1])
before = resident()
stretches = give_back()
print(stretches, before - resident())
assert jax.jit(lambda x: (x @ x).sum() + 1)(jnp.ones((8, 8))) == 513
"""


def test_code_is_given_back_and_goes_on_working():
    stretches, pages = map(int, _said(GIVING)[0].split())
    assert stretches > 10
    assert pages * 4096 > 30e6


COMPILING = """
import jax, jax.numpy as jnp
from coterie.cli import _footprint
gave, give_back = [], _footprint.give_back
_footprint.give_back = lambda: gave.append(give_back())
_footprint._LONG = 0.0  # however fast the machine, and however little the compiler tries here
programs = [jax.jit(lambda x, n=n: jnp.sort(x @ x, 0).sum() + n) for n in range(3)]
given = jnp.ones((8, 8))
with _footprint.compiling():
    for program in programs[:2]:
        program(given)
        print(len(gave))
    program(given)
    print(len(gave))
programs[2](given)
print(len(gave), min(gave) > 10)
"""


def test_what_compiling_takes_is_given_back_before_and_after_each_program_but_the_first():
    """Where nothing is kept: of the first one, nobody knows before it is built."""
    assert _said(COMPILING) == ["1", "3", "3", "3 True"]


IMPORTING = """
import gc
from coterie.cli import _footprint
with _footprint.importing():
    looking = gc.isenabled()
    import jax
print(looking, gc.isenabled(), gc.get_freeze_count() > 100_000)
"""


def test_nothing_that_is_imported_is_taken_for_garbage():
    assert _said(IMPORTING) == ["False True True"]
