"""Finished work on disk: JSON files with a checksum, each of which is there whole or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from coterie import _files


def digest(value: Any) -> str:
    """SHA-256 of plain values, whatever the order of their keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write(file: Path, held: dict[str, Any]) -> None:
    """Write them; may raise OSError."""
    text = json.dumps(held | {"sha256": digest(held)}, allow_nan=False, ensure_ascii=False)
    _files.put(file, text.encode())


def read(file: Path) -> dict[str, Any] | None:
    """What was written; nothing in it where the file is not exactly that (cut short, edited); None without a file."""
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        return held if held.pop("sha256") == digest(held) else {}
    except FileNotFoundError:
        return None
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ):  # a text that is no JSON is a ValueError
        return {}
