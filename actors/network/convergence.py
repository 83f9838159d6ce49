"""What a network that heals reports about itself, to code that waits for it or displays it.

Rule: this module asks the brokers and waits. `recovery.membership.structure` judges whether what they report is sound.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ray.exceptions import GetTimeoutError, RayActorError

from ...protocol import checks
from ...protocol.errors import BrokerUnavailable
from ...protocol.ids import BrokerId
from ...recovery.membership.structure import Survey, in_views, problems
from ..host.errors import broker_errors
from ..host.handle import Answer, HostHandle, waited

if TYPE_CHECKING:
    from ..clients.attaching import Attaching
    from .hosts import Hosts

T = TypeVar("T")

POLL_SECONDS: Final = 0.05
"""The least interval between two checks whether the network has converged."""

PAUSE_MIN: Final = 3.0
"""The interval as a multiple of what a check takes, up to a heartbeat: thousands of brokers need that time."""

HEALED: Final = "healed"
"""The first word of the timeline entry for the moment at which everything is repaired."""


class Convergence:
    """Waits until a network is quiescent, and until the clients of this process have moved."""

    def __init__(self, hosts: Hosts, attached: Attaching) -> None:
        self._hosts = hosts
        self._attached = attached

    def problems(self) -> list[str]:
        """Return why the living brokers are not one settled tree, and which clients must still move."""
        return self.problems_by(self._survey())

    def problems_by(self, survey: Survey) -> list[str]:
        """Return the problems that a survey shows, and which clients must still move."""
        living = set(self._hosts.hosts())
        lost = [
            str(client)
            for client in self._attached.clients
            if not client.closed and client.host not in living
        ]
        return [*problems(survey), *(f"{client} has not moved yet" for client in lost)]

    def converged(self) -> bool:
        """Return whether the living brokers are one settled tree (promise 6)."""
        return not self.problems()

    def await_convergence(self, timeout_seconds: float = 60.0) -> float:
        """Wait until the living brokers are one settled tree, and return how many seconds it took.

        Raises
        ------
        BrokerUnavailable
            If they are not within the timeout; the message says what is missing.
        """
        checks.seconds("timeout_seconds", timeout_seconds)
        started = time.monotonic()
        self._converged_survey(timeout_seconds)
        return time.monotonic() - started

    def _converged_survey(self, timeout_seconds: float) -> Survey:
        """Wait until the living brokers are one settled tree, and return the survey that shows it."""
        started, name = time.monotonic(), self._hosts.name
        while True:
            asked = time.monotonic()
            if not (found := self.problems_by(survey := self._survey())):
                break
            if time.monotonic() - started > timeout_seconds:
                raise BrokerUnavailable(
                    f"network {name!r} has not converged within {timeout_seconds} s: {'; '.join(found[:5])}"
                )
            now = time.monotonic()
            self._attached.process.run(
                asyncio.sleep(self._pause(now - asked, started + timeout_seconds - now))
            )
        if self._hosts.timeline and not self._hosts.timeline[-1][1].startswith(HEALED):
            self._hosts.tell(f"{HEALED}: the living are one settled network")
        return survey

    def _pause(self, took: float, left: float) -> float:
        """Return how long to wait until the next survey after one that took so long, with so much time left."""
        heartbeat = self._hosts.features.times.heartbeat_seconds
        return max(POLL_SECONDS, min(PAUSE_MIN * took, heartbeat, left))

    def settle(self, timeout_seconds: float = 60.0, *, deliveries: bool = True) -> None:
        """Wait until everything published so far has arrived everywhere it must.

        Parameters
        ----------
        timeout_seconds
            The timeout for the whole wait.
        deliveries
            Whether to wait also until every attached process has fetched its notifications.

        Raises
        ------
        BrokerUnavailable
            If the network does not become quiescent in time.
        """
        checks.flag("deliveries", deliveries)
        deadline = time.monotonic() + checks.seconds("timeout_seconds", timeout_seconds)
        while True:
            state = self._healed(deadline)
            before: list[int] = []
            while True:
                left = max(0.001, deadline - time.monotonic())
                handled = self._quiet(deliveries, left)
                if handled == before:
                    break
                before = handled
            # An unreachable host has not confirmed that it has nothing in flight.
            hosts = {self._hosts.directory.hosts.get(broker) for broker in state or ()}
            if len(handled) >= len(hosts) and state == self._healed(
                deadline
            ):  # nothing was repaired meanwhile
                return
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"network {self._hosts.name!r} has not come to rest within {timeout_seconds} s"
                )

    def _quiet(self, deliveries: bool, seconds: float) -> list[int]:
        """Wait until each host has nothing to send; return how many messages each has handled."""
        until = time.monotonic() + seconds
        answers = self._straight("quiet", lambda host: host.quiet(deliveries), seconds)
        if answers is not None:
            return answers
        return self._hosts.ask("quiet", deliveries, timeout_seconds=max(0.001, until - time.monotonic()))

    def _healed(self, deadline: float) -> Any:
        """Wait until a network that heals has converged; return its state, which changes if it heals again."""
        if not self._hosts.features.heals:
            return None
        return state_of(self._converged_survey(max(0.001, deadline - time.monotonic())))

    def _survey(self) -> Survey:
        """Return what `Hosts.survey` returns, with one call of Ray in all where every host answers by its channel."""
        hosts = self._hosts
        if hosts.features.heals and not hosts.silent:
            hosts.find_reborn()
            answers = self._straight(
                "survey", lambda host: host.survey(), hosts.features.times.client_patience_seconds
            )
            if answers is not None:
                return {broker: said for answer in answers for broker, said in answer.items()}
        return hosts.survey()

    def _straight(self, what: str, ask: Callable[[HostHandle], Answer[T]], seconds: float) -> list[T] | None:
        """Return the answers of all hosts, asked over the channels of this process, a tenth of the time of Ray's calls.

        None if one does not answer: Ray knows whether it is dead, and repeats a question where it is started again.
        """
        hosts, process = self._hosts, self._attached.process
        hosts.require_open()
        until = time.monotonic() + seconds
        with broker_errors(f"{what} in network {hosts.name!r}"):
            calls = [ask(process.handle(host)) for host in hosts.hosts()]
            try:
                return [waited(call, max(0.0, until - time.monotonic())) for call in calls]
            except (GetTimeoutError, RayActorError):
                return None


def state_of(survey: Survey) -> dict[BrokerId, tuple[Any, ...]]:
    """Return a state that changes when the network heals again: if two are equal, nothing happened in between."""
    if in_views(survey):
        return {broker: (one["version"], one["left"]) for broker, one in survey.items()}
    return {
        broker: (one["view"].epoch, one["view"].designated, one["term"], tuple(one["round"]))
        for broker, one in survey.items()
    }
