"""What a data set is known by: its records, however a file writes them down.

Every record is hashed with all of its columns, by name; the data set's hash is that of its records' hashes in sorted
order. So line endings, the order of columns or rows, quotes, `1` for `1.0` and the file's kind make no difference, nor
does what an agreement reads of it. One changed value does: that is another data set, of mostly the same people.

Both hashes are private: whoever has them can check guesses of the records. They stay in the owner's own ledger.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from coterie.problems.datasets import pixels
from coterie.problems.datasets.frames import Frame

_BYTES = 16  # of the hash of one text


class TableIdentity(NamedTuple):
    """Two SHA-256 hashes of a table."""

    content: str  # its records
    order: str  # its records in their order: what is divided by position is divided otherwise in another one


def identity(frame: Frame) -> TableIdentity:
    """What a table is known by.

    >>> import pandas as pd
    >>> table = identity(pd.DataFrame({"a": [1, 2], "b": ["u", "v"]}))
    >>> turned = identity(pd.DataFrame({"b": ["v", "u"], "a": [2.0, 1.0]}))
    >>> table.content == turned.content, table.order == turned.order
    (True, False)
    """
    names = sorted(map(str, frame.columns))
    by_name = {str(name): at for at, name in enumerate(frame.columns)}
    columns = [_cells(frame.iloc[:, by_name[name]]) for name in names]
    table = np.concatenate(columns, axis=1)
    rows = [hashlib.sha256(row.tobytes()).digest() for row in table]
    head = hashlib.sha256(repr(names).encode()).digest()
    content, order = (hashlib.sha256(head + b"".join(some)).hexdigest() for some in (sorted(rows), rows))
    return TableIdentity(content, order)


def _cells(column: Frame) -> np.ndarray:
    """(rows, bytes) of a column: equal for equal values."""
    if column.dtype.kind in "iuf":
        values = column.to_numpy(np.float64, na_value=np.nan) + 0.0  # no negative zero
        values[np.isnan(values)] = np.nan  # one of the many
        return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    import pandas as pd

    if pixels.shape_of(column) is not None:
        images = (np.asarray(image, np.float64) + 0.0 for image in column)
        hashes = [
            hashlib.sha256(f"{image.shape}".encode() + image.tobytes()).digest()[:_BYTES] for image in images
        ]
        return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, _BYTES)
    codes, texts = pd.factorize(column.astype(object), use_na_sentinel=True)
    hashes = [hashlib.sha256(_text(value).encode()).digest()[:_BYTES] for value in texts]
    known = np.frombuffer(b"".join([*hashes, bytes(_BYTES)]), np.uint8).reshape(-1, _BYTES)
    return known[codes]  # -1, an empty cell: the last


def _text(value: object) -> str:
    """A number in a column of texts as a column of numbers would have it: a reader may take it for either."""
    try:
        return repr(float(str(value)))
    except ValueError:
        return str(value)
