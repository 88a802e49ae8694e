"""An agreement cannot make an owner rely on somebody whom it does not trust, nor forget what it has spent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner
from worlds import task

from coterie.accounting import certify
from coterie.accounting.ledger import Ledger, terms_of
from coterie.accounting.plans import certificates_of
from coterie.cli import app
from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation import party
from coterie.federation.collaboration import Collaboration, collaboration
from coterie.federation.honest import charged_plan
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet, OwnRun
from coterie.problems.datasets.frames import read_frame
from coterie.problems.datasets.identity import identity
from coterie.protocols import _erm_noise, build
from coterie.units import unit_of

COLUMNS = 'target = "y"\nclasses = ["no", "yes"]\n[columns]\na = [0, 1]\n'
SHAM = [
    f"s{at}" for at in range(9)
]  # owners that the founder made up; it knows the noise that they add: none


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of the one real owner among ten, in a network whose founder is also its aggregator."""
    (tmp_path / "columns.toml").write_text(COLUMNS)
    (tmp_path / "a.csv").write_text("a,y\n" + "0.5,yes\n0.25,no\n" * 20)
    owners, sizes = ",".join(["a", *SHAM]), ",".join(["40"] * 10)
    status, _, err = call(
        *("network", "new", tmp_path / "net", "--owners", owners, "--sizes", sizes),
        *("--columns", tmp_path / "columns.toml", "--protocol", "weighted_erm", "--set", "view=aggregator"),
    )
    assert status == 0, err
    return tmp_path / "net" / "parties" / "a"


def planned(place: Path) -> Collaboration:
    return collaboration(agreements.read(place / "agreement.json"))


def test_a_message_is_charged_with_its_own_noise_unless_the_aggregator_is_trusted(place):
    found, own = planned(place), party.read(place)
    trusted = certificates_of(charged_plan(replace(own, trusts_aggregator=True), found), 1e-5)[0]
    alone = certificates_of(charged_plan(own, found), 1e-5)[0]
    assert trusted.epsilon <= 1
    assert "aggregator trusted" in trusted.view
    plan = found.program.plan
    message = replace(plan, charged=None).event(0)
    assert alone.epsilon == certify(message, delta=1e-5).epsilon > 3
    assert alone.view == "public transcript"


def test_an_aggregator_is_not_trusted_together_with_a_routers_keeper(place):
    """Who keeps a router reads what is not sealed: messages, with less noise than the sums."""
    found, own = planned(place), replace(party.read(place), trusts_aggregator=True)
    trusted, routed = found.program.plan, replace(own, listen=None, peers={}, router="relay:7447")
    one = replace(found, agreement=replace(found.agreement, keys={"a": "0" * 64}))
    both = replace(found, agreement=replace(found.agreement, keys={"a": "0" * 64, "aggregator": "1" * 64}))
    plans = [charged_plan(owner, where) for owner, where in ((own, found), (routed, found), (routed, one))]
    assert [plan is trusted for plan in plans] == [True, False, False]
    assert charged_plan(routed, both) is both.program.plan  # frames are sealed
    assert certificates_of(plans[1], 1e-5)[0].epsilon > 3
    file = place / party.NAME
    file.write_text(routed.to_toml())
    status, _, err = call("node", place, "--data", place.parents[2] / "a.csv")
    assert (status, "whoever keeps the router" in err) == (3, True)


def test_without_trust_nothing_leaves_that_costs_more_than_the_budget(place):
    status, _, err = call("node", place, "--data", place.parents[2] / "a.csv")
    assert (status, "trusts_aggregator = true" in err, "Traceback" in err) == (3, True, False)
    status, out, _ = call("ledger", "show", place / "ledger.sqlite", "--json")
    assert (status, json.loads(out)["spent"]["epsilon"]) == (0, 0.0)


def test_owners_do_not_rest_on_sums_that_are_rounded_by_what_each_sent(place, monkeypatch):
    """Whole models of a linear loss, of which there is none among ours, protect each other and are no whole numbers."""
    assert planned(place).program.plan.lattice is not None
    agreed = place / "agreement.json"
    terms = agreed.read_text().replace('"view": "aggregator"', '"view": "aggregator", "aggregation": "once"')
    agreed.write_text(terms)
    assert planned(place).program.plan.quorum == 0
    monkeypatch.setattr(_erm_noise, "is_linear", lambda problem: True)
    with pytest.raises(InputError, match=r"real numbers, whose sum is rounded.* Use view=masked"):
        planned(place)


