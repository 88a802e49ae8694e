"""Keys that parties make at home: requests, signatures under the agreement, and another key for one that was lost."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from parties import Trial, until
from test_network_command import call, columns, found

from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation import consent, network, node, party
from coterie.federation.transport import requests, trust

__all__ = ["columns"]


def asked(home: Path, name: str) -> Path:
    """A party makes its key, and sends the request under its name."""
    made = requests.make(home / name, name)
    sent = home / f"{name}.pem"
    sent.write_bytes(made.read_bytes())
    return sent


@pytest.fixture
def world(tmp_path, columns) -> tuple[Path, Path]:
    """A network of a, b and c, of whom a and b made their keys at home; and the folder of homes."""
    home = tmp_path / "home"
    for name in "ab":
        assert call("network", "request", home / name, name)[0] == 0
        (home / f"{name}.pem").write_bytes((home / name / "request.pem").read_bytes())
    found(tmp_path / "net", columns, "--request", home / "a.pem", "--request", home / "b.pem")
    for name in "ab":
        delivered(tmp_path / "net", home, name)
    return tmp_path / "net", home


def delivered(net: Path, home: Path, name: str) -> None:
    """What the founder sends arrives beside the key."""
    for path in (net / "parties" / name).rglob("*"):
        if path.is_file():
            to = home / name / path.relative_to(net / "parties" / name)
            to.parent.mkdir(exist_ok=True)
            to.write_bytes(path.read_bytes())


def test_no_secret_of_a_party_is_ever_with_the_founder(world):
    net, home = world
    for name in "ab":
        secret = (home / name / "private.key").read_bytes()
        assert not (net / "parties" / name / "private.key").exists()
        assert all(secret not in path.read_bytes() for path in net.rglob("*") if path.is_file())
        assert trust.identity(home / name, name).key.stat().st_mode & 0o777 == 0o600
    assert (net / "parties" / "c" / "private.key").exists()  # who made none gets one


def test_no_node_starts_before_all_have_signed_who_made_their_keys(world, tmp_path):
    net, home = world
    with pytest.raises(InputError, match="a, b have not signed it"):
        node.run(party.read(home / "a"), tmp_path / "none.csv", node.Host(log=print, stop=lambda: False))
    status, out, _ = call("node", home / "a", "--sign")
    assert (status, "a (40 records, ε = 1.0)" in out) == (0, True)
    signed = home / "a" / "consents" / "a.json"
    status, out, _ = call("network", "consent", net, signed, "--json")
    assert (status, json.loads(out)) == (0, {"signed": ["a"], "missing": ["b"]})
    status, _, err = call("node", home / "b", "--data", tmp_path / "none.csv", "--check")
    assert (status, "a, b have not signed it" in err) == (2, True)
    call("node", home / "b", "--sign")
    assert call("network", "consent", net, home / "b" / "consents" / "b.json")[0] == 0
    delivered(net, home, "a")
    agreement = agreements.read(net / "agreement.json")
    consent.given(home / "a", "a", agreement)
    with pytest.raises(InputError, match="no such file"):  # all have signed: now the file is looked for
        node.run(party.read(home / "a"), tmp_path / "none.csv", node.Host(log=print, stop=lambda: False))


def test_a_founder_cannot_pretend_consent(world):
    net, home = world
    agreement = agreements.read(net / "agreement.json")
    call("node", home / "a", "--sign")
    file = home / "a" / "consents" / "a.json"
    true = json.loads(file.read_text())
    other = requests.make(home / "forged", "a").parent
    (other / "certificate.pem").write_bytes(b"")
    forged = requests.read(other / "request.pem", "a")
    from cryptography.hazmat.primitives import serialization as forms

    pem = forged.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo).decode()
    wrong = "00" + true["signature"][2:]
    for change, why in (
        ({"key": pem}, "another key than the agreement's"),
        ({"signature": wrong}, "signature is false"),
        ({"signature": "zz"}, "no signature"),
        ({"agreement": "0" * 64}, "another agreement"),
        ({"party": "b"}, "another key than the agreement's"),
        ({"party": "c"}, "knows no key"),
        ({"key": 1}, "texts alone"),
    ):
        file.write_text(json.dumps(true | change))
        with pytest.raises(InputError, match=why):
            consent.read(file, agreement)
    file.write_text(json.dumps(true))
    (file.parent / "b.json").write_text(json.dumps(true))
    with pytest.raises(InputError, match="another party's"):
        consent.missing(home / "a", agreement)


def test_no_agreement_is_followed_that_leaves_ones_own_key_out_or_has_another(world, tmp_path):
    """Whoever writes agreements could else ask nobody for a signature, or sign for somebody with a key of its own."""
    net, home = world
    agreement = agreements.read(net / "agreement.json")
    own = party.read(home / "a")
    without = replace(agreement, keys={"b": agreement.keys["b"]})
    forged = requests.fingerprint(requests.read(requests.make(home / "forged", "a"), "a"))
    for false, why in (
        (without, "has no key of 'a', which made one at home"),
        (replace(agreement, keys={}), "has no key of 'a', which made one at home"),
        (replace(agreement, keys=agreement.keys | {"a": forged}), f"its key of 'a' is {forged[:16]}"),
    ):
        own.agreement.write_text(false.text(), encoding="utf-8")
        with pytest.raises(InputError, match=why):
            node.run(own, tmp_path / "none.csv", node.Host(log=print, stop=lambda: False))
        status, _, err = call("node", home / "a", "--data", tmp_path / "none.csv", "--check")
        assert (status, why in err) == (2, True)


def test_who_signs_is_told_what_the_budgets_pay_for_and_who_must_be_honest(world):
    _, home = world
    agreement = agreements.read(home / "a" / "agreement.json")
    terms = replace(
        agreement.experiment,
        settings={"view": "masked", "colluding": 1},
        evaluate=0.05,
        hold_out=0.2,
        select=0.03,
    )
    told = agreements.words(replace(agreement, experiment=terms))
    for line in (
        "  noise      calibration certified, colluding = 1, view = masked",
        "  publishes  the model; 0.03 of each budget pays for a choice among models; 0.05 of each budget pays for "
        "published metrics, on 0.2 of its rows that each owner keeps out",
    ):
        assert line in told.splitlines()
    for given, budget in (((3.0,), "3.0"), ((1.0, 2.0, 3.0), "1.0")):  # as somebody may write them by hand
        by_place = agreements.words(replace(agreement, experiment=replace(terms, epsilon=given)))
        assert f"a (40 records, ε = {budget})" in by_place
    silent = replace(agreement, experiment=replace(terms, evaluate=0.0, hold_out=0.0, select=0.0))
    assert "  publishes  the model; no metric" in agreements.words(silent).splitlines()


@pytest.mark.parametrize(
    "name", ["age\x1b[4A\r  owners     a (40 records, ε = 0.01)\x1b[4B", "age\n  δ  1e-12", "\u202ega"]
)
def test_no_name_in_an_agreement_shows_other_terms_than_there_are(world, name):
    """A terminal obeys such characters, and would write over the lines that are read before signing."""
    place = world[0] / "agreement.json"
    value = json.loads(place.read_text())
    value["schema"]["columns"][name] = [0, 1]
    with pytest.raises(InputError, match="not shown.*other terms") as refused:
        agreements.from_json(value, "agreement.json")
    assert str(refused.value).isprintable()
    value["schema"]["columns"] = {"prénom d’usage\u3000名 \u200d👩\u200d🔬": [0, 1]}
    agreements.from_json(value, "agreement.json")


def test_a_new_agreement_is_signed_anew(world):
    net, home = world
    for name in "ab":
        call("node", home / name, "--sign")
    files = [home / name / "consents" / f"{name}.json" for name in "ab"]
    assert network.enter_consents(net, files) == (["a", "b"], [])
    assert network.add(net, "d", 30, 1.0, None, asked(home, "d")).agreement.keys.keys() == set("abd")
    agreement = agreements.read(net / "agreement.json")
    assert consent.missing(net / "parties" / "c", agreement) == ["a", "b", "d"]
    assert network.revoke(net, "b").agreement.keys.keys() == set("ad")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda home: home / "none.pem", "cannot be read"),
        (lambda home: _text(home / "x.pem", "no request"), "is no signing request"),
        (lambda home: asked(home, "other"), "is of 'other', must be of"),
    ],
)
def test_a_request_must_be_the_party_s_own(world, make, why):
    net, home = world
    with pytest.raises(InputError, match=why):
        network.rotate(net, "a", make(home))


def test_a_key_is_never_overwritten_and_a_stranger_asks_in_vain(world, tmp_path, columns):
    net, home = world
    status, _, err = call("network", "request", home / "a", "a")
    assert (status, "exists already" in err) == (2, True)
    with pytest.raises(InputError, match="takes no part"):
        network.rotate(net, "stranger", asked(home, "stranger"))
    status, _, err = call(
        "network", "new", tmp_path / "other", "--owners", "a,b", "--sizes", "40,30", "--columns", columns,
        "--request", asked(home, "z"),
    )  # fmt: skip
    assert (status, "key of 'z': takes no part" in err) == (2, True)
    assert not (tmp_path / "other").exists()


def test_nobody_signs_without_a_key_of_its_own(world):
    net, _ = world
    status, _, err = call("node", net / "parties" / "c", "--sign")
    assert (status, "no key that 'c' made at home" in err) == (2, True)


def test_a_rotated_key_opens_nothing_and_the_network_goes_on(tmp_path):
    """Real nodes over mutual TLS: with the new files the run ends, and whoever has the old key reaches nobody."""
    trial = Trial(
        tmp_path,
        (7, 8),
        protocol="dual_averaging",
        settings={"rounds": 3},
        gossip_steps=1,
        topology="complete",
    )
    net, stolen = tmp_path / "net", tmp_path / "stolen"
    stolen.mkdir()
    for path in trial.place("owner-1").iterdir():
        (stolen / path.name).write_bytes(path.read_bytes())
        (stolen / path.name).chmod(0o600)
    old = agreements.read(net / "agreement.json")
    trial.planned = network.rotate(net, "owner-1", asked(tmp_path / "home", "owner-1"))
    key = trial.place("owner-1") / "private.key"
    key.write_bytes((tmp_path / "home" / "owner-1" / "private.key").read_bytes())
    key.chmod(0o600)
    assert trial.planned.agreement.digest != old.digest
    place = consent.sign(trial.place("owner-1"), "owner-1", trial.planned.agreement)
    assert network.enter_consents(net, [place]) == (["owner-1"], [])
    (stolen / "authority.pem").write_bytes((net / "authority" / "authority.pem").read_bytes())
    with pytest.raises(InputError, match="was not signed by"):
        trust.identity(stolen, "owner-1")
    outcomes, over = {}, threading.Event()

    def take_part(name: str, place: Path) -> None:
        data = tmp_path / f"{name}.csv"
        stop = over.is_set
        outcomes[place.name] = node.run(
            party.read(place), data, node.Host(log=lambda line: None, stop=stop), injected_seed=5
        )

    first = threading.Thread(target=take_part, args=("owner-0", trial.place("owner-0")))
    first.start()
    try:
        until(lambda: (trial.place("owner-0") / "status.json").exists())
        where = party.read(trial.place("owner-0")).listen or ""
        assert not _let_in(where, stolen, seconds=180)
        assert _let_in(where, trial.place("owner-1"), seconds=3)
        take_part("owner-1", trial.place("owner-1"))
    finally:
        over.set()
        first.join()
    assert [outcomes[f"owner-{at}"].finished for at in (0, 1)] == [True, True]


def _let_in(where: str, folder: Path, seconds: float) -> bool:
    """Whether a party takes a connection with the key of a folder: who is let in hears nothing before it speaks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(folder / "certificate.pem", folder / "private.key")
    host, port = where.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=180) as line:
        try:
            with context.wrap_socket(line) as wrapped:
                wrapped.settimeout(seconds)
                wrapped.recv(1)
        except TimeoutError:
            return True
        except ssl.SSLError:  # with TLS 1.3 a client hears of its refusal when it reads
            return False
    return False


def _text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path
