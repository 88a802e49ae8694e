"""The file of a model: safetensors, whose metadata hold a description in JSON and a digest over every byte.

The layout is that of safetensors: eight bytes with the header's length, the header (JSON), the arrays' bytes. It is
written here, in one order of bytes for one content, so that equal models are equal files; the library's own writer
does not promise that. No part of it is ever executed. docs/model.md specifies it field by field.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coterie import _files
from coterie.errors import InputError

SUFFIX = ".safetensors"
FILE = f"model{SUFFIX}"  # its name in a run's folder and a node's result
FORMAT = "coterie-model"
VERSION = 1  # of the format, not of coterie
OLDEST = 1  # the oldest format that this version reads
_KINDS = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "BOOL": np.dtype("?")}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_EMPTY = "0" * 64  # stands in the digest's place while the digest is computed
_DIGEST = '"sha256":"{}"'  # at the header's beginning; texts cannot contain it, as their quotes are escaped
_ZIP = b"PK\x03\x04"


class Content(NamedTuple):
    """A file's content, whose digest was verified."""

    description: dict[str, Any]
    arrays: dict[str, np.ndarray]
    sha256: str


def pack(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The file's bytes; the same content gives the same bytes."""
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # keeps every array aligned
    header: dict[str, Any] = {
        "__metadata__": {
            "format": FORMAT,
            "version": str(VERSION),
            "sha256": _EMPTY,
            "description": json.dumps(description, ensure_ascii=False, allow_nan=False),
        }
    }
    end, parts = 0, []
    for name in order:
        kind = _NAMES[arrays[name].dtype.newbyteorder("<")]
        parts.append(np.ascontiguousarray(arrays[name], _KINDS[kind]).tobytes())
        header[name] = {
            "dtype": kind,
            "shape": list(arrays[name].shape),
            "data_offsets": [end, end + len(parts[-1])],
        }
        end += len(parts[-1])
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = len(text).to_bytes(8, "little") + text + b"".join(parts)
    empty, filled = (_DIGEST.format(digest).encode() for digest in (_EMPTY, hashlib.sha256(data).hexdigest()))
    return data.replace(empty, filled, 1)


def unpack(data: bytes, source: str) -> Content:
    """The content of a file's bytes; InputError unless version and digest are right and the arrays fit.

    Guarantee: a file that differs from what `pack` wrote, in any bit, is refused.
    """
    header, start = _header(data, source)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise InputError(f"model={source!r}: is not a model of coterie. Give a run's folder or its {FILE}.")
    _check_version(metadata, source)
    written = metadata.get("sha256")
    if not isinstance(written, str) or not _is_whole(data, start, written):
        raise _damaged(source, "its digest does not fit its content")
    try:
        description = json.loads(metadata["description"], parse_constant=_refuse)
        arrays = _arrays(header, memoryview(data)[start:])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(source, "its parts do not fit together") from error
    if not isinstance(description, dict):
        raise _damaged(source, "it has no description")
    return Content(description, arrays, str(written))


def read(path: str | Path) -> tuple[bytes, str]:
    """A model's bytes, and the name of its file; `path` may be a run's folder or a node's result."""
    place = Path(path)
    place = place / FILE if place.is_dir() else place
    try:
        return place.read_bytes(), str(place)
    except OSError as error:
        raise InputError(
            f"model={str(place)!r}: cannot be read ({error.strerror}). Give a run's folder or its {FILE}."
        ) from error


def check_new(what: str, path: Path) -> Path:
    """The path; InputError where a file would be overwritten, which may be the only copy."""
    if path.exists() or path.is_symlink():
        raise InputError(f"{what}={str(path)!r}: exists. Name a new file, or remove that one first.")
    return path


def write(path: Path, data: bytes, what: str = "out") -> Path:
    """Write a file atomically."""
    try:
        _files.put(path, data)
    except OSError as error:
        raise InputError(
            f"{what}={str(path)!r}: cannot be written ({error.strerror}). Name another."
        ) from error
    return path


def _header(data: bytes, source: str) -> tuple[dict[str, Any], int]:
    if data.startswith(_ZIP):
        raise InputError(
            f"model={source!r}: is an array file of a coterie before models had columns, and says too little to be "
            "used. Train again with this version."
        )
    start = 8 + int.from_bytes(data[:8], "little")
    if len(data) < 8 or start > len(data):
        raise _damaged(source, "it is shorter than it says, or no model at all")
    try:
        header = json.loads(data[8:start])
    except (ValueError, RecursionError) as error:
        raise _damaged(source, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise _damaged(source, "its header is no table")
    return header, start


def _check_version(metadata: dict[str, Any], source: str) -> None:
    text = str(metadata.get("version"))
    if not text.isascii() or not text.isdigit():
        raise _damaged(source, "its version is no number")
    if int(text) > VERSION:
        raise InputError(
            f"model={source!r}: format {text} is newer than {VERSION}, the newest known here. Update coterie."
        )
    if int(text) < OLDEST:
        raise InputError(
            f"model={source!r}: format {text} is older than {OLDEST}, the oldest that this coterie reads. Use it with "
            "the coterie that wrote it, or train again."
        )


def _is_whole(data: bytes, start: int, digest: str) -> bool:
    """Whether the digest occurs once in the header, and is that of all other bytes."""
    mark = _DIGEST.format(digest).encode("utf-8", "replace")
    if len(digest) != len(_EMPTY) or data[:start].count(mark) != 1:
        return False
    hasher = hashlib.sha256(data[:start].replace(mark, _DIGEST.format(_EMPTY).encode()))
    hasher.update(memoryview(data)[start:])
    return hasher.hexdigest() == digest


def _arrays(header: dict[str, Any], data: memoryview) -> dict[str, np.ndarray]:
    """The arrays, which must follow each other without gap or overlap up to the end, as in safetensors."""
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        kind, shape = _KINDS[entry["dtype"]], entry["shape"]
        first, last = entry["data_offsets"]
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"shape of {name}")
        if first != end or last - first != math.prod(shape) * kind.itemsize or last > len(data):
            raise ValueError(f"place of {name}")
        arrays[name] = np.frombuffer(data[first:last], kind).reshape(shape)
        end = last
    if end != len(data):
        raise ValueError("bytes beyond the last array")
    return arrays


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _damaged(source: str, how: str) -> InputError:
    return InputError(f"model={source!r}: is damaged: {how}. Get the file again.")
