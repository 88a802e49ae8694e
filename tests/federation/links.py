"""Lines between real parties that a test can slow down, hold and cut: whoever dials, dials a relay."""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from parties import Trial
from ports import ports

from coterie.federation import party

HOST, CHUNK = "127.0.0.1", 65_536
SEGMENT = 1_448  # bytes of a TCP segment
AGAIN = 0.2  # seconds beyond there and back after which a system sends a lost segment again, at least
Line: TypeAlias = tuple[str, str]  # who dials, and whom


class Links:
    """Relays of bytes, one for each line, in a thread of their own; nothing inside TLS is seen."""

    def __init__(
        self, trial: Trial, delay: float = 0.0, rate: float = math.inf, loss: float = 0.0, seed: int = 0
    ) -> None:
        """`delay`: seconds that a line takes, one way; `rate`: bytes a second in one direction of a connection.

        `loss`: the probability that a segment gets lost. TCP sends it again, so that all behind it wait for that.
        """
        self.delay, self._rate, self._loss, self._chance = delay, rate, loss, random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._open: dict[Line, asyncio.Event] = {}
        self._cut: set[Line] = set()
        self._writers: dict[Line, set[asyncio.StreamWriter]] = {}
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        for name in trial.names:
            own, relayed = party.read(trial.place(name)), dict[str, str]()
            for peer, where in own.peers.items():
                port = ports(1)[0]
                self._wait(self._serve((name, peer), port, int(where.rpartition(":")[2])))
                relayed[peer] = f"{HOST}:{port}"
            (trial.place(name) / party.NAME).write_text(replace(own, peers=relayed).to_toml())

    @property
    def lines(self) -> tuple[Line, ...]:
        """All of them."""
        return tuple(self._open)

    def of(self, name: str) -> tuple[Line, ...]:
        """Those of one party, whoever dials."""
        return tuple(line for line in self.lines if name in line)

    def hold(self, line: Line) -> None:
        """From now on nothing passes, and nobody is told."""
        self._do(self._open[line].clear)

    def cut(self, line: Line) -> None:
        """Its connections break, and new ones do at once."""
        self._cut.add(line)
        self._do(lambda: [one.close() for one in self._writers[line]])

    def mend(self, line: Line) -> None:
        """As before; what was held passes now."""
        self._cut.discard(line)
        self._do(self._open[line].set)

    def close(self) -> None:
        """Break everything, for good."""
        self._wait(self._closed())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, line: Line, port: int, behind: int) -> None:
        self._open[line], self._writers[line] = asyncio.Event(), set()
        self._open[line].set()

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._relay(line, behind, reader, writer)

        self._servers.append(await asyncio.start_server(accepted, HOST, port))

    async def _relay(
        self, line: Line, behind: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        mine = {writer}
        self._writers[line] |= mine
        try:
            if line not in self._cut:
                there, back = await asyncio.open_connection(HOST, behind)
                mine.add(back)
                self._writers[line].add(back)
                await asyncio.gather(self._pass(line, reader, back), self._pass(line, there, writer))
        except OSError:
            pass  # it is down, or either side broke off: so does the other
        finally:
            self._writers[line] -= mine
            for one in mine:
                one.close()

    async def _pass(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            await asyncio.sleep(self._travel(len(chunk)))
            await self._open[line].wait()
            writer.write(chunk)
            await writer.drain()
        writer.close()

    def _travel(self, size: int) -> float:
        """Seconds that so many bytes are on their way; the next ones set out when they have arrived."""
        whole = (1 - self._loss) ** math.ceil(size / SEGMENT)
        again = 0.0 if self._chance.random() < whole else 2 * self.delay + AGAIN
        return self.delay + size / self._rate + again

    async def _closed(self) -> None:
        for server in self._servers:
            server.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _wait(self, work) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60.0)

    def _do(self, what: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(what)
