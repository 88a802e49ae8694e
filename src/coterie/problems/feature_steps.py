"""The feature steps by name: made of a user's words, kept in a file as constants, made of these again.

Gradients alone need JAX. A step from outside the package is a map, or a function of rows: (rows, ...) -> (rows, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.problems import features
from coterie.problems.features import FeatureMap, PublicRows, Step
from coterie.problems.table import Table
from coterie.registry import MARK, Own, Registry

_TRIED = 5  # made-up rows that somebody else's map is tried on
_CLOSE = 1e-4  # relative: products of several rows at once round otherwise than those of one


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """Settings that the names of a pipeline leave open. All of them are public."""

    low: float = -1.0  # "scale" goes to [low, 1]
    intercept: float | None = 1.0  # "ball" appends it before projecting; None for no intercept
    surface: bool = False  # "ball" also scales short rows up
    steady: bool = False  # "ball" appends the same intercept to all rows, whatever their length
    bandwidth: float = 1.0  # "fourier"
    seed: int = 0  # "fourier"
    public_rows: PublicRows | None = None  # "pca", raw rows: the steps before it are applied to them too
    spread: bool = False  # "pca" takes columns in units of their spread in the public rows, uncentred


class Stage(NamedTuple):
    """What is publicly known at one place of a pipeline."""

    table: Table
    bounds: np.ndarray | None
    before: tuple[FeatureMap, ...]
    options: FeatureOptions


class Maker(NamedTuple):
    """How a step is made: from the number behind its colon and what is public there, or again from its constants."""

    make: Callable[[int, Stage], FeatureMap]
    of_constants: Callable[..., FeatureMap]  # a step's settings and arrays, by name
    number: int | None = None  # where none is written; 0: one must be; None: it takes none
    by_range: bool = False  # whether it needs columns with declared bounds


def pipeline(names: str | Sequence[str], table: Table, options: FeatureOptions | None = None) -> FeatureMap:
    """The map a command line asks for, such as "scale,ball", "pool:2,fourier:1000" or "pca:50,ball".

    Steps: none, scale, ball, pool[:factor], gradients[:cell] (images), fourier[:features], piecewise[:knots],
    pca:components, and those that were registered. Settings come from the table's declared bounds and from `options`;
    no row of the table is read. `pca` is fitted on `options.public_rows`, passed through the steps before it; a table's
    test rows are not taken unasked.
    """
    options = options or FeatureOptions()
    steps: list[FeatureMap] = []
    bounds: np.ndarray | None = np.asarray(table.bounds, np.float64)
    words = [names] if isinstance(names, Own) else names.split(",") if isinstance(names, str) else names
    for word in words:
        name, number = (word, "") if word.startswith(MARK) else word.strip().partition(":")[::2]
        maker = FEATURES.find(name)
        size = maker.number or 0
        if number or maker.number == 0:
            size = _size(word, number, maker.number)
        if maker.by_range and bounds is None:
            raise InputError(
                f"features={word!r}: needs columns with declared bounds. Put it before the other steps."
            )
        if name != "none":
            steps.append(maker.make(size, Stage(table, bounds, tuple(steps), options)))
        # Declared ranges survive scaling (as the new range) and pooling (a mean stays within); nothing else.
        if bounds is not None and name == "scale":
            bounds = np.broadcast_to([options.low, 1.0], bounds.shape)
        elif name not in ("none", "pool"):
            bounds = None
    return features.compose(*steps)


def _size(word: str, number: str, default: int | None) -> int:
    """The number that is written behind a step's colon."""
    if default is None or not number.isdigit():
        form = "takes no number" if default is None else "needs a whole number after the colon, as in pca:50"
        raise InputError(f"features={word!r}: {form}.")
    return int(number)


def _pca(components: int, stage: Stage) -> FeatureMap:
    public = stage.options.public_rows
    if public is None:
        raise InputError(
            f"features='pca:{components}': needs public_rows, rows that somebody declared public. "
            "Fitting on private rows is a release that must be charged."
        )
    seen = PublicRows(features.compose(*stage.before).apply(public.x), public.declared_by)
    return features.pca(seen, components, stage.options.spread)


def _centre(size: int, stage: Stage) -> FeatureMap:
    raise InputError(
        "features='centre': is a release that must be charged. Leave it out, and give centre a share of the budget "
        "(--centre 0.05)."
    )


def _scaled(size: int, stage: Stage) -> FeatureMap:
    del size
    assert stage.bounds is not None  # `by_range`
    return features.scale_by_bounds(stage.bounds, stage.options.low)


def _hats(knots: int, stage: Stage) -> FeatureMap:
    assert stage.bounds is not None  # `by_range`
    return features.piecewise_linear(stage.bounds, knots, features.declared_binary(stage.table.bounds))


