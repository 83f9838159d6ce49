"""Replays in chaos: durable subscribers of their own begin in the past, and are rewound, at any time of a run.

Rules
-----
* Each begins at a time, at a position, or at the oldest that is retained. Up to two times it is rewound later, and its
  process dies. Some come after everything has healed.
* Others want of the past the last event per key only. They are not rewound; some die while they are given these.
* A third of the cases with stores keep no history, as networks do unless they are told to. Another third has one so
  small that something is forgotten.
* Each of both has a source of randomness of its own, and changes nothing of what the seed draws otherwise. Where state
  is damaged there are no replays: brokers are judged from a later time on then.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

from ...protocol.groups import PUBLISHER_KEY
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.recovery import Recovery
from ...protocol.scenarios.workload import random_selector
from ...routing.topologies.cluster_trees import topology_of
from .cases import Case
from .damage_cases import is_damaged

WHERE = ("oldest", "time", "position")
LAST_PER = ("symbol", "urgent", PUBLISHER_KEY)
LITTLE_BYTES = 4_000
LITTLE_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Beginning:
    """When a subscriber begins or is rewound, counted from the start of the faults; where to, and how far that is.

    `share` is 0 for the oldest, and 1 for the present.
    """

    at_seconds: float
    where: str
    share: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """A subscriber that begins in the past: when it is rewound, and when its process dies, and for how long.

    `last_per` is the attribute whose last events it wants; None for all events.
    """

    client: ClientId
    broker: BrokerId
    selectors: tuple[str, ...]
    begins: Beginning
    rewinds: tuple[Beginning, ...]
    deaths: tuple[tuple[float, float], ...]
    last_per: str | None = None


USUAL_BYTES: Final = Recovery().history_bytes_max
HISTORIES: Final = (
    (0.0, USUAL_BYTES),
    (86_400.0, USUAL_BYTES),
    (86_400.0, LITTLE_BYTES),
    (LITTLE_SECONDS, USUAL_BYTES),
)
"""`history_seconds` and `history_bytes_max`, as they are drawn."""


def with_history(case: Case) -> Case:
    """Let some cases with stores keep a history."""
    if not (case.stable and case.features.heals):
        return case
    seconds, size = random.Random(f"chaos/history/{case.seed}").choices(HISTORIES, (2, 2, 1, 1))[0]
    kept = replace(case.features.times, history_seconds=seconds, history_bytes_max=size)
    return replace(case, recovery=kept)


def replays_of(case: Case) -> tuple[Replayed, ...]:
    """Return the subscribers of a case that begin in the past and want every event of it."""
    if not case.features.keeps_history or is_damaged(case):
        return ()
    rng = random.Random(f"chaos/replays/{case.seed}")
    seconds = case.plan.heal_seconds
    found = []
    for number in range(1, rng.randint(1, 3) + 1):
        begins = _beginning(rng, 0.0, seconds)
        rewinds = tuple(_beginning(rng, begins.at_seconds, seconds) for _ in range(rng.choice((0, 1, 1, 2))))
        selectors = _selectors(rng)
        deaths = tuple(
            (begins.at_seconds + rng.random() * seconds, rng.choice((0.05, 1.0, 5.0)) * rng.random())
            for _ in range(rng.choice((0, 1, 2)))
        )
        found.append(Replayed(f"r{number}", _broker(rng, case), selectors, begins, rewinds, deaths))
    return tuple(found)


def last_values_of(case: Case) -> tuple[Replayed, ...]:
    """Return the subscribers of a case that begin in the past and want the last event per key of it."""
    if not case.features.keeps_history or is_damaged(case):
        return ()
    rng = random.Random(f"chaos/last values/{case.seed}")
    seconds = case.plan.heal_seconds
    found = []
    for number in range(1, rng.randint(0, 2) + 1):
        begins, selectors, broker = _beginning(rng, 0.0, seconds), _selectors(rng), _broker(rng, case)
        deaths = tuple(
            (
                begins.at_seconds + rng.random() * rng.choice((4.0, seconds)),
                rng.choice((0.05, 1.0, 5.0)) * rng.random(),
            )
            for _ in range(rng.choice((0, 1, 1, 2)))
        )
        found.append(Replayed(f"l{number}", broker, selectors, begins, (), deaths, rng.choice(LAST_PER)))
    return tuple(found)


def _broker(rng: random.Random, case: Case) -> BrokerId:
    return rng.choice([place.broker for place in topology_of(case.topology).positions()])


def _beginning(rng: random.Random, earliest: float, seconds: float) -> Beginning:
    at = earliest + rng.random() * (1.5 * seconds - earliest)
    return Beginning(at, rng.choice(WHERE), rng.random())


def _selectors(rng: random.Random) -> tuple[str, ...]:
    return tuple("TRUE" if rng.random() < 0.5 else random_selector(rng) for _ in range(rng.choice((1, 1, 2))))