def test_the_owner_says_whom_it_trusts(place):
    own = place / party.NAME
    own.write_text("trusts_aggregator = true\n" + own.read_text())
    assert party.read(place).trusts_aggregator
    assert "trusts_aggregator = true\n" in party.read(place).to_toml()  # also under a new agreement
    own.write_text('trusts_aggregator = "all"\n' + own.read_text().replace("trusts_aggregator = true\n", ""))
    assert call("node", place)[0] == 2


def test_the_budget_is_said_before_anything_leaves(place):
    """Where the owner names none it is the founder's, who may have written anything."""
    own = place / party.NAME
    said = call("node", place, "--data", place.parents[2] / "a.csv")[2]
    assert "the agreement says ε = 1 at δ = 1e-05" in said
    own.write_text("epsilon = 0.5\n" + own.read_text())
    (place / "ledger.sqlite").unlink()
    assert "node.toml says ε = 0.5" in call("node", place, "--data", place.parents[2] / "a.csv")[2]


def test_a_delta_that_promises_nothing_needs_the_owners_own_word(place):
    """δ = 1/40 with 40 records allows publishing one of them."""
    agreed = place / "agreement.json"
    agreed.write_text(agreed.read_text().replace('"delta": 1e-05', '"delta": 0.025'))
    status, _, err = call("node", place, "--data", place.parents[2] / "a.csv")
    assert (status, "not below 1/40" in err, (place / "ledger.sqlite").exists()) == (2, True, False)
    own = place / party.NAME
    own.write_text("delta = 0.025\n" + own.read_text())
    assert call("node", place, "--data", place.parents[2] / "a.csv")[0] == 3  # for want of trust


def test_sizes_that_are_agreed_on_are_public(tmp_path):
    """Adding or removing a record would change the agreement itself."""
    (tmp_path / "columns.toml").write_text(COLUMNS)
    status, _, err = call(
        *(
            "network",
            "new",
            tmp_path / "net",
            "--owners",
            "a,b",
            "--sizes",
            "40,40",
            "--protocol",
            "weighted_erm",
        ),
        *("--columns", tmp_path / "columns.toml", "--set", "relation=add_or_remove_one"),
        *("--set", "steps=5", "--set", "step_size=1.0"),
    )
    assert (status, "relation=replace_one" in err, (tmp_path / "net").exists()) == (2, True, False)


def test_one_ledger_counts_for_every_network_over_a_file(tmp_path, place):
    """Another network, another folder, other columns and ranges: the same records, the same ledger."""
    data = tmp_path / "a.csv"
    (tmp_path / "columns.toml").write_text(COLUMNS.replace("[0, 1]", "[0, 2]"))
    status, _, err = call(
        *("network", "new", tmp_path / "other", "--owners", "a,b,c,d,e,f", "--sizes", "40,40,40,40,40,40"),
        *("--columns", tmp_path / "columns.toml", "--protocol", "weighted_erm", "--set", "view=aggregator"),
    )
    assert status == 0, err
    other = tmp_path / "other" / "parties" / "a"
    for one in (place, other):
        own = one / party.NAME
        own.write_text('ledger = "../../../kept.sqlite"\n' + own.read_text())
        assert party.read(one).ledger.resolve() == tmp_path / "kept.sqlite"
        assert 'ledger = "../../../kept.sqlite"' in party.read(one).to_toml()
    first, second = (call("node", one, "--data", data) for one in (place, other))
    assert (first[0], second[0]) == (3, 3)  # for want of trust: both got as far as the ledger
    assert ("new ledger" in first[2], "new ledger" in second[2]) == (True, False)


def charges(place: Path, data: Path, text: str) -> tuple[int, str]:
    """How far a node gets with these records: status 3, for want of trust, is as far as the ledger."""
    data.write_bytes(text.encode())
    status, _, err = call("node", place, "--data", data)
    return status, err


