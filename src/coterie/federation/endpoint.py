"""Metrics and health of one party over HTTP, on the loop-back alone: for a collector on the owner's own machine."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from coterie.errors import InputError
from coterie.federation import metrics

HOST = "127.0.0.1"
STALE = 120.0  # seconds without a snapshot: then a party counts as stuck; its first step compiles for long
_PATIENCE = 5.0  # seconds for a caller to say what it wants


class Endpoint:
    """Serves what it was shown last; `show` may be called from any thread."""

    def __init__(self) -> None:
        self._shown: Mapping[str, Any] | None = None

    def show(self, snapshot: Mapping[str, Any]) -> None:
        """Take a new snapshot in place of the last one."""
        self._shown = snapshot

    def answer(self, path: str, now: float) -> tuple[int, str, str]:
        """Status, content type and body for a path."""
        shown = self._shown
        if path == "/health":
            status, health = _health(shown, now)
            return status, "application/json", json.dumps(health) + "\n"
        if path != "/metrics":
            return 404, "text/plain", "there is /metrics and /health\n"
        if shown is None:
            return 503, "text/plain", "starting: nothing to show yet\n"
        return 200, metrics.CONTENT_TYPE, metrics.text(shown, now)


def _health(shown: Mapping[str, Any] | None, now: float) -> tuple[int, dict[str, Any]]:
    """Whether the party's loop runs. A party that waits for others is healthy: a restart would not help."""
    if shown is None:
        return 503, {"healthy": False, "state": "starting"}
    age = max(0.0, now - shown["time"])
    facts = {key: shown[key] for key in ("name", "state", "step", "of", "waiting_for", "note")}
    healthy = age < STALE and shown["state"] != "stopped"
    return (200 if healthy else 503), {"healthy": healthy, "age_seconds": round(age, 1), **facts}


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Left to the thread's own hook (`logs.guarded`), but for a caller that hung up."""
        if not isinstance(sys.exception(), OSError):
            raise


@contextmanager
def serving(port: int) -> Iterator[Endpoint]:
    """Answer on 127.0.0.1:port until the block ends. InputError where the port is taken."""
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE

        def do_GET(self) -> None:
            """Answer; only under a name of the loop-back, so that no web page reads it through a name of its own."""
            status, kind, body = endpoint.answer(self.path, time.time())
            if self.headers.get("Host", "").partition(":")[0] not in (HOST, "localhost"):
                status, kind, body = 403, "text/plain", f"ask for http://{HOST}:{port}{self.path[:80]}\n"
            content = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: a collector calls every few seconds."""

    if not 0 < port < 65_536:
        raise InputError(f"metrics_port={port}: must be 1 to 65535.")
    try:
        server = _Server((HOST, port), Handler)
    except OSError as error:
        raise InputError(
            f"metrics_port={port}: cannot listen on {HOST} there ({error.strerror}). Take another port."
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    with server:
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()
