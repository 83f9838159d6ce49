"""Chaos with stable storage: additional draws that do not change what the seed draws otherwise.

Rules
-----
* Every broker has a store that outlives it. Some subscribers are durable. Durable subscribers and publishers
  die at random times and are restarted a while later. Clients that are still dead when everything heals are
  restarted then.
* Some durable subscribers die in the middle of a subscription, and are back before or after its verdict. After half
  of all deaths the next process does not ask again for what was not in force. This has a source of randomness of its
  own. On Ray no process asks again.
* One case in four has little retention: so few events, or so short a time, that some events are lost. Each of
  these losses must be reported.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from .cases import Action, Case, publishes

STOPS_A_SECOND: Final = 0.4
STOPS_A_SUBSCRIPTION: Final = 0.3
"""The fraction of the subscriptions of durable subscribers in the middle of which the process dies."""

MOMENTS_SECONDS: Final = (0.001, 0.02, 0.5)
"""How long after its request the process dies at most, and how long it is dead then: one of each is drawn."""


def with_stores(case: Case) -> Case:
    """Extend a case with stores, durable subscribers, and clients that die."""
    rng = random.Random(f"chaos/stable/{case.seed}")
    clients = list(dict.fromkeys(action.client for action in case.opening))
    subscribers = [client for client in clients if not publishes(client)]
    durable = tuple(client for client in subscribers if rng.random() < 0.5) or tuple(subscribers[:1])
    mortal = [client for client in clients if client in durable or publishes(client)]
    seconds = case.plan.heal_seconds
    actions = list(case.actions)
    at = 0.0
    while (at := at + rng.expovariate(STOPS_A_SECOND)) < 0.95 * seconds:
        client = rng.choice(mortal)
        actions.append(Action(at, "stop", client))
        if rng.random() < 0.8:
            actions.append(Action(at + rng.choice((0.05, 1.0, 8.0)) * rng.random(), "start", client))
    actions = _in_the_middle(case.seed, actions, durable)
    recovery = case.recovery
    if case.features.heals and rng.random() < 0.25:
        little = {"retention_events_max": 20} if rng.random() < 0.5 else {"retention_seconds": 5.0}
        recovery = replace(case.features.times, **little)
    return replace(
        case,
        stable=True,
        durable=durable,
        recovery=recovery,
        actions=tuple(sorted(actions, key=lambda action: action.at_seconds)),
    )


def _in_the_middle(seed: int, actions: list[Action], durable: Collection[str]) -> list[Action]:
    """Let processes die between a request and its verdict, and decide which deaths are the end of a request."""
    rng = random.Random(f"chaos/stable/middle/{seed}")
    stops: list[Action] = []
    for action in actions:
        if action.do == "subscribe" and action.client in durable and rng.random() < STOPS_A_SUBSCRIPTION:
            at = action.at_seconds + rng.choice(MOMENTS_SECONDS) * rng.random()
            stops.append(Action(at, "stop", action.client))
            stops.append(Action(at + rng.choice(MOMENTS_SECONDS) * rng.random(), "start", action.client))
    return [
        replace(action, forgets=rng.random() < 0.5) if action.do == "stop" else action
        for action in (*actions, *stops)
    ]
