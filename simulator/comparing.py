"""Clients that say now and then what they have had, or published, for their brokers to compare.

Rule: what is right is what a client says; where its broker knows something else, that is damaged
(`faults.membership.comparing`). One that is away, or whose broker is, says nothing. A durable subscriber says what it
has acknowledged, as that is what its broker writes down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .network import SimulatedNetwork
    from .sessions import ClientSession, Sessions


def say_now_and_then(network: SimulatedNetwork, sessions: Sessions, session: ClientSession) -> None:
    """Let a client say what it knows, in a network whose brokers compare, and again after each interval."""
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
