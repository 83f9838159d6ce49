"""The program run by `test_channels`: a driver by ``ray://`` outside the cluster's network, which later gets a way in.

Connections to the doors of hosts open, but nothing passes, as behind a firewall that drops what it forbids.
"""

import asyncio
import json
import logging
import sys
import time
from pathlib import Path

import ray
import rayvous as rv
from rayvous.actors.channels import pool

EVENTS = 20
BOUND_SECONDS = 40.0


class Kept(logging.Handler):
    """Keeps what is logged in a list."""

    def __init__(self, said):
        super().__init__(logging.WARNING)
        self.said = said

    def emit(self, record):
        self.said.append(record.getMessage())


def exchanged(publisher, notes):
    """Publish events, and return whether they arrive in order."""
    first = publisher.published
    for number in range(EVENTS):
        publisher.publish({"n": first + number})
    return [next(notes).event["n"] for _ in range(EVENTS)] == list(range(first, first + EVENTS))


def main(out, name):
    said = []
    logging.getLogger("rayvous").addHandler(Kept(said))
    knock, pool.RETRY_SECONDS = pool.Channels._knock, 0.5

    async def nowhere(channels, door):
        await asyncio.sleep(BOUND_SECONDS)

    pool.Channels._knock = nowhere
    net = rv.Network.attach(name)
    begun = time.monotonic()
    subscriber, publisher = net.subscriber("s", broker=0), net.publisher("p", broker=0)
    subscriber.subscribe("n >= 0")
    notes = subscriber.notifications(BOUND_SECONDS)
    found = {"client": ray.util.client.ray.is_connected(), "by Ray": exchanged(publisher, notes)}
    found["seconds"] = time.monotonic() - begun
    found["status"] = net.status().hosts_by_ray
    pool.Channels._knock = knock
    while net.status().hosts_by_ray and time.monotonic() - begun < BOUND_SECONDS:
        publisher.publish({"n": -1})
    found["opened"] = net._process.carriers()
    found["directly"] = exchanged(publisher, (note for note in notes if note.event["n"] >= 0))
    net.close()
    found["said"] = said
    ray.shutdown()
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
