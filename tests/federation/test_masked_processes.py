"""Masked sums for real: processes over mutual TLS, keys made at home, and whom an owner must know to be honest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from masked_kills import drill, founded
from parties import Trial
from typer.testing import CliRunner

from coterie.cli import app
from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation import party
from coterie.federation.check import Check
from coterie.federation.collaboration import collaboration
from coterie.mechanisms import masks
from coterie.mechanisms.masks import LABEL

SIZES = (12, 7, 9, 10, 8, 11, 6, 9)
COLUMNS = 'target = "y"\nclasses = ["no", "yes"]\n[columns]\na = [0, 1]\n'
SETTINGS = {"view": "masked", "steps": 4, "step_size": 1.0}


@pytest.fixture
def trials() -> Iterator[list[Trial]]:
    started: list[Trial] = []
    yield started
    for trial in started:
        trial.stop()


@pytest.mark.parametrize(
    ("protocol", "settings", "aggregator"),
    [("weighted_erm", SETTINGS, True), ("dual_averaging", {"view": "masked", "rounds": 4}, False)],
    ids=["hub", "tree"],
)
def test_eight_owners_make_the_simulators_model_with_the_same_draws(
    tmp_path, trials, protocol, settings, aggregator
):
    sizes = SIZES
    trial = Trial(tmp_path, sizes, protocol=protocol, settings=settings, aggregator=aggregator)
    assert trial.planned.hub == ("aggregator" if aggregator else None)
    trials.append(trial)
    for name in trial.names:
        trial.start(name)
    trace = trial.simulated()
    trial.finish()
    messages = np.asarray(trace.messages).reshape(4, len(sizes), -1)
    for at, name in enumerate(trial.planned.agreement.owners):
        np.testing.assert_allclose(
            trial.model(name), np.asarray(trace.model)[at].ravel(), rtol=1e-4, atol=1e-4
        )
        with trial.ledger(name) as ledger:
            tickets = ledger.rounds(trial.planned.agreement.run)
            assert tickets == [trial.planned.sums.ticket(round, 0) for round in range(1, 5)]
            assert 0 < ledger.spent().epsilon <= 1.0
            for round, ticket in enumerate(tickets):
                stored = ledger.stored(trial.planned.agreement.run, ticket)
                sent = np.frombuffer(stored[LABEL:], "<i8")
                assert np.abs(sent.astype(float)).max() > 2**50  # masked: nothing like what was drawn
                assert not np.isin(messages[round, at], sent).any()
    found = json.loads((trial.place("owner-0") / "result" / "result.json").read_text())
    assert found["certified_epsilon"] <= 1.0 < found["all_others_epsilon"]
    assert (
        "against all other owners together" in (trial.place("owner-0") / "result" / "report.html").read_text()
    )
    assert any("hidden under masks" in line for line in found["promise"])


@pytest.mark.parametrize("aggregator", [True, False], ids=["hub", "tree"])
def test_parties_killed_during_attempts_make_one_message_for_a_label(tmp_path, trials, aggregator):
    """`masked_kills` reads ledgers and journals for itself, and says what must hold."""
    trial = founded(tmp_path, aggregator, rounds=60)
    trials.append(trial)
    found = drill(trial, kills=3, seed=1)
    models = [trial.model(name) for name in trial.planned.agreement.owners]
    assert all(np.array_equal(models[0], one) for one in models)
    assert found.marks >= found.rounds  # of earlier rounds parties forget marks
    assert sum(found.charges.values()) >= found.rounds * trial.planned.sums.quorum
    for name in trial.planned.agreement.owners:
        with trial.ledger(name) as ledger:
            assert ledger.spent().epsilon <= 1.0


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def net(tmp_path_factory) -> Path:
    """A network of four, founded and with everybody's key, by commands alone."""
    folder = tmp_path_factory.mktemp("masked")
    (folder / "columns.toml").write_text(COLUMNS)
    (folder / "a.csv").write_text("a,y\n" + "0.5,yes\n0.25,no\n" * 20)
    status, _, err = call(
        *("network", "new", folder / "net", "--owners", "a,b,c,d", "--sizes", "40,40,40,40"),
        *("--columns", folder / "columns.toml", "--protocol", "weighted_erm", "--set", "view=masked"),
    )
    assert status == 0, err
    status, _, err = call("node", folder / "net/parties/a", "--data", folder / "a.csv")
    assert (status, "the agreement has no mask keys yet" in err) == (2, True)
    assert "the agreement has no mask keys yet" in dry(folder)
    told = {}
    for name in "abcd":
        status, out, err = call("node", folder / "net/parties" / name, "--mask-key", "--json")
        assert status == 0, err
        told[name] = json.loads(out)["key"]
    status, out, err = call(
        "network", "keys", folder / "net", *(f"{name}={key}" for name, key in told.items())
    )
    assert status == 0, err
    assert masks.fingerprint(bytes.fromhex(told["b"])) in out
    return folder


def founded_without(folder: Path, *more: object, owners: int = 5) -> tuple[int, str, str]:
    (folder / "columns.toml").write_text(COLUMNS)
    names, sizes = ",".join("abcdefgh"[:owners]), ",".join(["40"] * owners)
    return call(
        *("network", "new", folder / "net", "--owners", names, "--sizes", sizes, "--no-aggregator"),
        *("--columns", folder / "columns.toml", *more),
    )


