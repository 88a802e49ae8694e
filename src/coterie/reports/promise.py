"""The promise in plain words: half a page for the people in the records, from the same facts as the statement.

Every sentence must be one that a nurse understands and that follows from the certificate: `odds` has the arguments.
"""

from __future__ import annotations

import math

from coterie.relations import UNIT
from coterie.reports.amounts import many, number
from coterie.reports.odds import in_hundred, of_replacing, one_in, right_accusations, suspicion
from coterie.reports.statement import ONE_DOMAIN, SEEDED, TRANSCRIPT, Facts, epsilon_of, honest
from coterie.units import OWNER, counted

OFTEN, SELDOM = 1 / 10, 1 / 1000  # how often the suspicions of the examples are right beforehand
_ACCUSED = 1 / 1000  # of all suspects, in the example that counts δ
_CERTAIN = 0.99  # near certainty: if even the seldom suspicion reaches it, nothing is promised


def promise(facts: Facts) -> list[str]:
    """A few sentences for each item, as "Item: what holds"; the first sums all up in one, fit for a terminal."""
    epsilon, delta = of_replacing(facts.promised, facts.delta, facts.relation)
    short = at_most(epsilon, delta, facts.whom)
    if facts.engine == SEEDED:
        short = (
            f"nothing is promised about any {facts.noun}: the noise was a test's, and whoever has its seed "
            "can take it off."
        )
    elif not _promises_nothing(epsilon, delta):
        if facts.most * facts.delta >= 1:
            short = f"{short[:-1]}; and that δ would allow {facts.whole} to be published."
        if facts.engine in ONE_DOMAIN:
            short = f"if real owners do what was simulated here, {short}"
    return [
        f"In short: {short}",
        f"What is done: {_done(facts)}",
        *_learnt(facts),
        "What is not promised: that nothing is learnt about people like you. If the records show that smokers fall "
        "ill more often, whoever knows that you smoke learns it of you, with your record or without. Nor does it cover "
        "what others tell about you, or what their records say of you.",
        *_beware(facts),
    ]


def so_far(epsilon: float, delta: float, relation: str, unit: str) -> str:
    """The summarising sentence for all runs in a ledger."""
    # A ledger may count up to so many records of one person.
    whose = unit if unit == "record" else f"person's {unit}"
    return f"All runs so far: {at_most(*of_replacing(epsilon, delta, relation), whose)}"


def at_most(epsilon: float, delta: float, unit: str) -> str:
    """How far (ε, δ) for replacing one `unit` can strengthen a suspicion, in a sentence."""
    if not math.isfinite(epsilon) or delta >= 1:
        return f"nothing is promised about any {unit}."
    if _promises_nothing(epsilon, delta):
        return f"nothing of use is promised: a suspicion of 1 in 1,000 about one {unit} may become near certainty."
    often, seldom = (suspicion(prior, epsilon) for prior in (OFTEN, SELDOM))
    little = "little is promised: " if seldom > 0.5 else ""
    became = _become(often)
    if often >= _CERTAIN:
        became += f", and one of 1 in 1,000 at most {one_in(seldom)}"
    cases = "case" if delta <= 0.5 else "cases"
    but = f", but for {one_in(delta).replace(' in', f' {cases} in')}" if delta else ""
    return f"{little}a suspicion of 1 in 10 about one {unit} {became}{but}."


def _promises_nothing(epsilon: float, delta: float) -> bool:
    return delta >= 1 or not suspicion(SELDOM, epsilon) < _CERTAIN  # also where ε is not a number


def _done(facts: Facts) -> str:
    where = "this was a simulation, in one place, of the following. O" if facts.engine in ONE_DOMAIN else "o"
    subject = "each has" if facts.unit == UNIT else f"all records of one {facts.noun} together have"
    sums = f"sums over records, in which {subject} a limited part"
    stays = "Your record stays with its owner" if facts.unit == UNIT else "Your records stay with their owner"
    noise = "with random noise added" if facts.noisy else "without any noise"
    if facts.colluding is not None and not facts.quorum:
        path = (
            f"Your record stays with its owner. What leaves are {sums}, {noise}: a little of it is its own, more "
            "is shared between owners in pairs, one adding what the other takes off, so that it cancels in the mean."
        )
    elif facts.colluding is not None:
        path = (
            f"{stays}. What leaves are {sums}, {noise}, and hidden under masks: random "
            "numbers that cancel when the sums of all owners are added. Nobody can read a single owner's sum."
        )
    elif facts.own_noise:
        path = f"{stays}. What leaves are {sums}, {noise}."
    else:
        path = (
            f"They hand {sums}, to somebody who is trusted to add them up and to publish the total {noise}."
        )
    return f"{where}wners of records, such as hospitals, train one model. {path} The model is made of these sums alone."


