"""The claim in the abstract of paper 2: that a hypercube lowers and balances the load, and saves bandwidth.

Method
------
* On a hypercube, on hierarchies, and on a graph with cycles that is flooded, all of the same size: some brokers
  subscribe to the same events, each broker publishes one event, and all cancel. Counted are the messages for an event,
  those that announce subscriptions, and the distribution of the events over brokers (received and forwarded).
* The answers that a subscription is installed are counted separately: they are ours.

Open in the paper, and our choice
---------------------------------
The paper does not measure this. Its argument is made against unlimited flooding (2.3, 3): so a random graph with as
many links as the cube. It also names Siena, Gryphon and JEDI: so hierarchies in which events go up to the root, and
hierarchies in which all brokers know all subscriptions; with two children and with eight. The number of brokers that
want an event: one, an eighth, half, all.

Source: paper 2, abstract and sections 1, 2.3 and 3.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..experiment import Repeated, Tables
from .traffic import NETS, Traffic, simulated

WANTING: Final = (0.0, 0.125, 0.5, 1.0)
"""The share of the brokers that want an event; 0 means one broker."""


@dataclass(frozen=True, slots=True)
class Point:
    """A network with a number of brokers, and the share of them that want the events."""

    curve: str
    size: int
    wanting: float
    run: int = 0


def _points(sizes: tuple[int, ...]) -> tuple[Point, ...]:
    return tuple(
        Point(curve, brokers, part)
        for brokers in sorted(sizes, reverse=True)
        for part in WANTING
        for curve in NETS
        if curve != "star"
    )


PRESETS: Final = {"quick": Repeated(_points((8, 64)), 2), "paper": Repeated(_points((8, 64, 256)), 20)}


def measure(point: Point) -> Tables:
    """Subscribe, publish, cancel, and return the load of each broker.

    Returns
    -------
    dict
        ``brokers``: for each `broker` the `events` that it received, those that it received or forwarded for
        others (`load`), and the messages that it sent to announce a subscription (`told`) or as `answers`;
        `subscribers` is the number of subscribers.
    """
    traffic = Traffic(point.size)
    net = simulated(point.curve, point.size, traffic, point.run)
    rng = random.Random(f"saving/{point.size}/{point.wanting}/{point.run}")
    many = max(1, round(point.wanting * point.size))
    for broker in sorted(rng.sample(range(point.size), many)):
        net.subscribe(f"s{broker}", broker, "x = 1")
    net.run()
    for broker in range(point.size):
        net.publish(f"p{broker}", broker, [{"x": 1}])
    net.run()
    for client in [name for name in net.sessions if name.startswith("s")]:
        net.unsubscribe(client, 1)
    net.run()
    sent = {kind: traffic.own[kind] + traffic.forwarded[kind] for kind in ("told", "answers")}
    events = traffic.received["events"]
    return {
        "brokers": {
            "broker": np.arange(point.size),
            "events": events,
            "load": events + traffic.forwarded["events"],
            "subscribers": np.full(point.size, many),
            **sent,
        }
    }
