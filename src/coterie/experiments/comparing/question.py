"""A comparison is a value: which protocols, budgets and seeds, and the experiment that all of them share."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.experiment import MOST_SEED, Experiment, override
from coterie.experiments.settings import Free, Positive, fit, typed

THREE = ("dual_averaging", "weighted_erm", "async_learner")  # over a topology, an aggregator, one at a time
_OWN = ("protocols", "epsilon", "seeds", "settings")  # keys of a file that are not the experiment's
_NOT_SHARED = ("protocol", "epsilon", "settings", "engine", "sweep")  # of an experiment


class Series(NamedTuple):
    """One line of the picture: a protocol with its own settings."""

    name: str
    protocol: str
    settings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is compared: every series at every budget with every seed. Each budget is everybody's.

    >>> Comparison(protocols=("push_sum",), epsilon=(4, 1)).epsilon  # in order
    (1.0, 4.0)
    >>> Comparison(protocols=("push_sun",))
    Traceback (most recent call last):
    coterie.errors.InputError: protocols='push_sun': unknown. Choose one of: async_learner, average_erm, central_erm, \
deep_q, dual_averaging, push_sum, random_walk, weighted_erm, wor_sgd. Did you mean 'push_sum'?
    """

    protocols: tuple[str, ...] = THREE
    epsilon: tuple[float, ...] = (0.5, 1.0, 4.0)
    seeds: int = 5  # the shared experiment's seed and those after it
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # by protocol; a list is a grid
    shared: Experiment = field(default_factory=Experiment)

    def __post_init__(self) -> None:
        from coterie.protocols import PROTOCOLS

        protocols = _listed("protocols", self.protocols, str)
        for name in protocols:
            _check.one_of("protocols", name, PROTOCOLS)
        epsilon = _listed("epsilon", self.epsilon, Positive)
        seeds = _check.count("seeds", fit("seeds", self.seeds, int))
        if self.shared.seed + seeds - 1 > MOST_SEED:
            raise InputError(
                f"seeds={seeds}: from seed {self.shared.seed} on, the last is above {MOST_SEED}."
            )
        settings = fit("settings", self.settings, dict[str, Any])
        for name, own in settings.items():
            _check.one_of("settings", name, protocols)
            if not isinstance(own, dict):
                raise InputError(f"settings.{name}={own!r}: must be a table of {name}'s own settings.")
        settings = {
            name: {key: fit(f"settings.{name}.{key}", value, Free) for key, value in own.items()}
            for name, own in settings.items()
        }
        _check_shared(self.shared)
        checked = {
            "protocols": protocols,
            "epsilon": tuple(sorted(epsilon)),
            "seeds": seeds,
            "settings": settings,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self.series()  # checks settings

    def series(self) -> list[Series]:
        """The series in the order of the protocols; settings that are lists are tried in every combination."""
        from coterie.protocols import check_settings

        series = []
        for protocol in self.protocols:
            given = self.settings.get(protocol, {})
            check_settings(protocol, given)
            grid = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
            if not all(grid.values()):
                raise InputError(
                    f"settings.{protocol}: an empty list leaves nothing to compare. Give values."
                )
            varied = [key for key, values in grid.items() if len(values) > 1]
            for values in product(*grid.values()):
                settings = typed(protocol, dict(zip(grid, values)))
                label = ", ".join(f"{key}={settings[key]}" for key in varied)
                series.append(Series(f"{protocol} ({label})" if label else protocol, protocol, settings))
        return series

    def experiment(self, series: Series, epsilon: float, seed: int) -> Experiment:
        """One run of it, as `coterie run` takes it."""
        own = {"protocol": series.protocol, "settings": series.settings}
        return replace(self.shared, epsilon=(epsilon,), seed=seed, **own)

    @property
    def seeds_used(self) -> list[int]:
        """The seeds of noise and sampling."""
        return list(range(self.shared.seed, self.shared.seed + self.seeds))

    def to_dict(self) -> dict[str, Any]:
        """The comparison as a file holds it."""
        values = {field.name: getattr(self.shared, field.name) for field in fields(self.shared)}
        values["data"] = self.shared.data_name
        shared = {key: value for key, value in values.items() if value is not None}
        own = {"protocols": list(self.protocols), "epsilon": list(self.epsilon), "seeds": self.seeds}
        rest = {key: value for key, value in shared.items() if key not in _NOT_SHARED}
        return own | rest | {"settings": self.settings}

    def to_toml(self) -> str:
        """A file that `read_toml` reads back to an equal value."""
        import tomli_w

        return tomli_w.dumps(self.to_dict())


def read_toml(path: Path, given: dict[str, Any] | None = None) -> Comparison:
    """Read a comparison from a file; `given`: keys that stand in place of the file's."""
    try:
        keys = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"comparison={str(path)!r}: cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"comparison={str(path)!r}: not valid TOML ({error}).") from error
    return from_keys(keys | (given or {}), str(path))


def from_keys(given: dict[str, Any], source: str) -> Comparison:
    """A comparison of a file's keys: its own, and those of the experiment that all runs share."""
    known = {*_OWN, *(field.name for field in fields(Experiment))} - {"protocol", "engine", "sweep"}
    for key in given:
        if key not in known:
            hint = " Give protocols, a list." if key == "protocol" else _check.meant(key, known)
            raise InputError(f"{source}: unknown key {key!r}. Known keys: {', '.join(sorted(known))}.{hint}")
    shared = {key: value for key, value in given.items() if key not in _OWN}
    own = {key: value for key, value in given.items() if key in _OWN}
    experiment = override(Experiment(), shared, source)
    try:
        return Comparison(**own, shared=experiment)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _listed(name: str, values: Any, kind: Any) -> tuple[Any, ...]:
    """The values as a tuple, of one kind and none twice."""
    several = values if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    checked = tuple(fit(name, value, kind) for value in several)
    if not checked:
        raise InputError(f"{name}: nothing is given. Give at least one.")
    twice = [value for at, value in enumerate(checked) if value in checked[:at]]
    if twice:
        raise InputError(f"{name}: {twice[0]!r} stands there twice. Give each once.")
    return checked


def _check_shared(shared: Experiment) -> None:
    """What a comparison decides itself is not the shared experiment's."""
    if shared.centre:
        raise InputError(
            f"shared.centre={shared.centre:g}: a comparison does not centre features. Leave it out."
        )
    for key in _NOT_SHARED:
        if getattr(shared, key) != getattr(Experiment(), key):
            remedy = {"protocol": " Give protocols.", "settings": " Give settings by protocol."}.get(key, "")
            raise InputError(f"shared.{key}={getattr(shared, key)!r}: a comparison decides it.{remedy}")
