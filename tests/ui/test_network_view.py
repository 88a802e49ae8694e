"""A node's status as the page shows it: read-only, in the terminal's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie.errors import InputError
from coterie.ui import shown

NOW = 1_800_000_000.0
SNAPSHOT: dict[str, Any] = {
    "name": "north", "state": "running", "time": NOW - 2, "step": 12, "of": 260, "waiting_for": ["south"], "note": "",
    "peers": ["south"], "alive": [], "silent": {"south": 4.0}, "clocks": {}, "finished": [], "refusals": {},
    "certificates": {"north": "2027-01-25T08:00:00+00:00"}, "troubles": ["south is late"], "releases": 12,
    "epsilon_spent": 0.25001, "epsilon_budget": 1.0,
}  # fmt: skip


def test_rounds_waiting_budget_and_certificate_are_told():
    found = shown.party(SNAPSHOT, NOW)
    assert (found["step"], found["of"], found["waiting_for"]) == (12, 260, ["south"])
    assert found["gauge"]["words"] == "ε 0.2501 of 1"  # never below what was spent
    assert found["certificate_days"] == pytest.approx(10, abs=0.1)
    assert "waits for south" in found["words"]
    assert "trouble: south is late" in found["below"]
    assert found["peers"] == [["south", "NO", "4.0 s ago", "", ""]]


def test_a_folder_is_a_partys_or_a_networks(tmp_path):
    with pytest.raises(InputError, match="neither"):
        shown.node(str(tmp_path))
    (tmp_path / "node.toml").touch()
    assert shown.node(str(tmp_path))["parties"] == [{"name": tmp_path.name, "state": "not started"}]
    (tmp_path / "status.json").write_text(json.dumps(SNAPSHOT))
    assert shown.node(str(tmp_path))["parties"][0]["step"] == 12


def test_a_status_of_another_kind_is_named(tmp_path):
    (tmp_path / "node.toml").touch()
    (tmp_path / "status.json").write_text(json.dumps({"name": "x", "state": "y", "step": 1}))
    with pytest.raises(InputError, match=r"status\.json"):
        shown.node(str(tmp_path))
    (tmp_path / "status.json").write_text("[]")
    with pytest.raises(InputError, match=r"status\.json"):
        shown.node(str(tmp_path))
