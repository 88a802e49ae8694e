"""Features that cost no privacy: maps of rows to rows built from public information alone.

Each map acts on one record at a time, so a record's features depend on that record only, and its settings
come from declared bounds, public seeds or rows that somebody declared public. Maps run on the host in NumPy
float32, a bounded number of rows at a time.

Guarantee: `norm_bound` is a bound on the 2-norm of every output row (up to float32 rounding), whatever the
input, NaN and infinity included; it is `inf` where none is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from coterie import _check
from coterie.errors import InputError

_CHUNK = 8192  # rows at a time: 64 MB for 2,000 features

RowMap: TypeAlias = Callable[[np.ndarray], np.ndarray]


class Step(NamedTuple):
    """One step of a map as constants, all of them public; `feature_steps` makes the map of them again."""

    name: str
    settings: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = {}

    def __repr__(self) -> str:
        shapes = "".join(f", {name} {array.shape}" for name, array in self.arrays.items())
        return f"<Step {self.name} {dict(self.settings)}{shapes}>"


class FeatureMap(NamedTuple):
    """A public map of records: (rows, ...) -> (rows, ...) float32."""

    name: str
    apply: RowMap
    norm_bound: float = math.inf
    steps: tuple[Step, ...] | None = None  # None: somebody's own function, which no file can hold


class PublicRows(NamedTuple):
    """Rows that may be looked at freely, and who says so.

    >>> PublicRows(np.zeros((2, 3)), declared_by="survey published in 2014").x.shape
    (2, 3)
    """

    x: np.ndarray
    declared_by: str


def identity() -> FeatureMap:
    """Rows as they are, as float32 vectors."""
    return FeatureMap("none", in_chunks(_flat), steps=())


def compose(*maps: FeatureMap) -> FeatureMap:
    """One map after the other; the last one's norm bound holds.

    >>> compose(unit_ball(intercept=1.0), random_fourier(4, bandwidth=1.0, seed=0)).norm_bound
    1.0
    """
    if len(maps) < 2:
        return maps[0] if maps else identity()

    def apply(rows: np.ndarray) -> np.ndarray:
        for step in maps:
            rows = step.apply(rows)
        return rows

    known = all(step.steps is not None for step in maps)
    steps = tuple(part for step in maps for part in step.steps or ()) if known else None
    return FeatureMap(",".join(step.name for step in maps), in_chunks(apply), maps[-1].norm_bound, steps)


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

    # One pair may stand for any number of pixels.
    bound = math.sqrt(len(lowest)) if len(lowest) > 1 else math.inf
    step = Step("scale", {"low": low}, {"bounds": np.stack([lowest, highest], axis=1)})
    return FeatureMap("scale", in_chunks(apply), bound, (step,))


EVEN = math.sqrt(0.5)  # a steady intercept as long as all other features may be together


def unit_ball(intercept: float | None = None, surface: bool = False, steady: bool = False) -> FeatureMap:
    """Rows of norm above 1 are scaled down to 1; with `surface` all rows but zero are scaled to 1.

    The intercept, a constant column, is appended before the projection, so that the bound of 1 covers it. A `steady`
    one is the same in every row, and the others are scaled into what it leaves, a ball of radius √(1 - intercept²).
    Rows that are not finite become zero.

    >>> unit_ball(surface=True).apply(np.array([[3.0, 4.0]])).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    >>> unit_ball(0.6, steady=True).apply(np.array([[3.0], [0.5]])).round(3).tolist()
    [[0.800000011920929, 0.6000000238418579], [0.4000000059604645, 0.6000000238418579]]
    """
    beside = intercept or 0.0
    if steady and not 0 < beside < 1:
        raise InputError(f"intercept={intercept}: must be between 0 and 1, to be steady.")

    def apply(rows: np.ndarray) -> np.ndarray:
        flat = _flat(rows)
        finite = np.isfinite(flat).all(axis=1, keepdims=True)
        constant = np.full((len(flat), 0 if intercept is None else 1), beside, np.float32)
        inner = np.where(finite, flat if steady else np.hstack([flat, constant]), np.float32(0))
        norm = np.sqrt(np.einsum("ij,ij->i", inner, inner, dtype=np.float64))[:, None]
        length = np.where(norm > 0, norm, 1.0) if surface else np.maximum(norm, 1.0)
        projected = (inner / length).astype(np.float32)
        if not steady:
            return projected
        joined = np.hstack([projected * np.float32(math.sqrt(1 - beside**2)), constant])
        return np.where(finite, joined, np.float32(0))

    step = Step("ball", {"intercept": intercept, "surface": surface, "steady": steady})
    return FeatureMap("ball", in_chunks(apply), 1.0, (step,))


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

    return FeatureMap("pool", in_chunks(apply), steps=(Step("pool", {"factor": factor}),))


def gradients(cell: int) -> FeatureMap:
    """Oriented gradients of images, in cells of `cell` × `cell` pixels: see `image_features`."""

    def apply(images: np.ndarray) -> np.ndarray:
        from coterie.problems.image_features import oriented_gradients  # needs JAX, which other maps do not

        return oriented_gradients(images, cell)

    return FeatureMap(f"gradients:{cell}", in_chunks(apply), steps=(Step("gradients", {"cell": cell}),))


def random_fourier(dim_out: int, bandwidth: float, seed: int) -> FeatureMap:
    """cos and sin along `dim_out`/2 random directions (Rahimi & Recht 2007), of norm 1; the seed is public.

    ⟨φ(x), φ(x')⟩ approximates exp(-‖x - x'‖² / (2 bandwidth²)). Rows that are not finite become zero.
    """
    _check.positive("bandwidth", bandwidth)
    if _check.count("dim_out", dim_out, least=2) % 2:
        raise InputError(f"dim_out={dim_out}: must be even, as directions come with a cosine and a sine.")

    def apply(rows: np.ndarray) -> np.ndarray:
        flat = _flat(rows)
        return _waves(flat, random_directions(flat.shape[1], dim_out // 2, bandwidth, seed))

    step = Step("fourier", {"dim_out": dim_out, "bandwidth": bandwidth, "seed": seed})
    return FeatureMap("fourier", in_chunks(apply), 1.0, (step,))


def fourier_along(directions: np.ndarray) -> FeatureMap:
    """The map of `random_fourier` along given directions (dim, dim_out / 2)."""
    step = Step("fourier", {}, {"directions": directions})
    return FeatureMap("fourier", in_chunks(lambda rows: _waves(_flat(rows), directions)), 1.0, (step,))


def _waves(flat: np.ndarray, directions: np.ndarray) -> np.ndarray:
    angles, half = flat @ directions, directions.shape[1]
    out = np.empty((len(flat), 2 * half), np.float32)
    usable = np.isfinite(angles).all(axis=1)
    angles[~usable] = 0.0
    np.cos(angles, out=out[:, :half])
    np.sin(angles, out=out[:, half:])
    out *= np.where(usable, np.float32(math.sqrt(1.0 / half)), np.float32(0))[:, None]
    return out


def piecewise_linear(bounds: np.ndarray, knots: int, binary: np.ndarray | None = None) -> FeatureMap:
    """A hat-function basis on each column's declared range: `knots` features a column, which sum to 1.

    `binary` (columns,) marks columns that pass through, moved into their bounds; without it those declared as
    exactly [0, 1]. NaN makes a column's features zero. `bounds` (1, 2) stands for all pixels of an image.
    """
    _check.count("knots", knots, least=2)
    lowest, highest = _declared(bounds)
    straight = declared_binary(bounds) if binary is None else np.asarray(binary, bool)
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
    arrays = {"bounds": np.stack([lowest, highest], axis=1), "binary": straight}
    return FeatureMap("piecewise", in_chunks(apply), bound, (Step("piecewise", {"knots": knots}, arrays),))


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
    return projection(mean.astype(np.float32), (axes / width[:, None]).astype(np.float32))


def projection(centre: np.ndarray, axes: np.ndarray) -> FeatureMap:
    """(row - centre) @ axes: what `pca` found, as constants."""
    step = Step("pca", {}, {"centre": centre, "axes": axes})
    apply = in_chunks(lambda rows: (_flat(rows) - centre) @ axes)
    return FeatureMap(f"pca:{axes.shape[1]}", apply, steps=(step,))


def centre(mean: np.ndarray, distance: float) -> FeatureMap:
    """(row - mean) / distance: what is left of rows around a centre that owners released, charged."""
    mean = np.asarray(mean, np.float32)
    step = Step("centre", {"distance": float(distance)}, {"mean": mean})
    apply = in_chunks(lambda rows: (_flat(rows) - mean) / np.float32(distance))
    return FeatureMap("centre", apply, steps=(step,))


@lru_cache(maxsize=4)
def random_directions(dim: int, count: int, bandwidth: float, seed: int) -> np.ndarray:
    """(dim, count) normal directions of `random_fourier`."""
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


def declared_binary(bounds: np.ndarray) -> np.ndarray:
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


def in_chunks(function: RowMap) -> RowMap:
    """The function on a bounded number of rows at a time, without warnings of overflow."""

    @np.errstate(over="ignore", invalid="ignore")  # each map says what becomes of NaN
    def apply(rows: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows)
        if len(rows) <= _CHUNK:
            return function(rows)
        first = function(rows[:_CHUNK])
        out = np.empty((len(rows), *first.shape[1:]), np.float32)
        out[:_CHUNK] = first
        for start in range(_CHUNK, len(rows), _CHUNK):
            out[start : start + _CHUNK] = function(rows[start : start + _CHUNK])
        return out

    return apply
