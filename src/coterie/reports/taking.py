"""Values of a JSON object by path and kind, with one line that names the first that does not fit."""

from __future__ import annotations

from typing import Any

from coterie.errors import InputError


class Taker:
    """Looks values up by path and kind; the first that does not fit is an error that names it."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __call__(self, path: str, *kinds: type) -> Any:
        found = self.obj
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, kinds) or (isinstance(found, bool) and bool not in kinds):
            wanted = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise InputError(
                f"result.json: {path} is {short(found)}, must be {wanted}. Give a folder that this version wrote."
            )
        return found

    def list_of(self, path: str, length: int | None, *kinds: type) -> list[Any]:
        found = self(path, list)
        fits = all(isinstance(one, kinds) and not isinstance(one, bool) for one in found)
        if not fits or (length is not None and len(found) != length):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise InputError(f"result.json: {path} must be a list of {length or 'some'} {wanted} values.")
        return found

    def number(self, path: str) -> float:
        return as_number(path, self(path, int, float, str))

    def bound(self, path: str) -> float | None:
        found = self(path, int, float, str, type(None))
        return None if found is None else as_number(path, found)


def as_number(path: str, value: Any) -> float:
    """A JSON number, or the text that stands for one JSON does not have."""
    if isinstance(value, str) and value not in ("inf", "-inf", "nan"):
        raise InputError(f"result.json: {path} is {short(value)}, must be a number.")
    return float(value)


def short(value: Any) -> str:
    """In a few characters."""
    shown = "missing" if value is None else repr(value)
    return shown if len(shown) <= 40 else shown[:39] + "…"
