"""The privacy statement in words: what a guarantee is about, what it rests on, what it leaves out.

It follows TensorFlow Privacy's statement and the checklist of "How to DP-fy ML" (Ponomareva et al. 2023, section 5.3):
unit, adjacency, what is released, the adversary's view, accounting, assumptions, tuning, and who must be trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from coterie._rounding import at_most
from coterie.relations import UNIT, named
from coterie.reports.amounts import bound, many, number
from coterie.units import OWNER, at_owners, noun_of, several

TRANSCRIPT = "public transcript"
SEEDED = "real owners, test noise"  # in the engine's place where somebody gave the seed of a node's noise
CLASSES_READ = (
    "the list of classes was read off the records, as no columns file declares it: one record could show in it, and no "
    "ε covers that"
)
COLUMNS_READ = (
    "ranges and lists were read off the records (coterie data init --from-rows, or an estimator without bounds or "
    "classes): they show single records, and no ε covers that"
)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The statement's facts: public and plain values, so that a file can hold them for a reader to derive it again."""

    epsilon: float  # the largest certified
    delta: float
    relation: str
    unit: str
    view: str
    accountant: str
    reason: str  # why epsilon is infinite
    sizes: tuple[int, ...]
    noise: str  # in words, such as "with Gaussian noise"
    noisy: bool  # whether there is any
    norm: int  # in which each record's part is at most clip_norm
    clip_norm: float
    releases: int  # the most of any owner
    sampling: str  # in words
    extra: bool  # whether owners release, and are charged for, more than those sums
    own_noise: bool  # whether each owner's own noise carries its guarantee
    quorum: int
    selection: float  # share of the budget that paid for choosing a model; 0: nothing was released for it
    evaluation: float  # share of the budget that paid for tables of scores; 0: none were released
    # Share of records that owners kept out of training for these tables; 0: they are over all.
    held_out: float
    grouped_by: str  # the column whose values they are divided by; empty: none
    # The number of owners that may collude, where owners rely on each other's noise; None: own noise.
    colluding: int | None = None
    # Where `colluding` is a number: the largest certificate against all other owners together.
    all_others: dict[str, Any] | None = None
    # Where the view trusts whoever adds up and names an ε against it: that certificate.
    adding_up: dict[str, Any] | None = None
    owners_per_person: int = 1  # how many owners may know one person, to whom the budget is promised
    # The certificate for a person at so many owners, at least two; None: there is one owner.
    person: dict[str, Any] | None = None
    pair: dict[str, Any] | None = None  # the same at two owners, where `person` is at more
    centre: float = 0.0  # share of the budget that paid for the mean of the features; 0: none was released
    calibration: str
    features: str
    fitted_on_public_rows: bool
    classes_declared: bool  # or read off the records
    columns_declared: bool  # or made from the records
    test_is_public: bool
    engine: str
    # Derived from the others; used in many sentences.
    promised: float = field(
        init=False
    )  # the ε for whom the budget is promised: a unit, or a person at several owners
    noun: str = field(init=False)  # of the unit
    whom: str = field(init=False)  # to whom it is promised, after "one"
    whole: str = field(init=False)  # what too large a δ would allow to be published
    # Where adding a record makes a neighbour, sizes are secret: no sentence may contain them.
    sizes_are_private: bool = field(init=False)
    # Units that δ is held against: of the largest owner; where owners are the units, all owners. None where private.
    most: int = field(init=False)

    def __post_init__(self) -> None:
        noun, private = noun_of(self.unit), not named(self.relation).sizes_are_public
        most = len(self.sizes) if noun == OWNER else max(self.sizes, default=0)
        for name, value in {
            "promised": self.epsilon if self.owners_per_person == 1 else epsilon_of(self.person),
            "noun": noun,
            "whom": at_owners(self.unit, self.owners_per_person),
            "whole": "a whole record" if self.unit == UNIT else f"all records of one {noun}",
            "sizes_are_private": private,
            "most": 0 if private else most,
        }.items():
            object.__setattr__(self, name, value)


# Facts found nowhere else in a result, which keeps them beside its certificates, under `privacy.facts`.
KEPT = ("noise", "noisy", "norm", "clip_norm", "releases", "sampling", "extra", "own_noise", "quorum", "selection",
        "evaluation", "held_out", "grouped_by", "colluding", "all_others",
        "owners_per_person", "person", "features", "fitted_on_public_rows", "classes_declared", "columns_declared",
        "test_is_public")  # fmt: skip
SOMETIMES = ("pair", "adding_up", "centre")  # kept only where they apply

