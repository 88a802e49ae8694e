"""The page of one party of a real run."""

from __future__ import annotations

import re

from coterie.reports.node import page

AGREEMENT = {
    "terms": {"protocol": "dual_averaging", "epsilon": {"a": 1.0, "b": 2.0}},
    "schema": {"target": "y", "columns": {f"column {at}": [0, 1] for at in range(30)}},
    "owners": {"a": 3, "b": 4},
}
FOUND = {
    "network": "trial", "name": "a", "run": "f00", "protocol": "dual_averaging", "steps": 3, "of": 4, "note": "",
    "traffic": {"bytes out": 12345}, "refusals": {"b: malformed": 7}, "claimed_epsilon": None,
    "certified_epsilon": 0.9, "spent_epsilon": 0.95, "budget_epsilon": 1.0, "delta": 1e-5, "view": "public transcript",
    "releases": 3, "ledger": "ledger.sqlite", "noise": "exact", "own_metric": {"name": "accuracy", "value": 0.75},
    "centre": None,
    "selection": None,
    "evaluation": None,
    "promise": ["In short: a suspicion of 1 in 10 can at most become 1 in 4.3.", "The exception: none (δ = 0)."],
}  # fmt: skip


def test_what_was_spent_and_refused_is_there():
    text = page(FOUND, AGREEMENT)
    for part in (
        "within the budget",
        "ε 0.95 of 1",
        "12,345",
        "b: malformed",
        "30: column 0",
        "a 1.0, b 2.0",
    ):
        assert part in text
    assert "column 29" not in text


def test_a_budget_that_is_exceeded_shows():
    assert "above the budget" in page(FOUND | {"spent_epsilon": 1.5}, AGREEMENT)
    assert "above the budget" in page(FOUND | {"spent_epsilon": "inf"}, AGREEMENT)


def test_the_promise_is_on_an_owners_page():
    text = page(FOUND, AGREEMENT)
    assert "<b>A suspicion of 1 in 10 can at most become 1 in 4.3.</b>" in text
    assert "<dt>The exception</dt><dd>None (δ = 0).</dd>" in text


def test_a_party_without_records_has_no_privacy_to_show():
    text = page(FOUND | {"certified_epsilon": None, "own_metric": None}, AGREEMENT)
    assert "Privacy" not in text
    assert "promise" not in text


def test_no_name_becomes_a_program_and_nothing_is_fetched():
    evil = "<script>alert(1)</script>"
    text = page(
        FOUND | {"name": evil, "note": evil, "refusals": {evil: 1}}, AGREEMENT | {"owners": {evil: 1}}
    )
    assert "<script" not in text
    assert not re.search(r"(src|href)=|https?://", text)
