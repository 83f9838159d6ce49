"""Identifiers of brokers, clusters and clients, and of the links between them.

A broker is a whole number, because succession needs an order ("the highest id takes over", paper 1, 4.1.1). A
client is a string that its user chose. A *link* is one way out of a broker: an ``int`` (a neighbouring broker, or
:data:`GROUP`, the multicast group of the broker's own cluster) or a ``str`` (an attached client).
"""

from typing import Final, NamedTuple, TypeAlias

BrokerId: TypeAlias = int
"""A broker; 0 or greater, unique in its network. Broker ids are ordered."""

ClusterId: TypeAlias = int
"""A multicast cluster; 0 or greater, unique in its network."""

ClientId: TypeAlias = str
"""A publisher or subscriber, as its user named it."""

EventId: TypeAlias = tuple[ClientId, int]
"""An event: its publisher, and its number there."""

BrokerLink: TypeAlias = int
"""One way to other brokers: a neighbour, or :data:`GROUP`."""

Link: TypeAlias = BrokerLink | ClientId
"""One way out of a broker: to other brokers, or to a client."""

GROUP: Final[BrokerLink] = -1
"""The link to the multicast group of the broker's own cluster (paper 1, section 3: the address of the MC)."""

Ballot: TypeAlias = tuple[int, BrokerId]
"""The epoch of a cluster and its designated broker. The higher of two ballots prevails."""


class RoundNumber(NamedTuple):
    """A round of retransmission: the term of the root that began it, and its number in that term. Both only grow."""

    term: int
    number: int


FIRST_ROUND: Final = RoundNumber(0, 0)
"""The round in which a network begins."""
