"""Addresses that Zenoh cannot dial by itself: numbers of IPv6, and what lies behind a proxy."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from parties import Trial
from ports import ports
from proxy import Proxy
from wired import until

from coterie.errors import InputError
from coterie.federation import check as dry
from coterie.federation import network, party
from coterie.federation.transport import address, trust
from coterie.federation.transport.probe import Unreached, probe
from coterie.federation.transport.trust import Identity
from coterie.federation.transport.zenoh import ZenohTransport

ROUNDS = 4


def _here() -> str:
    """This machine's own number, of IPv6 unless its kernel was built or started without."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return "[::1]"
    except OSError:
        return "127.0.0.1"


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """Parties that are dialled at a number of IPv6, this machine's own."""
    folder = tmp_path_factory.mktemp("six")
    trust.create_authority(folder / "authority")
    return {name: trust.issue(folder / "authority", name, ["::1"], folder / name) for name in "abc"}


def test_owners_meet_over_ipv6_and_by_a_proxy_and_get_the_same_models(tmp_path: Path):
    """Three owners, all at numbers of IPv6 if this machine has any; the last one may leave its house by a proxy alone,
    and its clock and the first one's are ten minutes wrong, one ahead and one behind."""
    trial = Trial(
        tmp_path,
        (12, 7, 9),
        host=_here(),
        protocol="dual_averaging",
        settings={"rounds": ROUNDS},
        topology="complete",
        gossip_steps=1,
    )
    with Proxy() as proxy:
        inside = party.read(trial.place("owner-2"))
        assert set(inside.peers) == {"owner-0", "owner-1"}
        (inside.folder / party.NAME).write_text(replace(inside, proxy=proxy.address).to_toml())
        pairs = [(party.read(trial.place(name)), tmp_path / f"{name}.csv") for name in trial.names]
        told = [dry.summary(one) for one in dry.check(pairs, lambda line: None)]
        assert [(one["ready"], one["troubles"]) for one in told] == [(True, [])] * 3
        assert {*proxy.asked} == {*inside.peers.values()}
        proxy.asked.clear()
        try:
            for name, wrong in zip(trial.names, (600.0, 0.0, -600.0), strict=True):
                trial.start(name, skew=wrong)
            trial.finish()
        finally:
            trial.stop()
        assert {*proxy.asked} == {*inside.peers.values()}
        seen = b"".join(proxy.seen)
    assert len(seen) > 10_000
    assert b"coterie" not in seen  # what every key begins with: inside of TLS
    for name, model in zip(trial.names, trial.undisturbed(), strict=True):
        np.testing.assert_allclose(trial.model(name), model, rtol=1e-4, atol=1e-4)
        with trial.ledger(name) as ledger:
            assert len(ledger.rounds(trial.planned.agreement.run)) == ROUNDS


def test_who_answers_at_another_s_number_is_heard_as_itself_alone(six):
    """Through a tunnel the host in a certificate is not compared: the name in it is what counts."""
    where = f"127.0.0.1:{ports(1)[0]}"
    heard: list[tuple[str, bytes]] = []
    with Proxy() as proxy, ExitStack() as open_ones:
        dialled = {"peers": {"b": where}, "proxy": proxy.address}
        other = ZenohTransport(six["c"], run="r", admitted=["a", "b"], listen=where, longest=1_000)
        own = ZenohTransport(six["a"], run="r", admitted=["b"], longest=1_000, **dialled)
        for one in (other, own):
            open_ones.callback(one.close)
        other.open(lambda sender, frame: None)
        own.open(lambda sender, frame: heard.append((sender, frame)))
        assert until(lambda: own.connected() == {"c"} and other.connected() == {"a"})
        session = other._session
        assert session is not None
        for key in ("coterie/r/b/a", "coterie/r/c/a"):
            session.put(key, b"forged")
        other.send("a", b"forged")
        own.send("b", b"for b's eyes")
        until(lambda: bool(heard), 1.0)
        assert (heard, own.alive(), own.forged()) == ([], frozenset(), {})


def test_a_proxy_that_refuses_or_is_not_there_is_named(six):
    with (
        Proxy("403 Forbidden") as proxy,
        pytest.raises(Unreached, match="'HTTP/1.1 403 Forbidden'.*to allow"),
    ):
        probe(six["a"], "b", "ml.south.example:17471", proxy.address)
    assert proxy.asked == ["ml.south.example:17471"]  # it looks the name up, not this machine
    with pytest.raises(Unreached, match=f"no proxy listens at {proxy.address}"):
        probe(six["a"], "b", "ml.south.example:17471", proxy.address)


def test_a_network_s_files_keep_numbers_of_ipv6_and_the_owner_s_proxy(tmp_path: Path):
    trial = Trial(tmp_path, (7, 8), host="[::1]", protocol="dual_averaging", settings={"rounds": 2})
    own = party.read(trial.place("owner-1"))
    assert address.parts(own.peers["owner-0"])[0] == "::1"
    (own.folder / party.NAME).write_text(replace(own, proxy="proxy.example:3128").to_toml())
    network.renew(tmp_path / "net", "owner-0")
    assert party.read(own.folder).proxy == "proxy.example:3128"
    agreed = replace(trial.planned.agreement, name="far")
    network.found(tmp_path / "far", agreed, {}, "[2001:db8::7]:7447")
    assert '"tls/[::]:7447"' in (tmp_path / "far" / "router" / "router.json").read_text()


@pytest.mark.parametrize(
    "wrong", ["2001:db8::7:17471", "[2001:db8::7]", "[fe80::1%eth0]:1", "[::g]:1", "[10.0.0.1]:1", "h]:1"]
)
def test_a_number_of_ipv6_stands_in_brackets(wrong: str):
    with pytest.raises(InputError, match=r"must be host:port, such as .* or \[2001:db8::7\]:17471"):
        address.checked("listen", wrong)
    assert address.parts(address.checked("listen", "[2001:db8::7]:1")) == ("2001:db8::7", 1)
