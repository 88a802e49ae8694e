"""Certificates: what is written, for whom to read, and what is refused before a node starts."""

from __future__ import annotations

import datetime as dt
import re
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from coterie.errors import InputError
from coterie.federation.transport import trust


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    trust.create_authority(tmp_path / "authority")
    return tmp_path / "authority"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_keys_are_for_their_owner_alone(authority: Path, tmp_path: Path):
    party = trust.issue(authority, "clinic-1", ["127.0.0.1"], tmp_path / "clinic-1")
    assert mode(authority / "authority.key") == mode(party.key) == 0o600
    assert mode(authority) == mode(tmp_path / "clinic-1") == 0o700


def test_what_is_sent_to_a_party_holds_no_key_but_its_own(authority: Path, tmp_path: Path):
    trust.issue(authority, "clinic-1", [], tmp_path / "clinic-1")
    sent = sorted(path.name for path in (tmp_path / "clinic-1").iterdir())
    assert sent == ["authority.pem", "certificate.pem", "private.key"]
    signing = (authority / "authority.key").read_bytes()
    assert all(path.read_bytes() != signing for path in (tmp_path / "clinic-1").iterdir())


def test_a_certificate_says_who_and_where(authority: Path, tmp_path: Path):
    where = ["127.0.0.1", "::1", "node.example.org"]
    certificate = read(trust.issue(authority, "clinic-1", where, tmp_path / "c").certificate)
    assert trust.common_name(certificate) == "clinic-1"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(one.value) for one in names] == where
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(uses) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    certificate.verify_directly_issued_by(read(authority / "authority.pem"))


def test_a_certificate_is_valid_for_about_a_year(authority: Path, tmp_path: Path):
    certificate = read(trust.issue(authority, "a", [], tmp_path / "a").certificate)
    now = dt.datetime.now(dt.UTC)
    assert certificate.not_valid_before_utc < now - dt.timedelta(minutes=30)  # clocks of owners differ
    assert dt.timedelta(365) < certificate.not_valid_after_utc - now < dt.timedelta(400)


def test_an_identity_is_what_was_issued(authority: Path, tmp_path: Path):
    issued = trust.issue(authority, "a", [], tmp_path / "a")
    assert trust.identity(tmp_path / "a", "a") == issued


def test_a_fingerprint_tells_certificates_apart(authority: Path, tmp_path: Path):
    one, two = (trust.issue(authority, name, [], tmp_path / name).certificate for name in "ab")
    assert re.fullmatch("[0-9a-f]{64}", trust.fingerprint(trust.certificate_in(one)))
    assert trust.fingerprint(trust.certificate_in(one)) != trust.fingerprint(trust.certificate_in(two))


