"""An experiment is a value: everything that decides a run's result, as a frozen dataclass and as a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from coterie.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One run. None means: what suits the data or the protocol."""

    protocol: str = "dual_averaging"
    data: str = "census"  # a known data set, or the path of a CSV, Parquet or NPZ file
    target: str | None = None  # columns of a user's own file
    owner_column: str | None = None
    bounds: str | None = None  # TOML or JSON file of the columns' public ranges
    owners: int | None = None  # None: the data's natural owners
    partition: str | None = None
    features: str | None = None
    loss: str | None = None
    penalty: str = "l2"
    strength: float = 1e-4
    model: str = "linear"
    hidden: int = 128
    topology: str = "ring"
    gossip_steps: int | None = None  # None: as many as bring the owners' disagreement down to a tenth
    epsilon: tuple[float, ...] = (1.0,)  # one for all, or one for each owner
    delta: float = 1e-5
    calibration: str = "certified"
    engine: str = "simulate"
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)  # the protocol's own

    def to_toml(self) -> str:
        """The experiment as a file that `from_toml` reads back to an equal value."""
        import tomli_w

        filled = {key: value for key, value in asdict(self).items() if value is not None}
        filled["epsilon"] = list(self.epsilon)
        return tomli_w.dumps(filled)


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
        return from_toml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"experiment={path}: cannot be read ({error}).") from error


def override(base: Experiment, given: dict[str, Any], source: str) -> Experiment:
    """`base` with the given keys replaced; types are checked against the dataclass."""
    known = {one.name for one in fields(Experiment)}
    for key in given:
        if key not in known:
            raise InputError(f"{source}: unknown key {key!r}. Known keys: {', '.join(sorted(known))}.")
    if "epsilon" in given:
        given = given | {"epsilon": _epsilons(given["epsilon"], source)}
    for key, value in given.items():
        _check_type(key, value, source)
    return replace(base, **given)


def _epsilons(value: Any, source: str) -> tuple[float, ...]:
    values = value if isinstance(value, (list, tuple)) else [value]
    if not values or not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values):
        raise InputError(
            f"{source}: epsilon={value!r}: must be a number or a list of numbers, one for each owner."
        )
    return tuple(float(one) for one in values)


_TEXT = {
    "protocol",
    "data",
    "target",
    "owner_column",
    "bounds",
    "partition",
    "features",
    "loss",
    "penalty",
    "model",
}
_TEXT |= {"topology", "calibration", "engine"}
_WHOLE = {"owners", "hidden", "gossip_steps", "seed"}
_REAL = {"strength", "delta"}


def _check_type(key: str, value: Any, source: str) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    fine = (
        (key in _TEXT and isinstance(value, str))
        or (key in _WHOLE and whole)
        or (key in _REAL and (whole or isinstance(value, float)))
        or (key == "settings" and isinstance(value, dict))
        or key == "epsilon"
    )
    if not fine:
        kind = (
            "text"
            if key in _TEXT
            else "a whole number"
            if key in _WHOLE
            else "a number"
            if key in _REAL
            else "a table"
        )
        raise InputError(f"{source}: {key}={value!r}: must be {kind}.")
