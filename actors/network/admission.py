"""What a network with admission control is asked from outside: its books, and whether a subscription would enter.

Rule: neither changes anything. For experiments, brokers can be burdened, and their CPU time can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Final

import ray

from ...faults.chaos.books import SeenBooks
from ...protocol import checks
from ...protocol.configs import Position
from ...protocol.ids import BrokerId
from ...protocol.messages.admission import Judgement, WouldAdmit, required
from ...routing.language.questions import to_filter
from ..clients.process import ClientProcess
from ..host.errors import broker_errors
from .directory import Directory

_QUESTIONS: Final = count(1)
"""Numbers the questions of this process."""


class NetworkAdmission:
    """The part of :class:`~.network.Network` that has to do with admission control."""

    _directory: Directory
    _process: ClientProcess

    @property
    def positions(self) -> tuple[Position, ...]:
        """Every broker's place."""
        raise NotImplementedError

    def _ask(self, method: str, *args: Any, timeout_seconds: float | None = None) -> list[Any]:
        raise NotImplementedError

    def host_of(self, broker: BrokerId) -> Any:
        """Return the actor of a broker."""
        raise NotImplementedError

    def burden(self, cpu_seconds: Mapping[BrokerId, float], share: float = 1.0) -> None:
        """Let each event that a broker takes in cost CPU time from now on; for experiments.

        Parameters
        ----------
        cpu_seconds
            For each broker what an event costs it.
        share
            How much of a CPU the actor gets for that: it stands still for the rest of the time.
        """
        checks.instance("cpu_seconds", cpu_seconds, Mapping, "a mapping from broker to CPU seconds")
        for broker, cost in cpu_seconds.items():
            checks.seconds(f"cpu_seconds[{broker!r}]", cost)
        if checks.number("share", share, above=True) > 1:
            raise checks.wrong("share", share, "above 0, and at most 1")
        with broker_errors(f"burdening brokers of network {self._directory.name!r}"):
            calls = [self.host_of(broker).burden.remote(cost, share) for broker, cost in cpu_seconds.items()]
            ray.get(calls, timeout=self._directory.limits.call_seconds)

    def cpu_seconds(self) -> float:
        """Return the CPU time that all actors with brokers have used so far."""
        return float(sum(self._ask("cpu_seconds", timeout_seconds=60)))

    def admission(self) -> dict[BrokerId, dict[str, Any]]:
        """Return the books of every broker: each resource as (reserved, there is), and what is degraded."""
        books: dict[BrokerId, dict[str, Any]] = {}
        for answer in self._ask("books", timeout_seconds=60):
            books |= answer
        return dict(sorted(books.items()))

    def books(self) -> dict[BrokerId, SeenBooks]:
        """Return the books of every broker, filters and all, to judge them; `admission` is for people.

        Raises
        ------
        InputError
            If the network has no admission control.
        """
        required(self._directory.admission)
        answers = self._ask("seen", timeout_seconds=60)
        return {broker: seen.books for answer in answers for broker, seen in answer.items()}

    def would_admit(self, filter: Any, *, broker: BrokerId | None = None, priority: int = 0) -> Judgement:
        """Ask whether a subscription would be admitted at a broker (the first, if none is named), without making it.

        Raises
        ------
        InputError
            If the network has no admission control, or no such broker.
        """
        item = to_filter(filter, clauses_max=self._directory.limits.filter_clauses_max)
        checks.whole_number("priority", priority)
        at = self.positions[0].broker if broker is None else broker
        host = self.host_of(at)
        with broker_errors(f"asking broker {at} of network {self._directory.name!r}"):
            question = WouldAdmit(next(_QUESTIONS), item, priority)
            call = host.request.remote(at, self._process.session, [question])
            return ray.get(call, timeout=self._directory.limits.call_seconds)  # type: ignore[no-any-return]
