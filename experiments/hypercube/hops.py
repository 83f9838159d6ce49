"""Formula (1) of paper 2: how far a reply goes in a cube; and the cost of a broadcast (figure 3).

Method
------
* Complete cubes of one to six dimensions (preset `paper`: to eight). Each broker broadcasts one subscription,
  and sends one reply to each other broker: the mean over all pairs is exact. Hops are counted as a message is
  forwarded.
* In the cube of eight brokers, also as many replies as in figure 7, to randomly drawn brokers: the paper
  measured 1.709 this way.

Source: paper 2, sections 2.2 and 2.5.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...protocol.effects import Send
from ...protocol.messages.pubsub import Spread
from ...simulator.network import Step
from ..experiment import Repeated, Tables, in_columns
from .traffic import CUBE, Traffic, await_replies, reply, simulated

PAIRS: Final = "all pairs"
DRAWN: Final = "drawn"


@dataclass(frozen=True, slots=True)
class Point:
    """A cube of some dimensions, and the number of replies of each broker to drawn brokers; 0 for one to each."""

    dimensions: int
    replies: int
    run: int = 0


def _plan(most: int, replies: int, runs: int) -> Repeated:
    pairs = tuple(Point(dimensions, 0) for dimensions in range(most, 0, -1))
    return Repeated((Point(3, replies),), runs, pairs)


PRESETS: Final = {"quick": _plan(6, 1_000, 4), "paper": _plan(8, 10_000, 20)}


class _Far:
    """Follows broadcasts, and records each broker's distance from the origin, and how often it received each."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.far: dict[tuple[int, int], list[int]] = {}

    def __call__(self, step: Step) -> None:
        self._traffic(step)
        here = step.broker.position.broker
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Spread):
                origin = effect.message.origin
                hops = 0 if here == origin else self.far[origin, here][0]
                self.far.setdefault((origin, effect.to), []).append(hops + 1)


def measure(point: Point) -> Tables:
    """Send broadcasts and replies, and return how far they went.

    Returns
    -------
    dict
        ``ways``: for each `origin` of a broadcast, its `messages`, the `farthest` hop and the `most` times
        that a broker received it; and for the replies sent there, their number (`replies`) and the links that
        they crossed in total (`crossed`). `sources` is the choice of their receivers.
    """
    brokers = 1 << point.dimensions
    traffic = Traffic(brokers)
    follow = _Far(traffic)
    net = simulated(CUBE, brokers, follow)
    await_replies(net, brokers)
    rng = random.Random(f"hops/{point.run}")
    rows = []
    for broker in range(brokers):
        others = [other for other in range(brokers) if other != broker]
        replies = rng.choices(others, k=point.replies) if point.replies else others
        before = traffic.messages("events")
        reply(net, broker, replies)
        ways = [hops for (origin, _), hops in follow.far.items() if origin == broker]
        crossed = traffic.messages("events") - before
        messages, farthest, most = sum(map(len, ways)), max(map(max, ways)), max(map(len, ways))
        rows.append((broker, messages, farthest, most, len(replies), crossed))
    names = ("origin", "messages", "farthest", "most", "replies", "crossed")
    return {
        "ways": {
            **in_columns(names, rows),
            "sources": np.full(brokers, DRAWN if point.replies else PAIRS, object),
        }
    }
