"""A network behind a router: what its founder writes is what its parties and its router need."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import zenoh
from wired import addresses, until

from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.federation import connections, consent, network, party
from coterie.federation.agreement import Agreement
from coterie.federation.transport import requests, trust
from coterie.federation.transport.zenoh import ZenohTransport
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
    """It is a setting of node.toml, too, and refused as one."""
    with pytest.raises(InputError, match="name='router': is what node.toml calls a setting"):
        network.found(tmp_path / "net", agreement("a", "b", "router"), {}, "hub.example.org:7447")
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize("router", ["hub", "hub:", "hub:0"])
def test_a_router_without_a_port_is_refused(tmp_path: Path, router: str):
    with pytest.raises(InputError, match="must be host:port"):
        network.found(tmp_path / "net", agreement("a", "b", "c"), {}, router)


def sealed_behind_a_router(folder: Path, router: str) -> dict[str, ZenohTransport]:
    """Two owners who made their keys at home and have signed, and know each other over a router alone."""
    asked = {name: requests.make(folder / "home" / name, name) for name in ("a", "b")}
    planned = network.found(folder / "net", agreement("a", "b"), {}, router, asked=asked)
    for name in planned.parties:
        shutil.copy(folder / "home" / name / "private.key", folder / "net" / "parties" / name)
    signed = [consent.sign(folder / "net" / "parties" / name, name, planned.agreement) for name in "ab"]
    network.enter_consents(folder / "net", signed)
    owners = [party.read(folder / "net" / "parties" / name) for name in planned.parties]
    return {
        own.name: connections.transport(own, planned, trust.identity(own.folder, own.name)) for own in owners
    }


def test_who_keeps_the_router_reads_and_forges_nothing_between_sealed_owners(tmp_path, monkeypatch):
    """A keeper who changed its router: no access control, it hears everything, and says everything it likes."""
    router = addresses(["router"])["router"]
    lines = sealed_behind_a_router(tmp_path, router)
    heard: list[tuple[str, bytes]] = []
    caught: list[tuple[str, bytes]] = []

    def spoken() -> bool:
        lines["b"].send("a", b"what b says")
        return bool(caught and heard)

    monkeypatch.chdir(tmp_path / "net" / "router")
    changed = json.loads(Path("router.json").read_text())
    del changed["access_control"]
    with zenoh.open(zenoh.Config.from_json5(json.dumps(changed))) as keeper:
        ear = keeper.declare_subscriber(
            "coterie/**", lambda one: caught.append((str(one.key_expr), one.payload.to_bytes()))
        )
        try:
            lines["a"].open(lambda sender, frame: heard.append((sender, frame)))
            lines["b"].open(lambda sender, frame: None)
            assert until(spoken)
            key, frame = caught[0]
            assert key.endswith("/b/a")
            assert all(b"what b says" not in one for _, one in caught)
            lies = [b"what b says", frame[:-1] + bytes([frame[-1] ^ 1]), bytes(len(frame)), b""]
            for one in lies:
                keeper.put(key, one)
            assert until(lambda: lines["a"].forged().get("b", 0) == len(lies))
            assert set(heard) == {("b", b"what b says")}
        finally:
            ear.undeclare()
            for line in lines.values():
                line.close()
