"""Chaos with late subscribers: they subscribe to what has long been published and delivered, and then a broker dies.

Rules
-----
* Publishers of their own publish, flush and leave. When everything has settled, new subscribers come. Then a broker
  dies, and what is retained is sent again. Nothing that had settled may reach the new subscribers.
* Without this draw nothing ever settles between the first subscription and the last fault. So the judge cannot say
  whether an event was older than a subscription.
* Half of the cases have this before the faults of the plan. The others have it after everything has healed, with a
  fault of its own, so that brokers know only what they have learned since.
* It has a source of randomness of its own: what a seed draws otherwise does not change.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from ...protocol.scenarios.workload import random_event, random_selector
from ...routing.topologies.cluster_trees import topology_of
from .cases import Action, Case, DrawnAdvertisement, Late

ALL_EVENTS: Final = "TRUE"
ADVERTISED_RATE: Final = 50.0


def with_late(case: Case) -> Case:
    """Extend a case of a network that heals with late subscribers, as the last of all additional draws."""
    if not case.features.heals:
        return case
    rng = random.Random(f"chaos/late/{case.seed}")
    brokers = [place.broker for place in topology_of(case.topology).positions()]
    publishers = [f"pl{number}" for number in range(1, rng.randint(1, 2) + 1)]
    publications = []
    for client in publishers:
        home, at = rng.choice(brokers), 0.0
        for _ in range(rng.randint(1, 10)):
            events = tuple(random_event(rng) for _ in range(rng.choice((1, 2, 5))))
            publications.append(Action(at, "publish", client, home, events=events))
            at += rng.random() * 0.2
    subscriptions = []
    subscribers = [f"sl{number}" for number in range(1, rng.randint(1, 3) + 1)]
    for client in subscribers:
        home = rng.choice(brokers)
        for number in range(1, rng.randint(1, 2) + 1):
            selector = ALL_EVENTS if rng.random() < 0.5 else random_selector(rng)
            subscriptions.append(Action(0.0, "subscribe", client, home, number, selector))
    durable = tuple(client for client in subscribers if rng.random() < 0.5)
    before = rng.random() < 0.5
    kills = tuple(rng.random() for _ in range(rng.choice((1, 1, 2))))
    late = Late(
        before, tuple(publications), tuple(subscriptions), () if before else kills, rng.random() < 0.5
    )
    adverts = dict.fromkeys(publishers, DrawnAdvertisement(ALL_EVENTS, ADVERTISED_RATE))
    return replace(
        case,
        late=late,
        durable=(*case.durable, *durable) if case.stable else case.durable,
        adverts={**case.adverts, **adverts} if case.features.admits else case.adverts,
    )
