"""The public face: short, exact, and loaded only when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import coterie


def test_every_name_is_there_and_no_other():
    assert sorted(coterie.__all__) == sorted(coterie._HOME)
    for name in coterie.__all__:
        assert getattr(coterie, name).__name__ == name if name != "PROTOCOLS" else coterie.PROTOCOLS
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = coterie.nothing  # type: ignore[attr-defined]


def test_importing_has_no_effect():
    code = "import sys, coterie; sys.exit(any(m in sys.modules for m in ('jax', 'numpy', 'dp_accounting')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_training_path_needs_neither_accountant_nor_networkx():
    """A machine with JAX and NumPy alone can train; certificates are made where dp-accounting is."""
    code = (
        "import sys\n"
        "absent = ('dp_accounting', 'networkx', 'scipy', 'sklearn', 'pandas', 'matplotlib')\n"
        "sys.modules.update(dict.fromkeys(absent))\n"
        "import coterie.engines.simulate, coterie.protocols, coterie.problems.problem, coterie.topologies.mixing"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
