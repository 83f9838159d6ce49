"""A client's side of the interface to a broker that recovers: its numbers, and what is not acknowledged.

Rules
-----
* What a client sends is numbered and kept until the broker has made it stable. After a break in the connection the
  client says BACK, and sends what is not acknowledged again.
* What is sent again goes in the order in which it was said, over both interfaces together: an advertisement that is
  taken back is so behind the events that were published under it.
* What it is sent has numbers that rise; one that is not above the last is there for the second time.

Paper 4, section 3: publishers and subscribers as the ends of the chain of interfaces.
"""

from __future__ import annotations

import heapq

from ...protocol.messages.admission import Advertise, Unadvertise
from ...protocol.messages.pubsub import Ack, Back, ClientMessage, Events, Numbered


class ClientLink:
    """One publisher or subscriber.

    Parameters
    ----------
    sent, had
        The numbers to go on from: of the last message that the broker took, and of the last one from it.

    Attributes
    ----------
    sent
        The number of the last message to the broker.
    had
        The number of the last delivery or confirmation from it.
    """

    __slots__ = ("_kept", "had", "sent")

    def __init__(self, sent: int = 0, had: int = 0) -> None:
        self.sent = sent
        self.had = had
        self._kept: dict[int, tuple[int, Numbered]] = {}

    def __len__(self) -> int:
        """Return how many messages are not acknowledged."""
        return len(self._kept)

    def send(
        self, message: ClientMessage | Advertise | Unadvertise, count: int = 1, turn: int = 0
    ) -> Numbered:
        """Give a message its number; one of several events has as many numbers.

        `turn` says which message it is of those over both interfaces of a client.
        """
        adv = Numbered(self.sent + count, self.sent, message)
        self.sent += count
        self._kept[self.sent] = turn, adv
        return adv

    def acknowledged(self, number: int) -> None:
        """Take in that the broker has made all up to a number stable."""
        while self._kept and next(iter(self._kept)) <= number:
            del self._kept[next(iter(self._kept))]

    def take(self, number: int) -> tuple[bool, Ack]:
        """Take in a delivery or confirmation; return whether it is new, and the answer."""
        new = number > self.had
        self.had = max(self.had, number)
        return new, Ack(self.had)

    def kept(self) -> list[tuple[int, Numbered]]:
        """Return what is not acknowledged, in order, each with its turn."""
        return list(self._kept.values())

    def back(self) -> list[Back | Numbered]:
        """Return what to say over a new connection."""
        return [Back(self.had), *(adv for _, adv in self._kept.values())]


class ClientLinks:
    """Both interfaces of one client: what it publishes has numbers of its own beside what it wants, and is told."""

    __slots__ = ("_events", "_subscriptions", "_turn")

    def __init__(self) -> None:
        self._subscriptions, self._events = ClientLink(), ClientLink()
        self._turn = 0

    def __len__(self) -> int:
        """Return how many messages are not acknowledged."""
        return len(self._subscriptions) + len(self._events)

    def send(self, message: ClientMessage | Advertise | Unadvertise) -> Numbered:
        """Give a message its number."""
        self._turn += 1
        if isinstance(message, Events):
            return self._events.send(message, len(message.batch), self._turn)
        return self._subscriptions.send(message, turn=self._turn)

    def acknowledged(self, about: str, number: int) -> None:
        """Take in that the broker has made all up to a number stable, of "events" or "subscriptions"."""
        (self._events if about == "events" else self._subscriptions).acknowledged(number)

    def take(self, number: int) -> tuple[bool, Ack]:
        """Take in what the broker sends; return whether it is new, and the answer."""
        return self._subscriptions.take(number)

    def kept(self) -> list[Numbered]:
        """Return what is not acknowledged, in order."""
        kept = heapq.merge(self._subscriptions.kept(), self._events.kept(), key=lambda each: each[0])
        return [adv for _, adv in kept]

    def back(self) -> list[Back | Numbered]:
        """Return what to say over a new connection."""
        return [Back(self._subscriptions.had), *self.kept()]
