"""Peers over Zenoh with mutual TLS: who hears whom, and who is there. All on this machine's own address."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from wired import LONG, Chorus, addresses, identities, until

from coterie.errors import InputError
from coterie.federation.drive import Driver, FrameTerms, Hooks
from coterie.federation.transport.zenoh import ZenohTransport, access, router_access, router_config

NAMES = ("a", "b", "c")
LONGEST = 10_000


class Heard(list[tuple[str, bytes]]):
    """What one party heard."""

    def __call__(self, sender: str, frame: bytes) -> None:
        self.append((sender, frame))


class Peers:
    """Three parties who all dial each other."""

    def __init__(self, folder: Path) -> None:
        self.identities = identities(folder, [*NAMES, "router"])
        self.at = addresses([*NAMES, "router"])
        self.heard = {name: Heard() for name in NAMES}
        self.transports = {name: self.party(name) for name in NAMES}
        for name in NAMES:
            self.transports[name].open(self.heard[name])

    def party(self, name: str, **options) -> ZenohTransport:
        others = [other for other in NAMES if other != name]
        given = {"listen": self.at[name], "peers": {other: self.at[other] for other in others}} | options
        return ZenohTransport(self.identities[name], run="r1", admitted=others, longest=LONGEST, **given)


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    with pytest.MonkeyPatch.context() as patched:
        # A full queue is waited for: what is tested here is not how fast this machine empties it. Not for ever: a link
        # that ends over a frame may leave one full, and until it is given up nothing else is heard.
        patched.setattr("coterie.federation.transport.zenoh._PATIENCE", 10_000_000)
        found = Peers(tmp_path_factory.mktemp("peers"))
        try:
            assert until(lambda: all(len(one.alive()) == 2 for one in found.transports.values()))
            yield found
        finally:
            for one in found.transports.values():
                one.close()


def test_a_frame_reaches_its_addressee_alone(peers: Peers):
    for sender in NAMES:
        for receiver in NAMES:
            if sender != receiver:
                peers.transports[sender].send(receiver, f"{sender} to {receiver}".encode())
    expected = {name: sorted((s, f"{s} to {name}".encode()) for s in NAMES if s != name) for name in NAMES}
    assert until(lambda: {name: sorted(heard) for name, heard in peers.heard.items()} == expected)
    time.sleep(0.2)
    assert {name: sorted(heard) for name, heard in peers.heard.items()} == expected


def test_connections_bear_the_names_of_certificates(peers: Peers):
    assert peers.transports["a"].connected() == {"b", "c"}


def test_frames_keep_their_order_and_content(peers: Peers):
    peers.heard["b"].clear()
    frames = [bytes([k]) * (k * 50) for k in range(1, 200)]
    for frame in frames:
        peers.transports["a"].send("b", frame)
    assert until(lambda: len(peers.heard["b"]) == len(frames))
    assert [frame for _, frame in peers.heard["b"]] == frames


def test_a_frame_far_beyond_the_longest_is_not_even_received(peers: Peers):
    peers.heard["b"].clear()
    peers.transports["a"].send("b", bytes(50 * LONGEST))
    peers.transports["a"].send("b", bytes(LONGEST + 1))  # this one is, so that it is counted
    peers.transports["a"].send("b", b"end")
    assert until(lambda: ("a", b"end") in peers.heard["b"])
    assert [len(frame) for _, frame in peers.heard["b"]] == [LONGEST + 1, 3]


def test_who_leaves_is_missed_and_who_returns_is_seen(peers: Peers):
    peers.transports["c"].close()
    assert until(lambda: "c" not in peers.transports["a"].alive() | peers.transports["b"].alive())
    peers.transports["a"].send("c", b"lost")  # nobody is there: no error, no wait
    peers.heard["c"].clear()
    peers.transports["c"] = peers.party("c")
    peers.transports["c"].open(peers.heard["c"])
    assert until(lambda: "c" in peers.transports["a"].alive() & peers.transports["b"].alive())
    peers.transports["a"].send("c", b"found")
    assert until(lambda: peers.heard["c"] == [("a", b"found")])


def test_what_was_sent_before_closing_arrives(peers: Peers):
    peers.heard["a"].clear()
    for _ in range(20):
        peers.transports["b"].send("a", bytes(LONGEST))
    peers.transports["b"].close()
    assert until(lambda: len(peers.heard["a"]) == 20)
    peers.transports["b"] = peers.party("b")
    peers.transports["b"].open(peers.heard["b"])
    assert until(lambda: "b" in peers.transports["a"].alive())


def test_a_port_that_is_taken_is_named(peers: Peers):
    with pytest.raises(
        InputError, match=f"listen=tls/{peers.at['a']}: cannot listen there.*in use.*--address NAME=HOST:PORT"
    ) as caught:
        peers.party("a").open(Heard())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":7447", "host:0", "host:65536", "tcp/host:1", "h:1#x"]
)
def test_an_address_without_a_port_is_refused(peers: Peers, address: str):
    with pytest.raises(InputError, match="must be host:port"):
        peers.party("a", listen=address)


def test_who_is_not_admitted_is_not_dialled(peers: Peers):
    with pytest.raises(InputError, match="'d' is not admitted"):
        peers.party("a", peers={"d": "127.0.0.1:1"})


def allowed(rules: dict, subject: str, flow: str, message: str) -> set[str]:
    """The keys that a connection of `subject` may use."""
    policies = [policy["rules"] for policy in rules["policies"] if policy["subjects"] == [subject]]
    granted = {rule for one in policies for rule in one}
    return {
        key
        for rule in rules["rules"]
        if rule["id"] in granted and rule["flows"] == [flow] and message in rule["messages"]
        for key in rule["key_exprs"]
    }


def test_access_is_what_two_names_are_to_each_other():
    rules = access("a", ["b", "c"], "r1")
    assert rules["enabled"] is True
    assert rules["default_permission"] == "deny"
    assert all(rule["permission"] == "allow" for rule in rules["rules"])
    assert [subject["cert_common_names"] for subject in rules["subjects"]] == [["b"], ["c"]]
    for peer in "bc":
        assert allowed(rules, peer, "ingress", "put") == {f"coterie/r1/{peer}/a"}
        assert allowed(rules, peer, "egress", "put") == {f"coterie/r1/a/{peer}"}
        assert allowed(rules, peer, "ingress", "liveliness_token") == {f"coterie/r1/{peer}"}
    assert not any("*" in key for rule in rules["rules"] for key in rule["key_exprs"])
    spoken = {message for rule in rules["rules"] for message in rule["messages"]}
    assert spoken.isdisjoint({"query", "reply", "delete", "declare_queryable"})


def test_through_a_router_nobody_else_is_heard():
    rules = access("a", ["b", "c"], "r1", through="router")
    assert [subject["cert_common_names"] for subject in rules["subjects"]] == [["router"]]
    assert allowed(rules, "router", "ingress", "put") == {"coterie/r1/b/a", "coterie/r1/c/a"}


def test_a_router_lets_each_party_speak_as_itself():
    rules = router_access(NAMES, "r1")
    assert allowed(rules, "a", "ingress", "put") == {"coterie/r1/a/b", "coterie/r1/a/c"}
    assert allowed(rules, "a", "egress", "put") == {"coterie/r1/b/a", "coterie/r1/c/a"}


def test_parties_meet_through_a_router(peers: Peers):
    import zenoh

    given = router_config(peers.identities["router"], peers.at["router"], ["b", "c"], "r2", LONGEST)
    heard = {name: Heard() for name in "bc"}
    through = {
        name: ZenohTransport(
            peers.identities[name], run="r2", admitted=other, router=peers.at["router"], longest=LONGEST
        )
        for name, other in (("b", "c"), ("c", "b"))
    }
    with zenoh.open(zenoh.Config.from_json5(given)):
        try:
            for name, one in through.items():
                one.open(heard[name])
            assert until(lambda: all(one.alive() for one in through.values()))
            assert through["b"].connected() == {"router"}
            through["b"].send("c", b"far")
            assert until(lambda: heard["c"] == [("b", b"far")])
            assert heard["b"] == []
            forge_through_a_router(peers, heard)
        finally:
            for one in through.values():
                one.close()


def forge_through_a_router(peers: Peers, heard: dict[str, Heard]) -> None:
    """A valid owner without rules of its own says something as another one, and then as itself."""
    import zenoh

    forger = ZenohTransport(
        peers.identities["b"], run="r2", admitted="c", router=peers.at["router"], longest=LONGEST
    )._config
    del forger["access_control"]
    with zenoh.open(zenoh.Config.from_json5(json.dumps(forger))) as session:
        session.put("coterie/r2/c/b", b"forged")
        session.put("coterie/r2/*/b", b"forged")
        session.put("coterie/r2/b/c", b"own")
        assert until(lambda: ("b", b"own") in heard["c"])
    assert heard == {"b": [], "c": [("b", b"far"), ("b", b"own")]}


def test_a_router_goes_with_nothing_else_and_must_answer(peers: Peers, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match="Give no listen and no peers"):
        peers.party("a", router="127.0.0.1:1")
    monkeypatch.setattr("coterie.federation.transport.zenoh._ROUTER_WAIT", 300)
    lonely = ZenohTransport(peers.identities["a"], run="r2", admitted="b", router="127.0.0.1:1", longest=9)
    with pytest.raises(InputError, match="router=tls/127.0.0.1:1: no answer"):
        lonely.open(Heard())


def test_two_processes_finish_together_and_a_third_is_stopped(peers: Peers, tmp_path: Path):
    """Real processes: two of three parties end their chorus, the third listens until SIGTERM."""
    at = addresses(NAMES)
    children = {}
    for name in NAMES:
        others = (
            [other for other in NAMES if other != name] if name == "c" else [n for n in "ab" if n != name]
        )
        said = {
            "name": name,
            "folder": str(peers.identities[name].key.parent),
            "run": "r3",
            "agreement": "ab" * 32,
            "admitted": others,
            "listen": at[name],
            "peers": {other: at[other] for other in others},
            "voices": NAMES if name == "c" else ["a", "b"],
            "rounds": 5,
            "longest": LONGEST,
            "status": str(tmp_path / f"{name}.status"),
        }
        (tmp_path / name).write_text(json.dumps(said))
        script = str(Path(__file__).parent / "party.py")
        command = [sys.executable, script, str(tmp_path / name)]
        children[name] = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
    try:
        for name in "ab":
            out, errors = children[name].communicate(timeout=LONG)
            assert (children[name].returncode, out) == (0, "finished\n"), errors
            assert "PRIVATE" not in errors
            assert json.loads((tmp_path / f"{name}.status").read_text())["state"] == "finished"
        assert until((tmp_path / "c.status").exists)  # it listens to signals from a moment before that
        children["c"].send_signal(signal.SIGTERM)
        out, errors = children["c"].communicate(timeout=LONG)
        assert (children["c"].returncode, out) == (0, "stopped\n"), errors
        assert json.loads((tmp_path / "c.status").read_text())["state"] == "stopped"
    finally:
        for child in children.values():
            child.kill()
            child.wait()


def test_a_run_over_tls_hears_what_was_said(peers: Peers):
    import threading

    machines = {name: Chorus(name, NAMES, 30) for name in NAMES}
    at = addresses(NAMES)
    results: dict[str, bool] = {}

    def run(name: str) -> None:
        others = [other for other in NAMES if other != name]
        transport = ZenohTransport(
            peers.identities[name],
            run="r4",
            admitted=others,
            listen=at[name],
            peers={other: at[other] for other in others if other < name},  # one of two dials
            longest=LONGEST,
        )
        results[name] = Driver(
            machines[name], transport, FrameTerms(bytes(32), LONGEST, LONG), Hooks(print)
        ).run()

    threads = [threading.Thread(target=run, args=(name,)) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert results == dict.fromkeys(NAMES, True)
    for machine in machines.values():
        assert {key[0]: value - key[1] for key, value in machine.heard.items()} == {
            voice: float(ord(voice)) for voice in machine.voices
        }
        assert len(machine.heard) == 60
