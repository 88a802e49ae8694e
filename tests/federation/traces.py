"""What a network's files say about its runs, read by nothing that wrote them: SQLite, JSON and hashes alone.

    python traces.py FOLDER [alike]

`FOLDER/net` is the network's folder. `FOLDER/earlier/MOMENT/parties/NAME`, if there, are ledgers and journals as they
were at a moment at which all parties stood still, or as some party had them. `FOLDER/undisturbed/NAME.npy`: the model
that an owner would have had without faults.

One message for each step: a ledger's chain is whole, every charge has its message and no step has two; whatever an
earlier ledger has, the last one has. Charge before send, and ledger ≥ witnesses: at every moment, whatever a party was
told to be released is charged, with that very message. Where a run was written off after a disaster, all of it is
charged: it may lack messages, but has no other ones. Models: finite; `alike`: every owner's the same; and the
undisturbed one's, where that is known.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

_SCHEMA = 1
_COLUMNS = "sequence, time, kind, run, round, partition, part, body, message_sha256, previous, hash"
_RESTORED, _WRITTEN_OFF = " (restored)", " (written off)"  # after a run's name: rows without a message
NEAR = 1e-4  # of floats that were added in another order


class Ledger(NamedTuple):
    """What a ledger's file holds."""

    messages: dict[tuple[str, int], bytes]  # by run and step
    written_off: set[str]  # runs

    def has(self, run: str, step: int, digest: bytes) -> bool:
        """Whether this is the step's message; where the run was written off, whether there is no other."""
        message = self.messages.get((run, step))
        return run in self.written_off if message is None else sha256(message).digest() == digest


class Found(NamedTuple):
    """What was read, and is sound."""

    charges: dict[str, int]  # of each owner
    marks: int  # releases that peers know of at the end
    moments: int  # earlier ones
    compared: int  # models that are the undisturbed ones


def read(folder: Path, alike: bool = False) -> Found:
    """Assert what must hold after runs, whatever happened in them."""
    last = _ledgers(folder / "net")
    assert last, f"{folder}: no ledger"
    moments = sorted((folder / "earlier").glob("*"))
    for moment in moments:
        then = _ledgers(moment)
        for owner, ledger in then.items():
            for (run, step), message in ledger.messages.items():
                kept = last[owner].has(run, step, sha256(message).digest())
                assert kept, f"{moment}: {owner}'s step {step} was another message"
        _marks(moment, {**last, **then})
    marks = _marks(folder / "net", last)
    charges = {owner: len(ledger.messages) for owner, ledger in last.items()}
    return Found(charges, marks, len(moments), _models(folder, alike))


def _ledgers(net: Path) -> dict[str, Ledger]:
    return {file.parent.name: _ledger(file) for file in sorted(net.glob("parties/*/ledger.sqlite"))}


def _ledger(file: Path) -> Ledger:
    """Its messages; the chain of the whole file was followed."""
    _follow(file)
    messages: dict[tuple[str, int], bytes] = {}
    written_off: set[str] = set()
    query = "SELECT run, round, message, message_sha256 FROM ledger WHERE kind = 'charge'"
    for run, step, message, digest in rows(file, query):
        if run.endswith((_RESTORED, _WRITTEN_OFF)):
            written_off |= {run.removesuffix(_WRITTEN_OFF)} if run.endswith(_WRITTEN_OFF) else set()
            continue
        if step == 0 and message is None:
            continue  # what a run costs before its first message
        assert message is not None, f"{file}: step {step} was charged for no message"
        assert sha256(message).hexdigest() == digest, f"{file}: step {step} holds another message"
        assert (run, step) not in messages, f"{file}: step {step} twice"
        messages[run, step] = message
    return Ledger(messages, written_off)


def steps(ledger: Path) -> list[int]:
    """Those that were charged."""
    return [step for (step,) in rows(ledger, "SELECT round FROM ledger WHERE kind = 'charge'")]


def _follow(file: Path) -> None:
    """Its chain, from the terms to the head."""
    ((terms,),) = rows(file, "SELECT body FROM terms")
    previous, count = sha256(terms.encode()).hexdigest(), 0
    for row in rows(file, f"SELECT {_COLUMNS} FROM ledger ORDER BY sequence"):
        text = json.dumps([_SCHEMA, *row[:-1]], sort_keys=True, separators=(",", ":"))
        count += 1
        assert row[0] == count, f"{file}: row {count} is missing"
        assert row[-2] == previous, f"{file}: row {count} does not continue the one before"
        assert sha256(text.encode()).hexdigest() == row[-1], f"{file}: row {count} was edited"
        previous = row[-1]
    assert rows(file, "SELECT sequence, hash FROM head") == [(count, previous)], f"{file}: another head"


def _marks(net: Path, ledgers: dict[str, Ledger]) -> int:
    """How many releases the parties of a folder were told of, all of which are charged."""
    marks = 0
    for journal in net.glob("parties/*/journal-*.sqlite"):
        run = journal.stem.removeprefix("journal-")
        assert not rows(journal, "SELECT key FROM entries WHERE key LIKE 'barred/%'"), (
            f"{journal}: two versions"
        )
        for owner, step, digest in told(journal):
            charged = ledgers[owner].has(run, step, digest)
            assert charged, f"{journal}: {owner}'s step {step} was not charged, or for another message"
            marks += 1
    return marks


def told(journal: Path) -> Iterator[tuple[str, int, bytes]]:
    """(owner, step, hash of the message) of everything that a party was told to be released."""
    for key, body in rows(journal, "SELECT key, body FROM entries WHERE key LIKE 'witness/%'"):
        _, owner, step = key.split("/")
        yield owner, int(step), body[8:40]


def _models(folder: Path, alike: bool) -> int:
    """How many models are the undisturbed ones, which all must be that have one."""
    models = {
        file.parent.parent.name: model(file) for file in folder.glob("net/parties/*/result/model.safetensors")
    }
    for name, one in models.items():
        assert np.isfinite(one).all(), f"{name}: a model that is no number"
        assert not alike or np.array_equal(one, next(iter(models.values()))), f"{name}: another model"
    expected = sorted((folder / "undisturbed").glob("*.npy"))
    for file in expected:
        far = np.abs(models[file.stem] - np.load(file)).max()
        assert far <= NEAR, f"{file.stem}: {far} from the model of the undisturbed run"
    return len(expected)


def model(file: Path) -> np.ndarray:
    """The parameters of a safetensors file: the header's length, the header, little-endian numbers."""
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    parts = []
    for name in sorted(one for one in header if one.startswith("model.")):
        begin, end = header[name]["data_offsets"]
        kind = {"F32": "<f4", "F64": "<f8"}[header[name]["dtype"]]
        parts.append(np.frombuffer(data[start + begin : start + end], kind))
    return np.concatenate(parts)


def rows(file: Path, query: str) -> list[tuple]:
    """What a query finds in a file, which is not changed."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


if __name__ == "__main__":
    print(read(Path(sys.argv[1]), "alike" in sys.argv[2:]))
