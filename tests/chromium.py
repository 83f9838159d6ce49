"""Headless Chromium for tests, driven over a pipe with the DevTools protocol; one browser for the whole run.

Tests that need Chromium are skipped when it is not installed. A failure of Chromium itself fails the test.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_SECONDS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"),
)
LAUNCH = (
    "import os, sys; [os.dup2(int(sys.argv[i]), i + 2) for i in (1, 2)]; os.execv(sys.argv[3], sys.argv[3:])"
)
"""Puts the ends of two pipes where Chromium looks for them, and becomes Chromium."""


class Browser:
    """One Chromium with one tab. Messages are JSON, each followed by a zero byte, on descriptors 3 and 4."""

    def __init__(self, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()  # created last, so its descriptor is above 4
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
        self._url, self._former = "about:blank", ""
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
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"Chromium said nothing for {PATIENCE_SECONDS} s"
            read = os.read(self._read, 1 << 16)
            assert read, f"Chromium ended with {self.process.wait()}"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, url: str, width: int = 1100, scheme: str = "light") -> None:
        self.events.clear()
        self._former, self._url = "" if url == self._url else self._url, url
        self.look(width, scheme)
        self.ask("Page.navigate", url=url)
        self.await_event("Page.loadEventFired")

    def look(self, width: int, scheme: str) -> None:
        """Set the width of the window and the colour scheme, light or dark."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, expression: str):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"]["value"]

    def said(self) -> list[str]:
        """Return the errors, warnings, uncaught exceptions and console calls of the page."""
        self.evaluate("1")  # earlier events of the page arrive before this answer
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
        """Return every address that was requested, except data URIs.

        The icon of the former page may be requested after that page was left: it is left out.
        """
        sent = [
            (event["params"].get("documentURL"), event["params"]["request"]["url"])
            for event in self.events
            if "WillBeSent" in event.get("method", "") and "request" in event["params"]
        ]
        return [url for page, url in sent if not url.startswith("data:") and page != self._former]

    def until(self, expression: str, seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait until an expression is true in the page and return its value; it is checked at each redraw."""
        script = f"""new Promise((done, fail) => {{
            const end = performance.now() + {1000 * seconds};
            const look = () => {{
                const found = ({expression});
                if (found) done(found);
                else if (performance.now() > end) fail(new Error(document.body.innerText));
                else requestAnimationFrame(look);
            }};
            look();
        }})"""
        result = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]["exception"]["description"]
        return result["result"]["value"]

    def picture(self, path: Path) -> None:
        """Write the whole page as a PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        taken = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(taken["data"]))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return a Chromium with one tab."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    running = Browser(tmp_path_factory.mktemp("profile"))
    yield running
    running.close()
