"""Strangers and hostile owners against a party in a process of its own: refused, counted, and the run goes on.

Party a is a real process (party.py) with b and c, who run in this one, and has admitted d, an owner with a valid
certificate who does what it likes: a bare Zenoh session without rules of its own. What a thinks of it all is in its
status file, which it writes once a second, and on its standard error.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zenoh
from wired import HOST, LONG, Chorus, addresses, identities, until

from coterie.federation.drive import Driver, FrameTerms, Hooks
from coterie.federation.transport import trust, wire
from coterie.federation.transport.door import DENIED, LAPSED, SOMEBODY, STRANGER, reason_of
from coterie.federation.transport.wire import Kind, Message
from coterie.federation.transport.zenoh import ZenohTransport

AGREEMENT = bytes(range(32))
LONGEST = 10_000
RUN = "r1"
ENDLESS = 10**6


class Scene:
    """The processes, threads and sessions of one run that all tests here share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identities = identities(folder, "abcd")
        self.others = identities(folder / "elsewhere", "bd")
        self.at = addresses("abc")
        self.status = folder / "a.status"
        self._say_what_a_is(folder / "a.json")
        with (folder / "a.log").open("w") as log:
            command = [sys.executable, str(Path(__file__).parent / "party.py"), str(folder / "a.json")]
            self.child = subprocess.Popen(command, stderr=log, stdout=subprocess.PIPE, text=True)
        self.over = False
        self.threads = [threading.Thread(target=self._honest, args=(name,)) for name in "bc"]
        for thread in self.threads:
            thread.start()

    def _say_what_a_is(self, config: Path) -> None:
        said = {
            "name": "a",
            "folder": str(self.identities["a"].key.parent),
            "run": RUN,
            "agreement": AGREEMENT.hex(),
            "admitted": ["b", "c", "d"],
            "listen": self.at["a"],
            "peers": {name: self.at[name] for name in "bc"},
            "voices": ["a", "b", "c"],
            "rounds": ENDLESS,
            "longest": LONGEST,
            "status": str(self.status),
        }
        config.write_text(json.dumps(said))

    def _honest(self, name: str) -> None:
        others = [other for other in "abc" if other != name]
        transport = ZenohTransport(
            self.identities[name],
            run=RUN,
            admitted=others,
            listen=self.at[name],
            peers={other: self.at[other] for other in others},
            longest=LONGEST,
        )
        machine = Chorus(name, "abc", ENDLESS, paced=True)
        hooks = Hooks(print, stop=lambda: self.over)
        Driver(machine, transport, FrameTerms(AGREEMENT, LONGEST), hooks).run()

    def shown(self) -> dict[str, Any]:
        """What a thinks."""
        return json.loads(self.status.read_text()) if self.status.exists() else {"step": 0, "refusals": {}}

    def count(self, what: str) -> int:
        """Refusals whose sender and reason begin like this."""
        return sum(n for reason, n in self.shown()["refusals"].items() if reason.startswith(what))

    def lines(self, about: str) -> list[str]:
        """What a wrote about something."""
        return [line for line in (self.folder / "a.log").read_text().splitlines() if about in line]

    def goes_on(self) -> bool:
        """Whether rounds are completed from now on."""
        before = self.shown()["step"]
        return until(lambda: self.shown()["step"] > before + 5)

    def config(self, identity, **changes) -> zenoh.Config:
        """A session to a with somebody's certificate and without rules of its own."""
        mine = ZenohTransport(identity, run=RUN, admitted="a", peers={"a": self.at["a"]}, longest=LONGEST)
        mine._config.pop("access_control")
        mine._config["transport"]["link"]["tls"] |= changes
        return zenoh.Config.from_json5(json.dumps(mine._config))

    def close(self) -> None:
        self.over = True
        self.child.send_signal(signal.SIGTERM)
        for thread in self.threads:
            thread.join()
        printed, _ = self.child.communicate(timeout=LONG)
        assert (self.child.returncode, printed) == (0, "stopped\n")

    def end(self) -> None:
        """Whatever happened."""
        self.over = True
        self.child.kill()
        self.child.communicate()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    found = Scene(tmp_path_factory.mktemp("scene"))
    try:
        assert until(lambda: found.shown()["step"] > 5)
        yield found
        found.close()
    finally:
        found.end()


