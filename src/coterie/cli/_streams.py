"""Standard output and standard error as they may be: full, closed, or without Greek letters.

A command that has done its work must not end in a traceback because a disk is full or a terminal old: output that
cannot be written gives one line and its own exit status, characters that cannot be shown are replaced by others, and
errors in writing to standard error, on which no result depends, never end a run.
"""

from __future__ import annotations

import codecs
import errno
import io
import sys
import unicodedata
from typing import TextIO

from coterie.errors import OutputError

_SPELT = "coterie_spelt"  # the name of the handler below in codecs
_WORDS = {"λ": "lambda", "≤": "<=", "≥": ">=", "∞": "inf", "…": "...",
          "·": "*", "×": "x", "√": "sqrt", "→": "->", "–": "-", "—": "-", "−": "-", "✓": "yes", "✗": "no"}  # fmt: skip
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-"))


def prepare() -> None:
    """Wrap both streams as described above. For the program alone: tests and callers keep theirs."""
    codecs.register_error(_SPELT, _spell)
    sys.stdout = _behind(sys.stdout, _Checked)
    sys.stderr = _behind(sys.stderr, _Patient)


def speaks_unicode(stream: TextIO | None) -> bool:
    """Whether the stream takes every character as it is."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name.startswith("utf")


def spelt(text: str) -> str:
    """The text in ASCII, as a person would type it.

    >>> spelt("ε ≤ 1, δ = 10⁻⁵, café")
    'epsilon <= 1, delta = 10^-5, cafe'
    """
    codecs.register_error(_SPELT, _spell)
    return text.encode("ascii", _SPELT).decode("ascii")


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters, before = [], ""
    for letter in error.object[error.start : error.end]:
        if letter in _RAISED:
            letters.append(_RAISED[letter] if before in _RAISED else f"^{_RAISED[letter]}")
        else:
            letters.append(_WORDS.get(letter) or _greek(letter) or _without_accents(letter))
        before = letter
    return "".join(letters), error.end


def _greek(letter: str) -> str:
    """A Greek letter's name, such as epsilon for ε; empty for any other character."""
    script, _, name = unicodedata.name(letter, "").partition(" SMALL LETTER ")
    return name.lower() if script == "GREEK" else ""


def _without_accents(letter: str) -> str:
    return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() or "?"


class _Checked(io.FileIO):
    """Reports once that it cannot be written, and then ignores everything, so that Python can end in order."""

    failed = False

    def write(self, data) -> int:  # type: ignore[override]
        if self.failed:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self.failed = True
            if error.errno == errno.EPIPE:  # the reader closed the pipe: not an error
                raise
            raise OutputError(
                f"standard output: cannot be written ({error.strerror}). What the command wrote to files is whole."
            ) from error


class _Patient(io.FileIO):
    """Ignores write errors: progress that nobody can read must not end a run, nor change its status."""

    def write(self, data) -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _behind(stream: TextIO | None, kind: type[io.FileIO]) -> TextIO | None:
    """The same stream over a file of that kind; None where the caller closed it."""
    if stream is None:
        return None
    try:
        number = stream.fileno()
    except OSError:  # a stream that is no file, as in a notebook
        return stream
    stream.flush()
    whole = io.BufferedWriter(kind(number, "w", closefd=False))
    lines = stream.isatty() or kind is _Patient
    return io.TextIOWrapper(whole, encoding=stream.encoding, errors=_SPELT, line_buffering=lines)
