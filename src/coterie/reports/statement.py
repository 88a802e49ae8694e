"""The privacy statement in words: what a guarantee is about, what it rests on, what it leaves out.

It follows TensorFlow Privacy's statement and the checklist of "How to DP-fy ML" (Ponomareva et al. 2023, section 5.3):
unit, adjacency, what is released, the adversary's view, accounting, assumptions, tuning, and who must be trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from coterie.reports.markup import many, number

TRANSCRIPT = "public transcript"
_RELATIONS = {
    "replace_one": "two data sets are neighbours if one record of one owner is replaced by any other (replace-one); "
    "numbers of records are public.",
    "add_or_remove_one": "two data sets are neighbours if one record of one owner is added or removed "
    "(add-or-remove-one). Replacing a record is two such changes and costs about twice as much.",
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the statement is made of. All of it is public."""

    epsilon: float  # the largest certified
    delta: float
    relation: str
    unit: str
    view: str
    accountant: str
    reason: str  # why epsilon is infinite
    sizes: tuple[int, ...]
    noise: str  # gaussian, laplace, none
    clip_norm: float
    releases: tuple[int, ...]
    sampling: str  # in words
    extra: bool  # whether owners release, and are charged for, more than those sums
    own_noise: bool  # whether each owner's own noise carries its guarantee
    quorum: int
    calibration: str
    features: str
    fitted_on_public_rows: bool
    test_is_public: bool
    engine: str


def statement(facts: Facts) -> list[str]:
    """One sentence or a few for each item, as "Item: what holds"."""
    return [
        f"Guarantee: {_guarantee(facts)}",
        f"Unit of privacy: {_unit(facts)}",
        f"Adjacency: {_RELATIONS.get(facts.relation, facts.relation)}",
        f"Released: {_released(facts)}",
        "Public without charge: names of owners and columns, classes, ranges, each owner's number of records, the "
        "topology, who takes part when, and all settings.",
        f"Adversary's view: {_view(facts)}",
        f"Accountant: {_accountant(facts)}",
        f"δ against 1/n: {_delta(facts)}",
        f"Noise: {_noise(facts)}",
        f"Features: {_features(facts)}",
        f"Test rows: {_test_rows(facts)}",
        "Tuning: settings are taken as given. If they were chosen by looking at private results, that cost is not "
        "included.",
        "Scope: this run alone. Runs on the same records add up; an owner's ledger keeps count.",
        f"Trust: {_trust(facts)}",
    ]


def _guarantee(facts: Facts) -> str:
    if math.isinf(facts.epsilon):
        why = f", because {facts.reason}" if facts.reason else ""
        return f"none. No finite ε can be certified for what was released{why}."
    who = "the owner" if len(facts.sizes) == 1 else "every owner"
    epsilon, delta = number(facts.epsilon), number(facts.delta)
    return f"for {who}, what was released is (ε, δ)-differentially private with ε ≤ {epsilon}, δ = {delta}."


def _unit(facts: Facts) -> str:
    return (
        f"one {facts.unit} of one owner. Somebody with several {facts.unit}s is protected less, and without a bound on "
        "their number no guarantee for a person follows."
    )


def _released(facts: Facts) -> str:
    times = many(max(facts.releases), "release")
    norm = "1-norm" if facts.noise == "laplace" else "2-norm"
    noised = {"none": "without any noise"}.get(facts.noise, f"with {facts.noise.capitalize()} noise")
    more = " What else an owner tells is charged on top." if facts.extra else ""
    return (
        f"sums over records, each record's part at most {number(facts.clip_norm)} in {norm}, {noised}; at most {times} "
        f"an owner, of {facts.sampling}.{more} All models, also the final one, are computed from these alone."
    )


def _view(facts: Facts) -> str:
    if facts.view == TRANSCRIPT:
        return "public transcript: it sees every message of every owner, and knows all records but one."
    return f"{facts.view}. The adversary knows all records but one."


def _accountant(facts: Facts) -> str:
    return (
        f"{facts.accountant}, over the noise and the sampling that were executed (calibration: {facts.calibration}). "
        "`coterie certify --from result.json` computes it again."
    )


def _delta(facts: Facts) -> str:
    least, most = 1 / max(facts.sizes), 1 / min(facts.sizes)
    above = sum(facts.delta * size >= 1 for size in facts.sizes)
    owners, delta = len(facts.sizes), number(facts.delta)
    if not above:
        margin = number(1 / (facts.delta * max(facts.sizes)))
        return f"δ = {delta} is below 1/n of every owner; the largest owner's 1/n is {margin} times as large."
    which = "the owner" if owners == 1 else f"{above:,} of {owners:,} owners"
    return (
        f"δ = {delta} is not below 1/n for {which} (1/n is {least:.2g} to {most:.2g}): at such a δ, publishing "
        "a whole record at random would be allowed. Choose a smaller one."
    )


# Engines that hold everyone's records and seed, and where.
_ONE_DOMAIN = {"simulate": "one process", "spmd": "one group of processes that trust each other"}


def _noise(facts: Facts) -> str:
    if facts.noise == "none":
        return "none was added."
    if facts.engine in _ONE_DOMAIN:
        return (
            "pseudo-random and in floating point, drawn from one seed in this simulation. The guarantee is that of "
            "ideal noise of the same scale; whoever has the seed can take this noise off."
        )
    return "the guarantee is that of ideal noise of the same scale."


def _features(facts: Facts) -> str:
    if facts.fitted_on_public_rows:
        return f"{facts.features}: fitted on rows that were declared public, and on constants; never on private rows."
    return f"{facts.features}: independent of the data; ranges and categories are constants that were given."


def _test_rows(facts: Facts) -> str:
    if facts.test_is_public:
        return "declared public, so the joint model's metric costs nothing."
    return (
        "owners' own records. A metric on them is an oracle's: the guarantee does not cover its publication."
    )


def _trust(facts: Facts) -> str:
    holder = _ONE_DOMAIN.get(facts.engine)
    place = f" That is for the protocol; this simulation holds all records in {holder}." if holder else ""
    if math.isinf(facts.epsilon):
        return f"everybody who sees what was released.{place}"
    if facts.own_noise:
        return f"nobody beside the owner itself: its own noise carries its guarantee.{place}"
    others = f", and at least {facts.quorum:,} owners must add their noise" if facts.quorum else ""
    return f"whoever adds up the owners' messages, who sees more than the stated view{others}.{place}"
