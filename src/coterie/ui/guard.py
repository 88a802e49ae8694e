"""Who may talk to the page's server: the browser that was given the token, on this machine, from the page itself.

Four things are asked of every request. Its Host is this machine's own name (a stranger's name that was made to point
here is refused). It does not come out of a page of another origin, another port of this machine included: cookies
do not tell ports apart. It carries the cookie, which only the address with the token sets. And nothing that it gets
may be read, framed or completed by anybody else.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# A run's own page has its style within it. It comes from a folder, which may be anybody's: it gets no origin.
PAGE_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_NEEDED = "This page needs the address that `coterie ui` printed when it started, with its token."


class Guard:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token, self.cookie = app, token, f"coterie-{port}"
        self.hosts = {f"{name}:{port}" for name in _NAMES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, let in with the token, or pass on; with the same headers on whatever is answered."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", POLICY)
                headers.update(_ALWAYS)
            await send(message)

        answer = self.refusal(Headers(scope=scope), scope) or self.app
        await answer(scope, receive, guarded)

    def refusal(self, headers: Mapping[str, str], scope: Scope) -> Response | None:
        """What is answered in the page's place; None: the request may pass."""
        if headers.get("host", "") not in self.hosts:
            return PlainTextResponse("This server answers to 127.0.0.1 and localhost alone.", 421)
        if _from_elsewhere(headers, self.hosts, scope):
            return PlainTextResponse("Pages of another origin may ask nothing here.", 403)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["path"] == "/" and scope["method"] == "GET" and given:
            if not self._known(given[0]):
                return PlainTextResponse(_NEEDED, 401)
            found = RedirectResponse("/", 303)
            found.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return found
        if not self._known(_cookies(headers).get(self.cookie, "")):
            return PlainTextResponse(_NEEDED, 401)
        return None

    def _known(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())


def _from_elsewhere(headers: Mapping[str, str], hosts: set[str], scope: Scope) -> bool:
    """By what browsers say of where a request is from. A link from elsewhere may be followed; it reads nothing."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin is not None and origin.removeprefix("http://") not in hosts:
        return True
    follows = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
    return site not in ("same-origin", "none") and not follows


def _cookies(headers: Mapping[str, str]) -> dict[str, str]:
    try:
        return {name: one.value for name, one in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}
