"""An experiment is a value: everything that decides a run's result, as a frozen dataclass and as a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

from msgspec import Meta

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.settings import Count, Free, NotNegative, Positive, Probability, fit
from coterie.registry import as_name
from coterie.units import unit_of

Name: TypeAlias = Any  # text; a value of one's own is taken for its name, see `registry.Own`
_NAMES = {"protocol": str, "features": str | None, "loss": str | None, "model": str, "topology": str}
_Owners: TypeAlias = Count | None
_Budget: TypeAlias = Positive | tuple[Positive, ...] | dict[str, Positive]
_GIVEN = {"data": str, "owners": _Owners, "unit": str | None, "epsilon": _Budget}
_LONGEST = 80  # characters of one value in a `repr`
MOST_SEED = 2**32 - 2  # keys take 32 bits, and the baseline runs with the next seed
_SHARE = "be at least 0 and below 1, the share"
Paid: TypeAlias = Annotated[float, Meta(ge=0, lt=1, description=f"{_SHARE} of the budget that pays for it")]
Kept: TypeAlias = Annotated[float, Meta(ge=0, lt=1, description=f"{_SHARE} of rows kept out of training")]
BaseRate: TypeAlias = Annotated[
    float, Meta(gt=0, le=0.5, description="be above 0 and at most 0.5, the share of the rarer class")
]
Seed: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_SEED, description=f"lie between 0 and {MOST_SEED}")]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One run. None means: what suits the data or the protocol.

    Types and bounds are checked here, once, for files, options and Python alike. What depends on the data, and the
    names of protocols, topologies and data sets, is checked where these are looked up. Protocol, features, loss, model
    and topology may also be values of one's own: docs/extending.md.

    >>> Experiment(epsilon=0.5).epsilon  # one number is everybody's budget
    (0.5,)
    >>> Experiment(delta="small")
    Traceback (most recent call last):
    coterie.errors.InputError: delta='small': must be a finite number.
    """

    protocol: Name = "dual_averaging"
    data: Any = "census"  # a known data set, the path of a CSV, Parquet or NPZ file, or rows in memory
    target: str | None = None  # columns of a user's own rows
    owner_column: str | None = None
    # What is public about those columns: a TOML file, or its content.
    columns: str | dict[str, Any] | None = None
    owners: Any = None  # how many; who holds each row in memory; None: the data's natural owners
    # Of privacy: record, column:NAME, owner; or whom each row in memory is about; None: a record.
    unit: Any = None
    records_per_unit: Count | None = None  # public; None: `units.MOST`
    unit_mean: bool = False  # a unit's gradients are averaged before they are clipped, not added up
    latest: str | None = None  # date column that says which records of a unit stay; None: drawn at random
    # Public: how many owners may know one person, to whom budgets are promised then.
    owners_per_person: Count = 1
    partition: str | None = None
    features: Name = None
    bandwidth: Positive = 1.0  # of Fourier features
    # "test": declare the test rows public, so that pca may be fitted on them.
    public_rows: Literal["test"] | None = None
    loss: Name = None
    penalty: str = "l2"
    strength: NotNegative = 1e-4  # of the penalty's quadratic part
    l1: NotNegative = 1e-4  # of elastic_net
    radius: Positive = 10.0  # of ball and box
    model: Name = "linear"
    hidden: Count = 128
    topology: Name = "ring"
    gossip_steps: Count | None = None  # None: as many as bring the owners' disagreement down to a tenth
    epsilon: tuple[Positive, ...] | dict[str, Positive] = (1.0,)  # for all, each in order, or by owner's name
    delta: Probability = 1e-5
    evaluate: Paid = 0.0  # share of every budget that pays for an evaluation which may be published; 0: none
    # Share of every owner's rows that it keeps out of training, to evaluate on; 0: on all rows.
    hold_out: Kept = 0.0
    # A declared column, by whose values the evaluation is done for each group, too.
    evaluate_by: str | None = None
    # Share of every budget that pays for choosing among models of the same releases; 0: none.
    select: Paid = 0.0
    # Share of every budget that pays for the mean of all features, which is taken off; 0: none.
    centre: Paid = 0.0
    calibration: str = "certified"
    engine: Literal["simulate", "spmd"] = "simulate"
    microbatch: Count | None = None  # records of an owner worked on at once: memory and speed, not the result
    seed: Seed = 0
    metric: str | None = None  # what is shown first; None: by the task, and by how common the rarer class is
    # Share of the rarer class as publicly known; nothing reads it off the rows.
    base_rate: BaseRate | None = None
    class_weight: Literal["balanced"] | None = None  # both classes count alike, by the public base rate
    # Probability above which the second of two classes is predicted; None: 1/2, or the base rate with weights.
    threshold: Probability | Literal["base_rate"] | None = None
    sweep: Literal["epsilon"] | None = None  # also simulate other budgets, for the picture of accuracy over ε
    settings: dict[str, Free] = field(default_factory=dict)  # the protocol's own

    def __post_init__(self) -> None:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if isinstance(own := given["settings"], dict):  # None stands for the protocol's own choice
            given["settings"] = {key: value for key, value in own.items() if value is not None}
        given |= {name: as_name(given[name]) for name in _NAMES}
        if not isinstance(given["data"], str):
            given |= _in_memory(given["data"], given["owners"], given["unit"])
        if isinstance(given["columns"], dict):
            from coterie.problems.datasets.kinds import plain

            given["columns"] = plain(given["columns"])
        whole = {"data": not isinstance(given["data"], str), "columns": isinstance(given["columns"], dict)}
        for name, hint in _HINTS.items():
            if not whole.get(name):  # else a value with checks of its own
                given[name] = fit(name, given[name], hint)
        if isinstance(given["epsilon"], float):
            given["epsilon"] = (given["epsilon"],)
        for name, value in given.items():
            object.__setattr__(self, name, value)
        _check_together(self)

    @property
    def data_name(self) -> str:
        """What the data set is called."""
        return self.data if isinstance(self.data, str) else self.data.name

    def __repr__(self) -> str:
        """The values that differ from the defaults."""
        usual = {field.name: field.default for field in fields(self)} | {"settings": {}}
        changed = {name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]}
        return f"Experiment({', '.join(f'{name}={_few(value)}' for name, value in changed.items())})"

    def to_toml(self) -> str:
        """The experiment as a file that `from_toml` reads back to an equal value; rows in memory are not in it."""
        import tomli_w

        values = {field.name: getattr(self, field.name) for field in fields(self)} | {"data": self.data_name}
        filled = {key: value for key, value in values.items() if value is not None}
        filled["epsilon"] = self.epsilon if isinstance(self.epsilon, dict) else list(self.epsilon)
        return tomli_w.dumps(filled)


