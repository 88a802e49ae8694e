"""Networks as a founder meets them: the command line, the files, and every way to ask for nonsense."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coterie.cli import app
from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation import network, party
from coterie.federation.collaboration import collaboration

COLUMNS = 'target = "y"\nclasses = ["no", "yes"]\n[columns]\na = [0, 1]\nb = ["u", "v"]\n'


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    path = tmp_path / "columns.toml"
    path.write_text(COLUMNS)
    return path


def call(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


def found(folder: Path, columns: Path, *more: str) -> dict:
    status, out, err = call(
        "network",
        "new",
        folder,
        "--owners",
        "a,b,c",
        "--sizes",
        "40,30,50",
        "--columns",
        columns,
        "--json",
        *more,
    )
    assert status == 0, err
    return json.loads(out)


def test_everybody_gets_the_same_agreement_and_a_key_of_its_own(tmp_path, columns):
    told = found(tmp_path / "net", columns, "--epsilon", "1,0.5,2")
    assert told["owners"] == ["a", "b", "c"]
    texts = {Path(place, "agreement.json").read_text() for place in told["parties"].values()}
    assert len(texts) == 1
    read = agreements.read(tmp_path / "net" / "agreement.json")
    assert read.digest.hex() == told["agreement_sha256"]
    assert read.experiment.epsilon == {"a": 1.0, "b": 0.5, "c": 2.0}
    keys = [Path(place, "private.key") for place in told["parties"].values()]
    assert len({key.read_bytes() for key in keys}) == 3
    for key in (*keys, tmp_path / "net" / "authority" / "authority.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700


def test_a_delta_that_nodes_refuse_is_said_before_folders_are_sent(tmp_path, columns):
    owners = (
        "network",
        "new",
        tmp_path / "net",
        "--owners",
        "a,b",
        "--sizes",
        "40,300",
        "--columns",
        columns,
    )
    status, out, err = call(*owners, "--delta", "0.01")
    assert status == 0, err
    assert (
        "Mind: delta=0.01 is not below 1/300: publishing one record in full would satisfy it. A node" in out
    )


def test_an_agreement_says_when_a_rare_class_is_predicted(tmp_path, columns):
    rare = ("--base-rate", "0.03", "--threshold", "0.1", "--class-weight", "balanced")
    found(tmp_path / "net", columns, *rare)
    terms = json.loads((tmp_path / "net" / "agreement.json").read_text())["terms"]
    assert (terms["base_rate"], terms["threshold"], terms["class_weight"]) == (0.03, 0.1, "balanced")


def test_of_two_neighbours_one_dials(tmp_path, columns):
    found(tmp_path / "net", columns)
    dialled = {name: party.read(tmp_path / "net" / "parties" / name).peers for name in "abc"}
    links = {frozenset({name, peer}) for name, peers in dialled.items() for peer in peers}
    assert len(links) == sum(map(len, dialled.values())) == 3


@pytest.mark.parametrize(("protocol", "hub"), [("async_learner", "learner"), ("weighted_erm", "aggregator")])
def test_a_hub_is_a_party_whom_all_dial(tmp_path, columns, protocol, hub):
    told = found(tmp_path / "net", columns, "--protocol", protocol)
    assert told["hub"] == hub
    for name in "abc":
        assert list(party.read(tmp_path / "net" / "parties" / name).peers) == [hub]
    assert party.read(tmp_path / "net" / "parties" / hub).peers == {}


def test_adding_and_revoking_make_a_new_agreement_for_all(tmp_path, columns):
    folder = tmp_path / "net"
    first = found(folder, columns)
    assert call("network", "add", folder, "d", "--size", "20", "--epsilon", "0.5")[0] == 0
    second = agreements.read(folder / "parties" / "a" / "agreement.json")
    assert (second.owners, second.digest.hex() != first["agreement_sha256"]) == (("a", "b", "c", "d"), True)
    status, out, _ = call("network", "revoke", folder, "b")
    assert (status, "a new run: all start again" in out) == (0, True)
    third = agreements.read(folder / "parties" / "d" / "agreement.json")
    assert third.owners == ("a", "c", "d")
    assert (folder / "revoked" / "b" / "private.key").exists()
    planned = collaboration(third)
    assert "b" not in planned.parties
    assert planned.task.problem.careful  # rounding must not betray a record: see test_careful_sums
    status, _, err = call("network", "add", folder, "b", "--size", "20")
    assert (status, "was revoked" in err) == (2, True)


def test_no_agreement_of_a_network_comes_twice(tmp_path, columns):
    """Under an agreement that came back, a finished run would be found where a new one was promised."""
    folder = tmp_path / "net"
    runs = [found(folder, columns)["run"]]
    for words in (("add", folder, "d", "--size", "20"), ("revoke", folder, "d")):
        status, out, err = call("network", *words, "--json")
        assert status == 0, err
        runs.append(json.loads(out)["run"])
    assert len(set(runs)) == 3
    third = agreements.read(folder / "agreement.json")
    assert (third.owners, third.edition) == (("a", "b", "c"), 3)


@pytest.mark.parametrize("edition", [0, -1, "2", 1.5, True, None])
def test_an_edition_is_a_whole_number(tmp_path, columns, edition):
    found(tmp_path / "net", columns)
    path = tmp_path / "net" / "agreement.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"edition": edition}))
    with pytest.raises(InputError, match="edition"):
        agreements.read(path)


@pytest.mark.parametrize(
    ("address", "said"),
    [("d.example", "host:port"), ("d.example:99999", "1 to 65535"), ("a.example:1", "'a''s")],
)
def test_who_joins_listens_where_one_can(tmp_path, columns, address, said):
    folder = tmp_path / "net"
    first = found(folder, columns, "--address", "a=a.example:1")
    status, _, err = call("network", "add", folder, "d", "--size", "20", "--address", address)
    assert (status, said in err, err.strip().count("\n")) == (2, True, 0), err
    assert agreements.read(folder / "agreement.json").digest.hex() == first["agreement_sha256"]
    assert not (folder / "parties" / "d").exists()


def test_a_party_whose_folder_is_gone_can_leave_and_is_not_given_an_address(tmp_path, columns):
    folder = tmp_path / "net"
    found(folder, columns, "--address", "b=b.example:1")
    shutil.rmtree(folder / "parties" / "b")
    for words in (("renew", folder, "a"), ("add", folder, "d", "--size", "20"), ("revoke", folder, "a")):
        status, _, err = call("network", *words)
        assert (status, "parties/b/node.toml" in err, err.strip().count("\n")) == (2, True, 0), err
    assert call("network", "revoke", folder, "b")[0] == 0
    assert agreements.read(folder / "agreement.json").owners == ("a", "c")


@pytest.mark.parametrize("at", range(12))
def test_a_change_that_a_full_disk_stops_is_one_line_and_can_be_done_again(
    tmp_path, columns, monkeypatch, at
):
    """At every file in turn: what is told is a line, and the same command, once there is room, does what it says."""
    folder, left = tmp_path / "net", iter(range(at, -1, -1))
    found(folder, columns)

    def full(source, target):
        if not next(left, 1):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return real(source, target)

    real = os.replace
    monkeypatch.setattr(os, "replace", full)
    status, _, err = call("network", "revoke", folder, "b")
    monkeypatch.setattr(os, "replace", real)
    if status:
        assert (status, "No space left" in err, err.strip().count("\n")) == (2, True, 0), err
        status, _, err = call("network", "revoke", folder, "b")
    assert status == 0, err
    texts = {(folder / "parties" / name / "agreement.json").read_text() for name in "ac"}
    assert texts == {(folder / "agreement.json").read_text()}
    assert (folder / "revoked" / "b" / "private.key").exists()


def test_a_file_in_the_place_of_a_folder_is_said(tmp_path, columns):
    (tmp_path / "net").write_text("mine")
    status, _, err = call(
        "network", "new", tmp_path / "net", "--owners", "a,b", "--sizes", "4,3", "--columns", columns
    )
    assert (status, "cannot be read or written" in err, err.strip().count("\n")) == (2, True, 0), err
    assert (tmp_path / "net").read_text() == "mine"


def test_what_an_owner_set_itself_is_kept(tmp_path, columns):
    folder = tmp_path / "net"
    found(folder, columns)
    own = folder / "parties" / "a" / "node.toml"
    own.write_text(
        'epsilon = 3.0\ngenerator = "stream"\n' + own.read_text().replace('generator = "exact"\n', "")
    )
    network.add(folder, "d", 20, 1.0, None)
    again = party.read(own)
    assert (again.epsilon, again.generator) == (3.0, "stream")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--owners", "a,a"], "stands twice"),
        (["--owners", "a,learner"], "another name"),
        (["--owners", "a,B"], "1 to 64"),
        (["--owners", ","], "names nobody"),
        (["--owners", "a,ledger"], "calls a setting"),
        (["--sizes", "40"], "2 whole numbers"),
        (["--sizes", "40,-1"], "2 whole numbers"),
        (["--sizes", "40,²"], "2 whole numbers"),
        (["--sizes", "40,0"], "size of b"),
        (["--epsilon", "0"], "epsilon"),
        (["--epsilon", "1,2,3"], "3 budgets for 2 owners"),
        (["--delta", "1.5"], "delta"),
        (["--protocol", "gossip"], "protocol"),
        (["--topology", "links.csv"], "is a file, of which an agreement could hold the name alone"),
        (["--topology", "knot"], "knot"),
        (["--address", "z=host:1"], "no such party"),
        (["--address", "a=host"], "host:port"),
        (["--address", "a=host:1", "--address ", "b=host:1"], "is 'a''s, too"),
        (["--address", "a=host:1", "--address ", "a=host:2"], "a has one already, host:1"),
        (["--request", "a.pem", "--request ", "b/a.pem"], "is of a, too"),
        (["--wait", "0"], "wait"),
        (["--columns", "nowhere.toml"], "cannot be read"),
        (["--set", "wheels=4"], "unknown setting"),
        (["--threshold", "base_rate"], "nobody declared how common"),
        (["--threshold", "often"], "threshold='often'"),
    ],
)
def test_nonsense_is_one_line_and_nothing_is_written(tmp_path, columns, words, said):
    base = {"--owners": "a,b", "--sizes": "40,30", "--columns": str(columns)}
    given = base | dict(zip(words[::2], words[1::2]))
    status, _, err = call(
        "network", "new", tmp_path / "net", *(part.strip() for pair in given.items() for part in pair)
    )
    assert status == 2
    assert said in err
    assert err.strip().count("\n") == 0
    assert not (tmp_path / "net").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, columns):
    found(tmp_path / "net", columns)
    before = (tmp_path / "net" / "agreement.json").read_bytes()
    status, _, err = call(
        "network", "new", tmp_path / "net", "--owners", "a,b", "--sizes", "4,3", "--columns", columns
    )
    assert (status, "not empty" in err) == (2, True)
    assert (tmp_path / "net" / "agreement.json").read_bytes() == before


def test_an_edited_agreement_is_another_one(tmp_path, columns):
    found(tmp_path / "net", columns)
    path = tmp_path / "net" / "agreement.json"
    before = agreements.read(path).digest
    path.write_text(path.read_text().replace('"delta": 1e-05', '"delta": 1e-04'))
    assert agreements.read(path).digest != before


def beneath(place: Path, line: str) -> None:
    """A line at the file's end, where people write what they add."""
    own = place / "node.toml"
    own.write_text('name = "a"\n[peers]\n' + line + "\n")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda place: (place / "private.key").chmod(0o644), "chmod 600"),
        (lambda place: (place / "private.key").unlink(), "cannot be read"),
        (lambda place: (place / "agreement.json").write_text("{}"), "exactly the keys"),
        (lambda place: (place / "agreement.json").unlink(), "cannot be read"),
        (lambda place: (place / "node.toml").write_text("nome = 1"), "unknown key"),
        (lambda place: (place / "node.toml").write_text('name = "z"'), "does not know this party"),
        (lambda place: beneath(place, 'ledger = "/home/a/ledger.sqlite"'), "ledger stands below [peers]"),
        (lambda place: beneath(place, "epsilon = 3.0"), "epsilon stands below [peers]"),
        (lambda place: beneath(place, 'proxy = "proxy.example:3128"'), "proxy stands below [peers]"),
        (lambda place: beneath(place, "[honest]\nsame_people = true"), "same_people stands below [honest]"),
        (lambda place: beneath(place, 'b = "b.example"'), "peers.b: 'b.example' must be host:port"),
        (
            lambda place: (place / "records.csv").write_text("a,b,y\n1,u,no\n"),
            "has 1 record, the agreement says 40",
        ),
        (lambda place: (place / "records.csv").write_text("a,y\n1,no\n"), "no column 'b'"),
        (lambda place: (place / "records.csv").unlink(), "no such file"),
    ],
)
def test_a_node_that_cannot_start_says_why_in_one_line(tmp_path, columns, spoil, said):
    found(tmp_path / "net", columns)
    place = tmp_path / "net" / "parties" / "a"
    (place / "records.csv").write_text("a,b,y\n" + "0.5,u,no\n0.1,v,yes\n" * 20)
    spoil(place)
    status, _, err = call("node", place, "--data", place / "records.csv")
    assert (status, said in err) == (2, True), err
    assert err.strip().count("\n") == 0
    assert not (place / "ledger.sqlite").exists()


def test_status_of_a_network_that_never_ran(tmp_path, columns):
    found(tmp_path / "net", columns)
    status, out, _ = call("network", "status", tmp_path / "net", "--json")
    assert status == 0
    assert [one["state"] for one in json.loads(out)["parties"]] == ["not started"] * 3
