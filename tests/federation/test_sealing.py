"""Frames sealed end to end: an authority, or a router, can open a connection under a party's name, and say nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from parties import Trial
from test_keys_at_home import asked
from wired import HOST, addresses, until

from coterie.federation import agreement as agreements
from coterie.federation import connections, consent, network, node, party
from coterie.federation.collaboration import collaboration
from coterie.federation.transport import trust
from coterie.federation.transport.sealing import NONCE, TAG, Seal, private_key
from coterie.federation.transport.zenoh import ZenohTransport

FRAME = b"a frame of some length"


def pair() -> tuple[Seal, Seal]:
    a, b = trust.new_key(), trust.new_key()
    return Seal(a, b.public_key(), "a", "b"), Seal(b, a.public_key(), "b", "a")


def test_what_one_end_seals_the_other_opens_and_nobody_reads():
    a, b = pair()
    for frame in (b"", FRAME, bytes(100_000)):
        sealed = a.sealed(frame)
        assert b.opened(sealed) == frame
        assert len(sealed) == len(frame) + NONCE + TAG
    assert FRAME not in a.sealed(FRAME)
    assert a.sealed(FRAME) != a.sealed(FRAME)


def test_a_changed_a_shortened_and_a_returned_frame_are_not_opened():
    a, b = pair()
    sealed = a.sealed(FRAME)
    for at in (0, NONCE, len(sealed) - 1):
        assert b.opened(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]) is None
    for size in (0, 1, NONCE, NONCE + TAG - 1, len(sealed) - 1):
        assert b.opened(sealed[:size]) is None
    assert a.opened(sealed) is None  # sent back to who made it
    assert b.opened(FRAME) is None


def test_another_name_and_another_key_open_nothing():
    own, b, c = trust.new_key(), trust.new_key(), trust.new_key()
    to_b = Seal(own, b.public_key(), "a", "b")
    assert Seal(b, own.public_key(), "b", "a").opened(to_b.sealed(FRAME)) == FRAME
    for other in (
        Seal(c, own.public_key(), "b", "a"),  # who has not b's key
        Seal(b, c.public_key(), "b", "a"),  # another a
        Seal(b, own.public_key(), "b", "c"),  # one key under two names
        Seal(b, own.public_key(), "c", "a"),
    ):
        assert other.opened(to_b.sealed(FRAME)) is None


@pytest.mark.parametrize("sealed", [False, True])
def test_an_authority_cannot_speak_for_a_party_that_made_its_key_at_home(tmp_path, sealed):
    """A second certificate of b's name, for another key, of an authority that a trusts: TLS and Zenoh let it in.

    Without seals a takes its frames for b's, which is what they are for.
    """
    trust.create_authority(tmp_path / "authority")
    own = {name: trust.issue(tmp_path / "authority", name, [HOST], tmp_path / name) for name in ("a", "b")}
    false = trust.issue(tmp_path / "authority", "b", [HOST], tmp_path / "false")
    keys = {"a": private_key(own["a"].key), "b": private_key(own["b"].key), "false": private_key(false.key)}
    where = addresses(["a"])["a"]
    heard: list[tuple[str, bytes]] = []
    seals = {"b": Seal(keys["a"], keys["b"].public_key(), "a", "b")} if sealed else {}
    a = ZenohTransport(own["a"], run="r", admitted=["b"], listen=where, longest=1000, seals=seals)
    a.open(lambda sender, frame: heard.append((sender, frame)))
    impostor = ZenohTransport(false, run="r", admitted=["a"], peers={"a": where}, longest=1000)
    try:
        impostor.open(lambda sender, frame: None)
        assert until(lambda: "b" in a.alive())  # the connection is there
        guess = Seal(keys["false"], keys["a"].public_key(), "b", "a")
        said = [FRAME, guess.sealed(FRAME)]

        def speak() -> bool:
            for frame in said:
                impostor.send("a", frame)
            return len(heard) >= 2 or a.forged().get("b", 0) >= 2

        assert until(speak)
        assert bool(heard) is not sealed
        impostor.close()
        if sealed:
            true = Seal(keys["b"], keys["a"].public_key(), "b", "a")
            b = ZenohTransport(
                own["b"], run="r", admitted=["a"], peers={"a": where}, longest=1000, seals={"a": true}
            )
            b.open(lambda sender, frame: None)
            assert until(lambda: b.send("a", FRAME) or bool(heard))
            b.close()
            assert set(heard) == {("b", FRAME)}
    finally:
        impostor.close()
        a.close()


def test_owners_who_made_their_keys_at_home_run_over_sealed_frames(tmp_path):
    """Real nodes, whose keys the founder never had: all frames between them are sealed, and the run ends."""
    trial = Trial(
        tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 3}, gossip_steps=1, topology="complete"
    )  # fmt: skip
    net = tmp_path / "net"
    for name in trial.names:
        trial.planned = network.rotate(net, name, asked(tmp_path / "home", name))
    for name in trial.names:
        key = trial.place(name) / "private.key"
        key.write_bytes((tmp_path / "home" / name / "private.key").read_bytes())
        key.chmod(0o600)
    agreement = trial.planned.agreement
    network.enter_consents(net, [consent.sign(trial.place(name), name, agreement) for name in trial.names])
    planned = collaboration(agreements.read(net / "agreement.json"))
    for name, other in (("owner-0", "owner-1"), ("owner-1", "owner-0")):
        own = trust.identity(trial.place(name), name)
        assert set(connections.seals(party.read(trial.place(name)), planned, own)) == {other}
    outcomes = {}

    def take_part(name: str, place: Path) -> None:
        outcomes[name] = node.run(
            party.read(place),
            tmp_path / f"{name}.csv",
            node.Host(log=lambda line: None, stop=lambda: False),
            injected_seed=5,
        )

    both = [threading.Thread(target=take_part, args=(name, trial.place(name))) for name in trial.names]
    for one in both:
        one.start()
    for one in both:
        one.join(300)
    assert [outcomes[name].finished for name in trial.names] == [True, True]
    assert all(not outcomes[name].status["forged"] for name in trial.names)
