"""A frame there and back between two processes over mutual TLS: packed, sent, checked, unpacked, and the same again.

`python -m benchmarks.frames` prints the table alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.node import found, free_ports
from coterie.federation.transport import trust, wire
from coterie.federation.transport.zenoh import ZenohTransport

SIZES = (200, 10_000)  # numbers in a frame
WANTED = 300.0  # microseconds
_TIMES = 500
_ECHO = "import sys; from benchmarks import frames; frames.echo(*sys.argv[1:])"
_AGREEMENT = bytes(32)


def table() -> list[str]:
    """The section of RESULTS.md."""
    lines = [
        "Two processes over mutual TLS on this machine: packed, encoded, sent, decoded, checked and unpacked, and the "
        f"same back. Wanted: at most {WANTED:g} µs. Measured at a load of {os.getloadavg()[0]:.0f}.",
        "",
        "| numbers in a frame | there and back, median | best tenth | met |",
        "|---:|---:|---:|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        found(Path(folder))
        for count in SIZES:
            times = _there_and_back(Path(folder), count)
            middle, best = np.median(times), np.quantile(times, 0.1)
            met = "yes" if middle <= WANTED else "**no**"
            lines.append(f"| {count:,} | {middle:.0f} µs | {best:.0f} µs | {met} |")
    return lines


def _there_and_back(folder: Path, count: int) -> list[float]:
    """Microseconds of each."""
    mine, other = free_ports(2)
    back = threading.Event()
    transport, like = _transport(folder, "a", "b", mine, other), _layout(count)

    def deliver(sender: str, frame: bytes) -> None:
        _handled(frame, like)
        back.set()

    command = [sys.executable, "-c", _ECHO, str(folder), str(count), str(mine), str(other)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as echo:
        transport.open(deliver)
        while "b" not in transport.alive():
            time.sleep(0.01)
        times = [_once(transport, back, count) for _ in range(_TIMES)]
        transport.close()
        echo.kill()
    return [1e6 * one for one in times if one is not None][_TIMES // 10 :]


def _once(transport: ZenohTransport, back: threading.Event, count: int) -> float | None:
    back.clear()
    began = time.perf_counter()
    transport.send("b", _framed(np.zeros(count, np.float32)))
    return time.perf_counter() - began if back.wait(1.0) else None  # a frame may be lost


def echo(folder: str, count: str, theirs: str, mine: str) -> None:
    """The other process: send back what comes, unpacked and packed again, until it is ended."""
    transport, like = _transport(Path(folder), "b", "a", int(mine), int(theirs)), _layout(int(count))
    transport.open(lambda sender, frame: transport.send(sender, _framed(_handled(frame, like))))
    sys.stdin.read()


def _transport(folder: Path, name: str, other: str, mine: int, theirs: int) -> ZenohTransport:
    return ZenohTransport(
        trust.identity(folder / "net" / "parties" / name, name),
        run="bench",
        admitted=(other,),
        listen=f"127.0.0.1:{mine}",
        peers={other: f"127.0.0.1:{theirs}"},
        longest=1 << 20,
    )


def _framed(values: np.ndarray) -> bytes:
    return wire.encode(wire.Message(wire.Kind.VALUE, 1, 0, wire.pack(values)), _AGREEMENT)


def _layout(count: int) -> wire.Layout:
    return wire.foreign(np.zeros(count, np.float32))


def _handled(frame: bytes, like: wire.Layout) -> np.ndarray:
    return wire.unpack(wire.decode(frame, _AGREEMENT, 1 << 20).body, like)


if __name__ == "__main__":
    print("\n".join(table()))