@pytest.mark.parametrize("protocol", ["weighted_erm", "average_erm", "dual_averaging"])
def test_an_agreement_that_names_no_aggregator_has_neighbours_alone(tmp_path, protocol):
    status, out, err = founded_without(tmp_path, "--protocol", protocol, "--set", "view=masked", "--json")
    assert status == 0, err
    assert (json.loads(out)["hub"], sorted(json.loads(out)["parties"])) == (None, list("abcde"))
    planned = collaboration(agreements.read(tmp_path / "net/agreement.json"))
    assert [planned.peers(name) for name in "ace"] == [("b", "e"), ("b", "d"), ("a", "d")]
    assert not planned.agreement.aggregator
    assert party.read(tmp_path / "net/parties/e").peers.keys() == {"a", "d"}  # the later one dials


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--protocol", "weighted_erm"), "aggregator=false: only masked sums can do without one"),
        (("--protocol", "async_learner"), "aggregator=false: only masked sums can do without one"),
    ],
)
def test_only_masked_sums_do_without_an_aggregator(tmp_path, more, words):
    status, _, err = founded_without(tmp_path, *more)
    assert (status, words in err, "Traceback" in err) == (2, True, False)


def test_an_agreement_says_true_or_false(tmp_path):
    status, _, err = founded_without(tmp_path, "--protocol", "weighted_erm", "--set", "view=masked")
    assert status == 0, err
    value = json.loads((tmp_path / "net/agreement.json").read_text())
    assert agreements.from_json(value, "x").to_json() == value
    with pytest.raises(InputError, match="x: aggregator='no': must be true or false"):
        agreements.from_json({**value, "aggregator": "no"}, "x")


def dry(net: Path, **changes: object) -> str:
    """What a dry run of a's says is not in order, before it tries anybody."""
    found = Check(replace(party.read(net / "net/parties/a"), **changes), net / "a.csv", lambda line: None)
    found.local({})
    return "; ".join(map(str, found.troubles))


def test_a_dry_run_knows_keys_and_who_is_honest(net, tmp_path):
    known = fingerprints(net)
    assert dry(net, honest=known) == ""
    assert "unless 2 other owners are honest" in dry(net, honest={"b": known["b"]})
    assert "the agreement's key of 'c'" in dry(net, honest={**known, "c": known["b"]})
    place = net / "net/parties/a/mask.key"
    place.rename(tmp_path / "mask.key")
    try:
        assert "cannot be read" in dry(net, honest=known)
    finally:
        (tmp_path / "mask.key").rename(place)


def test_a_key_is_made_once(net):
    status, _, err = call("node", net / "net/parties/a", "--mask-key")
    assert (status, "is there already" in err) == (2, True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda keys: keys.pop("d"), "'d' has none"),
        (lambda keys: keys.update(d=keys["a"]), "two owners have the same one"),
        (lambda keys: keys.update(d="00" * 32), "is no key"),
        (lambda keys: keys.update(d="zz"), "must be 64 hexadecimal digits"),
        (lambda keys: keys.update(e=keys["a"]), "'e' is not an owner"),
    ],
)
def test_keys_that_cannot_be_are_refused_and_the_agreement_stays(net, change, words):
    before = (net / "net/agreement.json").read_bytes()
    keys = dict(json.loads(before)["masks"]["keys"])
    change(keys)
    status, _, err = call("network", "keys", net / "net", *(f"{name}={key}" for name, key in keys.items()))
    assert (status, words in err, "Traceback" in err) == (2, True, False)
    assert (net / "net/agreement.json").read_bytes() == before


def node_of_a(net, **changes):
    place = net / "net/parties/a"
    own = party.read(place)
    (place / party.NAME).write_text(replace(own, **changes).to_toml())
    return call("node", place, "--data", net / "a.csv")


def fingerprints(net) -> dict[str, str]:
    keys = json.loads((net / "net/agreement.json").read_text())["masks"]["keys"]
    return {name: masks.fingerprint(bytes.fromhex(key)) for name, key in keys.items() if name != "a"}


def test_without_enough_honest_owners_nothing_leaves(net):
    known = fingerprints(net)
    for honest in ({}, {"b": known["b"]}):  # one colluder of four: two others must be known
        status, _, err = node_of_a(net, honest=honest)
        assert (status, "unless 2 other owners are honest" in err, "Traceback" in err) == (3, True, False)
        assert f"knows {len(honest)}" in err
    status, out, _ = call("ledger", "show", net / "net/parties/a/ledger.sqlite", "--json")
    assert (status, json.loads(out)["spent"]["epsilon"]) == (0, 0.0)


def test_a_key_that_is_not_the_agreements_stops_the_owner(net):
    known = fingerprints(net)
    status, _, err = node_of_a(net, honest={**known, "c": known["b"]})
    assert (status, "the agreement's key of 'c'" in err, "Nothing leaves" in err) == (2, True, True)
    status, _, err = node_of_a(net, honest={**known, "x": known["b"]})
    assert (status, "'x' is no other owner" in err) == (2, True)
    place = net / "net/parties/a/mask.key"
    secret = place.read_bytes()
    place.write_bytes(bytes(range(32)))
    try:
        status, _, err = node_of_a(net, honest=known)
        assert (status, "is not the one in the agreement" in err) == (2, True)
    finally:
        place.write_bytes(secret)
