"""Questions to a network with admission control: its books, and whether a subscription would be admitted.

Rule: neither question changes anything.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from ...broker.books import SeenBooks
from ...protocol import checks
from ...protocol.ids import BrokerId
from ...protocol.messages.admission import Judgement, WouldAdmit, delay_asked, required
from ...routing.language.questions import to_filter
from ..clients.process import ClientProcess
from ..host.errors import broker_errors
from ..host.handle import waited
from .hosts import Hosts

_QUESTIONS: Final = count(1)
"""Numbers the questions of this process."""


class NetworkAdmission:
    """The questions to a network with admission control; they belong to this process's session."""

    def __init__(self, hosts: Hosts, process: ClientProcess) -> None:
        self._hosts = hosts
        self._process = process

    def admission(self) -> dict[BrokerId, dict[str, Any]]:
        """Return the books of every broker: each resource as (reserved, available), and what is degraded."""
        books: dict[BrokerId, dict[str, Any]] = {}
        for answer in self._hosts.ask("books", timeout_seconds=60):
            books |= answer
        return dict(sorted(books.items()))

    def books(self) -> dict[BrokerId, SeenBooks]:
        """Return the books of every broker, including filters, for a judge; `admission` is for people.

        Raises
        ------
        InputError
            If the network has no admission control.
        """
        required(self._hosts.directory.admission)
        answers = self._hosts.ask("seen", timeout_seconds=60)
        return {broker: seen.books for answer in answers for broker, seen in answer.items()}

    def would_admit(
        self,
        filter: Any,
        *,
        broker: BrokerId | None = None,
        priority: int = 0,
        max_delay: float | None = None,
    ) -> Judgement:
        """Ask whether a broker (by default the first) would admit a subscription, without subscribing.

        Raises
        ------
        InputError
            If the network has no admission control, or no such broker.
        """
        item = to_filter(filter, clauses_max=self._hosts.directory.limits.filter_clauses_max)
        checks.whole_number("priority", priority)
        max_delay = delay_asked(self._hosts.directory.admission, max_delay)
        at = self._hosts.directory.positions[0].broker if broker is None else broker
        host = self._hosts.host_of(at)
        with broker_errors(f"asking broker {at} of network {self._hosts.name!r}"):
            question = WouldAdmit(next(_QUESTIONS), item, priority, max_delay)
            call = self._process.handle(host).request(at, self._process.session, [question])
            return waited(call, self._hosts.directory.limits.call_seconds)  # type: ignore[no-any-return]
