"""The assignment of clients to brokers, in one place for every host.

Rules
-----
* A client that attaches goes to the broker that it asks for, else to the broker with the fewest clients. When
  brokers are given by nearness, it goes to one of the nearest that are available, and among these to the one
  with the fewest clients (paper 1, section 2).
* A client that leaves its broker goes to the broker that it asks for if that is available. Otherwise, unless
  brokers are given by nearness, it goes to another member of the cluster, the highest id first. Otherwise it
  is treated as one that attaches.
* No client is sent to a broker that is gone: seen dead, or about to leave. A broker that is restarted is
  available again.
* A call that is repeated, as identified by its ticket, gets the same answer.

Pure. `state` returns the data that must outlive the calling process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from ...protocol.errors import BrokerUnavailable, ClientError, InputError
from ...protocol.ids import BrokerId, ClientId

KINDS: Final = ("publisher", "subscriber")

Tiers: TypeAlias = tuple[tuple[BrokerId, ...], ...]
"""Brokers, nearest first. Brokers at equal distance share a tier."""

State: TypeAlias = tuple[dict[tuple[str, ClientId], tuple[BrokerId, str | None]], set[BrokerId]]
"""The broker and the ticket of each client, by the client's kind and name; and the brokers that are gone."""


class Places:
    """The clients of one network, and the brokers to which they can go.

    Parameters
    ----------
    brokers
        The brokers that exist at the start.
    one_name_each
        Whether a publisher and a subscriber may not share a name.

    Attributes
    ----------
    gone
        The brokers to which no client is sent.
    """

    def __init__(self, brokers: Iterable[BrokerId] = (), *, one_name_each: bool = False) -> None:
        self._load = dict.fromkeys(brokers, 0)
        self._one_name_each = one_name_each
        self._at: dict[tuple[str, ClientId], tuple[BrokerId, str | None]] = {}
        self.gone: set[BrokerId] = set()

    # Brokers.

    def add(self, brokers: Iterable[BrokerId]) -> None:
        """Add brokers that have joined."""
        for broker in brokers:
            self._load.setdefault(broker, 0)

    def lose(self, brokers: Iterable[BrokerId]) -> None:
        """Send no client to these brokers until `found` is called for them."""
        lost = list(brokers)
        self.add(lost)
        self.gone.update(lost)

    def found(self, broker: BrokerId) -> None:
        """Record that a broker has been restarted."""
        self.gone.discard(broker)

    def clients_at(self, brokers: Iterable[BrokerId]) -> int:
        """Return how many clients are at these brokers."""
        return sum(self._load[broker] for broker in brokers)

    def require_known(self, broker: BrokerId | None) -> None:
        """Raise InputError if no such broker ever existed. A broker that has left is known."""
        if broker is not None and broker not in self._load:
            known = f"{len(self._load)}, from {min(self._load)} to {max(self._load)}"
            raise InputError(f"no broker {broker}: there are {known}")

    # Clients.

    def attach(
        self,
        kind: str,
        names: Sequence[ClientId],
        broker: BrokerId | None = None,
        ticket: str | None = None,
        near: Tiers | None = None,
    ) -> list[BrokerId]:
        """Assign each of these clients a broker: the given one, or the one that the rules select.

        Raises
        ------
        ClientError
            If a name is taken by a client of the same kind that is still attached.
        InputError
            If there is no such broker.
        BrokerUnavailable
            If the broker that is asked for is gone, or all brokers are.
        """
        self.require_known(broker)
        if broker in self.gone:
            raise BrokerUnavailable(f"broker {broker} is gone: name another, or none")
        self._check_names(kind, names, ticket)
        for name in names:
            if (kind, name) not in self._at:
                self.put(kind, name, self._choose((), near) if broker is None else broker, ticket)
        return [self._at[kind, name][0] for name in names]

    def come_back(
        self,
        kind: str,
        name: ClientId,
        wish: BrokerId | None,
        ticket: str | None = None,
        near: Tiers | None = None,
    ) -> BrokerId:
        """Assign a client whose name outlives its process the broker that it asks for, or another if that one is gone.

        The client returns on its own, and cannot know which brokers have left in the meantime.
        """
        self.leave(kind, name)
        there = wish is not None and wish in self._load and wish not in self.gone
        place = wish if there and wish is not None else self._choose((), near)
        self.put(kind, name, place, ticket)
        return place

    def relocate(
        self,
        kind: str,
        name: ClientId,
        fellows: Iterable[BrokerId],
        away: Iterable[BrokerId],
        wanted: BrokerId | None = None,
        near: Tiers | None = None,
    ) -> BrokerId | None:
        """Assign another broker to a client that leaves its broker.

        Parameters
        ----------
        kind, name
            The client.
        fellows
            The members of the cluster of its broker.
        away
            Brokers that the client could not reach.
        wanted
            The broker that the client asks for.
        near
            The brokers by nearness to the client. With no tiers, all are equally near.

        Returns
        -------
        BrokerId or None
            None when every broker is gone or could not be reached.

        Raises
        ------
        BrokerUnavailable
            If all brokers are gone.
        """
        if len(self.gone) == len(self._load):
            raise BrokerUnavailable("no broker of the network is left")
        lost = {*away, *self.gone}
        if lost.issuperset(self._load):
            return None
        left = [member for member in fellows if member not in lost]
        chosen = max(left) if left and near is None else self._choose(lost, near)
        if wanted is not None and wanted in self._load and wanted not in lost:
            chosen = wanted
        if (kind, name) in self._at:
            self.put(kind, name, chosen, self._at[kind, name][1])
        return chosen

    def put(self, kind: str, name: ClientId, broker: BrokerId, ticket: str | None = None) -> None:
        """Record that a client is at this broker now, and no longer at its previous one."""
        self.leave(kind, name)
        self._at[kind, name] = broker, ticket
        self._load[broker] = self._load.get(broker, 0) + 1

    def leave(self, kind: str, name: ClientId) -> None:
        """Remove a client, if there is one of that name."""
        place = self._at.pop((kind, name), None)
        if place is not None:
            self._load[place[0]] -= 1

    def _choose(self, lost: Iterable[BrokerId], near: Tiers | None) -> BrokerId:
        """Return the broker with the fewest clients among the nearest that are available."""
        living = self._load.keys() - self.gone - set(lost)
        if not living:
            raise BrokerUnavailable("no broker of the network is left")
        tied = next((tier for tier in near or () if not living.isdisjoint(tier)), ())
        return min(living.intersection(tied) or living, key=lambda broker: (self._load[broker], broker))

    def _check_names(self, kind: str, names: Sequence[ClientId], ticket: str | None) -> None:
        named: set[ClientId] = set()
        for name in names:
            if name in named:
                raise ClientError(f"{kind} {name!r} is named twice")
            named.add(name)
            known = self._at.get((kind, name))
            if known is not None and (ticket is None or known[1] != ticket):
                raise ClientError(
                    f"there is already a {kind} {name!r} in this network: close it, or choose another name"
                )
            if self._one_name_each and any((other, name) in self._at for other in KINDS if other != kind):
                raise ClientError(
                    f"there is already another client {name!r}: with stores and admission, publishers and "
                    "subscribers need different names"
                )

    # State.

    def state(self) -> State:
        """Return the data that must outlive the rendezvous point."""
        return dict(self._at), set(self.gone)

    def restore(self, state: State) -> None:
        """Restore the data that `state` returned."""
        clients, gone = state
        self.lose(gone)
        for (kind, name), (broker, ticket) in clients.items():
            self.put(kind, name, broker, ticket)
