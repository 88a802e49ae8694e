"""An experiment is a value: everything that decides a run's result, as a frozen dataclass and as a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
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
    bandwidth: float = 1.0  # of Fourier features
    public_rows: str | None = None  # "test": declare the test rows public, so that pca may be fitted on them
    loss: str | None = None
    penalty: str = "l2"
    strength: float = 1e-4  # of the penalty's quadratic part
    l1: float = 1e-4  # of elastic_net
    radius: float = 10.0  # of ball and box
    model: str = "linear"
    hidden: int = 128
    topology: str = "ring"
    gossip_steps: int | None = None  # None: as many as bring the owners' disagreement down to a tenth
    epsilon: tuple[float, ...] | dict[str, float] = (1.0,)  # for all, each in order, or by owner's name
    delta: float = 1e-5
    calibration: str = "certified"
    engine: str = "simulate"
    microbatch: int | None = None  # records of an owner worked on at once: memory and speed, not the result
    seed: int = 0
    sweep: str | None = None  # "epsilon": also simulate other budgets, for the picture of accuracy over ε
    settings: dict[str, Any] = field(default_factory=dict)  # the protocol's own

    def to_toml(self) -> str:
        """The experiment as a file that `from_toml` reads back to an equal value."""
        import tomli_w

        filled = {key: value for key, value in asdict(self).items() if value is not None}
        filled["epsilon"] = self.epsilon if isinstance(self.epsilon, dict) else list(self.epsilon)
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
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"experiment={str(path)!r}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise InputError(f"experiment={str(path)!r}: is not a text file in UTF-8. Give TOML.") from error
    return from_toml(text, str(path))


def override(base: Experiment, given: dict[str, Any], source: str) -> Experiment:
    """`base` with the given keys replaced; types are checked against the dataclass."""
    for key, value in given.items():
        if key not in _KINDS:
            raise InputError(f"{source}: unknown key {key!r}. Known keys: {', '.join(sorted(_KINDS))}.")
        kind, fits = _KINDS[key]
        if not fits(value):
            raise InputError(f"{source}: {key}={value!r}: must be {kind}.")
    changed = dict(given)
    if "epsilon" in given:
        changed["epsilon"] = _epsilons(given["epsilon"])
    if "settings" in given:  # None stands for the protocol's own choice, as if it were not given
        changed["settings"] = {key: value for key, value in given["settings"].items() if value is not None}
    return replace(base, **changed)


def _epsilons(value: Any) -> tuple[float, ...] | dict[str, float]:
    if isinstance(value, dict):
        return {name: float(one) for name, one in value.items()}
    return tuple(float(one) for one in value) if isinstance(value, (list, tuple)) else (float(value),)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float)


def _is_budget(value: Any) -> bool:
    several = list(value.values()) if isinstance(value, dict) else value
    several = several if isinstance(several, (list, tuple)) else [several]
    return len(several) > 0 and all(_is_number(one) for one in several)


_TEXT = ("text", _is_text)
_WHOLE = ("a whole number", _is_whole)
_NUMBER = ("a number", _is_number)
_OTHERS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "owners": _WHOLE,
    "hidden": _WHOLE,
    "gossip_steps": _WHOLE,
    "microbatch": _WHOLE,
    "seed": _WHOLE,
    "strength": _NUMBER,
    "l1": _NUMBER,
    "radius": _NUMBER,
    "bandwidth": _NUMBER,
    "delta": _NUMBER,
    "epsilon": (
        "a number, a list of one for each owner, or a table of one for each owner's name",
        _is_budget,
    ),
    "settings": ("a table", lambda value: isinstance(value, dict)),
}
_KINDS = {one.name: _OTHERS.get(one.name, _TEXT) for one in fields(Experiment)}