class Hostile:
    """An owner whose certificate is as good as anybody's."""

    def __init__(self, session: zenoh.Session) -> None:
        self.session = session

    def say(self, frame: bytes, key: str = f"coterie/{RUN}/d/a") -> None:
        self.session.put(key, frame, congestion_control=zenoh.CongestionControl.BLOCK)

    def tell(self, message: Message, agreement: bytes = AGREEMENT) -> None:
        self.say(wire.encode(message, agreement))


@pytest.fixture(scope="module")
def hostile(scene: Scene) -> Iterator[Hostile]:
    with zenoh.open(scene.config(scene.identities["d"])) as session:
        with session.liveliness().declare_token(f"coterie/{RUN}/d"):
            assert until(lambda: "d" in scene.shown()["alive"])
        found = Hostile(session)
        found.tell(Message(Kind.VALUE, 0))
        assert until(lambda: scene.count("d: before its greeting") == 1)
        found.tell(Message(Kind.HELLO, body=AGREEMENT))
        yield found


def value(step: int, first: float = 1.0, size: int = 8) -> Message:
    numbers = np.full(size, first, np.float32)
    return Message(Kind.VALUE, step, 0, wire.pack({"x": numbers}))


def far(scene: Scene) -> int:
    """A round that a reaches long after these tests."""
    return scene.shown()["step"] + 100_000


def test_another_authority_s_certificate_gets_no_connection(scene: Scene):
    before = scene.count(f"{STRANGER}: no connection")
    with zenoh.open(scene.config(scene.others["b"])) as session:
        assert until(lambda: scene.count(f"{STRANGER}: no connection") > before)
        assert session.info.peers_zid() == []


def test_another_authority_s_certificate_with_the_right_root_gets_no_connection(scene: Scene):
    before = scene.count(f"{STRANGER}: no connection")
    root = str(scene.identities["a"].authority)
    with zenoh.open(scene.config(scene.others["b"], root_ca_certificate=root)) as session:
        assert until(lambda: scene.count(f"{STRANGER}: no connection") > before)
        assert session.info.peers_zid() == []
        session.put(f"coterie/{RUN}/b/a", b"forged")
    assert scene.goes_on()


def test_an_ended_certificate_is_named_as_that_and_not_as_a_stranger_s(scene: Scene, monkeypatch):
    monkeypatch.setattr(trust, "_PARTY_DAYS", -1)
    monkeypatch.setattr(trust, "_SKEW", dt.timedelta(days=2))
    ended = trust.issue(scene.folder / "authority", "e", [HOST], scene.folder / "e")
    when = f"its certificate ended on {trust.end_of(ended.certificate):%Y-%m-%d %H:%M} UTC"
    before = scene.count(STRANGER)
    with zenoh.open(scene.config(ended)):
        assert until(lambda: scene.count(f"{LAPSED}: no connection") > 0)
    assert until(lambda: any(when in line for line in scene.lines(LAPSED)))
    assert scene.count(STRANGER) == before


def dial(scene: Scene) -> socket.socket:
    host, port = scene.at["a"].split(":")
    return socket.create_connection((host, int(port)), timeout=LONG)


def test_no_certificate_gets_no_connection(scene: Scene):
    before = scene.count(f"{STRANGER}: no connection")
    context = ssl.create_default_context(cafile=str(scene.identities["a"].authority))
    with (
        dial(scene) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as secured,
        pytest.raises(ssl.SSLError, match="certificate required"),
    ):
        secured.recv(1)
    assert until(lambda: scene.count(f"{STRANGER}: no connection") > before)


def test_plain_tcp_gets_no_connection(scene: Scene):
    before = scene.count(f"{STRANGER}: no connection")
    with dial(scene) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        plain.settimeout(LONG)
        heard = plain.recv(100)
    assert heard[:1] in (b"", b"\x15")  # nothing, or an alert of TLS
    assert until(lambda: scene.count(f"{STRANGER}: no connection") > before)
    config = zenoh.Config.from_json5(json.dumps({"mode": "peer", "listen": {"endpoints": []}}))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("connect/endpoints", json.dumps([f"tcp/{scene.at['a']}"]))
    with zenoh.open(config) as session:
        assert session.info.peers_zid() == []


def test_a_valid_owner_cannot_speak_as_another(scene: Scene, hostile: Hostile):
    before, step = scene.count(SOMEBODY), far(scene)
    for key in (f"coterie/{RUN}/*/a", f"coterie/{RUN}/**", "**"):
        hostile.say(wire.encode(value(step), AGREEMENT), key)
    assert until(lambda: scene.count(SOMEBODY) >= before + 3)
    hostile.tell(value(step))
    hostile.tell(value(step))  # the first under its own name was new: none of those above was heard
    assert until(lambda: scene.count("d: replayed") == 1)