def _waves(size: int, stage: Stage) -> FeatureMap:
    return features.random_fourier(size, stage.options.bandwidth, stage.options.seed)


def constants(mapped: FeatureMap, shape: tuple[int, ...]) -> tuple[Step, ...]:
    """The map's steps with every array they need, for rows of that shape.

    Random directions are kept as they were drawn, not as their seed: a generator may draw others in a later version.
    """
    if mapped.steps is None:
        raise InputError(
            f"features={mapped.name!r}: is a function of your own, which no file can hold. Use named steps."
        )
    fixed: list[Step] = []
    for step in mapped.steps:
        if "seed" in step.settings:
            width = rebuilt(fixed).apply(np.zeros((1, *shape), np.float32)).shape[1]
            given = step.settings
            drawn = features.random_directions(
                width, given["dim_out"] // 2, given["bandwidth"], given["seed"]
            )
            step = Step(step.name, {}, {"directions": drawn})
        fixed.append(step)
    return tuple(fixed)


def rebuilt(steps: Sequence[Step]) -> FeatureMap:
    """The map of these constants; InputError names a step that this version does not know."""
    for step in steps:
        if step.name not in FEATURES and not step.name.startswith(MARK):
            raise InputError(f"features: step {step.name!r} is unknown here. Update coterie.")
    return features.compose(
        *(FEATURES.find(step.name).of_constants(**step.settings, **step.arrays) for step in steps)
    )


_OWN = {
    "none": Maker(lambda size, stage: features.identity(), features.identity),
    "scale": Maker(_scaled, features.scale_by_bounds, by_range=True),
    "ball": Maker(
        lambda size, stage: features.unit_ball(
            stage.options.intercept, stage.options.surface, stage.options.steady
        ),
        features.unit_ball,
    ),
    "pool": Maker(lambda factor, stage: features.mean_pool(factor), features.mean_pool, 2),
    "gradients": Maker(lambda cell, stage: features.gradients(cell), features.gradients, 4),
    "fourier": Maker(_waves, features.fourier_along, 1000),
    "piecewise": Maker(_hats, features.piecewise_linear, 10, by_range=True),
    "centre": Maker(_centre, features.centre),
    "pca": Maker(_pca, features.projection, 0),
}


def _maker(name: str, thing: Any) -> Maker:
    """The maker of somebody's own step, which is a map or a function of rows."""
    if isinstance(thing, Maker):
        return thing
    if not (callable(thing) or isinstance(thing, FeatureMap)):
        raise InputError(
            f"features={name!r}: is a {type(thing).__name__}; must be a FeatureMap or a function (rows) of features."
        )
    rows: Any = thing
    mapped = thing if isinstance(thing, FeatureMap) else FeatureMap(name, features.in_chunks(rows))
    step = Step(name, {"from": FEATURES.origin(name.removeprefix(MARK))})
    mapped = mapped._replace(name=name, steps=(step,))
    return Maker(lambda size, stage: _tried(mapped, stage), lambda **constants: mapped)


def _tried(mapped: FeatureMap, stage: Stage) -> FeatureMap:
    """The map, if it treats made-up rows one by one; else an error.

    Sensitivity: one record is bounded by clipping what follows from its features alone. A map that looks at several
    rows, as one that centres them does, would let a record move the features of others.
    """
    shape, bounds = stage.table.x.shape[1:], np.asarray(stage.table.bounds, np.float64)
    low, high = bounds[0] if len(shape) > 1 else bounds.T
    made_up = np.random.default_rng(0).uniform(low, high, (_TRIED, *shape)).astype(np.float32)
    rows = features.compose(*stage.before).apply(made_up)
    try:
        together = np.asarray(mapped.apply(rows), np.float32)
        alone = np.concatenate(
            [np.asarray(mapped.apply(rows[at : at + 1]), np.float32) for at in range(_TRIED)]
        )
    except Exception as error:  # of somebody else's function
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"features={mapped.name!r}: fails on rows of shape {rows.shape} ({why}).") from error
    if together.ndim != 2 or len(together) != _TRIED:
        raise InputError(
            f"features={mapped.name!r}: {_TRIED} rows became an array of shape {together.shape}; must be "
            f"({_TRIED}, features)."
        )
    room = _CLOSE * max(1.0, float(np.nanmax(np.abs(together), initial=0.0)))
    if alone.shape != together.shape or not np.allclose(alone, together, rtol=0, atol=room, equal_nan=True):
        raise InputError(
            f"features={mapped.name!r}: a row by itself has other features than among others, so that records would "
            "tell of each other. Let the map treat each row alone, with constants that are public."
        )
    return mapped


FEATURES: Registry[Maker] = Registry("features", "coterie.features", _maker, _OWN)