# Engines that hold everyone's records and seed, and where.
ONE_DOMAIN = {"simulate": "one process", "spmd": "one group of processes that trust each other"}
_IDEAL = "the guarantee is that of ideal noise of the same scale."  # for noise that nobody else can know
_KNOWN = dict.fromkeys(
    ONE_DOMAIN,
    "pseudo-random and in floating point, drawn from one seed in this simulation. The guarantee is that of ideal noise "
    "of the same scale; whoever has the seed can take this noise off.",
) | {SEEDED: "a test's, drawn from a seed that was given: whoever has the seed can take this noise off."}
_GIVEN = "independent of the data; ranges and categories are constants that were given."  # features
_FITTED = "fitted on rows that were declared public, and on constants; never on private rows."
_PUBLIC = "declared public, so the joint model's metric costs nothing."  # test rows
_OWN = (
    "owners' own records. A metric on them is an oracle value: the guarantee does not cover its publication."
)


def undeclared(classes_declared: bool, columns_declared: bool) -> list[str]:
    """Lists and ranges that count as public although they were read off the records."""
    return ([] if classes_declared else [CLASSES_READ]) + ([] if columns_declared else [COLUMNS_READ])


def statement(facts: Facts) -> list[str]:
    """A few sentences for each item, as "Item: what holds"."""
    sizes = "" if facts.sizes_are_private else f" each owner's number of {several(facts.unit)},"
    read_off = undeclared(facts.classes_declared, facts.columns_declared)
    but = "one" if facts.unit == UNIT else f"those of one {facts.noun}"
    view = f"{facts.view}. The adversary knows all records but {but}."
    if facts.view == TRANSCRIPT:
        view = f"public transcript: it sees every message of every owner, and knows all records but {but}."
    elif facts.all_others:
        view += f" Against all other owners together: {together(facts)}."
    return [
        f"Guarantee: {_guarantee(facts)}",
        f"Unit of privacy: {_unit(facts)}",
        f"Adjacency: {named(facts.relation).words(facts.unit, facts.owners_per_person)}",
        f"Released: {_released(facts)}",
        f"Public without charge: names of owners and columns, classes, ranges,{sizes} the topology, who takes part "
        f"when, and all settings.{''.join(f' Beware: {remark}.' for remark in read_off)}",
        f"Adversary's view: {view}",
        f"Accountant: {facts.accountant}, over the noise and the sampling that were executed (calibration: "
        f"{facts.calibration}). `coterie certify --from result.json` computes it again.",
        f"δ against 1/n: {_delta(facts)}",
        f"Noise: {_KNOWN.get(facts.engine, _IDEAL) if facts.noisy else 'none was added.'}",
        f"Features: {facts.features}: {_FITTED if facts.fitted_on_public_rows else _GIVEN}",
        f"Test rows: {_PUBLIC if facts.test_is_public else _OWN}",
        "Tuning: settings are taken as given. If they were chosen by looking at private results, that cost is not "
        "included.",
        "Scope: this run alone. Runs on the same records add up; an owner's ledger keeps count.",
        f"Trust: {_trust(facts)}",
    ]


def _guarantee(facts: Facts) -> str:
    if math.isinf(facts.promised):
        why = f", because {facts.reason}" if facts.reason else ""
        return f"none. No finite ε can be certified for what was released{why}."
    who = "the owner" if len(facts.sizes) == 1 else "every owner"
    epsilon, delta = number(at_most(facts.promised)), number(facts.delta)
    return f"for {who}, what was released is (ε, δ)-differentially private with ε ≤ {epsilon}, δ = {delta}."


def _unit(facts: Facts) -> str:
    noun, several_owners = facts.noun, facts.owners_per_person > 1
    if facts.unit == UNIT:
        who = f"one {facts.whom}, all of them together" if several_owners else "one record of one owner"
        less = "records, or at more owners," if several_owners else "several records"
        return (
            f"{who}. Somebody with {'more ' * several_owners}{less} is protected less, and without a bound on their "
            f"number no guarantee for a person follows.{_other_bound(facts)}"
        )
    if noun == OWNER:
        return f"one {facts.whom}: all that it holds, as far as it takes part.{_record(facts)}{_other_bound(facts)}"
    at = facts.whom if several_owners else f"{facts.unit}, at one owner"
    known = "more owners" if several_owners else "two owners"
    return (
        f"one {at}: all of them together, however many there are. An owner who has more of one {noun} leaves the "
        f"others out. Who is known to {known} is one {noun} at each, and nobody can see that: it is protected less."
        f"{_record(facts)}{_other_bound(facts)}"
    )


def _record(facts: Facts) -> str:
    """Argument: replacing one record of a unit is replacing the unit; adding one is removing it and adding another."""
    return "" if facts.sizes_are_private else f" The same ε bounds one record of one {facts.noun}."


def _other_bound(facts: Facts) -> str:
    """The ε beside the promised one: at one owner where the promise is for several, and at two owners."""
    if facts.person is None or math.isinf(facts.epsilon):
        return ""
    at_one, at_two = "", facts.person
    if facts.owners_per_person > 1:
        at_one, at_two = (
            f" For one {facts.unit}, at one owner: {bound(facts.epsilon)}.",
            facts.pair,
        )
    if at_two is None:
        return at_one
    return f"{at_one} For one {at_owners(facts.unit, 2)}: {bound(epsilon_of(at_two))}."


