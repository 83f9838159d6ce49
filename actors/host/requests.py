"""What a client asks of its broker, and the answers that the broker's host owes.

Rules
-----
* A request is a list of messages that a client sends at once: messages that its broker takes unchanged, in order,
  and questions to the host. The request is answered when its last message is.
* Events are answered when they are accepted and there is room for more, which is later if a quota holds them back.
  A `Register` is answered when it is installed up to the root, or when publishers here satisfy it, unless it was
  admitted before. A `Flush` is answered when everything is delivered, an `Advertise` when it is known everywhere,
  a `WouldAdmit` by its judgement, and a `ReadClock` with the time. Everything else is answered when the broker has
  taken it.
* The answer to subscriptions is where each of them begins, by number.
* Of numbered messages, only the last is answered: those before it may have been answered already.
* With a store, an answer waits until what the broker took is stable.
* A request that is repeated while the first is pending gets the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...protocol.ids import ClientId
from ...protocol.messages.admission import Advertise, Unadvertise, WouldAdmit
from ...protocol.messages.pubsub import ClientMessage, Events, Flush, Numbered, ReadClock, Register


@dataclass(frozen=True, slots=True)
class Away:
    """A durable subscriber's process disconnects; its subscriptions stay."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Asks which sequence of a publisher was accepted last, and what is retained: ``(last, [(age, batch), ...])``."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Asks which number of a client is stable at a broker that numbers messages, about "events" or "subscriptions"."""

    about: Literal["events", "subscriptions"] = "events"


@dataclass(frozen=True, slots=True)
class Lacking:
    """Asks what the subscriptions of a client lack, by number; those that lack nothing are left out."""


@dataclass(frozen=True, slots=True)
class WhoAnswers:
    """Asks who may have what the subscriptions of a client ask for, by number."""


Request: TypeAlias = (
    ClientMessage | Advertise | Unadvertise | WouldAdmit | Away | Accepted | Stored | Lacking | WhoAnswers
)
Question: TypeAlias = tuple[ClientId, type, int]
"""The client that asked, the type of its message, and the message's number."""


def questions(client: ClientId, messages: Sequence[Request]) -> list[Question]:
    """Return which of these messages of a client a broker has to answer, in order."""
    found: list[Question] = []
    for place, message in enumerate(messages, 1):
        match message:
            case Numbered(message=Advertise() as said) if place == len(messages):
                found.append((client, Advertise, said.number))
            case Register(admitted=True):
                pass
            case Register():
                found.append((client, Register, message.subscription))
            case ReadClock():
                found.append((client, ReadClock, 0))
            case Flush() | Advertise() | WouldAdmit():
                found.append((client, type(message), message.number))
    return found


def answer_to(asked: Sequence[Question], answers: Sequence[Any]) -> Any:
    """Return the answer to a request, given the answers to its questions, in order; None if there are none."""
    if asked and asked[-1][1] is Register:
        pairs = zip(asked, answers, strict=False)
        return {number: begins for (_, kind, number), begins in pairs if kind is Register}
    return answers[-1] if answers else None


def publications(client: ClientId, messages: Sequence[Request]) -> list[Question]:
    """Return the publications that are answered later if a quota holds them back."""
    return [
        (client, Events, int(message.batch.sequence[-1]))
        for message in map(carried, messages)
        if isinstance(message, Events) and len(message.batch)
    ]


def carried(message: Request) -> Request:
    """Return what a numbered message carries; another message as it is."""
    return message.message if isinstance(message, Numbered) else message


class Answers:
    """The answers that one broker owes its clients; used on its host's event loop."""

    def __init__(self) -> None:
        self._owed: dict[Question, asyncio.Future[Any]] = {}

    def owe(self, question: Question) -> asyncio.Future[Any]:
        """Return the future for the answer to a question."""
        return self._owed.setdefault(question, asyncio.get_running_loop().create_future())

    def give(self, question: Question, answer: Any = None) -> None:
        """Answer a question; do nothing if nobody waits for the answer."""
        future = self._owed.get(question)
        if future is not None and not future.done():
            future.set_result(answer)

    def refuse(self, question: Question, error: Exception) -> None:
        """Raise an error at the caller that waits for the answer."""
        future = self._owed.get(question)
        if future is not None and not future.done():
            future.set_exception(error)

    def of(self, client: ClientId, kind: type) -> list[Question]:
        """Return the pending questions of a client of one type."""
        return [question for question in self._owed if question[:2] == (client, kind)]

    def owed(self, questions: Sequence[Question]) -> list[asyncio.Future[Any]]:
        """Return the futures of those questions that are pending."""
        return [self._owed[question] for question in questions if question in self._owed]

    def refuse_all(self, error: Exception) -> None:
        """Raise an error at all callers that wait for an answer."""
        for question in self._owed:
            self.refuse(question, error)

    def forget(self, question: Question) -> None:
        """Note that nobody waits for an answer any more."""
        future = self._owed.pop(question, None)
        if future is not None and future.done() and not future.cancelled():
            future.exception()  # a caller that stopped waiting reports another error
