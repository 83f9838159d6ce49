"""Figures 6 and 7 of paper 2: the load of each broker of a cube, by the number of messages that brokers originate.

Method
------
* Figure 6: each broker starts a number of broadcasts, drawn from 0 to a range of 10^2 to 10^5: subscriptions,
  each of them withdrawn by the next broadcast, which takes the same path in the paper. Figure 7: each broker
  sends a drawn number of replies: events for the subscriber of another broker, drawn for each, along the
  reverse path of the subscription. Every message is really sent.
* The load of a broker is the messages that it receives, and those that it forwards for others.
* The same is run on a star and on a hierarchy, to see which statements hold for them as well, and broadcasts on a
  graph with cycles, where a broadcast is an event that is flooded.
* *Equal sources*, on 8 to 16 brokers: each broker starts the same number, so that in a complete cube all
  loads are equal and the cost of vacant positions is visible. The paper considers complete cubes only.

Open in the paper, and our choice
---------------------------------
* *How numbers are drawn.* Uniformly. In one run the shares of the range are the same for all ranges and all
  networks, so that only ranges and networks differ.
* *The receivers of replies.* Uniformly any other broker.

Source: paper 2, section 2.5.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...simulator.simulation import Simulation
from ..experiment import Repeated, Tables
from .traffic import BATCH, CUBE, GRAPH, Traffic, await_replies, reply, simulated

BROADCASTS: Final = "broadcasts"
REPLIES: Final = "replies"
EQUAL: Final = 7 * 8
"""The number of messages that each broker starts with equal sources."""


@dataclass(frozen=True, slots=True)
class Point:
    """A network and the number of messages that its brokers start.

    Attributes
    ----------
    what
        `BROADCASTS` or `REPLIES`.
    curve
        The network (`traffic.NETS`).
    size
        The number of brokers.
    most
        The range; 0 for equal sources.
    run
        The seed of the numbers.
    """

    what: str
    curve: str
    size: int
    most: int
    run: int = 0


def _points(what: str, ranges: Sequence[int], controls_to: int) -> tuple[Point, ...]:
    uneven = [
        Point(what, curve, 8, most)
        for most in sorted(ranges, reverse=True)
        for curve in (CUBE, "star", "hierarchy", *((GRAPH,) if what == BROADCASTS else ()))
        if curve == CUBE or most <= controls_to
    ]
    return tuple(uneven)


def _plan(what: str, ranges: Sequence[int], controls_to: int, runs: int) -> Repeated:
    equal = tuple(Point(what, CUBE, size, 0) for size in range(8, 17))
    return Repeated(_points(what, ranges, controls_to), runs, equal)


PRESETS: Final = {
    what: {
        "small": _plan(what, (100, 300), 300, 2),
        "quick": _plan(what, (100, 1_000), 1_000, 4),
        "paper": _plan(what, (100, 1_000, 10_000, 100_000), 10_000, 20),
    }
    for what in (BROADCASTS, REPLIES)
}


def measure(point: Point) -> Tables:
    """Send the messages that brokers start and return the load of each broker.

    Returns
    -------
    dict
        ``brokers``: for each `broker`, the number that it `started`, and the messages that it `received`,
        that it `forwarded`, and that were its `own`.
    """
    traffic = Traffic(point.size)
    net = simulated(point.curve, point.size, traffic, point.run)
    rng = random.Random(f"hypercube/{point.what}/{point.run}")
    if point.most:
        starts = [round(rng.random() * point.most) for _ in range(point.size)]
    else:
        starts = [EQUAL if point.what == BROADCASTS else point.size - 1] * point.size
    kind = "events"
    if point.curve == GRAPH:
        _flood(net, starts)
    elif point.what == BROADCASTS:
        _broadcast(net, starts)
        kind = "told"
    else:
        _reply(net, starts, rng if point.most else None)
    return {
        "brokers": {
            "broker": np.arange(point.size),
            "started": np.array(starts),
            "received": traffic.received[kind],
            "forwarded": traffic.forwarded[kind],
            "own": traffic.own[kind],
        }
    }


def _broadcast(net: Simulation, starts: Sequence[int]) -> None:
    """Let each broker's subscriber subscribe and cancel in turn, until it has reached its number."""
    for turn in range(max(starts)):
        for broker, many in enumerate(starts):
            if turn < many and turn % 2 == 0:
                net.subscribe(f"s{broker}", broker, f"x = {turn * len(starts) + broker}", turn + 1)
            elif turn < many:
                net.unsubscribe(f"s{broker}", turn)
        net.run()


def _flood(net: Simulation, starts: Sequence[int]) -> None:
    """Let each broker's publisher publish its number of events, which go everywhere."""
    for broker, many in enumerate(starts):
        for first in range(0, many, BATCH):
            net.publish(f"p{broker}", broker, [{"x": 1}] * min(BATCH, many - first))
    net.run()


def _reply(net: Simulation, starts: Sequence[int], rng: random.Random | None) -> None:
    """Let each broker's publisher send replies to other brokers: to drawn ones, or to one after the other."""
    await_replies(net, len(starts))
    for broker, many in enumerate(starts):
        others = [other for other in range(len(starts)) if other != broker]
        reply(
            net, broker, [rng.choice(others) if rng else others[turn % len(others)] for turn in range(many)]
        )
