"""A network behind a router: what its founder writes is what its parties and its router need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zenoh
from wired import addresses, until

from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.federation import connections, network, party
from coterie.federation.agreement import Agreement
from coterie.federation.transport import trust
from coterie.problems.datasets.schema import Schema


def agreement(*owners: str) -> Agreement:
    return Agreement(
        name="far",
        experiment=Experiment(protocol="dual_averaging", topology="ring", settings={"rounds": 2}),
        schema=Schema(target="y", columns={"x": (-1.0, 1.0)}, classes=("no", "yes")),
        sizes=dict.fromkeys(owners, 9),
    )


def test_parties_of_a_founded_network_meet_at_its_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    router = addresses(["router"])["router"]
    folder = tmp_path / "net"
    planned = network.found(folder, agreement("a", "b", "c"), {}, router)
    network.revoke(folder, "c")
    planned = network.add(folder, "d", 9, 1.0, None)
    monkeypatch.chdir(folder / "router")
    heard: dict[str, list[tuple[str, bytes]]] = {name: [] for name in planned.parties}
    lines = {}
    for name in planned.parties:
        own = party.read(folder / "parties" / name)
        lines[name] = connections.transport(own, planned, trust.identity(own.folder, name))
    with zenoh.open(zenoh.Config.from_file("router.json")):
        try:
            for name, line in lines.items():
                line.open(lambda sender, frame, name=name: heard[name].append((sender, frame)), lambda: None)
            assert until(lambda: all(line.alive() == set(line.admitted) for line in lines.values()))
            for name, line in lines.items():
                assert line.connected() == {"router"}
                for peer in line.admitted:
                    line.send(peer, name.encode())
            expected = {
                name: {(peer, peer.encode()) for peer in line.admitted} for name, line in lines.items()
            }
            assert until(lambda: {name: set(frames) for name, frames in heard.items()} == expected)
        finally:
            for line in lines.values():
                line.close()
    assert planned.parties == ("a", "b", "d")


def test_a_router_s_folder_holds_its_own_key_alone(tmp_path: Path):
    network.found(tmp_path / "net", agreement("a", "b", "c"), {}, "hub.example.org:7447")
    place = tmp_path / "net" / "router"
    assert trust.identity(place, "router").key.stat().st_mode & 0o777 == 0o600
    said = json.loads((place / "router.json").read_text())
    assert said["mode"] == "router"
    assert said["listen"]["endpoints"] == ["tls/0.0.0.0:7447"]
    assert said["access_control"]["default_permission"] == "deny"
    assert said["transport"]["link"]["tls"]["listen_private_key"] == "private.key"


def test_no_owner_takes_the_router_s_name(tmp_path: Path):
    with pytest.raises(InputError, match="'router' is the router's name"):
        network.found(tmp_path / "net", agreement("a", "b", "router"), {}, "hub.example.org:7447")
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize("router", ["hub", "hub:", "hub:0"])
def test_a_router_without_a_port_is_refused(tmp_path: Path, router: str):
    with pytest.raises(InputError, match="must be host:port"):
        network.found(tmp_path / "net", agreement("a", "b", "c"), {}, router)