def test_the_receiver_s_own_rule_denies_another_s_name(scene: Scene, tmp_path: Path):
    """Even where a forger knew that somebody listens, which Zenoh tells it no more than the key's own parties."""
    heard: list[tuple[str, bytes]] = []
    at = addresses("a")["a"]
    a = ZenohTransport(scene.identities["a"], run="r2", admitted="bd", listen=at, longest=LONGEST)
    a._config["access_control"]["rules"] += [
        {
            "id": "indiscreet",
            "permission": "allow",
            "flows": ["egress"],
            "messages": ["declare_subscriber"],
            "key_exprs": ["coterie/r2/**"],
        }
    ]
    a._config["access_control"]["policies"] += [{"rules": ["indiscreet"], "subjects": ["d"]}]
    a.open(lambda sender, frame: heard.append((sender, frame)))
    config = scene.config(scene.identities["d"])
    config.insert_json5("connect/endpoints", json.dumps([f"tls/{at}"]))
    try:
        with zenoh.open(config) as session:
            assert until(lambda: a.connected() == {"d"})
            publisher = session.declare_publisher("coterie/r2/b/a")
            assert until(lambda: publisher.matching_status.matching)
            publisher.put(b"forged")
            session.put("coterie/r2/d/a", b"own")
            assert until(lambda: len(heard) > 0)
            time.sleep(0.2)
        assert heard == [("d", b"own")]
    finally:
        a.close()


def test_a_key_that_is_only_like_a_peer_s_is_not_its_word(scene: Scene):
    """What holds where access control has failed: it is switched off here."""
    heard: list[tuple[str, bytes]] = []
    at = addresses("a")["a"]
    a = ZenohTransport(scene.identities["a"], run="r3", admitted="b", listen=at, longest=LONGEST)
    a._config["access_control"]["default_permission"] = "allow"
    a.open(lambda sender, frame: heard.append((sender, frame)))
    config = scene.config(scene.identities["d"])
    config.insert_json5("connect/endpoints", json.dumps([f"tls/{at}"]))
    try:
        with zenoh.open(config) as session:
            assert until(lambda: a.connected() == {"d"})
            session.put("coterie/r3/*/a", b"forged")
            session.delete("coterie/r3/b/a")
            assert until(lambda: a.forged() == {"b": 2})
        assert heard == []
    finally:
        a.close()


def test_a_valid_owner_hears_nothing_that_is_for_others(scene: Scene, hostile: Hostile):
    heard: list[str] = []
    with hostile.session.declare_subscriber("**", lambda sample: heard.append(str(sample.key_expr))):
        assert scene.goes_on()
    assert set(heard) <= {f"coterie/{RUN}/a/d"}


def test_a_valid_owner_cannot_pretend_that_another_is_there(scene: Scene, hostile: Hostile):
    before = scene.count(SOMEBODY)
    with hostile.session.liveliness().declare_token(f"coterie/{RUN}/stranger"):
        assert until(lambda: scene.count(SOMEBODY) > before)
    assert set(scene.shown()["alive"]) <= {"b", "c", "d"}


BAD = {
    "oversized": [bytes(LONGEST + 1)],
    "malformed": [b"\xc1", wire.encode(value(1), AGREEMENT)[:-1]],
    "wrong shape": [wire.encode(value(ENDLESS - 1, size=7), AGREEMENT)],
    "not finite": [wire.encode(value(ENDLESS - 1, bad), AGREEMENT) for bad in (np.nan, np.inf)],
    "replayed": [wire.encode(value(0), AGREEMENT)],
    "step": [wire.encode(m, AGREEMENT) for m in (value(ENDLESS), Message(Kind.WANT, ENDLESS))],
    "unexpected": [wire.encode(Message(Kind.SUM, 1), AGREEMENT)],
    "another agreement": [wire.encode(m, bytes(32)) for m in (value(1), Message(Kind.HELLO, body=bytes(32)))],
}


