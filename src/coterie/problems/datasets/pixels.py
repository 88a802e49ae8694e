"""Images as a column of a frame: each cell an array of one shape, (height, width[, channels])."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.errors import InputError


def cells(values: Any) -> Any:
    """A column of arrays of three or more axes: views of them, a row each. Others as they are."""
    if values.ndim < 3:
        return values
    column = np.empty(len(values), object)
    for row, image in enumerate(values):  # a list of arrays would be taken for one of more axes
        column[row] = image
    return column


def nested(column: Any) -> np.ndarray | None:
    """A Parquet column of lists, or of tensors, as one array (rows, …); None where it is no such, or lengths differ."""
    import pyarrow as pa
    from pyarrow import compute

    array = column.combine_chunks()
    if isinstance(array.type, pa.FixedShapeTensorType):
        return array.to_numpy_ndarray() if not array.null_count else None
    shape = [len(array)]
    while isinstance(array.type, (pa.ListType, pa.LargeListType, pa.FixedSizeListType)):
        lengths = compute.call_function("list_value_length", [array]).unique().to_pylist()
        if array.null_count or len(lengths) != 1:
            return None
        shape.append(lengths[0])
        array = array.flatten()
    numbers = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    if len(shape) == 1 or array.null_count or not numbers:
        return None
    return array.to_numpy(zero_copy_only=False).reshape(shape)


def shape_of(column: Any) -> tuple[int, ...] | None:
    """The shape of a column's images; None where it has none."""
    first = column.iloc[0] if column.dtype == object and len(column) else None
    return first.shape if isinstance(first, np.ndarray) and first.ndim > 1 else None


def stacked(column: Any, shape: tuple[int, ...]) -> np.ndarray:
    """(rows, *shape): bytes stay bytes, other numbers are float32. InputError where it holds anything else."""
    wanted, images = _times(shape), column.to_list()
    if shape_of(column) is None:
        raise InputError(
            f"column {column.name!r}: holds no arrays of one shape. Images of {wanted} are an array (rows, "
            f"{', '.join(map(str, shape))}) of an NPZ file, or such lists in a Parquet file."
        )
    odd = [(row, np.shape(image)) for row, image in enumerate(images, 1) if np.shape(image) != shape]
    if odd:
        row, given = odd[0]
        raise InputError(
            f"column {column.name!r}: image {row} is {_times(given)}, must be {wanted}. Give images of that shape."
        )
    images = np.stack(images)
    if images.dtype.kind not in "uif":
        raise InputError(f"column {column.name!r}: its images hold no numbers. Give whole or real ones.")
    wrong = ~np.isfinite(images).reshape(len(images), -1).all(axis=1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0]) + 1
        raise InputError(
            f"column {column.name!r}: image {row} has a value that is no finite number. Remove such rows."
        )
    return images if images.dtype == np.uint8 else images.astype(np.float32)


def refuse(column: Any) -> None:
    """InputError where images stand in the place of numbers or texts."""
    shape = shape_of(column)
    if shape is not None:
        raise InputError(
            f"column {column.name!r}: holds images. Declare them so in a columns file (--columns): "
            f"{column.name} = {{image = {list(shape)}, range = [low, high]}}."
        )


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a single value"
