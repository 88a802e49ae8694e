"""Parties on this machine with certificates of their own, for the tests of what is on the wire."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from coterie.federation.transport import trust, wire
from coterie.federation.transport.machine import Out, Status
from coterie.federation.transport.trust import Identity
from coterie.federation.transport.wire import Kind, Message, Refused

HOST = "127.0.0.1"
LONG = 300.0  # seconds for what takes a few, on a machine that has other things to do


def identities(folder: Path, names: Sequence[str]) -> dict[str, Identity]:
    """An authority and a certificate for each name, all dialled at this machine's own address."""
    trust.create_authority(folder / "authority")
    return {name: trust.issue(folder / "authority", name, [HOST], folder / name) for name in names}


def addresses(names: Sequence[str]) -> dict[str, str]:
    """A free port for each name."""
    from ports import ports  # of the folder above, which party.py, a process of its own, does not know

    return {name: f"{HOST}:{port}" for name, port in zip(names, ports(len(names)), strict=True)}


def until(condition: Callable[[], bool], seconds: float = LONG) -> bool:
    """Whether a condition came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


SHAPE = wire.layout({"x": np.zeros(8, np.float32)})


class Chorus:
    """The smallest machine: a round ends when the values of all `voices` are there. Others may speak and ask.

    With `paced`, rounds end on the clock's ticks, so that a run without end leaves the machine to others.
    """

    def __init__(self, name: str, voices: Sequence[str], rounds: int, paced: bool = False) -> None:
        self.paced = paced
        self.voices = [voice for voice in voices if voice != name]
        self.rounds = rounds
        self.step = 0
        self.heard: dict[tuple[str, int], float] = {}
        self._asked = 0.0
        self._own = sum(name.encode())

    def start(self, now: float) -> list[Out]:
        return self._sing()

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        if message.step >= self.rounds:
            raise Refused(f"step {message.step}: the agreement has {self.rounds}")
        if message.kind == Kind.WANT:
            return [Out(sender, self._value(message.step))] if message.step <= self.step else []
        if message.kind != Kind.VALUE:
            raise Refused("unexpected")
        if message.step < self.step or (sender, message.step) in self.heard:
            raise Refused("replayed")
        self.heard[sender, message.step] = float(wire.unpack(message.body, SHAPE)["x"][0])
        return [] if self.paced else self._advance()

    def tick(self, now: float) -> list[Out]:
        outs = self._advance()
        if self.done or outs or now < self._asked + 0.2:
            return outs
        self._asked = now
        missing = [voice for voice in self.voices if (voice, self.step) not in self.heard]
        return [Out(voice, Message(Kind.WANT, self.step)) for voice in missing]

    @property
    def done(self) -> bool:
        return self.step >= self.rounds

    @property
    def status(self) -> Status:
        return Status(self.step, self.rounds)

    def _advance(self) -> list[Out]:
        outs: list[Out] = []
        while not self.done and all((voice, self.step) in self.heard for voice in self.voices):
            self.step += 1
            outs += self._sing()
        return outs

    def _sing(self) -> list[Out]:
        return [] if self.done else [Out(voice, self._value(self.step)) for voice in self.voices]

    def _value(self, step: int) -> Message:
        value = np.full(8, self._own + step, np.float32)
        return Message(Kind.VALUE, step, 0, wire.pack({"x": value}))
