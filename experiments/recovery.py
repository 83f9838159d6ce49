"""The healing time of a routing scheme after the death of one broker, in virtual time.

Rules
-----
* The root of the network's tree dies, or a designated broker, or a normal one, and stays dead; under a scheme
  without a tree the same brokers die, whatever their role there. Nothing else happens meanwhile.
* Clients, their events, and the links are those that chaos draws from the seed, the same for every scheme.
  Clients attach before the death, and stay where they are unless they have to move: a round for anything else
  would count too.
* The time ends when the structure is sound again, and everything published from the death until then has
  arrived. The longest time of the deaths counts. The state is checked every half heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..faults.plans.plans import Crash, FaultPlan
from ..faults.simulated.chaos import run_chaos
from ..protocol.configs import Position
from ..protocol.ids import BrokerId
from ..protocol.messages.recovery import Recovery
from ..routing.schemes.registry import scheme as scheme_of
from ..routing.topologies.cluster_trees import topology_of

DIES_AT_SECONDS: Final = 5.0
FELT_SECONDS: Final = 25.0
"""How long the network is observed."""

ROLES: Final = ("REB", "DEB", "NEB")


def recovery_seconds(scheme: str, topology: Mapping[str, object], seed: int) -> float | None:
    """Return the healing time in virtual seconds with a heartbeat per second; None for a scheme that does not heal.

    Also None if the network has one broker, or has not healed by the end of the observation.
    """
    positions = topology_of(topology).positions()
    if not scheme_of(scheme).membership.heals or len(positions) < 2:
        return None
    recovery = Recovery.for_simulator(
        degree=max(len(place.children) for place in positions) + 1, retention_seconds=600.0
    )
    felt = [_felt(scheme, topology, seed, recovery, broker) for broker in victims(positions)]
    return None if None in felt else max(each for each in felt if each is not None)


def _felt(
    scheme: str, topology: Mapping[str, object], seed: int, recovery: Recovery, broker: BrokerId
) -> float | None:
    plan = FaultPlan("a death", (Crash(DIES_AT_SECONDS, broker),), DIES_AT_SECONDS + FELT_SECONDS, (broker,))
    options: dict[str, Any] = {
        "scheme": scheme,
        "topology": dict(topology),
        "plan": plan,
        "recovery": recovery,
    }
    report = run_chaos(seed, restless=False, late=False, keep_trace=True, **options)
    death = report.recoveries[0] if report.holds else None
    if death is None or death.structure_seconds is None or report.trace is None:
        return None
    at, sound = death.at_seconds, death.at_seconds + death.structure_seconds
    published = report.trace.publications()
    arrived = (
        note.at_seconds
        for note in report.trace.notifications()
        if at <= published[note.publisher, note.sequence].at_seconds <= sound
    )
    return max(sound, *arrived) - at


def victims(positions: Sequence[Position]) -> list[BrokerId]:
    """Return a broker of each role in the tree."""
    by_role = {place.role: place.broker for place in reversed(positions)}
    return [by_role[role] for role in ROLES if role in by_role]
