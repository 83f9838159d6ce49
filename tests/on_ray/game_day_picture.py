"""Have a game day, print what happened, and take the picture of its report that is in docs.

Run ``python tests/on_ray/game_day_picture.py docs/pictures/game_day_report.png``: a network of six brokers, a client
that publishes twenty events a second, and two minutes of faults. The report itself is written beside the picture, to a
file of the same name that ends in ``.html``, if there is a second argument.
"""

import sys
import tempfile
import threading
from pathlib import Path

import rayvous as rv
from PIL import Image
from rayvous.faults.game_day.page import page_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from chromium import Browser

WIDTH, COLOURS, PACE_SECONDS = 1280, 64, 0.05
SEED = 22
"""One that draws each of the usual kinds within two minutes, if the network heals quickly."""

SHORTER = (
    "document.querySelectorAll('section:nth-of-type(n + 4), details').forEach(each => each.remove()) || 1"
)
"""Leaves the summary, the drawing and the faults."""


def publish(net, stop):
    publisher = net.publisher("faa", broker=0)
    number = 0
    while not stop.wait(PACE_SECONDS):
        number += 1
        publisher.publish({"origin": ("JFK", "LGA")[number % 2], "dep_delay": float(number % 90)})


def say(now, what):
    sys.stdout.write(f"  {now:8.1f} s  {what}\n")
    sys.stdout.flush()


def main():
    picture = Path(sys.argv[1])
    with rv.Network.launch(
        rv.ClusterTree(2, 3), name="flights", recovery=rv.Recovery(), chaos=True, progress=False
    ) as net:
        net.subscriber("alice", broker=5).subscribe("dep_delay > 60")
        stop = threading.Event()
        feed = threading.Thread(target=publish, args=(net, stop))
        feed.start()
        try:
            report = rv.game_day(net, seconds=120, per_minute=4, spare="root", seed=SEED, progress=say)
        finally:
            stop.set()
            feed.join()
    sys.stdout.write(f"{report.outcome}: {report.verdict}\n")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # the browser may still write
        page = (picture if len(sys.argv) > 2 else Path(folder) / "day").with_suffix(".html")
        page.write_text(page_of(report), encoding="utf-8")
        browser = Browser(Path(folder) / "profile")
        try:
            browser.ask("Emulation.setScrollbarsHidden", hidden=True)
            browser.open(page.absolute().as_uri(), WIDTH)
            browser.evaluate(SHORTER)
            browser.picture(picture)
        finally:
            browser.close()
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    main()
