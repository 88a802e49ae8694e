"""`coterie ui` end to end, in headless Chromium."""

from __future__ import annotations

import http.server
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import COTERIE, DEADLINE, HERE, Server, held, visitor
from playwright.sync_api import Page, expect

expect.set_options(timeout=DEADLINE)
SIZES = {"phone": (390, 844), "tablet": (768, 1024), "laptop": (1280, 800), "wide": (1920, 1080)}


def go(page: Page, where: str) -> None:
    page.evaluate("where => { location.hash = where }", where)


def started(page: Page, visits: Path, **more: str) -> str:
    """A run of the small file, by the form; its name."""
    go(page, "#/run")
    page.fill("#run-data", str(visits))
    own = page.locator("#run-form details")
    if own.get_attribute("open") is None:
        own.locator("summary").click()
    page.fill("#run-owner-column", "who")
    page.fill("#run-columns", str(visits.with_name("columns.toml")))
    for key, value in more.items():
        page.fill(f"#run-{key}", value)
    page.click("#run-form button[type=submit]")
    page.wait_for_url(re.compile(r"#/run/."))
    return page.url.rpartition("/")[2]


def finished(page: Page, name: str) -> None:
    go(page, f"#/run/{name}")
    expect(page.locator("#watch .headline")).to_contain_text("3 owners reach")


@pytest.fixture(scope="session")
def two(browser, server, visits) -> list[str]:
    """Two runs that have ended."""
    with visitor(browser) as context:
        page = context.new_page()
        page.goto(server.address)
        expect(page.locator("#run-protocol option")).not_to_have_count(0)
        names = [started(page, visits, delta="1e-3", epsilon=epsilon) for epsilon in ("1", "1,2,4")]
        for name in names:
            finished(page, name)
    return names


def test_plan_by_sliders(page):
    headline = page.locator("#forecast .headline")
    expect(headline).to_contain_text("points of 100")
    idle = page.locator("#forecast[aria-busy=false]")
    expect(idle).to_be_visible()
    first = headline.inner_text()
    page.focus("#epsilon")
    for _ in range(30):  # by the keyboard alone
        page.keyboard.press("ArrowLeft")
    expect(idle).to_be_visible()
    assert float(page.input_value("#epsilon-number")) < 1
    expect(headline).not_to_have_text(first)
    expect(page.locator("#forecast .promise")).to_contain_text("A suspicion of 1 in 10 about one record")
    expect(page.locator("#plan-picture circle")).to_have_count(20)
    page.fill("#owners-number", "4")
    page.check("#differ")
    expect(page.locator("#plan-picture circle")).to_have_count(4)
    page.fill("#size-2-number", "9000")
    expect(idle).to_be_visible()
    page.get_by_text("Other protocols").click()
    expect(page.locator("#forecast code")).to_contain_text("--sizes=1000,1000,9000,1000")
    expect(page.locator("#gains")).to_contain_text("3 of 4 owners")  # the large one has enough of its own
    expect(page.locator("#plan-picture g.stays")).to_have_count(1)


def test_who_must_be_honest(page):
    expect(page.locator("#forecast[aria-busy=false]")).to_be_visible()
    page.select_option("#plan-honest", "masked")
    expect(page.locator("#forecast .promise")).to_contain_text("If all others work together against one")


def test_whom_to_protect(page):
    promise = page.locator("#forecast .promise")
    page.select_option("#plan-unit", "column")
    expect(promise).to_contain_text("about one person with up to 20 records")
    page.fill("#plan-person", "1:0.5,4:0.5")
    page.fill("#plan-cap", "4")
    page.keyboard.press("Tab")
    expect(promise).to_contain_text("about one person with up to 4 records")
    expect(page.locator("#forecast details")).to_contain_text("if one record alone were protected")
    page.select_option("#plan-unit", "owner")
    expect(promise).to_contain_text("about one owner with up to 4 records")
    expect(page.locator("#gains")).to_contain_text("where an owner is one unit")


