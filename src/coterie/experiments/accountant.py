"""Mechanisms in words, from the command line or a TOML file: what they cost together, or the noise a budget needs.

The events are those of the noises and samplers that protocols release with, so that an answer here and a run's own
certificate cannot disagree. Numbers are checked before anything slow is loaded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from coterie import _check
from coterie._rounding import lower, upper
from coterie.errors import InputError
from coterie.experiments.settings import fit
from coterie.relations import RELATIONS, REPLACE_ONE, named

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from coterie.accounting import Certificate
    from coterie.mechanisms import Sampler


MOST_STEPS = 10**9  # beyond, a sum of so many losses is not told apart from its rounding


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """Equal releases of sums over records, each record's part bounded by C; `multiplier` is noise over C."""

    steps: int  # how many releases
    noise: str = "gaussian"
    multiplier: float | None = None  # None: the least that keeps a budget
    rate: float | None = None  # each record in each release with this probability
    cap: int | None = None  # with `rate`: at most so many of them
    batch: int | None = None  # so many of `records`, without replacement, anew for each release
    records: int | None = None  # public

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(Mechanism).items():
            object.__setattr__(self, name, fit(name, getattr(self, name), hint))
        for name in ("steps", "cap", "batch", "records"):
            if getattr(self, name) is not None:
                _check.count(name, getattr(self, name))
        if self.steps > MOST_STEPS:
            raise InputError(f"steps={self.steps}: must be <= {MOST_STEPS:,}.")
        if self.multiplier is not None:
            _check.positive("multiplier", self.multiplier)
        if self.rate is not None and not 0 < self.rate <= 1:
            raise InputError(f"rate={self.rate}: must be > 0 and <= 1.")
        self._check_sampling()

    def _check_sampling(self) -> None:
        if self.batch is not None and self.rate is not None:
            raise InputError("rate and batch: two ways of sampling. Leave one out.")
        if self.cap is not None and self.rate is None:
            raise InputError(f"cap={self.cap}: caps what a rate draws. Give the rate.")
        if self.cap is not None and self.rate == 1:
            raise InputError(
                f"cap={self.cap}: with rate=1 so many are drawn each time. Give batch={self.cap} instead."
            )
        for name in ("batch", "cap"):
            size = getattr(self, name)
            if size is not None and self.records is None:
                raise InputError(f"{name}={size}: of how many? Give the number of records.")
            if size is not None and self.records is not None and size > self.records:
                raise InputError(f"{name}={size}: must be <= records={self.records}.")

    def event(self, multiplier: float) -> DpEvent:
        """All releases with this noise over C, as the executed noise and sampler state it."""
        from coterie.mechanisms.distributions import named

        size = self.records or 1  # where it matters to a sampler, it was asked for
        return self._sampler(size).event(named(self.noise).event(multiplier), size, self.steps)

    def _sampler(self, size: int) -> Sampler:
        from coterie.mechanisms import FixedSize, FullBatch, Poisson

        if self.batch is not None:
            return FixedSize(self.batch)
        if self.rate is None or self.rate == 1:
            return FullBatch()
        return Poisson(self.rate, size if self.cap is None else self.cap)

    def words(self, multiplier: str) -> str:
        """One line for people, with this text for the multiplier."""
        from coterie.mechanisms.distributions import named

        noise = named(self.noise)
        releases = "1 release" if self.steps == 1 else f"{self.steps:,} releases"
        bound = f"C bounds a record's part in the {noise.norm}-norm"
        return f"{releases} {noise.words} of {multiplier} × C ({bound}), {self._drawn()}"

    def _drawn(self) -> str:
        if self.batch is not None:
            return f"{self.batch:,} of {self.records:,} records drawn without replacement each time"
        if self.rate is None:
            return "all records each time"
        capped = "" if self.cap is None else f", at most {self.cap:,} of {self.records:,}"
        return f"each record drawn with probability {self.rate:.10g} each time{capped}"


class Answer(NamedTuple):
    """What was asked about, the noise that was looked for (if it was), and the certificate of all of it."""

    mechanisms: tuple[Mechanism, ...]
    multiplier: float | None  # of the mechanisms that have none of their own
    certificate: Certificate
    beside: str  # how dp-accounting compares; empty where there is no bound

    def to_json(self) -> dict[str, Any]:
        """The certificate, which `certify --from` takes, with what it is about."""
        return self.certificate.to_json() | {
            "multiplier": self.multiplier,
            "mechanisms": [asdict(mechanism) for mechanism in self.mechanisms],
            "beside_dp_accounting": self.beside,
        }

    def lines(self) -> list[str]:
        """The answer for people."""
        certificate = self.certificate
        looked_for = "" if self.multiplier is None else upper(self.multiplier)
        lines = [f"least multiplier: {looked_for}"] if looked_for else []
        lines += [
            mechanism.words(looked_for if mechanism.multiplier is None else f"{mechanism.multiplier:.10g}")
            for mechanism in self.mechanisms
        ]
        lines.append(str(certificate))
        if not certificate.reason:
            low = lower(certificate.epsilon_optimistic)
            lines.append(f"lower end: no accountant could certify less than ε = {low} for these releases")
            lines.append(f"beside dp-accounting: {self.beside}")
        return [*lines, *(f"warning: {warning}" for warning in certificate.warnings)]


