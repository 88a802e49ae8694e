"""The server of `coterie ui`: its routes, and how it is started. It answers on this machine's loop-back alone."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from coterie.errors import CoterieError, InputError
from coterie.reports.style import COLOURS
from coterie.ui import questions, shown
from coterie.ui.asking import Teller
from coterie.ui.guard import PAGE_POLICY, Guard
from coterie.ui.runs import Runs

STATIC = Path(__file__).parent / "static"
_RENEW = 0.5  # seconds between two readings of folders
_QUIET = 15.0  # seconds of silence after which a stream sends a sign of life
_LARGEST = 1 << 20  # bytes of a question

Answer = Callable[[Request], Awaitable[Any]]


def application(runs: Runs, token: str, port: int) -> Starlette:
    """The application with all routes."""
    quick, slow = Teller(), Teller()  # sliders do not wait for answers that take half a minute

    @asynccontextmanager
    async def living(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await quick.close()
            await slow.close()

    routes = [*_page(), *_questions(runs, quick, slow), *_runs(runs), Route("/api/node", answering(_node))]
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token, port=port)], lifespan=living)


def _page() -> list[Route | Mount]:
    """Routes of the page itself and its static files."""

    async def home(_: Request) -> Response:
        return Response((STATIC / "index.html").read_bytes(), media_type="text/html")

    async def colours(_: Request) -> Response:
        return Response(COLOURS, media_type="text/css")

    return [
        Route("/", home),
        Route("/colours.css", colours),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]


def _questions(runs: Runs, quick: Teller, slow: Teller) -> list[Route]:
    """Routes for questions before a run: the choices, and their forecast."""

    async def choices(_: Request) -> Any:
        return (
            await run_in_threadpool(questions.choices)
            | {"runs": str(runs.folder)}
            | await slow.ask("data", "list")
        )

    async def plan(request: Request) -> Any:
        return await questions.plan(quick, await body(request))

    async def join(request: Request) -> Any:
        return await questions.join(slow, await body(request))

    async def topology(request: Request) -> Any:
        return await run_in_threadpool(questions.topology, await body(request))

    return [
        Route("/api/choices", answering(choices)),
        Route("/api/plan", answering(plan), methods=["POST"]),
        Route("/api/join", answering(join), methods=["POST"]),
        Route("/api/topology", answering(topology), methods=["POST"]),
    ]


def _runs(runs: Runs) -> list[Route]:
    """Routes of runs: all of them, one of them, its page, and actions on it."""

    async def all_runs(_: Request) -> Any:
        return await run_in_threadpool(seen, runs)

    async def start(request: Request) -> Any:
        given = await body(request)
        return {"name": await run_in_threadpool(runs.start, questions.experiment(given))}

    async def change(request: Request) -> Any:
        name, what = request.path_params["name"], request.path_params["what"]
        if what not in ("stop", "resume", "discard"):
            raise InputError(f"what={what!r}: a run can be stopped, resumed or discarded.")
        await run_in_threadpool(getattr(runs, what), name)
        return {"name": name}

    async def one_run(request: Request) -> Any:
        place = runs.folder_of(request.path_params["name"])
        return await run_in_threadpool(shown.details, place)

    async def report(request: Request) -> Response:
        place = runs.folder_of(request.path_params["name"]) / "report.html"
        if place.is_symlink() or not place.is_file():
            raise InputError(
                f"run={place.parent.name!r}: has no report.html. Make one: coterie report FOLDER."
            )
        headers = {"Content-Security-Policy": PAGE_POLICY}
        return Response(await run_in_threadpool(place.read_bytes), media_type="text/html", headers=headers)

    async def events(_: Request) -> Response:
        return stream(partial(seen, runs))

    return [
        Route("/api/runs", answering(all_runs)),
        Route("/api/runs", answering(start), methods=["POST"]),
        Route("/api/runs/{name}", answering(one_run)),
        Route("/api/runs/{name}/{what}", answering(change), methods=["POST"]),
        Route("/api/events", answering(events)),
        Route("/report/{name}", answering(report)),
    ]


async def _node(request: Request) -> Response:
    folder = request.query_params.get("folder", "")
    once = await run_in_threadpool(shown.node, folder)  # so that errors are reported before the stream begins
    return JSONResponse(once) if "once" in request.query_params else stream(partial(shown.node, folder))


def answering(answer: Answer) -> Answer:
    """The handler with its answer as JSON, and errors as one line of JSON with status 400."""

    async def wrapped(request: Request) -> Response:
        try:
            answered = await answer(request)
        except CoterieError as error:
            return JSONResponse({"error": str(error)}, 400)
        return answered if isinstance(answered, Response) else JSONResponse(answered)

    return wrapped


async def body(request: Request) -> dict[str, Any]:
    """The request's JSON object, of a limited size."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > _LARGEST:
            raise InputError(f"question: more than {_LARGEST:,} bytes.")
    try:
        question = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        raise InputError("question: is not JSON.") from None
    if not isinstance(question, dict):
        raise InputError("question: must be a JSON object.")
    return question


def seen(runs: Runs) -> dict[str, Any]:
    """All runs as they are now."""
    return {"runs": [shown.in_progress(run) for run in runs.all()]}


def stream(look: Callable[[], dict[str, Any]]) -> Response:
    """Server-sent events with the value of `look`, whenever it has changed."""

    async def events() -> AsyncIterator[str]:
        last, quiet = "", 0.0
        while True:
            try:
                text = json.dumps(await run_in_threadpool(look), ensure_ascii=False)
            except CoterieError as error:
                text = json.dumps({"error": str(error)})
            quiet += _RENEW
            if text != last:
                last, quiet = text, 0.0
                yield f"data: {text}\n\n"
            elif quiet >= _QUIET:  # only writing shows that a browser is gone
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(_RENEW)

    return StreamingResponse(events(), media_type="text/event-stream")


def serve(folder: Path, data_dir: Path | None, port: int, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `tell` is called with the address and its token."""
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"runs={str(folder)!r}: is no folder. Name the folder that runs are in, or a new one."
        )
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or "it must lie between 0 and 65535"
            raise InputError(f"port={port}: cannot be listened at ({why}). Name another.") from error
        door.listen()  # so that an early request waits, and is not refused
        chosen, token = door.getsockname()[1], secrets.token_urlsafe(32)
        app = application(Runs(folder, data_dir), token, chosen)
        # No access log: it would hold the token. Streams never end by themselves, so nobody waits for them.
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, server_header=False
        )
        tell(f"http://127.0.0.1:{chosen}/?token={token}")
        uvicorn.Server(config).run(sockets=[door])
