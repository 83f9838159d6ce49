"""How long a message takes over one directed link, and whether it arrives at all.

Rules
-----
* A link is first in, first out: a message never arrives before one that was sent before it. Across links
  anything goes.
* The chance of a link comes from a generator of its own, seeded with (seed, link), so that what happens on
  one link does not depend on what happens on another, nor on any hash order.
* The group link of a member is apart from its unicast link to the same member, as multicast is from TCP.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

from ..protocol.scenario import LinkModel

Arrival: TypeAlias = Callable[[float], float | None]
"""From the time at which a message leaves to the time at which it arrives; None when it is lost."""


def make_link(name: str, delay_seconds: float, model: LinkModel, seed: int) -> Arrival:
    """Return one directed link.

    Parameters
    ----------
    name
        The link, unique in its network; it goes into the seed.
    delay_seconds
        The least time that a message takes.
    model
        Spread, jitter and loss of all links.
    seed
        The seed of the simulation.
    """
    if not (model.spread_seconds or model.jitter_seconds or model.loss):
        return _steady(delay_seconds)
    dice = random.Random(f"link/{seed}/{name}")
    delay_seconds += dice.random() * model.spread_seconds
    if not (model.jitter_seconds or model.loss):
        return _steady(delay_seconds)
    return _shaky(delay_seconds, model, dice)


def _steady(delay_seconds: float) -> Arrival:
    def arrival(leaves: float) -> float:
        return leaves + delay_seconds

    return arrival


def _shaky(delay_seconds: float, model: LinkModel, dice: random.Random) -> Arrival:
    chance, jitter_seconds, loss = dice.random, model.jitter_seconds, model.loss
    last = 0.0

    def arrival(leaves: float) -> float | None:
        nonlocal last
        if loss and chance() < loss:
            return None
        last = max(last, leaves + delay_seconds + chance() * jitter_seconds)
        return last

    return arrival