def test_a_run_that_protects_persons_under_masks(page, people):
    expect(page.locator("#run-protocol option")).not_to_have_count(0)
    go(page, "#/run")
    page.select_option("#run-protocol", "weighted_erm")
    page.select_option("#run-unit", "column")
    page.fill("#run-person", "person")
    page.fill("#run-cap", "2")
    page.select_option("#run-honest", "masked")
    page.fill("#run-colluding-number", "1")
    started(page, people, delta="1e-3", epsilon="4")
    expect(page.locator("#watch .headline")).to_contain_text("4 owners reach")
    expect(page.locator("#watch .promise")).to_contain_text("one person with up to 2 records")
    expect(page.locator("#watch dl")).to_contain_text("if all others worked together")
    expect(page.locator("#watch svg.network .hub")).to_have_count(1)  # sums are added up by somebody


def test_start_a_run_and_watch_it_finish(page, visits):
    expect(page.locator("#run-protocol option")).not_to_have_count(0)
    name = started(page, visits, delta="1e-3")
    expect(page.locator("#watch progress").first).to_be_visible()
    expect(page.locator("#watch .headline")).to_contain_text("within the budget")
    expect(page.locator("#watch .headline .oracle").first).to_be_visible()  # held-out rows are the owners'
    expect(page.locator("#watch svg.network circle")).to_have_count(3)
    expect(page.locator(f"#runs-list a[href='#/run/{name}']")).to_contain_text("finished")
    with page.expect_popup() as opened:
        page.get_by_text("Open the report").click()
    expect(opened.value.locator("h1")).to_contain_text("visits")


COUNT_DOTS = """window.dots = 0; new MutationObserver(told => {
    for (const one of told) for (const node of one.addedNodes) if (node.classList?.contains("flow")) window.dots += 1;
}).observe(document, {childList: true, subtree: true});"""


def test_reload_stop_and_go_on_in_two_tabs(page, server):
    """Of a run that takes a while: reloaded, it goes on; a second tab sees it, stops it; the first sees that."""
    expect(page.locator("#run-protocol option")).not_to_have_count(0)
    go(page, "#/run")
    page.click("#run-form button[type=submit]")  # census, as the form has it
    page.wait_for_url(re.compile(r"#/run/census"))
    with held(server.runs, page.url.rpartition("/")[2]):
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        page.add_init_script(COUNT_DOTS)
        page.reload()
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        expect(page.locator("#watch svg.network circle").first).to_be_visible()
        page.wait_for_function("window.dots > 0")  # messages are on their way
        expect(page.locator("#watch .gauges")).to_contain_text("of 1")
        other = page.context.new_page()
        other.goto(page.url)
        expect(other.locator("#watch [role=status]")).to_contain_text("training")
        other.get_by_role("button", name="Stop").click()
    expect(page.locator("#watch [role=status]")).to_contain_text("It can go on where it was")
    page.get_by_role("button", name="Go on").click()
    for tab in (page, other):
        expect(tab.locator("#watch .headline")).to_contain_text("20 owners reach")
    expect(page.locator("#watch .gauges li")).to_have_count(1)  # twenty equal bars are one


def test_a_press_ends_on_the_button_it_began_on(page):
    """Though the page was told something new meanwhile, as it is twice a second while a run trains."""
    go(page, "#/network")  # where nothing else moves, and the button with it
    expect(page.locator("#network")).to_be_visible()
    page.evaluate("""async () => {
        const { el, show } = await import("/static/parts.js");
        const place = document.body.appendChild(el("div", { id: "tried" }));
        window.heard = 0;
        const button = () => el("button", { onclick: () => { window.heard += 1; } }, "Halt");
        window.told = (words) => show(place, el("p", { "data-key": "now" }, words), el("p", {}, button()));
        window.told("one");
    }""")
    page.get_by_role("button", name="Halt").hover()
    page.mouse.down()
    page.evaluate("window.told('two')")
    page.mouse.up()
    assert page.evaluate("window.heard") == 1
    expect(page.locator("#tried")).to_contain_text("two")


def test_a_printed_report_is_one_sheet(browser, server, two):
    with visitor(browser) as context:
        page = context.new_page()
        page.goto((server.runs / two[1] / "report.html").as_uri())
        printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1


