"""Clients that periodically report what they have received or published, for their brokers to compare.

Rule: the client's report is right; if its broker knows something else, the broker's state is damaged
(`faults.membership.comparing`). A client that is dead, detached or disconnected from its broker does not report. A
durable subscriber reports what it has acknowledged, because that is what its broker stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .network import SimulatedNetwork
    from .sessions import ClientSession, Sessions


def say_now_and_then(network: SimulatedNetwork, sessions: Sessions, session: ClientSession) -> None:
    """Let a client report what it knows, now and after each interval, in a network whose brokers compare."""
    recovery = network.recovery
    if recovery is None or recovery.compare_seconds is None:
        return
    if session.alive and not session.left and session.connected:
        said: list[Any] = []
        if session.subscriber is not None:
            said.append(session.subscriber.has_had())
        if session.publisher is not None:
            said.append(session.publisher.has_published())
        sessions.tell(session, said)
    network.at(network.now + recovery.compare_seconds, say_now_and_then, network, sessions, session)
