"""Features that cost no privacy: maps of rows to rows built from public information alone.

Each map acts on one record at a time, so a record's features depend on that record only, and its settings
come from declared bounds, public seeds or rows that somebody declared public. Maps run on the host in NumPy
float32, a bounded number of rows at a time.

Guarantee: `norm_bound` is a bound on the 2-norm of every output row (up to float32 rounding), whatever the
input, NaN and infinity included; it is `inf` where none is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.problems.image_features import oriented_gradients
from coterie.problems.table import Table

_CHUNK = 8192  # rows at a time: 64 MB for 2,000 features

RowMap: TypeAlias = Callable[[np.ndarray], np.ndarray]


class FeatureMap(NamedTuple):
    """A public map of records: (rows, ...) -> (rows, ...) float32."""

    name: str
    apply: RowMap
    norm_bound: float = math.inf


class PublicRows(NamedTuple):
    """Rows that may be looked at freely, and who says so.

    >>> PublicRows(np.zeros((2, 3)), declared_by="survey published in 2014").x.shape
    (2, 3)
    """

    x: np.ndarray
    declared_by: str


def identity() -> FeatureMap:
    """Rows as they are, as float32 vectors."""
    return FeatureMap("none", _in_chunks(_flat))


def compose(*maps: FeatureMap) -> FeatureMap:
    """One map after the other; the last one's norm bound holds.

    >>> compose(unit_ball(intercept=1.0), random_fourier(4, bandwidth=1.0, seed=0)).norm_bound
    1.0
    """
    if not maps:
        return identity()

    def apply(rows: np.ndarray) -> np.ndarray:
        for step in maps:
            rows = step.apply(rows)
        return rows

    return FeatureMap(",".join(step.name for step in maps), _in_chunks(apply), maps[-1].norm_bound)


def scale_by_bounds(bounds: np.ndarray, low: float = -1.0) -> FeatureMap:
    """Each column from its public bounds to [low, 1], `low` -1 or 0; values outside are moved to the bound.

    `bounds` is (columns, 2), or (1, 2) for all pixels of an image. NaN and constant columns become 0.

    >>> scale_by_bounds(np.array([[0.0, 10.0]])).apply(np.array([[5.0], [99.0]])).ravel().tolist()
    [0.0, 1.0]
    """
    if low not in (-1.0, 0.0):
        raise InputError(f"low={low}: must be -1 or 0.")
    lowest, highest = _declared(bounds)
    width = np.where(highest > lowest, highest - lowest, np.inf)

    def apply(rows: np.ndarray) -> np.ndarray:
        by_column = _columns(rows, len(lowest))
        part = (np.clip(by_column, lowest, highest) - lowest) / width
        scaled = np.where((width < np.inf) & ~np.isnan(part), low + (1.0 - low) * part, 0.0)
        return scaled.reshape(rows.shape).astype(np.float32)

    bound = (
        math.sqrt(len(lowest)) if len(lowest) > 1 else math.inf
    )  # one pair may stand for any number of pixels
    return FeatureMap("scale", _in_chunks(apply), bound)


def unit_ball(intercept: float | None = None, surface: bool = False) -> FeatureMap:
    """Rows of norm above 1 are scaled down to 1; with `surface` all rows but zero are scaled to 1.

    The intercept, a constant column, is appended before the projection, so that the bound of 1 covers it.
    Rows that are not finite become zero.

    >>> unit_ball(surface=True).apply(np.array([[3.0, 4.0]])).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    def apply(rows: np.ndarray) -> np.ndarray:
        flat = _flat(rows)
        if intercept is not None:
            flat = np.hstack([flat, np.full((len(flat), 1), intercept, np.float32)])
        flat = np.where(np.isfinite(flat).all(axis=1, keepdims=True), flat, np.float32(0))
        norm = np.sqrt(np.einsum("ij,ij->i", flat, flat, dtype=np.float64))[:, None]
        length = np.where(norm > 0, norm, 1.0) if surface else np.maximum(norm, 1.0)
        return (flat / length).astype(np.float32)

    return FeatureMap("ball", _in_chunks(apply), 1.0)


