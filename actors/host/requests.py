"""The requests of clients to their brokers, and the answers that the broker's host owes.

Rules
-----
* A request is a list of messages in the form in which the broker handles them, in order, and questions to the
  host. It is answered when the last of them is.
* Events are answered when they are accepted and there is room for more, which is later if a quota holds them
  back; a `Register` when it is installed up to the root, or local publishers satisfy it, unless it was admitted
  before; a `Flush` when everything is delivered; an `Advertise` when it is known everywhere; a `WouldAdmit` by
  its verdict. Everything else is answered when the broker has handled it.
* Of numbered messages only the last is answered: earlier ones may have been answered already.
* With a store, an answer waits until the broker's step is stable.
* A repeated request gets the same answer while the first one is waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...protocol.ids import ClientId
from ...protocol.messages.admission import Advertise, Unadvertise, WouldAdmit
from ...protocol.messages.pubsub import ClientMessage, Events, Flush, Numbered, Register


@dataclass(frozen=True, slots=True)
class Away:
    """A durable subscriber's process detaches; its subscriptions stay."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Asks for the last accepted number of a publisher, and what is retained of it: ``(last, [(age, batch), ...])``."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Asks for the stable number of a client at a broker that numbers messages; "events", or "subscriptions"."""

    about: Literal["events", "subscriptions"] = "events"


@dataclass(frozen=True, slots=True)
class Lacking:
    """Asks what the subscriptions of a client lack, by number; those that lack nothing are left out."""


@dataclass(frozen=True, slots=True)
class WhoAnswers:
    """Asks which publishers may have what the subscriptions of a client ask for, by number."""


Request: TypeAlias = (
    ClientMessage | Advertise | Unadvertise | WouldAdmit | Away | Accepted | Stored | Lacking | WhoAnswers
)
Question: TypeAlias = tuple[ClientId, type, int]
"""The client, the kind of message, and its number."""


def questions(client: ClientId, messages: Sequence[Request]) -> list[Question]:
    """Return what a broker must answer of these messages of a client, in their order."""
    found: list[Question] = []
    for place, message in enumerate(messages, 1):
        match message:
            case Numbered(message=Advertise() as said) if place == len(messages):
                found.append((client, Advertise, said.number))
            case Register(admitted=True):
                pass
            case Register():
                found.append((client, Register, message.subscription))
            case Flush() | Advertise() | WouldAdmit():
                found.append((client, type(message), message.number))
    return found


def publications(client: ClientId, messages: Sequence[Request]) -> list[Question]:
    """Return what is answered later than usual if a quota holds it back."""
    return [
        (client, Events, int(message.batch.sequence[-1]))
        for message in messages
        if isinstance(message, Events) and len(message.batch)
    ]


class Answers:
    """The answers that one broker owes its clients; used on its host's event loop."""

    def __init__(self) -> None:
        self._owed: dict[Question, asyncio.Future[Any]] = {}

    def owe(self, question: Question) -> asyncio.Future[Any]:
        """Return a future of the answer to a question."""
        return self._owed.setdefault(question, asyncio.get_running_loop().create_future())

    def give(self, question: Question, answer: Any = None) -> None:
        """Answer a question; does nothing if no caller waits for it."""
        future = self._owed.get(question)
        if future is not None and not future.done():
            future.set_result(answer)

    def refuse(self, question: Question, error: Exception) -> None:
        """Raise an error for the callers that wait for the answer."""
        future = self._owed.get(question)
        if future is not None and not future.done():
            future.set_exception(error)

    def of(self, client: ClientId, kind: type) -> list[Question]:
        """Return the questions of a client that wait for an answer, of one kind."""
        return [question for question in self._owed if question[:2] == (client, kind)]

    def owed(self, questions: Sequence[Question]) -> list[asyncio.Future[Any]]:
        """Return the futures of those of the questions that are open."""
        return [self._owed[question] for question in questions if question in self._owed]

    def refuse_all(self, error: Exception) -> None:
        """Raise an error for all waiting callers."""
        for question in self._owed:
            self.refuse(question, error)

    def forget(self, question: Question) -> None:
        """Record that no caller waits for an answer any more."""
        future = self._owed.pop(question, None)
        if future is not None and future.done() and not future.cancelled():
            future.exception()  # a caller that has stopped waiting has another error to report