# Words and numbers of table cells that stand on more than one line.
BROKEN = """() => {
  const broken = [];
  for (const cell of document.querySelectorAll("td, th")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      for (const word of text.data.matchAll(/\\S+/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(one => Math.round(one.top))).size > 1) broken.push(word[0]);
      }
    }
  }
  return broken;
}"""


@pytest.fixture(scope="session")
def reports(visits, tmp_path_factory) -> dict[str, Path]:
    """Of a run whose model is worse than a constant, which the first words say, and of a comparison."""
    place = tmp_path_factory.mktemp("reports")
    rows = ["--data", visits, "--owner-column", "who", "--columns", visits.with_name("columns.toml")]
    commands = {
        "run": ["run", *rows, "--epsilon", "1e-6", "--delta", "1e-3", "--set", "rounds=2"],
        "comparison": ["compare", *rows, "--protocols", "dual_averaging,weighted_erm", "--epsilon", "1,4"],
    }
    for name, command in commands.items():
        subprocess.run([*COTERIE, *map(str, command), "--out", str(place / name)], check=True)
    return {name: place / name / "report.html" for name in commands}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("which", ["run", "comparison"])
def test_a_report_can_be_read_in_every_size(browser, reports, which, size):
    width, height = SIZES[size]
    with visitor(browser, viewport={"width": width, "height": height}) as context:
        page = context.new_page()
        page.goto(reports[which].as_uri())
        assert page.locator(".lead b.alarm").count() == (which == "run")
        lead = page.evaluate("document.querySelector('.lead').scrollWidth")
        assert lead <= page.evaluate("document.querySelector('.lead').clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BROKEN) == []


def test_compare_two(page, two):
    go(page, f"#/compare/{two[0]}")
    page.check(f"#pick-{two[1]}")
    beside = page.locator("#beside")
    expect(beside.locator("thead th")).to_have_count(2)
    expect(beside.locator("svg.chart path")).to_have_count(2)
    expect(beside).to_contain_text("ε = 1 to 4")


def test_a_bad_file_is_one_line(page, tmp_path):
    (tmp_path / "bad.csv").write_text("no,columns\nthat,fit")
    go(page, "#/run")
    expect(page.locator("#run-protocol option")).not_to_have_count(0)
    page.fill("#run-data", str(tmp_path / "bad.csv"))
    page.click("#run-form button[type=submit]")
    expect(page.locator("#watch .alarm")).to_contain_text("target")
    page.get_by_role("button", name="Discard").click()
    expect(page.locator("#runs-list")).not_to_contain_text("bad-")
    page.fill("#run-epsilon", "much")
    page.click("#run-form button[type=submit]")
    expect(page.locator("#run-error")).to_contain_text("epsilon='much'")


def test_attach_to_a_node(page, visits, tmp_path):
    """Three real owners on this machine, from their first step to their last; the page only looks."""
    files, folder = tmp_path / "files", tmp_path / "trial"
    files.mkdir()
    lines = visits.read_text().splitlines()
    for owner in "abc":
        rows = [line.partition(",")[2] for line in lines[1:] if line.startswith(owner)]
        (files / f"{owner}.csv").write_text("\n".join(["age,sick", *rows]) + "\n")
    words = ["--owners", "a,b,c", "--sizes", "40,40,40", "--columns", str(visits.with_name("columns.toml"))]
    subprocess.run(
        [*COTERIE, "network", "new", str(folder), *words, "--delta", "1e-3"], check=True, capture_output=True
    )
    go(page, "#/network")
    page.fill("#node-folder", str(tmp_path))
    page.click("#node-form button")
    expect(page.locator("#node-error")).to_contain_text("node.toml")
    page.fill("#node-folder", str(folder))
    page.click("#node-form button")
    expect(page.locator("#parties section")).to_have_count(3)
    expect(page.locator("#parties")).to_contain_text("not started")
    command = [*COTERIE, "network", "up", str(folder), "--data", str(files)]
    up = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        expect(page.locator("#parties section").first).to_contain_text("finished: step")
        expect(page.locator("#parties section").first).to_contain_text("days left")
        expect(page.locator("#parties section").first.locator(".gauges")).to_contain_text("ε")
        assert up.wait(DEADLINE / 1000) == 0
    finally:
        up.kill()
        up.wait()


def test_a_killed_server_is_started_again_and_finds_the_run(browser, tmp_path):
    server = Server(tmp_path / "runs").start()
    try:
        with visitor(browser) as context:
            page = context.new_page()
            page.goto(server.address)
            expect(page.locator("#run-protocol option")).not_to_have_count(0)
            go(page, "#/run")
            page.click("#run-form button[type=submit]")
            with held(server.runs, "census-dual_averaging-1"):
                expect(page.get_by_role("button", name="Stop")).to_be_visible()
                server.end(signal.SIGKILL)
                expect(page.locator("#lost")).to_contain_text("does not answer")
                server.start()
                page.goto(server.address)
                go(page, "#/run/census-dual_averaging-1")
                expect(page.get_by_role("button", name="Stop")).to_be_visible()  # it has gone on meanwhile
            expect(page.locator("#watch .headline")).to_contain_text("20 owners reach")
    finally:
        server.end()


def test_a_stranger_without_the_token(browser, server):
    with visitor(browser) as context:
        page = context.new_page()
        for path in ("/", "/api/runs", "/static/app.js", "/?token=guess"):
            assert page.goto(server.origin + path).status == 401
        assert context.cookies() == []


@contextmanager
def elsewhere(content: str) -> Iterator[str]:
    """A page of another origin: another port of this machine, which is the same site."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_address[1]}/"
        finally:
            served.shutdown()
            thread.join()


def test_a_page_from_another_origin(page, server, two):
    """It has the cookie on its side, and still reads nothing, starts nothing and frames nothing."""
    content = f"""<iframe src="{server.origin}/"></iframe><img src="{server.origin}/api/runs"><script>
    const tried = async (path, how) => {{
      try {{ return (await fetch("{server.origin}" + path, {{credentials: "include", ...how}})).status }}
      catch {{ return "blocked" }}
    }};
    window.found = (async () => [
      await tried("/api/runs", {{}}), await tried("/api/runs", {{mode: "no-cors"}}),
      await tried("/api/runs", {{method: "POST", body: "{{}}"}}),
      await tried("/api/runs", {{method: "POST", mode: "no-cors", body: "{{}}"}}),
      await tried("/api/runs/{two[0]}/discard", {{method: "POST", mode: "no-cors", body: "{{}}"}}),
    ])();</script>"""
    before = page.request.get(f"{server.origin}/api/runs").json()
    with elsewhere(content) as address:
        other = page.context.new_page()
        other.goto(address)
        found = other.evaluate("window.found")
        assert set(found) <= {"blocked", 0, 403}  # 0: an answer that cannot be read
        assert "coterie" not in (other.frames[1].content() if len(other.frames) > 1 else "")
        other.close()
    assert page.request.get(f"{server.origin}/api/runs").json() == before


AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = {"plan": "#/plan", "run": "#/run/{}", "compare": "#/compare/{}", "network": "#/network"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_in_every_size_can_be_used_by_everybody(
    browser, server, two, size, scheme, tmp_path_factory
):
    """No serious finding of axe-core, nothing wider than the screen; pictures are left for those who look at them."""
    width, height = SIZES[size]
    pictures = HERE / "pictures"
    pictures.mkdir(exist_ok=True)
    with visitor(browser, viewport={"width": width, "height": height}, color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(server.address)
        expect(page.locator("#forecast .headline")).to_be_visible()
        expect(page.locator("#forecast[aria-busy=false]")).to_be_visible()
        for view, where in VIEWS.items():
            go(page, where.format(two[0]))
            if view == "run":
                expect(page.locator("#watch .headline")).to_be_visible()
            if view == "compare":
                page.check(f"#pick-{two[1]}")
                expect(page.locator("#beside table")).to_be_visible()
            page.screenshot(path=pictures / f"{view}-{size}-{scheme}.png", full_page=True)
            page.evaluate(
                AXE.read_text() + "; 0"
            )  # not as a script of the page: its policy would forbid that
            found = page.evaluate("axe.run().then(found => found.violations)")
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            bad = [(one["id"], [node["html"] for node in one["nodes"]]) for one in serious]
            assert bad == [], (view, bad)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