@pytest.mark.parametrize("name", ["", "A", "a/b", "*", "a b", "-a", "ä", "a" * 65, "a\n"])
def test_a_name_that_could_be_another_key_is_refused(authority: Path, tmp_path: Path, name: str):
    with pytest.raises(InputError, match="1 to 64 of a-z"):
        trust.issue(authority, name, [], tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("address", ["", "host:7447", "tls/host", "a b", "999.1.1.1/8"])
def test_an_address_is_a_host(authority: Path, tmp_path: Path, address: str):
    with pytest.raises(InputError, match="host name or an IP address"):
        trust.issue(authority, "a", [address], tmp_path / "a")


def test_nothing_is_overwritten(authority: Path, tmp_path: Path):
    before = (authority / "authority.key").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        trust.create_authority(authority)
    assert (authority / "authority.key").read_bytes() == before
    trust.issue(authority, "a", [], tmp_path / "a")
    with pytest.raises(InputError, match="exists already"):
        trust.issue(authority, "a", [], tmp_path / "a")


def test_a_folder_that_cannot_be_made_is_named(authority: Path, tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot be written"):
        trust.issue(authority, "a", [], tmp_path / "file" / "a")


def test_a_write_that_fails_leaves_nothing(authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    renamed = trust.os.replace

    def full(draft: str, path: Path) -> None:
        if path.name == "certificate.pem":
            raise OSError(28, "No space left on device")
        renamed(draft, path)

    monkeypatch.setattr(trust.os, "replace", full)
    with pytest.raises(InputError, match="No space left"):
        trust.issue(authority, "a", [], tmp_path / "a")
    assert list((tmp_path / "a").iterdir()) == []


@pytest.mark.parametrize("readable", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_stops_the_node(authority: Path, tmp_path: Path, readable: int):
    party = trust.issue(authority, "a", [], tmp_path / "a")
    party.key.chmod(readable)
    with pytest.raises(InputError, match=f"mode 0{readable:o}.*chmod 600 {party.key}"):
        trust.identity(tmp_path / "a", "a")


def test_an_authority_whose_key_others_can_read_issues_nothing(authority: Path, tmp_path: Path):
    (authority / "authority.key").chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        trust.issue(authority, "a", [], tmp_path / "a")


def test_an_expired_certificate_stops_the_node(authority, tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "_PARTY_DAYS", -1 / 86_400)
    monkeypatch.setattr(trust, "_SKEW", dt.timedelta(days=2))
    trust.issue(authority, "a", [], tmp_path / "a")
    with pytest.raises(InputError, match="of .* expired on .* network renew"):
        trust.identity(tmp_path / "a", "a")


def test_a_certificate_of_tomorrow_names_the_clock(authority, tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "_SKEW", -dt.timedelta(days=1))
    trust.issue(authority, "a", [], tmp_path / "a")
    with pytest.raises(InputError, match="Set this machine's clock"):
        trust.identity(tmp_path / "a", "a")


def test_another_party_s_files_are_refused(authority: Path, tmp_path: Path):
    one, two = (trust.issue(authority, name, [], tmp_path / name) for name in "ab")
    with pytest.raises(InputError, match="is of 'a', must be of 'b'"):
        trust.identity(tmp_path / "a", "b")
    one.key.write_bytes(two.key.read_bytes())
    with pytest.raises(InputError, match="does not belong to"):
        trust.identity(tmp_path / "a", "a")


def test_another_authority_s_certificate_is_refused(authority: Path, tmp_path: Path):
    trust.issue(authority, "a", [], tmp_path / "a")
    other = trust.create_authority(tmp_path / "other")
    (tmp_path / "a" / "authority.pem").write_bytes(other.read_bytes())
    with pytest.raises(InputError, match="was not signed by"):
        trust.identity(tmp_path / "a", "a")


@pytest.mark.parametrize("file", ["authority.pem", "certificate.pem", "private.key"])
def test_damaged_and_missing_files_are_named(authority: Path, tmp_path: Path, file: str):
    trust.issue(authority, "a", [], tmp_path / "a")
    (tmp_path / "a" / file).write_text("-----BEGIN NONSENSE-----")
    with pytest.raises(InputError, match=f"{file}: is not a"):
        trust.identity(tmp_path / "a", "a")
    (tmp_path / "a" / file).unlink()
    with pytest.raises(InputError, match=f"{file}: cannot be read"):
        trust.identity(tmp_path / "a", "a")


def test_no_error_shows_a_key(authority: Path, tmp_path: Path):
    party = trust.issue(authority, "a", [], tmp_path / "a")
    secret = party.key.read_text()
    party.key.write_text(secret.replace("PRIVATE KEY", "PRIVATE THING"))
    with pytest.raises(InputError) as caught:
        trust.identity(tmp_path / "a", "a")
    assert secret.splitlines()[1][:10] not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_revoked_name_is_never_given_out_again(authority: Path, tmp_path: Path):
    trust.issue(authority, "a", [], tmp_path / "a")
    assert trust.revoked(authority) == []
    trust.revoke(authority, "a")
    trust.revoke(authority, "a")
    assert trust.revoked(authority) == ["a"]
    with pytest.raises(InputError, match="was revoked.*another name"):
        trust.issue(authority, "a", [], tmp_path / "again")
    trust.issue(authority, "a-2", [], tmp_path / "a-2")


@pytest.mark.parametrize("content", ["{", "{}", "[1]"])
def test_a_damaged_list_of_revoked_names_admits_nobody(authority: Path, tmp_path: Path, content: str):
    (authority / "revoked.json").write_text(content)
    with pytest.raises(InputError, match="not a list of names"):
        trust.issue(authority, "a", [], tmp_path / "a")
