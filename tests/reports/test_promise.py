"""The promise in plain words follows the facts, and says plainly where there is none."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_statement import GOOD

from coterie.reports.odds import one_in, suspicion
from coterie.reports.promise import OFTEN, SELDOM, at_most, promise, so_far
from coterie.reports.statement import SEEDED, Facts

REAL = replace(GOOD, engine="real owners")
INF = float("inf")
WITHOUT, LEARNT = "What is not promised", "What can be learnt about you"


def item(facts: Facts, name: str) -> str:
    found = dict(one.split(": ", 1) for one in promise(facts))
    return found[name]


def test_the_items_in_order():
    assert [one.partition(": ")[0] for one in promise(GOOD)] == [
        "In short",
        "What is done",
        "What can be learnt about you",
        "The exception",
        "Several records, several runs",
        "What is not promised",
        "Beware",
    ]
    assert sum(len(one.split()) for one in promise(GOOD)) < 400  # half a page


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({}, "In short", "1 in 10 about one record can at most become 1 in 4.3, but for 1 case in 100,000."),
        ({"delta": 0.0}, "In short", "a suspicion of 1 in 10 about one record can at most become 1 in 4.3."),
        ({"delta": 0.6, "sizes": (1,)}, "In short", "but for 60 cases in 100."),
        ({"epsilon": 4.0}, "In short", "can at most become 86 in 100, but"),
        ({"epsilon": 8.0}, "In short", "little is promised: a suspicion of 1 in 10 about one record may become near"),
        ({"epsilon": 8.0}, "In short", "certainty, and one of 1 in 1,000 at most 75 in 100"),
        ({"epsilon": 1806.0}, "In short", "nothing of use is promised"),
        ({"epsilon": 1806.0}, LEARNT, "no limit of use"),
        ({"epsilon": INF}, "In short", "nothing is promised about any record."),
        ({"epsilon": INF, "reason": "no noise"}, LEARNT, "no limit can be given. The reason: no noise."),
        ({"engine": SEEDED}, "In short", "nothing is promised about any record: the noise was a test's"),
        ({"relation": "add_or_remove_one"}, "In short", "can at most become 1 in 2.2, but for 1 case in 26,800."),
        ({"delta": 1 / 400}, "In short", "1 case in 400; and that δ would allow a whole record to be published."),
        ({"delta": 1 / 400}, "The exception", "For an owner of 400 records that is too many"),
        ({"delta": 1 / 4000}, "The exception", "not small: publishing a whole record at random would be"),
        ({"delta": 1 / 4000}, "The exception", "allowed once in 10 runs"),
        ({"delta": 0.0}, "The exception", "none (δ = 0)."),
        ({}, "The exception", "at most 1 in 100,000 of those of whom it is true (δ = 10⁻⁵)"),
        ({"delta": 0.03}, "The exception", "nearly all may be right"),
        ({}, LEARNT, "knows all other records, sees every message of every owner, and accuses"),
        ({}, LEARNT, "at most 1 in 4.3 (24 in 100) are right; where"),
        ({}, LEARNT, "where the suspicion was true of 1 in 1,000, at most 1 in 368 are right"),
        ({"view": "what the server publishes"}, LEARNT, "sees what is covered (what the server publishes), and"),
        ({}, "Several records, several runs", "1 in 10 can at most become 1 in 2.2, with more exceptions"),
        ({}, WITHOUT, "people like you"),
        ({}, WITHOUT, "what others tell about you"),
        ({}, "What is done", "each has a limited part, with random noise added."),
        ({"noisy": False}, "What is done", "without any noise"),
        ({}, "What is done", "Your record stays with its owner."),
        ({"own_noise": False}, "What is done", "to somebody who is trusted to add them up"),
        ({"own_noise": False, "quorum": 4}, "Beware", "has to be trusted, and at least 4 owners must add their noise."),
        ({"engine": "simulate"}, "Beware", "in this simulation all records lay in one process"),
        ({"engine": "simulate"}, "In short", "if real owners do what was simulated here, a suspicion"),
        ({"engine": "simulate"}, "What is done", "this was a simulation"),
        ({"classes_declared": False}, "Beware", "the list of possible answers was read off the records"),
        ({"test_is_public": False}, "Beware", "scores on the owners' own records are not covered"),
    ],
)  # fmt: skip
def test_the_words_follow_the_facts(change, name, words):
    assert words in item(replace(REAL, **change), name)


def test_nothing_to_beware_of_among_real_owners():
    assert "Beware" not in " ".join(promise(REAL))


@pytest.mark.parametrize(
    "change", [{"epsilon": INF}, {"epsilon": float("nan")}, {"epsilon": 12.0}, {"engine": SEEDED}]
)
def test_where_nothing_is_promised_no_odds_are_named(change):
    assert "can at most become" not in " ".join(promise(replace(REAL, **change)))


def test_private_sizes_are_not_spoken_of():
    """The number of records is a secret then: two owners' sizes, or none, give the same sentences."""
    texts = [
        promise(replace(REAL, relation="add_or_remove_one", sizes=sizes)) for sizes in ((7, 31), (900,), ())
    ]
    assert texts[0] == texts[1] == texts[2]  # fmt: skip


def test_all_runs_of_a_ledger():
    assert so_far(2.0, 1e-5, "replace_one", "up to 3 records") == (
        "All runs so far: a suspicion of 1 in 10 about one person's up to 3 records can at most become 1 in 2.2, but "
        "for 1 case in 100,000."
    )


def test_the_readmes_example():
    """Its numbers are those of the budgets that it names."""
    text = " ".join((Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())
    often, seldom = one_in(suspicion(OFTEN, 4.0)), one_in(suspicion(SELDOM, 1.0))
    example = f"at ε = 1, δ = 10⁻⁵ {at_most(1.0, 1e-5, 'record')[:-1]} ({often} at ε = 4)"
    assert f"{example}, and one of 1 in 1,000 at most {seldom}." in text
