"""Who may watch, who may kill brokers, and how selectors are tried; an ASGI application without sockets."""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import pytest
from rayvous.gateway.access import Access
from rayvous.gateway.core import Gateway
from rayvous.gateway.http.app import app_of
from rayvous.gateway.ui.codes import Codes
from rayvous.gateway.ui.live import REFUSED, ui_routes
from rayvous.gateway.ui.watch import Watch
from rayvous.protocol.gateways import AccessConfig, GatewayLimits, Principal, digest_of

ACCESS = AccessConfig(
    {
        "olga": Principal((digest_of("o"),), publish="TRUE", subscribe="x > 10", watch=True, operate=True),
        "wes": Principal((digest_of("w"),), watch=True),
        "sam": Principal((digest_of("s"),), subscribe="TRUE"),
    }
)


class Page:
    """The browser's side of the application."""

    def __init__(self, network, look, **limits):
        self.gateway = Gateway(network, Access(ACCESS), GatewayLimits(**limits))
        self.killed = []
        watch = Watch(lambda: look(0, {"role": "REB"}), every_seconds=0.01)
        self.codes = Codes()
        pages = ui_routes(self.gateway, watch, self.killed.append, codes=self.codes)
        self.app = app_of(self.gateway, pages=pages)

    def scope(self, kind, path, **headers):
        return {
            "type": kind, "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in {"host": "here", **headers}.items()],
            "http_version": "1.1", "scheme": "http", "server": ("here", 80), "subprotocols": [], "method": "GET",
        }  # fmt: skip

    async def get(self, path):
        sent = []
        asked = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive():
            return asked.pop() if asked else await asyncio.Future()

        async def send(message):
            sent.append(message)

        await self.app(self.scope("http", path), receive, send)
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], dict(sent[0]["headers"]), body

    @asynccontextmanager
    async def live(self, **headers):
        to_app, from_app = asyncio.Queue(), asyncio.Queue()
        await to_app.put({"type": "websocket.connect"})
        work = asyncio.ensure_future(
            self.app(self.scope("websocket", "/ui/live", **headers), to_app.get, from_app.put)
        )
        assert (await from_app.get())["type"] == "websocket.accept"

        async def say(word):
            if isinstance(word, bytes):
                await to_app.put({"type": "websocket.receive", "bytes": word})
                return
            text = word if isinstance(word, str) else json.dumps(word)
            await to_app.put({"type": "websocket.receive", "text": text})

        async def heard(kind):
            while True:
                message = await from_app.get()
                if message["type"] == "websocket.close":
                    return message
                word = json.loads(message["text"])
                if word["kind"] == kind:
                    return word

        try:
            yield say, heard
        finally:
            await to_app.put({"type": "websocket.disconnect", "code": 1000})
            await work


def test_the_page_is_of_this_gateway_alone_and_says_so_to_the_browser(run, local_network, look):
    async def work():
        page = Page(local_network(), look)
        for name in ("", "page.js", "draw.js", "chart.js", "page.css"):
            status, headers, body = await page.get(f"/ui/{name}")
            assert status == 200 and b"default-src 'none'" in headers[b"content-security-policy"]
            assert not re.search(rb"https?://(?!www.w3.org/2000/svg)", body), "nothing is from elsewhere"
            assert b"innerHTML" not in body
        assert (await page.get("/ui/../live.py"))[0] == 404
        status, headers, body = await page.get("/ui")  # not redirected: see test_http
        assert status == 200 and b'<base href="ui/">' in body and b"content-security-policy" in headers

    run(work())


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ({"token": "wrong"}, "token"),
        ({"token": "s"}, "'sam' may not watch"),
        ({"token": None}, "token"),
        ({"token": 5}, "must be text"),
        ({"code": 5}, "must be text"),
        ({"code": "o"}, "opens the page once"),
        ({"code": "\ud800"}, "half a surrogate pair"),
        ("[]", "JSON object"),
        ("{", "JSON object"),
        ("x" * 9_000, "limit"),
        (b"{}", "text"),
    ],
)
def test_who_may_not_watch_is_turned_away_with_a_reason_and_sees_nothing(run, local_network, look, word, why):
    async def work():
        page = Page(local_network(), look)
        async with page.live() as (say, heard):
            await say(word)
            closed = await heard("look")
            assert (
                closed["type"] == "websocket.close" and closed["code"] == REFUSED and why in closed["reason"]
            )
        assert page.gateway.sessions == 0

    run(work())


def test_a_code_is_exchanged_for_the_token_once(run, local_network, look):
    """The URL that opens the browser has only the code: arguments of processes can be listed by everybody."""

    async def work():
        page = Page(local_network(), look)
        code = page.codes.issue("w")
        async with page.live() as (say, heard):
            await say({"code": code})
            assert (await heard("token"))["token"] == "w"
            assert (await heard("look"))["may_kill"] is False
        async with page.live() as (say, heard):
            await say({"code": code})
            closed = await heard("token")
            assert closed["code"] == REFUSED and "opens the page once" in closed["reason"]
        async with page.live() as (say, heard):
            await say({"code": page.codes.issue("s")})  # a token without the right to watch is not told
            assert "may not watch" in (await heard("token"))["reason"]

    run(work())


def test_a_page_of_another_host_is_not_let_in_and_who_says_nothing_is_let_go(run, local_network, look):
    async def work():
        page = Page(local_network(), look, request_seconds=0.01)
        async with page.live(origin="http://elsewhere") as (_, heard):
            assert "origins" in (await heard("look"))["reason"]
        async with page.live(origin="http://here") as (_, heard):
            assert "in time" in (await heard("look"))["reason"]

    run(work())


def test_who_may_watch_sees_the_network_and_only_who_may_operate_kills(run, local_network, look):
    async def work():
        page = Page(local_network(), look)
        async with page.live() as (say, heard):
            await say({"token": "w"})
            frame = await heard("look")
            assert frame["brokers"][0]["role"] == "REB" and frame["may_kill"] is False
            await say({"kill": 0})
            assert "may not operate" in (await heard("said"))["text"] and page.killed == []
        async with page.live() as (say, heard):
            await say({"token": "o"})
            assert (await heard("look"))["may_kill"] is True
            await say({"kill": True})
            assert "a number" in (await heard("said"))["text"]
            await say({"kill": 0})
            while not page.killed:
                await heard("look")
        assert page.killed == [0] and page.gateway.sessions == 0

    run(work())


def test_a_selector_is_tried_within_the_right_to_subscribe_and_only_one_at_a_time(run, local_network, look):
    async def work():
        network = local_network()
        page = Page(network, look)
        async with page.live() as (say, heard), await page.gateway.open("o") as other:
            await say({"token": "o"})
            await say({"try": "x >"})
            assert "column" in (await heard("said"))["text"]
            await say({"try": "x > 20 AND y = x"})
            assert "; y = x compares two attributes" in (await heard("said"))["text"]
            await say({"try": "x > 5"})
            assert "x > 10" in (await heard("said"))["text"], "what the right leaves of it"
            await other.publish([{"x": 7}, {"x": 12}])
            shown = await heard("events")
            assert shown["count"] == 1 and json.loads(shown["events"][0]) == {"x": 12}
            await say({"try": "x > 20"})
            assert "x > 20" in (await heard("said"))["text"] and page.gateway.streams == 1
            await say({"try": None})
            while page.gateway.streams:
                await heard("look")
        assert network.feeds == []

    run(work())
