"""Take the picture of the live page in docs.

Run ``python tests/on_ray/live_page_picture.py docs/pictures/live_page.png``. A network of twelve brokers
carries events, one broker is killed with the page's button, and the network heals.
"""

import asyncio
import random
import sys
import tempfile
import threading
from pathlib import Path

import rayvous as rv
from rayvous.gateway.serving import serving
from rayvous.protocol.gateways import AccessConfig, GatewayConfig, Principal, digest_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from chromium import Browser

ORIGINS = ("JFK", "LGA", "EWR", "BOS", "ORD", "ATL")
ACCESS = AccessConfig({"olga": Principal((digest_of("token"),), subscribe="TRUE", watch=True, operate=True)})
KILLED, WIDTH, PACE_SECONDS = 7, 1280, 0.05
READY = (
    f"document.getElementById('timeline').innerText.includes('whole without broker {KILLED}') && "
    "document.getElementById('events-seen').textContent.length > 100"
)
BEFORE_SECONDS, AFTER_SECONDS = 15.0, 30.0
"""How long events flow before the kill, and after it until the picture: the charts show a while."""


def publish(net, name, broker, stop):
    draws, publisher = random.Random(name), net.publisher(name, broker=broker)
    while not stop.wait(PACE_SECONDS):
        rows = [
            {"origin": draws.choice(ORIGINS), "dep_delay": round(draws.expovariate(0.03), 1)}
            for _ in range(draws.randrange(1, 8))
        ]
        publisher.publish_batch(rows)


async def served(network, show):
    async with serving(network, GatewayConfig("127.0.0.1:0"), ACCESS) as gateway:
        await asyncio.to_thread(show, f"{gateway.urls[0]}/ui/#{gateway.codes.issue('token')}")


def main():
    wanted = [
        "dep_delay > 60",
        "origin = 'JFK'",
        "origin IN ('BOS', 'ORD')",
        "dep_delay < 10 AND origin = 'ATL'",
    ]

    def show(url):
        with tempfile.TemporaryDirectory() as profile:
            browser = Browser(Path(profile))
            try:
                browser.ask("Emulation.setScrollbarsHidden", hidden=True)
                browser.open(url, WIDTH)
                browser.until("document.getElementById('state').textContent === 'healthy'")
                browser.evaluate("document.getElementById('selector').value = 'dep_delay > 90'; true")
                browser.evaluate("document.getElementById('try-button').click(); true")
                stop.wait(BEFORE_SECONDS)
                browser.evaluate(
                    f"document.querySelector('[aria-label=\"kill broker {KILLED}\"]').click(); true"
                )
                browser.evaluate("document.querySelector('#sure [value=yes]').click(); true")
                stop.wait(AFTER_SECONDS)
                browser.until(READY)
                browser.picture(Path(sys.argv[1]))
            finally:
                browser.close()

    with rv.Network.launch(
        rv.ClusterTree(4, 3), name="flights", recovery=rv.Recovery(), progress=False
    ) as net:
        for broker in range(12):
            if broker != KILLED:
                net.subscriber(f"s{broker}", broker=broker).subscribe(wanted[broker % len(wanted)])
        stop = threading.Event()
        feeds = [
            threading.Thread(target=publish, args=(net, name, broker, stop))
            for name, broker in (("faa", 0), ("icao", 5), ("iata", 10))
        ]
        for feed in feeds:
            feed.start()
        try:
            asyncio.run(served(rv.Network.attach("flights"), show))
        finally:
            stop.set()
            for feed in feeds:
                feed.join()


if __name__ == "__main__":
    main()
