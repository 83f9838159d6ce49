"""Chaos with admission control: additional draws that do not change what the seed draws otherwise.

Rules
-----
* Every publisher advertises all events, or those of a condition. Events that it does not advertise are
  removed.
* The capacities of brokers and links are drawn around the sum of all advertised rates, so that some
  subscriptions are refused, and some admitted ones no longer fit when the tree changes.
* Subscribers have priorities from 0 to 2.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ...protocol.messages.admission import AdmissionConfig, Capacity
from ...protocol.scenarios.workload import SYMBOLS
from ...routing.language.questions import to_filter
from ...routing.topologies.cluster_trees import topology_of
from .cases import Action, Case, DrawnAdvertisement, publishes

SHARES: Final = (0.0, 0.0, 0.0, 0.2, 0.4, None)
"""The share of the brokers asked that may refuse: one is drawn; the full guarantee most often, as only it degrades."""


def with_admission(case: Case) -> Case:
    """Extend a case with advertisements, capacities and priorities."""
    rng = random.Random(f"chaos/admission/{case.seed}")
    clients = list(dict.fromkeys(action.client for action in case.opening))
    publishers = [client for client in clients if publishes(client)]
    adverts = {name: DrawnAdvertisement(_selector(rng), rng.uniform(10.0, 50.0)) for name in publishers}
    total = sum(each.rate for each in adverts.values())
    capacities = {
        place.broker: Capacity(total * rng.uniform(0.3, 1.5), total * rng.uniform(0.3, 1.5))
        for place in topology_of(case.topology).positions()
    }
    admission = AdmissionConfig(
        rng.choice(SHARES), rng.choice(("paper", "tight")), Capacity(total, total), capacities
    )

    def left(actions: Iterable[Action]) -> tuple[Action, ...]:
        kept = (_of_advert(action, adverts) for action in actions)
        return tuple(action for action in kept if action.do != "publish" or action.events)

    return replace(
        case,
        admission=admission.validate(),
        adverts=adverts,
        priorities={client: rng.randrange(3) for client in clients if client not in adverts},
        opening=left(case.opening),
        actions=left(case.actions),
        closing=left(case.closing),
    )


def _of_advert(action: Action, adverts: dict[str, DrawnAdvertisement]) -> Action:
    if action.do != "publish":
        return action
    item = to_filter(adverts[action.client].selector)
    return replace(action, events=tuple(event for event in action.events if item.matches(event)))


def _selector(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return "TRUE"
    if rng.random() < 0.5:
        names = ", ".join(f"'{name}'" for name in rng.sample(SYMBOLS, 4))
        return f"symbol IN ({names})"
    low = rng.randrange(0, 50)
    return f"price BETWEEN {low} AND {low + 50}"