def _released(facts: Facts) -> str:
    times = many(facts.releases, "release")
    more = " What else an owner tells is charged on top." if facts.extra else ""
    if facts.centre:
        more += (
            f" Before training, one vector an owner with Gaussian noise: the sum of features over its "
            f"{several(facts.unit)}, whose mean over all owners is taken off. {facts.centre:.3g} of every budget paid "
            "for it, and the guarantee includes it."
        )
    if facts.selection:
        more += (
            " After training, one vector an owner with Gaussian noise: sums over its records of how much more or less "
            "than the trained model each model of a public list loses, by which one of them is chosen. "
            f"{facts.selection:.3g} of every budget paid for it, and the guarantee includes it."
        )
    if facts.evaluation:
        which = f"all its {several(facts.unit)}"
        if facts.held_out:
            share = f"{facts.held_out:.3g} of its {several(facts.unit)}"
            which = f"{share}, which it drew in secret and kept out of training"
        groups = f" and by groups of {facts.grouped_by!r}" if facts.grouped_by else ""
        more += (
            f" After training, one table of scores an owner, over {which}{groups}, with Gaussian noise: "
            f"{facts.evaluation:.3g} of every budget paid for it, and the guarantee includes it. What the evaluation "
            "publishes is computed from these tables."
        )
    parts = "records, each record's part"
    if facts.unit != UNIT:
        parts = f"{several(facts.unit)}, the part of all records of one {facts.noun} together"
    return (
        f"sums over {parts} at most {number(facts.clip_norm)} in {facts.norm}-norm, {facts.noise}; "
        f"at most {times} an owner, of {facts.sampling}.{more} All models, also the final one, are computed from these "
        "alone."
    )


def together(facts: Facts) -> str:
    """The ε that holds if all other owners collude."""
    epsilon = epsilon_of(facts.all_others)
    return bound(epsilon) + f", δ = {number(facts.delta)}" * math.isfinite(epsilon)


def epsilon_of(certificate: dict[str, Any] | None) -> float:
    """The ε of a certificate in its JSON form."""
    value = (certificate or {}).get("epsilon")
    return float(value) if isinstance(value, int | float) else math.inf


def _delta(facts: Facts) -> str:
    if facts.sizes_are_private:
        return (
            f"δ = {number(facts.delta)} must be well below one over every owner's number of {several(facts.unit)}, "
            "which is not public here: each owner checks its own."
        )
    if facts.noun == OWNER:
        return _against_owners(facts)
    least, most = 1 / max(facts.sizes), 1 / min(facts.sizes)
    above = sum(facts.delta * size >= 1 for size in facts.sizes)
    owners, delta = len(facts.sizes), number(facts.delta)
    if not above:
        margin = number(1 / (facts.delta * max(facts.sizes)))
        return f"δ = {delta} is below 1/n of every owner; the largest owner's 1/n is {margin} times as large."
    which = "the owner" if owners == 1 else f"{above:,} of {owners:,} owners"
    return (
        f"δ = {delta} is not below 1/n for {which} (1/n is {least:.2g} to {most:.2g}): at such a δ, publishing "
        f"{facts.whole} at random would be allowed. Choose a smaller one."
    )


def _against_owners(facts: Facts) -> str:
    """Where owners are the units, n is the number of owners."""
    owners, delta = len(facts.sizes), number(facts.delta)
    if facts.delta * owners < 1:
        margin = number(1 / (facts.delta * owners))
        return f"δ = {delta} is below 1/n, n the number of owners; 1/n is {margin} times as large."
    return (
        f"δ = {delta} is not below 1/n, n = {owners:,} owners: at such a δ, publishing {facts.whole} would be "
        "allowed. Choose a smaller one."
    )


def honest(facts: Facts) -> str:
    """Who must be honest where sums are masked, or noise is shared."""
    fellows, needed = len(facts.sizes) - 1, len(facts.sizes) - 1 - (facts.colluding or 0)
    return (
        f"at least {needed:,} of an owner's {fellows:,} fellow owners must be who they say they are, add their noise, "
        "and keep keys and noise to themselves."
    )


def _trust(facts: Facts) -> str:
    holder = ONE_DOMAIN.get(facts.engine)
    place = f" That is for the protocol; this simulation holds all records in {holder}." if holder else ""
    if math.isinf(facts.epsilon):
        return f"everybody who sees what was released.{place}"
    if facts.own_noise:
        return f"nobody beside the owner itself: its own noise carries its guarantee.{place}"
    if facts.colluding is not None:
        how = (
            "Nobody is trusted to add up: single messages look like random numbers."
            if facts.quorum
            else "Everybody may see all messages: noise that owners share in pairs hides what is in each of them."
        )
        return f"{honest(facts)} {how}{place}"
    quorum = f", and at least {many(facts.quorum, 'owner')} must add their noise" if facts.quorum else ""
    return f"whoever adds up the owners' messages, who sees more than the stated view{quorum}.{place}"