# What each value is converted to. Some may be given in more ways, and are such values by then.
_HINTS = get_type_hints(Experiment, include_extras=True) | _NAMES | _GIVEN


def _in_memory(data: Any, owners: Any, unit: Any) -> dict[str, Any]:
    """Rows, who holds them and whom they are about, as one value; a number of owners and a unit's name stay."""
    from coterie.problems.datasets.memory import Records

    if isinstance(data, Records):
        return {"data": data}
    number = owners is None or isinstance(owners, Integral)
    named = unit is None or isinstance(unit, str)
    rows = Records(data, None if number else owners, groups=None if named else unit)
    return {
        "data": rows,
        "owners": owners if number else None,
        "unit": unit if named else f"column:{rows.group}",
    }


def _few(value: Any) -> str:
    """A value in a few words, however many owners there are."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def from_toml(text: str, source: str = "experiment") -> Experiment:
    """Read an experiment; an unknown key is an error, not a silent default."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: not valid TOML ({error}).") from error
    return override(Experiment(), given, source)


def read_toml(path: Path) -> Experiment:
    """Read an experiment from a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"experiment={str(path)!r}: cannot be read ({error.strerror}). Give an experiment file (TOML); a data set, "
            "or rows of yours, are named by --data."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"experiment={str(path)!r}: is not a text file in UTF-8. Give TOML.") from error
    return from_toml(text, str(path))


def override(base: Experiment, given: dict[str, Any], source: str) -> Experiment:
    """`base` with the given keys replaced; an error names the `source` of what is wrong."""
    known = [field.name for field in fields(Experiment)]
    for key in given:
        if key not in known:
            hint = _check.meant(key, known)
            raise InputError(f"{source}: unknown key {key!r}. Known keys: {', '.join(sorted(known))}.{hint}")
    try:
        return replace(base, **given)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _check_together(asked: Experiment) -> None:
    """InputError where values contradict each other."""
    if not asked.epsilon:
        empty = "{}" if isinstance(asked.epsilon, dict) else "[]"
        raise InputError(f"epsilon={empty}: must be one budget for all, or one for each owner.")
    if asked.unit is not None:
        unit_of(asked.unit, asked.records_per_unit, mean=asked.unit_mean, latest=asked.latest)
    if asked.evaluate + asked.select + asked.centre >= 1:
        raise InputError(
            f"evaluate={asked.evaluate}, select={asked.select}, centre={asked.centre}: must be below 1 together, for "
            "training needs the rest of the budget. Lower one of them."
        )
    if asked.centre and asked.sweep is not None:
        raise InputError(
            f"centre={asked.centre:g}, sweep={asked.sweep!r}: features are centred for one budget alone. Leave one out."
        )
    for name in ("hold_out", "evaluate_by"):
        if (value := getattr(asked, name)) and not asked.evaluate:
            raise InputError(
                f"{name}={value!r}: is about an evaluation, and there is none. Add evaluate, such as 0.05."
            )
