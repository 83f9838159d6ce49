"""What the abstract of paper 2 claims: that a hypercube lowers the load and saves bandwidth against hierarchies.

What is done
------------
* On a hypercube and on hierarchies of as many brokers: some brokers subscribe to the same events, each broker
  publishes one, and all cancel. Counted are the messages for an event, those that tell of subscriptions, and how the
  events lie on brokers (received and forwarded).
* Each answer that a subscription is installed is counted apart: it is ours.

What the paper leaves open, and what is taken
---------------------------------------------
It does not measure this, and does not say against what it compares. It names Siena, Gryphon and JEDI: so hierarchies
in which events climb to the root, and hierarchies in which all brokers know all subscriptions; with two children and
with eight. How many brokers want an event: one, an eighth, half, all.

Source: paper 2, abstract and section 1.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..experiment import Repeated, Tables
from .traffic import NETS, Traffic, simulated

WANTING: Final = (0.0, 0.125, 0.5, 1.0)
"""Which part of the brokers wants an event; of 0 it is one."""


@dataclass(frozen=True, slots=True)
class Point:
    """A network of so many brokers, of which so many want what is published."""

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
    """Subscribe, publish, cancel, and return what each broker carried.

    Returns
    -------
    dict
        ``brokers``: of each `broker` the `events` that it received, those that it received or forwarded for others
        (`load`), and the messages that it sent that `told` of a subscription, and those that are `answers`;
        `subscribers` is how many there were.
    """
    traffic = Traffic(point.size)
    net = simulated(point.curve, point.size, traffic)
    dice = random.Random(f"saving/{point.size}/{point.wanting}/{point.run}")
    many = max(1, round(point.wanting * point.size))
    for broker in sorted(dice.sample(range(point.size), many)):
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
