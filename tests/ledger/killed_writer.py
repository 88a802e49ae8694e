"""Kill an owner's writer again and again, at random moments, while it charges and sends.

Usage: killed_writer.py FOLDER KILLS SEED. Each writer is a fork of this process, so that the libraries are
imported once. It notes in FOLDER/<ledger>.notes, with one write each: "ack ROUND SHA" once `charge` returned,
then "sent ROUND SHA", as if the message had left. It starts by asking for the last noted round again, with a
fresh message.
"""

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import dp_accounting as dp

from coterie.accounting.ledger import Ledger

TERMS = {"data_hash": "ab" * 32, "epsilon": 1.0, "delta": 1e-5}
EVENT = dp.GaussianDpEvent(1000.0)
KILLS_A_LEDGER = 25  # so that several of the kills fall into the creation of a file


def write(path: Path, working: int) -> None:
    """Charge and send, as fast as possible, until killed. Says on `working` when one is through."""
    notes = os.open(f"{path}.notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    noted = Path(f"{path}.notes").read_text().splitlines()
    round = int(noted[-1].split()[1]) if noted else 0
    with Ledger.open(path, **TERMS) as ledger:
        while True:
            message = ledger.charge("run", round, EVENT, os.urandom(random.choice((10, 10_000))))
            assert message is not None
            sha = hashlib.sha256(message).hexdigest()
            os.write(notes, f"ack {round} {sha}\n".encode())
            os.write(notes, f"sent {round} {sha}\n".encode())
            os.write(working, b".")
            round += 1


def kill_one(path: Path, moments: random.Random) -> None:
    """Start a writer and kill it: one time in four while it starts, otherwise somewhere in its work."""
    heard, working = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        write(path, working)
    os.close(working)
    if moments.random() < 0.75:
        for _ in range(moments.randint(1, 4)):
            os.read(heard, 1)  # a busy machine may take its time
    time.sleep(0.03 * moments.random())
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(heard)
    if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
        sys.exit(f"the writer of {path} ended by itself with status {status}")


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill one writer after the other."""
    moments = random.Random(seed)
    for kill in range(kills):
        kill_one(folder / f"{kill // KILLS_A_LEDGER}.ledger", moments)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
