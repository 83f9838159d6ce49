"""Requests and their replies: which reply is for which request, over ordinary publications.

Rules
-----
* A request is an event with two attributes more: the address at which its requester listens, and an id. A reply is an
  event to that address, with that id. Both have the names that JMS gives them, so that any client of STOMP can reply
  with its headers `reply-to` and `correlation-id` alone.
* The first reply that fits answers a request. Any other one is counted and dropped: it came after the timeout, after
  another one, or to nobody.
* An id is never used twice: the address is random, and requests are numbered.

Pure: a host tells this machine what happens, tells the time, and sends what it returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..protocol.errors import InputError, LimitReached, NotARequest
from ..routing.filters.filter import Filter
from ..routing.language.questions import to_filter

REPLY_TO: Final = "JMSReplyTo"
REPLY_ID: Final = "JMSCorrelationID"
ADDRESS: Final = "JMSDestination"
IN_FLIGHT_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Open:
    until: float
    wanted: Filter | None


class RequestMachine:
    """The requests of one process that wait for their replies.

    Parameters
    ----------
    address
        Where it listens: unique, such as ``/reply/`` and 32 hexadecimal digits.
    in_flight_max
        How many requests may wait.

    Attributes
    ----------
    dropped
        How many replies answered no request that waited.
    """

    def __init__(self, address: str, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self.address = address
        self.dropped = 0
        self._most = in_flight_max
        self._last = 0
        self._open: dict[str, _Open] = {}

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._open)

    @property
    def replies(self) -> Filter:
        """What it subscribes to: all replies to this process."""
        return to_filter(f"{ADDRESS} = '{self.address}'")

    def ask(
        self, event: Mapping[str, object], until: float, wanted: Filter | None = None
    ) -> tuple[str, dict[str, object]]:
        """Begin a request; return its id, and the event to publish.

        Parameters
        ----------
        event
            What is asked.
        until
            When it times out, on the clock of `came`.
        wanted
            What a reply has to match; None if any will do.

        Raises
        ------
        InputError
            If the event has an attribute that a request needs for itself.
        LimitReached
            If too many requests wait.
        """
        for name in (REPLY_TO, REPLY_ID):
            if name in event:
                raise InputError(f"{name} is in the event: it is the requester's own, leave it out")
        if len(self._open) >= self._most:
            raise LimitReached(
                f"{len(self._open):,} requests wait for their replies, which is the limit (in_flight_max)",
                "in_flight_max",
            )
        self._last += 1
        id = f"{self.address.rpartition('/')[2]}-{self._last}"
        self._open[id] = _Open(until, wanted)
        return id, {**event, REPLY_TO: self.address, REPLY_ID: id}

    def came(self, reply: Mapping[str, object], now: float) -> str | None:
        """Take a reply; return the id of the request that it answers, None if it answers none and is dropped."""
        id = reply.get(REPLY_ID)
        found = self._open.get(id) if isinstance(id, str) else None
        if found is None or found.until < now or not (found.wanted is None or found.wanted.matches(reply)):
            self.dropped += 1
            return None
        assert isinstance(id, str)
        del self._open[id]
        return id

    def give_up(self, id: str) -> None:
        """Give up one request; do nothing if it is answered."""
        self._open.pop(id, None)


def reply_to(request: Mapping[str, object], reply: Mapping[str, object]) -> dict[str, object]:
    """Return the event that replies to a request, from what it is to say.

    Raises
    ------
    NotARequest
        If the event does not ask for a reply.
    InputError
        If the reply has an attribute that makes it one.
    """
    address, id = request.get(REPLY_TO), request.get(REPLY_ID)
    if not isinstance(address, str):
        raise NotARequest(f"this event asks for no reply: it has no {REPLY_TO}")
    for name in (ADDRESS, REPLY_ID):
        if name in reply:
            raise InputError(f"{name} is in the reply: it says to whom it goes, leave it out")
    known = {} if id is None else {REPLY_ID: id}
    return {**reply, ADDRESS: address, **known}