def mean_pool(factor: int) -> FeatureMap:
    """Means of factor × factor pixels: (rows, h, w[, channels]) -> (rows, features)."""
    _check.count("factor", factor)

    def apply(rows: np.ndarray) -> np.ndarray:
        if rows.ndim < 3 or rows.shape[1] % factor or rows.shape[2] % factor:
            raise InputError(
                f"factor={factor}: must divide height and width of images; rows have shape {rows.shape[1:]}."
            )
        n, height, width, *rest = rows.shape
        tiles = rows.reshape(n, height // factor, factor, width // factor, factor, *rest)
        return _flat(tiles.mean(axis=(2, 4), dtype=np.float32))

    return FeatureMap("pool", _in_chunks(apply))


def random_fourier(dim_out: int, bandwidth: float, seed: int) -> FeatureMap:
    """cos and sin along `dim_out`/2 random directions (Rahimi & Recht 2007), of norm 1; the seed is public.

    ⟨φ(x), φ(x')⟩ approximates exp(-‖x - x'‖² / (2 bandwidth²)). Rows that are not finite become zero.
    """
    _check.positive("bandwidth", bandwidth)
    if _check.count("dim_out", dim_out, least=2) % 2:
        raise InputError(f"dim_out={dim_out}: must be even, as directions come with a cosine and a sine.")

    def apply(rows: np.ndarray) -> np.ndarray:
        flat = _flat(rows)
        angles = flat @ _directions(flat.shape[1], dim_out // 2, bandwidth, seed)
        out = np.empty((len(flat), dim_out), np.float32)
        usable = np.isfinite(angles).all(axis=1)
        angles[~usable] = 0.0
        np.cos(angles, out=out[:, : dim_out // 2])
        np.sin(angles, out=out[:, dim_out // 2 :])
        out *= np.where(usable, np.float32(math.sqrt(2.0 / dim_out)), np.float32(0))[:, None]
        return out

    return FeatureMap("fourier", _in_chunks(apply), 1.0)


def piecewise_linear(bounds: np.ndarray, knots: int, binary: np.ndarray | None = None) -> FeatureMap:
    """A hat-function basis on each column's declared range: `knots` features a column, which sum to 1.

    `binary` (columns,) marks columns that pass through, moved into their bounds; without it those declared as
    exactly [0, 1]. NaN makes a column's features zero. `bounds` (1, 2) stands for all pixels of an image.
    """
    _check.count("knots", knots, least=2)
    lowest, highest = _declared(bounds)
    straight = _declared_binary(bounds) if binary is None else np.asarray(binary, bool)
    width = np.where(highest > lowest, highest - lowest, np.inf)
    grid = np.arange(knots, dtype=np.float32)

    def apply(rows: np.ndarray) -> np.ndarray:
        by_column = np.clip(_columns(rows, len(lowest)), lowest, highest)
        passed = np.broadcast_to(straight, by_column.shape[1])
        place = ((by_column - lowest) / width * (knots - 1)).astype(np.float32)[:, ~passed]
        hats = np.maximum(1.0 - np.abs(place[:, :, None] - grid), 0.0)
        return np.nan_to_num(np.hstack([_flat(by_column[:, passed]), _flat(hats)]), copy=False)

    largest = np.where(straight, np.maximum(np.abs(lowest), np.abs(highest)), 1.0)
    bound = float(np.linalg.norm(largest)) if len(lowest) > 1 else math.inf
    return FeatureMap("piecewise", _in_chunks(apply), bound)


def pca(public_rows: PublicRows, components: int, spread: bool = False) -> FeatureMap:
    """The leading principal components of rows that were declared public.

    With `spread` columns are divided by their standard deviation in those rows (constant ones are left) and nothing is
    centred: the direction of the mean is one of the components, and stands in for an intercept.

    Guarantee: costs nothing only because the rows it is fitted on are public; so it takes no bare array.
    """
    if not isinstance(public_rows, PublicRows):
        raise InputError(
            f"public_rows is a {type(public_rows).__name__}: fitting on private rows is a release that must "
            "be charged. Declare public rows with PublicRows(x, declared_by=...)."
        )
    if not public_rows.declared_by:
        raise InputError("declared_by='': must say who declared these rows public.")
    flat = _flat(public_rows.x).astype(np.float64)
    if _check.count("components", components) > min(flat.shape):
        raise InputError(f"components={components}: must be <= {min(flat.shape)}, what the public rows give.")
    mean, width = flat.mean(axis=0), np.ones(flat.shape[1])
    if spread:
        mean, width = np.zeros_like(mean), np.where(flat.std(axis=0) > 0, flat.std(axis=0), 1.0)
    axes = np.linalg.svd((flat - mean) / width, full_matrices=False)[2][:components].T
    centre, axes = mean.astype(np.float32), (axes / width[:, None]).astype(np.float32)
    return FeatureMap(f"pca:{components}", _in_chunks(lambda rows: (_flat(rows) - centre) @ axes))


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """Settings that the names of a pipeline leave open. All of them are public."""

    low: float = -1.0  # "scale" goes to [low, 1]
    intercept: float | None = 1.0  # "ball" appends it before projecting; None for no intercept
    surface: bool = False  # "ball" also scales short rows up
    bandwidth: float = 1.0  # "fourier"
    seed: int = 0  # "fourier"
    public_rows: PublicRows | None = None  # "pca", raw rows: the steps before it are applied to them too
    spread: bool = (
        False  # "pca" takes columns in units of their spread in the public rows, and does not centre
    )


def pipeline(names: str | Sequence[str], table: Table, options: FeatureOptions | None = None) -> FeatureMap:
    """The map a command line asks for, such as "scale,ball", "pool:2,fourier:1000" or "pca:50,ball".

    Steps: none, scale, ball, pool[:factor], gradients[:cell] (images), fourier[:features], piecewise[:knots],
    pca:components. Settings come from the table's declared bounds and from `options`; no row of the table is
    read. `pca` is fitted on `options.public_rows`, passed through the steps before it; a table's test rows are
    not taken unasked.
    """
    options = options or FeatureOptions()
    steps: list[FeatureMap] = []
    bounds: np.ndarray | None = np.asarray(table.bounds, np.float64)
    binary = _declared_binary(bounds)
    for word in names.split(",") if isinstance(names, str) else names:
        name, _, number = word.strip().partition(":")
        _check.one_of("features", name, _DEFAULTS)
        size = _size(word, number, _DEFAULTS[name])
        if name in ("scale", "piecewise") and bounds is None:
            raise InputError(
                f"features={word!r}: needs columns with declared bounds. Put it before the other steps."
            )
        if name != "none":
            steps.append(_step(name, size, _Stage(bounds, binary, tuple(steps), options)))
        bounds = _bounds_after(name, bounds, options)
    return compose(*steps)


class _Stage(NamedTuple):
    """What is publicly known at one place of a pipeline."""

    bounds: np.ndarray | None
    binary: np.ndarray
    before: tuple[FeatureMap, ...]
    options: FeatureOptions


_DEFAULTS = {"none": None, "scale": None, "ball": None, "pool": 2, "gradients": 4, "fourier": 1000}
_DEFAULTS |= {"piecewise": 10, "pca": 0}


def _size(word: str, number: str, default: int | None) -> int:
    if not number and default != 0:
        return default or 0
    if default is None or not number.isdigit():
        form = "takes no number" if default is None else "needs a whole number after the colon, as in pca:50"
        raise InputError(f"features={word!r}: {form}.")
    return int(number)


def _step(name: str, size: int, stage: _Stage) -> FeatureMap:
    options = stage.options
    if name == "ball":
        return unit_ball(options.intercept, options.surface)
    if name == "pool":
        return mean_pool(size)
    if name == "gradients":
        return FeatureMap(f"gradients:{size}", _in_chunks(lambda images: oriented_gradients(images, size)))
    if name == "fourier":
        return random_fourier(size, options.bandwidth, options.seed)
    if name == "pca":
        return _pca_step(size, stage)
    assert stage.bounds is not None  # checked by the caller, which knows the step's own words
    if name == "scale":
        return scale_by_bounds(stage.bounds, options.low)
    return piecewise_linear(stage.bounds, size, stage.binary)


def _pca_step(components: int, stage: _Stage) -> FeatureMap:
    public = stage.options.public_rows
    if public is None:
        raise InputError(
            f"features='pca:{components}': needs public_rows, rows that somebody declared public. "
            "Fitting on private rows is a release that must be charged."
        )
    seen = PublicRows(compose(*stage.before).apply(public.x), public.declared_by)
    return pca(seen, components, stage.options.spread)


def _bounds_after(name: str, bounds: np.ndarray | None, options: FeatureOptions) -> np.ndarray | None:
    """Declared ranges survive scaling (as the new range) and pooling (a mean stays within); nothing else."""
    if bounds is not None and name == "scale":
        return np.broadcast_to([options.low, 1.0], bounds.shape)
    return bounds if name in ("none", "pool") else None


@lru_cache(maxsize=4)
def _directions(dim: int, count: int, bandwidth: float, seed: int) -> np.ndarray:
    draws = np.random.default_rng(seed).standard_normal((dim, count), dtype=np.float32)
    return draws / np.float32(bandwidth)


def _declared(bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bounds = np.asarray(bounds, np.float64)
    if (
        bounds.ndim != 2
        or bounds.shape[1] != 2
        or not np.isfinite(bounds).all()
        or (bounds[:, 0] > bounds[:, 1]).any()
    ):
        raise InputError(
            f"bounds of shape {bounds.shape}: must be (columns, 2), finite, lowest <= highest in each row."
        )
    return bounds[:, 0], bounds[:, 1]


def _declared_binary(bounds: np.ndarray) -> np.ndarray:
    """Columns declared as exactly [0, 1]; a single pair stands for pixels, which are not binary."""
    return np.all(np.asarray(bounds) == (0.0, 1.0), axis=1) & (len(bounds) > 1)


def _columns(rows: np.ndarray, declared: int) -> np.ndarray:
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    if declared not in (1, flat.shape[1]):
        raise InputError(
            f"bounds for {declared} columns, but rows have {flat.shape[1]}: declare one pair for each column."
        )
    return flat


def _flat(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(len(rows), math.prod(rows.shape[1:])).astype(np.float32, copy=False)


def _in_chunks(function: RowMap) -> RowMap:
    def quiet(rows: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # each map says what becomes of NaN
            return function(rows)

    def apply(rows: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows)
        if len(rows) <= _CHUNK:
            return quiet(rows)
        first = quiet(rows[:_CHUNK])
        out = np.empty((len(rows), *first.shape[1:]), np.float32)
        out[:_CHUNK] = first
        for start in range(_CHUNK, len(rows), _CHUNK):
            out[start : start + _CHUNK] = quiet(rows[start : start + _CHUNK])
        return out

    return apply
