"""Each party its own authority: who can certify whom, what a false certificate is good for, how it goes on."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from parties import Trial
from ports import ports
from test_keys_at_home import delivered
from test_network_command import call
from wired import HOST, until

from coterie.errors import InputError
from coterie.federation import actions, connections, consent, network, node, party
from coterie.federation import agreement as agreements
from coterie.federation.collaboration import collaboration
from coterie.federation.transport import requests, trust
from coterie.federation.transport.authorities import AT_HOME
from coterie.federation.transport.zenoh import ZenohTransport

NAMES = ("owner-0", "owner-1")


def sent(home: Path, name: str, host: str | None = HOST) -> Path:
    """A party makes its key and its authority at home, and sends the request under its name."""
    made = requests.make(home / name, name, host)
    path = home / f"{name}.pem"
    path.write_bytes(made.read_bytes())
    return path


class World:
    """Two owners, each its own authority; what the founder sends lies beside their keys, and all have signed."""

    def __init__(self, folder: Path) -> None:
        self.trial = Trial(
            folder, (7, 8), protocol="dual_averaging", settings={"rounds": 3}, gossip_steps=1, topology="complete"
        )  # fmt: skip
        self.net, self.home = folder / "own", folder / "home"
        asked = {name: sent(self.home, name) for name in NAMES}
        where = {name: f"{HOST}:{port}" for name, port in zip(NAMES, ports(2), strict=True)}
        self.terms = self.trial.planned.agreement
        network.found(self.net, self.terms, where, None, False, asked)
        self.sign()

    def sign(self) -> None:
        for _ in range(2):  # after the second round all have everybody's consent
            for name in NAMES:
                delivered(self.net, self.home, name)
            network.enter_consents(
                self.net, [consent.sign(self.home / name, name, self.agreement) for name in NAMES]
            )

    @property
    def agreement(self) -> agreements.Agreement:
        return agreements.read(self.net / "agreement.json")

    def line(self, name: str, **changes: object) -> ZenohTransport:
        own = trust.identity(self.home / name, name)
        seen = replace(party.read(self.home / name), **changes)
        return connections.transport(seen, collaboration(self.agreement), own)


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def test_the_founder_has_no_authority_and_no_secret(world):
    assert not (world.net / "authority").exists()
    assert set(world.agreement.authorities) == set(world.agreement.keys) == set(NAMES)
    for name in NAMES:
        for secret in (world.home / name / "private.key", world.home / name / AT_HOME / "authority.key"):
            assert secret.stat().st_mode & 0o777 == 0o600
            assert all(
                secret.read_bytes() not in one.read_bytes() for one in world.net.rglob("*") if one.is_file()
            )
        own = trust.identity(world.home / name, name)
        assert len(trust.certificates(own.authority)) == 2
        assert trust.signer(own) == trust.certificates(world.home / name / AT_HOME / "authority.pem")[0]


def test_a_run_of_owners_that_are_their_own_authorities_ends(world):
    outcomes = {}

    def take_part(name: str) -> None:
        data = world.trial.folder / f"{name}.csv"
        own = party.read(world.home / name)
        outcomes[name] = node.run(
            own, data, node.Host(log=lambda line: None, stop=lambda: False), injected_seed=5
        )

    both = [threading.Thread(target=take_part, args=(name,)) for name in NAMES]
    for one in both:
        one.start()
    for one in both:
        one.join(300)
    assert [outcomes[name].finished for name in NAMES] == [True, True]


def test_one_party_s_authority_cannot_certify_another(world):
    """owner-1's authority signs a certificate of owner-0's name, which TLS takes: nothing that it says is."""
    false = trust.issue(world.home / "owner-1" / AT_HOME, "owner-0", [HOST], world.home / "false")
    bundle = (world.home / "owner-1" / "authority.pem").read_bytes()
    (world.home / "false" / "authority.pem").write_bytes(bundle)
    heard: list[tuple[str, bytes]] = []
    victim = world.line("owner-1")
    victim.open(lambda sender, frame: heard.append((sender, frame)))
    where = party.read(world.home / "owner-1").listen or ""
    planned = collaboration(world.agreement)
    run = connections.keys_of(world.home / "owner-1", planned.agreement)
    impostor = ZenohTransport(false, run=run, admitted=["owner-1"], peers={"owner-1": where}, longest=1000)
    try:
        impostor.open(lambda sender, frame: None)
        assert until(lambda: "owner-0" in victim.connected())  # the bundle trusts any of its authorities
        assert until(lambda: impostor.send("owner-1", b"false") or victim.forged().get("owner-0", 0) > 0)
        assert heard == []
    finally:
        impostor.close()
    true = world.line("owner-0", listen=None, peers={"owner-1": where})
    try:
        true.open(lambda sender, frame: None)
        assert until(lambda: true.send("owner-1", b"true") or bool(heard))
        assert set(heard) == {("owner-0", b"true")}
    finally:
        true.close()
        victim.close()


def test_a_false_certificate_in_the_party_s_own_folder_is_named(world):
    place = world.home / "owner-0"
    (place / "certificate.pem").unlink()
    (place / "authority.pem").rename(place / "kept.pem")
    public = requests.read(world.home / "owner-0.pem", "owner-0")
    trust.issue(world.home / "owner-1" / AT_HOME, "owner-0", [HOST], place, public)
    (place / "kept.pem").replace(place / "authority.pem")
    with pytest.raises(InputError, match="was signed by another authority than owner-0's own"):
        world.line("owner-0")


def test_no_other_authority_is_trusted_than_the_agreed_ones(world, tmp_path):
    more = trust.create_authority(tmp_path / "more").read_bytes()
    for name, content in (
        ("owner-0", (world.home / "owner-0" / "authority.pem").read_bytes() + more),
        ("owner-1", (world.home / "owner-1" / AT_HOME / "authority.pem").read_bytes()),
    ):
        (world.home / name / "authority.pem").write_bytes(content)
        with pytest.raises(InputError, match="has other authorities than the agreement"):
            world.line(name)


def test_a_party_renews_at_home_and_nobody_else_does(world):
    place = world.home / "owner-0"
    before, bundle = (place / "certificate.pem").read_bytes(), (place / "authority.pem").read_bytes()
    with pytest.raises(InputError, match="is its own authority, and renews at home"):
        network.renew(world.net, "owner-0")
    status, out, _ = call("network", "renew", place, "owner-0")
    assert (status, out.startswith("Certificate of owner-0 until ")) == (0, True)
    assert (place / "certificate.pem").read_bytes() != before
    assert (place / "authority.pem").read_bytes() == bundle
    world.line("owner-0")
    assert actions.read(place)[-1].action == "renew"
    status, _, err = call("network", "renew", world.trial.place("owner-0"), "owner-0")
    assert (status, "is no authority of this party's own" in err) == (2, True)


def test_all_parties_or_none(world, tmp_path):
    mixed = {"owner-0": sent(tmp_path / "new", "owner-0"), "owner-1": sent(tmp_path / "new", "owner-1", None)}
    with pytest.raises(InputError, match="All of them, or none"):
        network.found(tmp_path / "mixed", world.terms, {}, None, False, mixed)
    alone = {"owner-0": mixed["owner-0"]}
    with pytest.raises(InputError, match="All of them, or none"):
        network.found(tmp_path / "mixed", world.terms, {}, None, False, alone)
    with pytest.raises(InputError, match="All of them, or none"):
        network.add(world.net, "owner-2", 9, 1.0, None, sent(tmp_path / "new", "owner-2", None))
    both = {name: world.home / f"{name}.pem" for name in NAMES}
    with pytest.raises(InputError, match="no authority is left to certify it"):
        network.found(tmp_path / "mixed", world.terms, {}, "router.example:7447", False, both)
    assert not (tmp_path / "mixed").exists()


def test_parties_come_go_and_change_their_keys(world, tmp_path):
    new = tmp_path / "new"
    with pytest.raises(InputError, match="has no new authority"):
        network.rotate(world.net, "owner-1", sent(tmp_path / "other", "owner-1", None))
    old = world.agreement
    planned = network.rotate(world.net, "owner-1", sent(new, "owner-1"))
    assert planned.agreement.authorities["owner-0"] == old.authorities["owner-0"]
    assert planned.agreement.authorities["owner-1"] != old.authorities["owner-1"]
    delivered(world.net, world.home, "owner-1")
    with pytest.raises(InputError, match="was not signed by"):  # with the old key
        trust.identity(world.home / "owner-1", "owner-1")
    delivered(world.net, new, "owner-1")
    trust.identity(new / "owner-1", "owner-1")
    network.add(world.net, "owner-2", 9, 1.0, None, sent(new, "owner-2"))
    assert len(trust.certificates(world.net / "parties" / "owner-0" / "authority.pem")) == 3
    planned = network.revoke(world.net, "owner-1")
    assert set(planned.agreement.authorities) == {"owner-0", "owner-2"}
    assert len(trust.certificates(world.net / "parties" / "owner-0" / "authority.pem")) == 2


def test_a_request_with_an_authority_is_made_whole_or_not_at_all(tmp_path):
    status, _, err = call("network", "request", tmp_path / "a", "a", "--own-authority", "not a host")
    assert (status, "must be a host name or an IP address" in err) == (2, True)
    assert [path.name for path in (tmp_path / "a").iterdir()] == []
    assert call("network", "request", tmp_path / "a", "a", "--own-authority", "ml.a.example")[0] == 0
    assert trust.identity(tmp_path / "a", "a").key.exists()
    with pytest.raises(InputError, match="private.key: exists already"):
        requests.make(tmp_path / "a", "a", HOST)


@pytest.mark.parametrize("what", ["party", "two", "words"])
def test_what_is_no_authority_is_not_taken_for_one(world, tmp_path, what):
    request = sent(tmp_path / "new", "owner-1")
    plain = sent(tmp_path / "plain", "owner-1", None).read_bytes()
    false = {
        "party": plain + (tmp_path / "new" / "owner-1" / "certificate.pem").read_bytes(),
        "two": request.read_bytes() + trust.create_authority(tmp_path / "more").read_bytes(),
        "words": plain + b"-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n",
    }[what]
    request.write_bytes(false)
    with pytest.raises(InputError, match="is not a certificate|has no authority that is one"):
        network.rotate(world.net, "owner-1", request)


def test_an_aggregator_needs_an_authority_of_its_own_too(tmp_path):
    trial = Trial(tmp_path, (7, 8), protocol="average_erm", settings={"view": "aggregator"})
    assert trial.planned.hub == "aggregator"
    asked = {name: sent(tmp_path / "home", name) for name in NAMES}
    terms = trial.planned.agreement
    with pytest.raises(InputError, match="request of 'aggregator': has no authority of its own"):
        network.found(tmp_path / "own", terms, {}, None, False, asked)
    asked["aggregator"] = sent(tmp_path / "home", "aggregator")
    found = network.found(tmp_path / "own", terms, {}, None, False, asked)
    assert set(found.agreement.authorities) == {*NAMES, "aggregator"}
