"""The live page in a real browser; a broker is killed with its button: docs/gateway.md."""

import asyncio
import threading
from contextlib import contextmanager

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.gateway.serving import Serving, serving
from rayvous.protocol.gateways import AccessConfig, GatewayConfig, Principal, digest_of

ACCESS = AccessConfig(
    {"olga": Principal((digest_of("token"),), subscribe="x >= 0", watch=True, operate=True)}
)
ROWS = "[...document.querySelectorAll('#brokers tr')].map(row => row.innerText)"


@contextmanager
def served(network):
    """Serve a network from a thread; yield the gateway."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    ready: asyncio.Future[Serving] = loop.create_future()
    told = threading.Event()

    async def serve():
        async with serving(network, GatewayConfig("127.0.0.1:0"), ACCESS) as gateway:
            ready.set_result(gateway)
            told.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert told.wait(PATIENCE_SECONDS)
    try:
        yield ready.result()
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_SECONDS)
        loop.close()


@pytest.mark.usefixtures("ray_started")
def test_the_page_shows_a_network_that_loses_a_broker_and_heals(browser, tmp_path):
    with rv.Network.launch(rv.ClusterTree(2, 2), name="shown", recovery=rv.Recovery(), detached=False) as net:
        subscriber, publisher = net.subscriber("wants"), net.publisher("says")
        subscriber.subscribe("x >= 0")
        with served(rv.Network.attach("shown")) as gateway:
            url = gateway.urls[0]
            browser.open(f"{url}/ui/", 1280)
            browser.until("!document.getElementById('sign-in').hidden")
            browser.evaluate("document.getElementById('token').value = 'token'; true")
            browser.evaluate("document.querySelector('#sign-in button').click(); true")
            browser.until("document.getElementById('state').textContent === 'healthy'")
            assert browser.until(f"{ROWS}.length") == 4
            assert browser.evaluate("document.querySelectorAll('#tree .broker').length") == 4

            browser.evaluate("document.getElementById('selector').value = 'x > 5'; true")
            browser.evaluate("document.getElementById('try-button').click(); true")
            browser.until("document.getElementById('try-said').textContent.startsWith('subscribed to')")
            publisher.publish_batch([{"x": x} for x in range(10)])
            seen = browser.until(
                "document.getElementById('events-seen').textContent.includes('9') && "
                "document.getElementById('events-seen').textContent"
            )
            assert seen.splitlines() == [f'{{"x":{x}}}' for x in (9, 8, 7, 6)]
            browser.until("document.getElementById('p50').textContent.endsWith('ms')")

            browser.evaluate("document.querySelector('[aria-label=\"kill broker 3\"]').click(); true")
            browser.evaluate("document.querySelector('#sure [value=yes]').click(); true")
            browser.until("document.getElementById('timeline').innerText.includes('broker 3 is dead')")
            browser.until("document.getElementById('state').textContent === 'whole without broker 3'")
            assert net.status().condition == "whole without broker 3"
            browser.until(
                "/whole without broker 3 after [0-9.]+ s/.test(document.getElementById('timeline').innerText)"
            )
            for width in (1280, 400):
                for scheme in ("light", "dark"):
                    browser.look(width, scheme)
                    assert browser.until("document.documentElement.scrollWidth") <= width
                    browser.picture(tmp_path / f"{width}-{scheme}.png")
            browser.evaluate("sessionStorage.clear(); true")
            browser.open("about:blank")
            code = gateway.codes.issue("token")
            for page in (f"{url}/ui#{code}", f"{url}/ui"):  # as `rayvous ui` does, and loaded again
                browser.open(page)
                browser.until("document.getElementById('state').textContent === 'whole without broker 3'")
                assert browser.evaluate("location.hash") == ""
            browser.evaluate("sessionStorage.clear(); true")
            browser.open("about:blank")
            browser.open(f"{url}/ui/#{code}")
            browser.until("document.getElementById('refused').textContent.includes('opens the page once')")
            assert browser.said() == []
