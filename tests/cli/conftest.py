"""One small run that many tests look at: compiling is what costs time here."""

from pathlib import Path

import pytest
from cli_world import Ran, coterie, on, write_visits


@pytest.fixture(scope="session")
def visits(tmp_path_factory) -> Path:
    return write_visits(tmp_path_factory.mktemp("data") / "visits.csv")


@pytest.fixture(scope="session")
def ran(visits, tmp_path_factory) -> Ran:
    out = tmp_path_factory.mktemp("runs") / "first"
    return coterie(*on(visits), "--epsilon", "0.5,1,2,4", "--json", "--out", out, out=out)
