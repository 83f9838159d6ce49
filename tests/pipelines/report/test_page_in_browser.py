"""The page in a real browser: headless Chromium, driven over a pipe with the DevTools protocol; nothing is fetched.

Without Chromium these are skipped; a failure of Chromium itself is a failure.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rayvous.pipelines.report.page import write_page
from rayvous.pipelines.report.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"),
)
LAUNCH = (
    "import os, sys; [os.dup2(int(sys.argv[i]), i + 2) for i in (1, 2)]; os.execv(sys.argv[3], sys.argv[3:])"
)
"""Puts the ends of two pipes where Chromium looks for them, and becomes Chromium."""

ANSWER_SECONDS = 60.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
]


class Browser:
    """One Chromium with one tab. Messages are JSON, each ended by a zero byte, over descriptors 3 and 4 of Chromium."""

    def __init__(self, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()  # the last of four, so that it is above 4
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", LAUNCH, str(to_browser), str(from_browser), CHROMIUM, *QUIET),
                *(f"--user-data-dir={profile}", "--remote-debugging-pipe"),
            ],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{part}.enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._write)
        os.close(self._read)

    def ask(self, method: str, **arguments) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": arguments}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def await_event(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def _next(self) -> dict:
        deadline = time.monotonic() + ANSWER_SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"Chromium said nothing for {ANSWER_SECONDS} s"
            read = os.read(self._read, 1 << 16)
            assert read, f"Chromium ended with {self.process.wait()}"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path, width: int = 1100, scheme: str = "light") -> None:
        self.events.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=path.as_uri())
        self.await_event("Page.loadEventFired")

    def evaluate(self, expression: str):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"]["value"]

    def said(self) -> list[str]:
        """Return errors and warnings that the page has caused, uncaught exceptions and what violates its policy."""
        self.evaluate("1")  # whatever the page has caused was said before this is answered
        found = []
        for event in self.events:
            method, told = event.get("method"), event.get("params", {})
            if method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(told["entry"]["text"])
            if method == "Runtime.exceptionThrown":
                found.append(told["exceptionDetails"]["text"])
            if method == "Runtime.consoleAPICalled":
                found.append(str(told["args"]))
        return found

    def requested(self) -> list[str]:
        """Return every address that was asked for, data URIs aside."""
        sent = [
            event["params"]["request"]["url"]
            for event in self.events
            if "WillBeSent" in event.get("method", "") and "request" in event["params"]
        ]
        return [url for url in sent if not url.startswith("data:")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    running = Browser(tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory, figures, network, told):
    return write_report(tmp_path_factory.mktemp("report"), figures(), network(), told()).paths["page"]


@pytest.mark.parametrize("width", [1100, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_shown_whole(browser, path, width, scheme):
    browser.open(path, width, scheme)
    assert browser.evaluate("document.title") == "flights – Rayvous"
    assert browser.evaluate("document.querySelector('#verdict .word').textContent") == "holds"
    rows = "[...document.querySelectorAll('section')].map(s => [s.id, s.querySelectorAll('tbody tr').length])"
    counted = dict(browser.evaluate(rows))
    assert counted["verdict"] == 2
    assert counted["tree"] == 3
    assert counted["load"] == 6
    assert counted["costs"] == 7
    sizes = browser.evaluate(
        "[...document.images].map(i => [i.complete, i.naturalWidth, i.naturalHeight, i.clientWidth, i.clientHeight])"
    )
    assert len(sizes) == 4
    for complete, natural_width, natural_height, shown_width, shown_height in sizes:
        assert complete
        assert natural_width > 500
        assert natural_height > 300
        assert shown_width > 250
        assert shown_height / shown_width == pytest.approx(natural_height / natural_width, rel=0.02)
    # Nothing is wider than the window: tables and pictures scroll in their own boxes.
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.said() == []
    assert browser.requested() == [path.as_uri()]


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser, path, scheme):
    """WCAG 2, level AA: a contrast of 4.5 to 1."""
    browser.open(path, scheme=scheme)
    ground = browser.evaluate("getComputedStyle(document.querySelector('.sheet')).backgroundColor")
    assert (luminance(ground) > 0.5) == (scheme == "light")
    selectors = ("h2", "td", "th", ".note", "figcaption", "a", ".timeline .mark", ".facts dt")
    for selector in selectors:
        ink = browser.evaluate(f"getComputedStyle(document.querySelector('.sheet {selector}')).color")
        high, low = sorted((luminance(ink), luminance(ground)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, selector


def test_a_page_prints_on_paper(browser, path):
    browser.open(path, scheme="dark")
    browser.ask("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("getComputedStyle(document.querySelector('h2')).color") == "rgb(0, 0, 0)"
    browser.ask("Emulation.setEmulatedMedia", media="")
    printed = browser.ask("Page.printToPDF", preferCSSPageSize=False)["data"]
    assert len(printed) > 50_000


def test_hostile_names_run_nothing_and_fetch_nothing(browser, tmp_path, figures, network, told):
    hostile = (
        "<script>window.owned = 1</script><img src=http://evil.example/a.png onerror='window.owned = 2'>"
    )
    graph = network(hostile)
    graph.nodes[0]["label"] = hostile
    summary = told() | {"settings": {hostile: hostile}, "timeline": [{"seconds": 1.0, "what": hostile}]}
    path = write_page(tmp_path, figures(), graph, summary, {})
    browser.open(path)
    assert browser.evaluate("document.querySelector('h1').textContent") == hostile
    assert browser.evaluate("typeof window.owned") == "undefined"
    assert browser.evaluate("document.scripts.length") == 0
    assert browser.requested() == [path.as_uri()]
    assert browser.said() == []


def test_the_policy_of_the_page_stops_what_escaping_would_miss(browser, tmp_path, figures, network, told):
    """The second wall: a script and a picture from elsewhere, put into the file, are not run and not fetched."""
    path = write_page(tmp_path, figures(), network(), told(), {})
    evil = "<script>window.owned = 1</script><img src=http://evil.example/a.png>"
    path.write_text(path.read_text(encoding="utf-8").replace("<main>", f"<main>{evil}"), encoding="utf-8")
    browser.open(path)
    assert browser.evaluate("typeof window.owned") == "undefined"
    assert any("Content Security Policy" in text for text in browser.said())
    assert browser.requested() == [path.as_uri(), "http://evil.example/a.png"]
    (failed,) = [
        event["params"] for event in browser.events if event.get("method") == "Network.loadingFailed"
    ]
    assert failed["blockedReason"] == "csp"  # before it left this machine
