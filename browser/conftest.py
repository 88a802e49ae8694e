"""A server as a user starts it, a browser as a user has it. Needs Chromium; `make browser` says where it looks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

HERE = Path(__file__).parent
COTERIE = [os.environ.get("COTERIE_PYTHON", str(HERE.parent / ".venv" / "bin" / "python")), "-m", "coterie"]
DEADLINE = 180_000  # milliseconds


class Server:
    """One `coterie ui`, which can be killed and started again on the same runs."""

    def __init__(self, runs: Path) -> None:
        self.runs, self.process, self.address = runs, None, ""

    def start(self, *words: str) -> Server:
        command = [*COTERIE, "ui", "--runs", str(self.runs), *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
        self.address = self.process.stdout.readline().split()[-1]
        return self

    @property
    def origin(self) -> str:
        return self.address.partition("/?")[0]

    def end(self, how: signal.Signals = signal.SIGINT) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(DEADLINE / 1000)
            self.process.stdout.close()
            self.process = None


@contextmanager
def held(runs: Path, name: str) -> Iterator[None]:
    """A run that trains, held where it is: however fast the machine, it does not end while somebody looks at it."""
    process = _training(runs / f"{name}.running" / "progress.json")
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def _training(progress: Path) -> int:
    """The run's process, once it has trained a step."""
    end = time.monotonic() + DEADLINE / 1000
    while time.monotonic() < end:
        with suppress(OSError, ValueError):  # not written yet
            now = json.loads(progress.read_text())
            if now["what"] == "training" and now["done"]:
                return now["pid"]
        time.sleep(0.01)
    raise AssertionError(f"{progress}: does not say that the run trains")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "no chromium on the PATH: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def visitor(browser: Browser, **how) -> Iterator[BrowserContext]:
    """Somebody with a browser of their own: no cookie of anybody else's."""
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | how))
    context.set_default_timeout(DEADLINE)
    try:
        yield context
    finally:
        context.close()


@pytest.fixture(scope="session")
def visits(tmp_path_factory) -> Path:
    """A small file of three owners with its columns file beside it: runs on it take seconds."""
    place = tmp_path_factory.mktemp("files")
    rows = [
        f"{'abc'[at % 3]},{(at * 7 % 40) / 40:.3f},{'yes' if at * 7 % 40 > 20 else 'no'}" for at in range(120)
    ]
    (place / "columns.toml").write_text('target = "sick"\nclasses = ["no", "yes"]\n[columns]\nage = [0, 1]\n')
    (place / "visits.csv").write_text("\n".join(["who,age,sick", *rows]) + "\n")
    return place / "visits.csv"


@pytest.fixture(scope="session")
def people(visits) -> Path:
    """Four owners with forty persons of two records each."""
    rows = [
        f"{'abcd'[at % 4]},{at % 4}-{at // 8},{(at * 7 % 40) / 40:.3f},{'yes' if at * 7 % 40 > 20 else 'no'}"
        for at in range(320)
    ]
    found = visits.with_name("people.csv")
    found.write_text("\n".join(["who,person,age,sick", *rows]) + "\n")
    return found


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("page") / "runs").start()
    yield found
    found.end()


@pytest.fixture
def page(browser, server) -> Iterator[Page]:
    """The page, opened by its address; whatever a script complains of fails the test."""
    with visitor(browser) as context:
        page, complaints = context.new_page(), []

        def said(message: ConsoleMessage) -> None:
            if (
                message.type == "error" and "status of 400" not in message.text
            ):  # a refusal that a test asks for
                complaints.append(message.text)

        page.on("console", said)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(server.address)
        yield page
        assert complaints == []