@pytest.fixture(scope="module")
def grown(scene: Scene, hostile: Hostile) -> dict[str, int]:
    """By how much the count of each reason grew after all bad frames."""
    before = {reason: scene.count(f"d: {reason}") for reason in BAD}
    for frames in BAD.values():
        for frame in frames:
            hostile.say(frame)
    hostile.tell(Message(Kind.QUERY))
    assert until(lambda: scene.count("d: unexpected") >= before["unexpected"] + 2)
    return {reason: scene.count(f"d: {reason}") - before[reason] for reason in BAD}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_frame_of_a_valid_owner_is_refused_by_its_reason(grown: dict[str, int], reason: str):
    assert grown[reason] == len(BAD[reason]) + (reason == "unexpected")


def test_the_run_went_on(scene: Scene, hostile: Hostile):
    assert scene.goes_on()
    assert sum("another agreement" in line for line in scene.lines("d ")) == 1
    assert set(scene.shown()["connected"]) >= {"b", "c", "d"}


def test_a_flood_of_a_valid_owner_stops_nobody(scene: Scene, hostile: Hostile):
    shown, log = scene.shown(), len(scene.lines("malformed"))
    before = scene.count("d: malformed") + shown["dropped"].get("d", 0)
    began, sent = time.monotonic(), 0

    def burst() -> bool:
        """10,000 a second on a machine that has the time; whether rounds went on meanwhile."""
        nonlocal sent
        for _ in range(500):
            hostile.say(b"\xc1junk")
        sent += 500
        time.sleep(0.05)
        return sent >= 20_000 and scene.shown()["step"] > shown["step"] + 5

    assert until(burst)
    assert until(lambda: scene.count("d: malformed") + scene.shown()["dropped"].get("d", 0) >= before + sent)
    lines = len(scene.lines("malformed")) - log
    assert lines <= time.monotonic() - began + 2  # one a second
    assert scene.goes_on()
    assert "b" not in scene.shown()["dropped"]


def junk(plain: socket.socket, messages: int) -> int:
    """How many messages went out before the other end had enough."""
    for sent in range(messages):
        try:
            plain.sendall(b"\xc1junk" * 10)
        except OSError:
            return sent
    return messages


def test_a_flood_on_the_port_stops_nobody(scene: Scene):
    shown, log = scene.shown(), len(scene.lines("corrupt"))
    before = scene.count(f"{STRANGER}: no connection")
    began, connections, sent = time.monotonic(), 0, 0

    def burst() -> bool:
        """Another connection, ten a second; whether there were enough of them, and rounds went on meanwhile."""
        nonlocal connections, sent
        with dial(scene) as plain:
            sent += junk(plain, 1_000)
        connections += 1
        time.sleep(0.1)
        return connections >= 20 and sent > 5_000 and scene.shown()["step"] > shown["step"]

    assert until(burst)
    assert until(lambda: scene.count(f"{STRANGER}: no connection") > before)
    assert scene.goes_on()
    lines = len(scene.lines("corrupt")) - log
    assert lines <= time.monotonic() - began + 2  # one a second


def test_no_line_shows_a_key_or_a_value(scene: Scene):
    log = (scene.folder / "a.log").read_text()
    secret = scene.identities["a"].key.read_text().splitlines()[1]
    assert secret not in log
    assert "private.key" not in log
    assert "[1. 1." not in log


def test_zenoh_s_lines_are_understood():
    dim = "\x1b[2m{}\x1b[0m"
    tls = f"{dim.format('2026')} \x1b[33m WARN\x1b[0m acc-0 ThreadId(05) {dim.format('zenoh_link_tls::unicast')}"
    tls += f"{dim.format(':')} peer sent no certificates. Hint: increase the system open file limit.\n"
    assert reason_of(tls.encode()) == (STRANGER, "no connection: peer sent no certificates")
    ended = tls.replace(
        "peer sent no certificates", "certificate expired: x not valid after 1794826442 (2 seconds ago)"
    )
    on = "no connection: its certificate ended on 2026-11-16 10:54 UTC"
    assert reason_of(ended.encode()) == (LAPSED, on)
    assert reason_of(ended.encode(), {1794826442: "b"}) == ("b", on)
    own = tls.replace("peer sent no certificates", "received fatal alert: CertificateExpired")
    assert reason_of(own.encode()) == (
        SOMEBODY,
        "no connection: it says that this node's certificate has ended",
    )
    denied = "TRACE  rx-0 ThreadId(10) zenoh::net::routing::interceptor: Msg intercepted!"
    assert reason_of(denied.encode()) == (SOMEBODY, DENIED)
    assert reason_of(denied.replace("rx-0", "").encode()) is None
    assert reason_of(b"what else \xff") is None