def answer(
    mechanisms: Sequence[Mechanism],
    *,
    delta: float,
    relation: str = REPLACE_ONE,
    epsilon: float | None = None,
) -> Answer:
    """What the mechanisms cost together; with `epsilon`, those without a multiplier get the least that keeps it.

    Guarantee: the certificate is the accountant's for the composition of all releases on the same records.

    >>> counts = Mechanism(noise="laplace", multiplier=20.0, steps=10)
    >>> answer([counts], delta=0.0, relation="add_or_remove_one").certificate.epsilon
    0.5
    """
    _check.below_one("delta", delta)
    _check_asked(mechanisms, epsilon)
    from coterie.accounting import calibrate, certify

    relation = named(relation)
    for mechanism in mechanisms:
        _check_pair(mechanism, relation)
    multiplier = None
    if epsilon is not None:
        multiplier = calibrate(
            lambda noise: _composed(mechanisms, noise), epsilon=epsilon, delta=delta, relation=relation
        )
    event = _composed(mechanisms, multiplier)
    size = min((mechanism.records for mechanism in mechanisms if mechanism.records is not None), default=None)
    certificate = certify(event, delta=delta, relation=relation, size=size)
    return Answer(tuple(mechanisms), multiplier, certificate, _beside(certificate))


def read_plan(path: Path) -> list[Mechanism]:
    """The `[[mechanism]]` tables of a TOML file; an error names the file and the table."""
    source = f"plan={str(path)!r}"
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{source}: not valid TOML ({error}).") from error
    tables = given.pop("mechanism", None)
    for key in given:
        raise InputError(
            f"{source}: unknown key {key!r}. It holds [[mechanism]] tables; delta, epsilon and relation are options."
        )
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{source}: holds no [[mechanism]] tables. Write one for each mechanism.")
    return [from_words(table, f"{source}, mechanism {at}: ") for at, table in enumerate(tables, 1)]


def from_words(given: dict[str, Any], source: str = "") -> Mechanism:
    """A mechanism of named values; one line of InputError, which begins with its `source`, for anything else."""
    known = [field.name for field in fields(Mechanism)]
    for key in given:
        if key not in known:
            hint = _check.meant(key, known)
            raise InputError(f"{source}unknown key {key!r}. Known keys: {', '.join(known)}.{hint}")
    if "steps" not in given:
        raise InputError(f"{source}steps: missing. Say how many releases there are.")
    try:
        return Mechanism(**given)
    except InputError as error:
        raise InputError(f"{source}{error}") from None


def _check_asked(mechanisms: Sequence[Mechanism], epsilon: float | None) -> None:
    """Either every multiplier is given, or a budget and something to look for."""
    open_ones = [at for at, mechanism in enumerate(mechanisms, 1) if mechanism.multiplier is None]
    which = f" of mechanism {open_ones[0]}" if open_ones and len(mechanisms) > 1 else ""
    if epsilon is None and open_ones:
        raise InputError(f"multiplier{which}: missing. Give it, or epsilon for the least that keeps it.")
    if epsilon is not None:
        _check.positive("epsilon", epsilon)
        if not open_ones:
            raise InputError(
                f"epsilon={epsilon}: nothing to look for, every multiplier is given. Leave one out."
            )


def _check_pair(mechanism: Mechanism, relation: str) -> None:
    """Refuse a mechanism that no bound is known for under this relation, in the user's own words."""
    from coterie.accounting.certifying import check_known

    event = mechanism.event(1.0)
    for candidate in (relation, *RELATIONS):
        try:
            check_known(event, candidate)
        except InputError:
            continue
        if candidate == relation:
            return
        remedy = f"Use relation={candidate!r}, or no sampling"
        break
    else:
        remedy = "Use noise='gaussian', or no sampling"
    raise InputError(
        f"noise={mechanism.noise!r}, {mechanism._drawn()}: no bound is known under relation={relation!r}. {remedy}."
    )


def _composed(mechanisms: Sequence[Mechanism], multiplier: float | None) -> DpEvent:
    from dp_accounting import ComposedDpEvent

    events = []
    for mechanism in mechanisms:
        own = multiplier if mechanism.multiplier is None else mechanism.multiplier
        assert own is not None  # _check_asked
        events.append(mechanism.event(own))
    return events[0] if len(events) == 1 else ComposedDpEvent(events)


def _beside(certificate: Certificate) -> str:
    """Whether dp-accounting has a loss distribution for all of it; what its Rényi accountant leaves out, if not."""
    from dp_accounting.pld import PLDAccountant

    if certificate.reason:
        return ""
    if certificate.delta == 0:
        return "it has no bound at δ = 0; this is the sum of the releases' largest losses, which is exact"
    if PLDAccountant(named(certificate.relation).in_dp_accounting).supports(certificate.event):
        return "its PLD accountant knows these releases, too: its bound differs by the grids' errors alone"
    # Its RdpAccountant reads z as noise over what the sum moves, under every relation.
    return (
        "its PLD accountant does not know these releases; its Rényi accountant counts a replaced record as moving "
        "the sum by C, where it moves it by up to 2C"
    )