def _learnt(facts: Facts) -> list[str]:
    """What anybody can learn about one record, and how δ and repeated runs change that."""
    epsilon, delta = of_replacing(facts.promised, facts.delta, facts.relation)
    if facts.engine == SEEDED or not math.isfinite(epsilon) or delta >= 1:
        why = f" The reason: {facts.reason.rstrip('.')}." if facts.reason else ""
        return [f"What can be learnt about you: no limit can be given.{why}"]
    if _promises_nothing(epsilon, delta):
        return ["What can be learnt about you: no limit of use. Whoever accuses people of what their record would tell "
                "may be right nearly always."]  # fmt: skip
    sees = "every message of every owner" if facts.view == TRANSCRIPT else f"what is covered ({facts.view})"
    often, seldom = (_right(suspicion(prior, epsilon)) for prior in (OFTEN, SELDOM))
    return [
        "What can be learnt about you: think of people who are suspected of something that their record would tell, "
        f"and of 1 in 10 of them it is true. Somebody knows all other records, sees {sees}, and accuses whom they "
        f"like. On average, of these accusations {often}; where the suspicion was true of 1 in 1,000, {seldom}. The "
        "same holds for a guess whether your record is there, or another in its place.",
        f"The exception: {_exception(facts, epsilon, delta)}",
        f"{_several(facts)} or after two such runs on the same records, 1 in 10 "
        f"{_become(suspicion(OFTEN, 2 * epsilon))}, with more exceptions; and so on. Trying settings out on the "
        "records counts as a run.",
    ]


def _several(facts: Facts) -> str:
    """Who is protected less than the others."""
    if facts.owners_per_person > 1:
        return (
            f"More owners, several runs: all this is for one {facts.whom}, and this run. If twice as many owners know "
            "you, which nobody can see,"
        )
    if facts.unit == UNIT:
        return "Several records, several runs: all this is for one record and this run. If you have two,"
    if facts.noun == OWNER:
        return f"Several owners, several runs: all this is for one {facts.unit} and this run. If two owners know you,"
    return (
        f"Several owners, several runs: all this is for one {facts.unit}, at one owner, and this run. If two owners "
        "know you, which nobody can see,"
    )


def _right(share: float) -> str:
    """At most 1 in so many, also in hundredths where that is clearer."""
    if share >= _CERTAIN:
        return "nearly all may be right"
    hundredths = f" ({in_hundred(share)})" if 0.1 < share <= 0.5 else ""
    return f"at most {one_in(share)}{hundredths} are right"


def _become(share: float) -> str:
    return "may become near certainty" if share >= _CERTAIN else f"can at most become {one_in(share)}"


def _exception(facts: Facts, epsilon: float, delta: float) -> str:
    """δ against one in an owner's records: publishing one at random with probability n δ is (0, δ)-private."""
    if delta == 0:
        return "none (δ = 0)."
    right = _right(right_accusations(OFTEN, epsilon, delta, _ACCUSED))
    size, at_random = facts.most, ""
    who = f"With {size:,} owners" if facts.noun == OWNER else f"For an owner of {counted(size, facts.unit)}"
    if size * facts.delta >= 1:
        at_random = f" {who} that is too many: publishing {facts.whole} at random would be allowed."
    elif size * facts.delta > 0.01:
        once_in = math.floor(1 / (size * facts.delta) + 1e-9)
        rare = f"publishing {facts.whole} at random would be allowed once in {once_in:,} runs."
        at_random = f" {who} that is not small: {rare}"
    return (
        f"left out are at most {one_in(delta)} of those of whom it is true (δ = {number(facts.delta)}): these may be "
        f"found out for certain. Counting these too, of accusations against only 1 suspect in 1,000 {right}.{at_random}"
    )


def _beware(facts: Facts) -> list[str]:
    """Conditions of the promise that do not always hold."""
    warnings = []
    if facts.engine in ONE_DOMAIN:
        warnings.append(
            f"in this simulation all records lay in {ONE_DOMAIN[facts.engine]}, and the noise comes from a seed: "
            "whoever has either is not held off by any of this."
        )
    if facts.colluding is not None:
        second = of_replacing(epsilon_of(facts.all_others), facts.delta, facts.relation)
        warnings.append(f"{honest(facts)} If all of them worked together, {at_most(*second, facts.unit)}")
    elif not facts.own_noise:
        noise = f", and at least {many(facts.quorum, 'owner')} must add their noise" if facts.quorum else ""
        warnings.append(f"whoever adds up the owners' sums sees more, and has to be trusted{noise}.")
    if not facts.classes_declared:
        warnings.append(
            "the list of possible answers was read off the records; a rare answer can betray whose it is."
        )
    if not facts.columns_declared:
        warnings.append(
            "what the columns may hold was read off the records; its extremes can betray whose they are."
        )
    if not facts.test_is_public:
        warnings.append("scores on the owners' own records are not covered, and should not be published.")
    text = " ".join(sentence[0].upper() + sentence[1:] for sentence in warnings)
    return [f"Beware: {text[0].lower()}{text[1:]}"] if warnings else []
