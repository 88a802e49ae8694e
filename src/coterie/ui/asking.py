"""Questions to the command line: a process for each kind of question is kept, so that only the first waits for it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from coterie.errors import CoterieError, InputError

_LONGEST = 1 << 26  # bytes of an answer


class CommandRefused(CoterieError):
    """The command line's refusal, in its own words."""


class Teller:
    """Asks one question at a time. If its process ends for any reason, the next question starts another."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def ask(self, *words: str) -> dict[str, Any]:
        """The output of `coterie WORDS --json`."""
        async with self._turn:
            try:
                answer = await self._answer([*words, "--json"])
            except BaseException:  # also when cancelled: an answer must not be taken for the next question's
                await self.close()
                raise
        if answer["status"]:
            raise CommandRefused(answer["error"] or "the command failed without a word.")
        return json.loads(answer["out"])

    async def _answer(self, words: list[str]) -> dict[str, Any]:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "coterie.cli.lines",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LONGEST,
                start_new_session=True,  # Ctrl-C is for the server, which ends it
            )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(words).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise InputError("the process that computes ended. Ask again; with less, if it was memory.")
        return json.loads(line)

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