def test_the_same_records_written_otherwise_are_the_same_data_set(tmp_path, place):
    data, rows = tmp_path / "a.csv", ["0.5,yes", "0.25,no"] * 20
    assert charges(place, data, "\n".join(["a,y", *rows, ""]))[0] == 3
    others = {
        "line endings": "\r\n".join(["a,y", *rows, ""]),
        "rows": "\n".join(["a,y", *reversed(rows), ""]),
        "columns": "\n".join(["y,a", *(",".join(reversed(row.split(","))) for row in rows), ""]),
        "numbers": "\n".join(["a,y", *(row.replace("0.5", "5e-1") for row in rows), ""]),
    }
    for text in others.values():
        status, err = charges(place, data, text)
        assert (status, "new ledger" in err) == (3, False), err


def test_a_corrected_file_is_charged_to_the_same_ledger_once_its_owner_says_so(tmp_path, place):
    data, text = tmp_path / "a.csv", (tmp_path / "a.csv").read_text()
    status, err = charges(place, data, text)
    assert (status, "knows them by their content" in err) == (3, True)
    corrected = text.replace("0.25", "0.24", 1)
    status, err = charges(place, data, corrected)
    assert (status, sum(line.startswith("error: ") for line in err.splitlines())) == (2, 1)
    assert "same_people = true" in err
    assert "fresh" not in err
    status, _, err = call("node", place, "--data", data, "--log-format", "json")
    assert (status, "same_people" in err, "the records do not fit" in err) == (2, False, True)  # logs travel
    own = place / party.NAME
    own.write_text("same_people = true\n" + own.read_text())
    status, err = charges(place, data, corrected)
    assert (status, "of the same people" in err) == (3, True)
    assert "same_people = true\n" in party.read(place).to_toml()  # also under a new agreement


def test_no_hash_of_the_records_leaves_the_ledger(tmp_path, place):
    known = identity(read_frame(tmp_path / "a.csv"))
    assert charges(place, tmp_path / "a.csv", (tmp_path / "a.csv").read_text())[0] == 3
    assert terms_of(place / "ledger.sqlite").data_hash == known.content
    for path in place.iterdir():
        if path.is_file() and not path.name.startswith("ledger.sqlite"):
            content = path.read_bytes()
            assert not any(one.encode() in content for one in known), path


def test_another_order_of_the_rows_is_another_division_by_position(tmp_path):
    """Half of a run in one order and the other half in another: somebody was in both halves, and pays for both."""
    one, other = "ab" * 32, "cd" * 32
    both = by_halves(tmp_path / "both", (one, "record"), (other, "record"))
    assert both > 1.2 * by_halves(tmp_path / "same", *[(one, "record")] * 2)  # nobody was in both halves


def by_halves(file: Path, *halves: tuple[str, str]) -> float:
    """What two halves of a run cost, each of a division by position: of the rows' order, and of units."""
    plan = build("wor_sgd", task((100,), 3), {"batch": 50}, "certified").plan
    terms = {"data_hash": "0" * 64, "epsilon": 5.0, "delta": 1e-5}
    with Ledger.open(file, **terms) as ledger, Journal.open(file.with_suffix(".journal")) as journal:
        for turn, (order, unit) in enumerate(halves):
            divided = replace(plan, unit=unit_of(unit))
            Outlet(ledger, journal, OwnRun(f"run {turn}", divided, 0, 2, order)).release(
                turn + 1, turn, b"message"
            )
        return ledger.spent().epsilon


def test_other_units_are_another_division_of_the_same_rows(tmp_path):
    """Half of a run by patients and the other half by doctors, equally many: a record may be in both halves."""
    order = "ab" * 32
    both = by_halves(tmp_path / "both", (order, "column:patient"), (order, "column:doctor"))
    assert both > 1.2 * by_halves(tmp_path / "same", *[(order, "column:patient")] * 2)


def test_batches_of_two_sizes_share_a_ledger(tmp_path):
    """100 records make three batches of 34 as of 40: two partitions, which compose with each other."""
    plans = [build("wor_sgd", task((100,), 3), {"batch": batch}, "certified").plan for batch in (34, 40)]
    with (
        Ledger.open(tmp_path / "ledger", data_hash="0" * 64, epsilon=1.5, delta=1e-5) as ledger,
        Journal.open(tmp_path / "journal") as journal,
    ):
        for run, plan in enumerate(plans):
            outlet = Outlet(ledger, journal, OwnRun(f"run {run}", plan, 0, plan.releases[0]))
            assert outlet.affordable
            for turn in range(3):
                outlet.release(turn + 1, turn, b"message")
        assert 1.2 < ledger.spent().epsilon <= 1.5  # a record is in one batch of each
