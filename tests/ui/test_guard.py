"""Who is let in: the token's bearer, on this machine, from the page itself; and nobody else, whatever they ask."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from coterie.ui.guard import POLICY, Guard

TOKEN, PORT = "a-secret-of-this-start", 8123
HOME = f"http://127.0.0.1:{PORT}"


def stranger(base: str = HOME) -> TestClient:
    async def secret(_):
        return PlainTextResponse("records")

    app = Starlette(routes=[Route("/", secret), Route("/api/x", secret, methods=["GET", "POST"])])
    return TestClient(Guard(app, TOKEN, PORT), base_url=base, follow_redirects=False)


def friend() -> TestClient:
    client = stranger()
    client.get("/", params={"token": TOKEN})
    return client


@pytest.mark.parametrize(
    "path", ["/", "/api/x", "/static/app.js", "/?token=wrong", "/?token=", "/api/x?token=" + TOKEN]
)
def test_a_stranger_gets_one_line(path):
    answer = stranger().get(path)
    assert answer.status_code == 401
    assert "coterie ui" in answer.text
    assert "records" not in answer.text
    assert "set-cookie" not in answer.headers


def test_the_token_is_in_the_address_once_and_then_in_a_cookie_no_script_can_read():
    client = stranger()
    answer = client.get("/", params={"token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/"} <= set(cookie.split("; "))
    assert client.get("/api/x").text == "records"


def test_a_forged_cookie_is_none():
    for given in (
        f"coterie-{PORT}=wrong",
        f"coterie-1={TOKEN}",
        "=;;;=",
        f"coterie-{PORT}=é".encode("latin-1"),
    ):
        assert stranger().get("/api/x", headers={"cookie": given}).status_code == 401


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil.example:{PORT}"],
)
def test_a_name_that_was_made_to_point_here_is_refused(host):
    """DNS rebinding: the browser believes that it talks to the attacker, and shows it what it gets."""
    assert friend().get("/api/x", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machines_own_names_are_fine(name):
    assert friend().get("/api/x", headers={"host": f"{name}:{PORT}"}).status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "said",
    [
        {"origin": "http://evil.example"},
        {"origin": f"http://127.0.0.1:{PORT + 1}"},  # another port: the same site, so the cookie comes along
        {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_pages_of_another_origin_ask_nothing(method, said):
    answer = friend().request(method, "/api/x", headers=said)
    assert answer.status_code == 403
    assert "records" not in answer.text


def test_a_form_elsewhere_cannot_be_sent_here_and_a_link_can_be_followed():
    moved = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert friend().post("/api/x", headers=moved).status_code == 403
    assert friend().get("/", headers=moved).status_code == 200


def test_the_page_itself_may_ask():
    said = {"origin": HOME, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert friend().post("/api/x", headers=said).status_code == 200


@pytest.mark.parametrize("client", [stranger, friend])
def test_every_answer_carries_the_policy_and_no_cors(client):
    answer = client().get("/api/x")
    headers = answer.headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert "http" not in POLICY  # nothing is fetched from anywhere else
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]
