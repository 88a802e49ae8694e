"""An owner's file, read by a process of its own, which ends with it: so ends what reading takes.

pandas, Parquet's library and a whole table of texts are many times the arrays that come of them, and a node, which runs
for days, would hold on to them. The two talk through a pipe of their own: nothing of the file is written anywhere.
Each unpickles what the other, the same program, pickled: arrays and texts that it made, never bytes of the file.

Guarantee: standard error gets nothing of a record. What a library writes there by itself is dropped, and of an
exception that nobody foresaw class and place are told, for its message may quote a cell.
"""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from pathlib import Path

from coterie import _unforeseen
from coterie.errors import CoterieError, ProcessError, UnforeseenError
from coterie.problems.datasets.frames import read_frame
from coterie.problems.datasets.identity import TableIdentity, identity
from coterie.problems.datasets.schema import Rows, Schema
from coterie.units import Unit

# The same program, wherever this one found it.
_PROGRAM = (
    "import gc, sys; gc.disable(); sys.path[:] = sys.argv[1:]; "
    "from coterie.problems.datasets import apart; apart.answer()"
)


def read(schema: Schema, path: Path, unit: Unit) -> tuple[Rows, TableIdentity]:
    """As `schema.read`, and what the whole file is known by. Raises what reading raised, UnforeseenError where
    that was no error of the file's, and ProcessError where the process died.

    Where pandas is loaded already, there is nothing to keep out of this process.
    """
    if "pandas" in sys.modules:
        return _read(schema, path, unit)
    # A session of its own: a terminal's Ctrl-C is for who asked, and a file is read in moments.
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        try:
            with reader.stdin:
                pickle.dump((schema, path, unit), reader.stdin)
            reply = pickle.load(reader.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise ProcessError(
                f"data={str(path)!r}: the process that reads it ended with status {reader.wait()}. "
                "Is there memory enough for the file?"
            ) from error
        except BaseException:
            reader.kill()
            raise
    if isinstance(reply, CoterieError):
        raise reply
    return reply


def answer() -> None:
    """The other end: read what is asked for, and hand it over."""
    import pandas  # noqa: F401  # which all kinds of files need, while there is no garbage to be looked for

    gc.freeze()
    gc.enable()
    schema, path, unit = pickle.load(sys.stdin.buffer)
    try:
        reply = _read(schema, path, unit)
    except CoterieError as error:
        reply = error
    pickle.dump(reply, sys.stdout.buffer, protocol=pickle.HIGHEST_PROTOCOL)


def _read(schema: Schema, path: Path, unit: Unit) -> tuple[Rows, TableIdentity]:
    try:
        rows = schema.read(path, unit)
        # read anew: a schema takes some columns as text, and records are known whichever schema reads them
        return rows, identity(read_frame(path))
    except CoterieError:
        raise
    except Exception as error:
        # not chained: whoever shows the chain would show the message
        raise UnforeseenError(f"data={str(path)!r}: {_unforeseen.told(error)}.") from None
