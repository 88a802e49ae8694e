"""Every way in which a peer cannot be reached has words of its own."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wired import HOST, LONG, identities

from coterie.federation.transport import probe as probes
from coterie.federation.transport import trust, tunnel
from coterie.federation.transport.probe import Unreached, probe
from coterie.federation.transport.trust import Identity


@contextmanager
def answering(answer) -> Iterator[tuple[str, list[bytes]]]:
    """Somebody who listens: its address, and what it was told."""
    heard: list[bytes] = []

    def serve() -> None:
        plain, _ = server.accept()
        with plain:
            plain.settimeout(LONG)
            try:
                heard.append(answer(plain))
            except OSError:
                heard.append(b"")

    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"{HOST}:{server.getsockname()[1]}", heard
        thread.join()


def tls(own: Identity, admits: Path):
    """What a node does with who dials it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    context.load_verify_locations(admits)
    context.verify_mode = ssl.CERT_REQUIRED

    def answer(plain: socket.socket) -> bytes:
        with context.wrap_socket(plain, server_side=True) as secured:
            return secured.recv(100)

    return answer


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is there has the time that it needs to shake hands, whatever else this machine does."""
    monkeypatch.setattr(tunnel, "PATIENCE", LONG)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    folder = tmp_path_factory.mktemp("people")
    found = identities(folder, ("me", "b", "c"))
    found["stranger"] = identities(folder / "elsewhere", ("b",))["b"]
    found["moved"] = trust.issue(folder / "authority", "b", ["10.9.9.9"], folder / "moved")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trust, "_PARTY_DAYS", -1)
        patched.setattr(trust, "_SKEW", dt.timedelta(days=2))
        found["ended"] = trust.issue(folder / "authority", "b", [HOST], folder / "ended")
        patched.setattr(trust, "_PARTY_DAYS", 30)
        patched.setattr(trust, "_SKEW", -dt.timedelta(days=2))
        found["early"] = trust.issue(folder / "authority", "b", [HOST], folder / "early")
    return found


def test_who_is_there_is_reached_and_told_nothing(people):
    with answering(tls(people["b"], people["me"].authority)) as (address, heard):
        assert probe(people["me"], "b", address) == trust.end_of(people["b"].certificate)
    assert heard == [b""]


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("stranger", "not of this network's authority"),
        ("moved", "its certificate is not for '127.0.0.1'"),
        ("ended", "its certificate has ended"),
        ("early", "its certificate is not valid yet"),
        ("c", "c answers there, not b"),
    ],
)
def test_a_wrong_certificate_is_named(people, who, words):
    with (
        answering(tls(people[who], people["me"].authority)) as (address, _),
        pytest.raises(Unreached, match=words),
    ):
        probe(people["me"], "b", address)


def test_who_refuses_this_party_s_certificate_is_named(people, monkeypatch):
    monkeypatch.setattr(probes, "_OBJECTION", LONG)
    with (
        answering(tls(people["b"], people["stranger"].authority)) as (address, _),
        pytest.raises(Unreached, match="it refuses this party's certificate .*unknown ca"),
    ):
        probe(people["me"], "b", address)


def test_another_program_s_port_is_named(people, monkeypatch):
    def web(plain: socket.socket) -> bytes:
        plain.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        return plain.recv(10_000)

    with answering(web) as (address, _), pytest.raises(Unreached, match="does not speak TLS as a node does"):
        probe(people["me"], "b", address)
    monkeypatch.setattr(tunnel, "PATIENCE", 0.2)
    silent = threading.Event()
    with answering(lambda plain: bytes(silent.wait(LONG))) as (address, _):
        with pytest.raises(Unreached, match="the port is open, but nobody speaks TLS"):
            probe(people["me"], "b", address)
        silent.set()


def test_nobody_at_the_port_and_an_unknown_host_are_named(people, monkeypatch):
    with socket.create_server((HOST, 0)) as server:
        address = f"{HOST}:{server.getsockname()[1]}"
    with pytest.raises(Unreached, match="nobody listens at this port"):
        probe(people["me"], "b", address)

    def lookup(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with pytest.raises(Unreached, match="does not resolve .Name or service not known"):
        probe(people["me"], "b", "ml.nowhere.example:17471")


@pytest.mark.parametrize(
    ("error", "words"),
    [(TimeoutError(), "no answer within 5 seconds"), (OSError(113, "No route to host"), "No route to host")],
)
def test_a_machine_that_is_off_or_apart_is_named(people, monkeypatch, error, words):
    def unreachable(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", unreachable)
    with pytest.raises(Unreached, match=words):
        probe(people["me"], "b", f"{HOST}:1")
