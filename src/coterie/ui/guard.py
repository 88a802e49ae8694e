"""Admits to the page's server only a browser on this machine that was given the token, from the page itself.

Four conditions hold for every request. Its Host is this machine's own name (a foreign name that resolves to this
machine is refused). It does not come from a page of another origin, another port of this machine included: cookies do
not distinguish ports. It carries the cookie, which only the address with the token sets. And no other page may read,
frame or complete its response.
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
# A run's own page has inline styles. Its folder may come from anybody, so the page gets no origin.
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
        """Refuse, admit by the token, or pass on; all responses get the same headers."""
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
        """The response in place of the page; None: the request may pass."""
        if headers.get("host", "") not in self.hosts:
            return PlainTextResponse("This server answers to 127.0.0.1 and localhost alone.", 421)
        if _from_elsewhere(headers, self.hosts, scope):
            return PlainTextResponse("Pages of another origin may ask nothing here.", 403)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["path"] == "/" and scope["method"] == "GET" and given:
            if not self._known(given[0]):
                return PlainTextResponse(_NEEDED, 401)
            redirect = RedirectResponse("/", 303)
            redirect.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return redirect
        if not self._known(_cookies(headers).get(self.cookie, "")):
            return PlainTextResponse(_NEEDED, 401)
        return None

    def _known(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())


def _from_elsewhere(headers: Mapping[str, str], hosts: set[str], scope: Scope) -> bool:
    """Whether a request is from another origin, by its headers. Followed links are admitted: they read nothing."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin is not None and origin.removeprefix("http://") not in hosts:
        return True
    follows = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
    return site not in ("same-origin", "none") and not follows


def _cookies(headers: Mapping[str, str]) -> dict[str, str]:
    try:
        return {name: cookie.value for name, cookie in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}
