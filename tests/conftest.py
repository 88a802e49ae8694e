"""Strictness once, globally: silent promotion of types or ranks is a bug in numerical privacy code."""

import atexit
import ctypes
import gc
import math
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import compiling
import jax
import pytest
from hypothesis import HealthCheck, settings
from typer import testing

from coterie.cli import _cache, _progress

# Reading thousands of tests and all that they import leaves nothing that could be given back: until they are read
# nothing is looked for, and never among what was read.
gc.disable()

# Programs that tests start write as tests read them, whatever terminal `make test` was called from.
os.environ["PYTHONIOENCODING"] = "utf-8"
# They read modules as bytecode, which is kept also where the environment says otherwise: without, each of hundreds of
# programs compiles all of coterie again, two seconds of processor time before its first line.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# A command that takes more than two seconds says so on standard error: on a busy machine any of them, and what tests
# read there would depend on it.
_progress._PATIENCE = math.inf

# A second thread of NumPy's libraries waits by running, on a core that another process of tests needs.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

# Which commands there are, and what each takes, is read from their functions: 38 ms of processor time, and the same
# for all of a thousand calls.
testing._get_command = cache(testing._get_command)

# What tests and the commands they start compile is kept in a folder of this run's own, which processes beside each
# other share: compiling is most of what tests take, and many compile the same. Nothing that an earlier run left, or
# another checkout writes meanwhile, is in it.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["COTERIE_CACHE"] = tempfile.mkdtemp(prefix="coterie-cache-")
    atexit.register(shutil.rmtree, os.environ["COTERIE_CACHE"], ignore_errors=True)
_cache.keep_compiled()

compiling.share_contexts()
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["XLA_FLAGS"] = f"{compiling.QUICK} {os.environ.get('XLA_FLAGS', '')}".strip()

# Where tests are about the last bits of numbers, programs are compiled as users have them.
_AS_USERS_HAVE_THEM = (
    "tests/engines/test_simulate.py",
    "tests/federation/test_randomness.py",
    "tests/mechanisms/",
    "tests/problems_core/test_careful_sums.py",
    "tests/problems_core/test_clipped_sums.py",
    "tests/problems_core/test_clipping_sensitivity.py",
    "tests/problems_core/test_owners_in_turn.py",
    "tests/problems_core/test_places.py",
    "tests/problems_core/test_unit_clipping.py",
)

# What passed once passes again: the same examples every time, however long the machine takes for one. New ones:
# pytest --hypothesis-profile=default.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

# Files whose few tests take longest, first. Begun last, one of them would keep a single core busy at the end. Those
# that mostly wait for processes of their own stand between those that compute, so that no core is idle meanwhile.
_LONG = (
    "tests/engines/test_spmd.py",
    "tests/federation/test_process_faults.py",
    "tests/audit/test_attack.py",
    "tests/federation/test_processes.py",
    "tests/protocols/test_units.py",
    "tests/ui/test_page_server.py",
    "tests/protocols/test_contract.py",
    "tests/federation/test_evaluation_processes.py",
    "tests/extending/test_extending.py",
    "tests/federation/test_new_agreement.py",
    "tests/protocols/test_deep_q.py",
    "tests/federation/test_masked_processes.py",
    "tests/protocols/test_shared.py",
    "tests/federation/test_chaos.py",
    "tests/protocols/test_masked.py",
    "tests/federation/test_tunnel.py",
    "tests/engines/test_spmd_processes.py",
    "tests/federation/test_centre_processes.py",
    "tests/extending/test_gradient_tracking.py",
    "papers/tests/test_resnet_clipping.py",
    "tests/protocols/test_radius.py",
    "tests/experiments/test_trusted_sum.py",
)

collect_ignore_glob = ["*conftest.py"]  # --doctest-modules cannot import several of one name

_MAPS = Path("/proc/self/maps")
# A compiled program takes some, and a megabyte of memory. Linux ends a process that needs more than 65,530
# (vm.max_map_count); four of a quarter of that may need all memory that a machine with two cores has.
_MANY = 6_000


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first; the others as they were, those with most tests first, as pytest-xdist would have them."""
    place = {config.rootpath / name: at for at, name in enumerate(_LONG)}
    assert all(file.exists() for file in place), "tests/conftest.py: _LONG names a file that is not there"
    many = Counter(item.path for item in items)
    items.sort(key=lambda item: (place.get(item.path, len(place)), -many[item.path]))


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, after more objects than usual: tracing programs makes very many."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def keep_small_programs_too() -> None:
    """Tests compile thousands of them; a command that one calls leaves out what is not worth a file to its user."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


@pytest.fixture(autouse=True, scope="module")
def compile_as_users_do(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where that is to be."""
    if not request.path.relative_to(request.config.rootpath).as_posix().startswith(_AS_USERS_HAVE_THEM):
        yield
        return
    with compiling.as_users_do():
        yield


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """After a file of tests, drop what was compiled, where that has become much, and give the memory back."""
    yield
    if _MAPS.exists() and len(_MAPS.read_bytes().splitlines()) > _MANY:
        jax.clear_caches()
        gc.collect()
        getattr(ctypes.CDLL(None), "malloc_trim", lambda spared: None)(
            0
        )  # the C library does so only if told


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT as a terminal gives it, here and in programs started from here: a shell's background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
