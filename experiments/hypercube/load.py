"""Figures 6 and 7 of paper 2: the load of each broker of a cube, by how much brokers start.

What is done
------------
* Figure 6: each broker starts a number of broadcasts, drawn from 0 to a range of 10^2 to 10^5: subscriptions, each of
  them withdrawn by the next broadcast, which the paper has travel the same way. Figure 7: each broker sends a drawn
  number of replies, events for the subscriber of another broker that is drawn for each, along the reverse of the way of
  the subscription. Every message is really sent.
* The load of a broker is what it receives, and what it forwards for others.
* The same on a star and on a hierarchy, for what a sentence is worth that these fulfil as well.
* *Equal sources*, on 8 to 16 brokers: each starts as much as any other, so that in a complete cube all loads are equal
  and what vacant positions cost is seen. The paper looks at complete cubes only.

What the paper leaves open, and what is taken
---------------------------------------------
* *How numbers are drawn.* Uniformly. In one run the parts of the range are the same at all ranges and on all
  networks, so that these are what differs.
* *To whom replies go.* To any other broker alike.

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
from .traffic import CUBE, Traffic, await_replies, reply, simulated

BROADCASTS: Final = "broadcasts"
REPLIES: Final = "replies"
EQUAL: Final = 7 * 8
"""What each broker starts where all start equally much."""


@dataclass(frozen=True, slots=True)
class Point:
    """A network and how much its brokers start.

    Attributes
    ----------
    what
        `BROADCASTS` or `REPLIES`.
    curve
        Which network (`traffic.NETS`).
    size
        How many brokers.
    most
        The range; 0 for equal sources.
    run
        The seed of what brokers start.
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
        for curve in (CUBE, "star", "hierarchy")
        if curve == CUBE or most <= controls_to
    ]
    return tuple(uneven)


def _plan(what: str, ranges: Sequence[int], controls_to: int, runs: int) -> Repeated:
    equal = tuple(Point(what, CUBE, size, 0) for size in range(8, 17))
    return Repeated(_points(what, ranges, controls_to), runs, equal)


PRESETS: Final = {
    what: {
        "quick": _plan(what, (100, 1_000), 1_000, 4),
        "paper": _plan(what, (100, 1_000, 10_000, 100_000), 10_000, 20),
    }
    for what in (BROADCASTS, REPLIES)
}


def measure(point: Point) -> Tables:
    """Send what brokers start and return what each of them carried.

    Returns
    -------
    dict
        ``brokers``: of each `broker`, what it `started`, and the messages that it `received`, that it
        `forwarded`, and that were its `own`.
    """
    traffic = Traffic(point.size)
    net = simulated(point.curve, point.size, traffic)
    dice = random.Random(f"hypercube/{point.what}/{point.run}")
    if point.most:
        starts = [round(dice.random() * point.most) for _ in range(point.size)]
    else:
        starts = [EQUAL if point.what == BROADCASTS else point.size - 1] * point.size
    if point.what == BROADCASTS:
        _broadcast(net, starts)
        kind = "told"
    else:
        _reply(net, starts, dice if point.most else None)
        kind = "events"
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
    """Let each broker's subscriber subscribe and cancel in turn, until it has done so many of both."""
    for turn in range(max(starts)):
        for broker, many in enumerate(starts):
            if turn < many and turn % 2 == 0:
                net.subscribe(f"s{broker}", broker, f"x = {turn * len(starts) + broker}", turn + 1)
            elif turn < many:
                net.unsubscribe(f"s{broker}", turn)
        net.run()


def _reply(net: Simulation, starts: Sequence[int], dice: random.Random | None) -> None:
    """Let each broker's publisher send replies to others: drawn, or to one after the other."""
    await_replies(net, len(starts))
    for broker, many in enumerate(starts):
        others = [other for other in range(len(starts)) if other != broker]
        reply(
            net, broker, [dice.choice(others) if dice else others[turn % len(others)] for turn in range(many)]
        )
