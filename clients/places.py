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
* A call that is repeated, as identified by its ticket, gets the same answer. A call that is repeated after its
  client has left is refused: it would take a name that nobody uses.
* A name is in use by the process that attached under it, until that process releases it, or the broker's host has
  not heard of the process for the time of a session. A name that is free again remembers who had it (the former
  holder), so that the next one can end what is left of it.
* A name in use can be taken over: by a call that says so, and by a restarted Ray actor that had it before.
  Whoever had it is refused from then on. A durable name is always taken over, and only by a durable client.

Pure. `state` returns the data that must outlive the calling process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ..protocol.errors import BrokerUnavailable, ClientError, InputError, NameTaken
from ..protocol.ids import BrokerId, ClientId

KINDS: Final = ("publisher", "subscriber")

Tiers: TypeAlias = tuple[tuple[BrokerId, ...], ...]
"""Brokers, nearest first. Brokers at equal distance share a tier."""

LEFT_MAX: Final = 1_000
"""How many tickets of clients that have left are remembered."""
FREE_MAX: Final = 10_000
"""How many free names remember their former holders."""


class Owner(NamedTuple):
    """The process that a client is in.

    Attributes
    ----------
    session
        Names the process at the hosts of brokers.
    process
        Names the process of the operating system.
    actor
        Ray's id of the actor that the process is; "" for other processes.
    """

    session: str
    process: str = ""
    actor: str = ""


NOBODY: Final = Owner("")


class Former(NamedTuple):
    """Who had a name before: its broker, its session and ticket there, and whether it was durable."""

    broker: BrokerId
    session: str
    ticket: str
    durable: bool


class Place(NamedTuple):
    """Where a client is, since when, and who it is; `free` if its process is gone, so that others may have the name."""

    broker: BrokerId
    ticket: str = ""
    owner: Owner = NOBODY
    since: float = 0.0
    durable: bool = False
    free: bool = False
    former: Former | None = None


State: TypeAlias = tuple[dict[tuple[str, ClientId], Place], set[BrokerId], dict[str, None]]
"""The place of each client, by kind and name; the brokers that are gone; the tickets of clients that have left."""


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
        self._at: dict[tuple[str, ClientId], Place] = {}
        self._here: dict[BrokerId, dict[tuple[str, ClientId], None]] = {}  # the clients of each broker
        self._free: dict[tuple[str, ClientId], None] = {}  # the clients whose names are free, oldest first
        self._left: dict[str, None] = {}
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
        ticket: str = "",
        near: Tiers | None = None,
        owner: Owner = NOBODY,
        *,
        take_over: bool = False,
        now: float = 0.0,
    ) -> list[BrokerId]:
        """Assign each of these clients a broker: the given one, or the one that the rules select.

        Raises
        ------
        NameTaken
            If a name is in use by a client of the same kind, and may not be taken over.
        ClientError
            If a name is given twice, or the call is repeated after its clients have left.
        InputError
            If there is no such broker.
        BrokerUnavailable
            If the broker that is asked for is gone, or all brokers are.
        """
        self.require_known(broker)
        if broker in self.gone:
            raise BrokerUnavailable(f"broker {broker} is gone: name another, or none")
        self._check_names(kind, names, ticket, owner, take_over=take_over)
        for name in names:
            known = self._at.get((kind, name))
            if known is None or not ticket or known.ticket != ticket:
                place = self._choose((), near) if broker is None else broker
                self._take(kind, name, Place(place, ticket, owner, now))
        return [self._at[kind, name].broker for name in names]

    def reattach(
        self,
        kind: str,
        name: ClientId,
        wanted: BrokerId | None,
        ticket: str = "",
        near: Tiers | None = None,
        owner: Owner = NOBODY,
        now: float = 0.0,
    ) -> BrokerId:
        """Assign a client whose name outlives its process the broker that it asks for, or another if that one is gone.

        The client returns on its own, and cannot know which brokers have left in the meantime.
        """
        there = wanted is not None and wanted in self._load and wanted not in self.gone
        place = wanted if there and wanted is not None else self._choose((), near)
        self._take(kind, name, Place(place, ticket, owner, now, durable=True))
        return place

    def _take(self, kind: str, name: ClientId, place: Place) -> None:
        """Give a name to a client, and remember from whom it was taken."""
        known = self._at.get((kind, name))
        former = None
        if known is not None and known.ticket == place.ticket:
            former = known.former
        elif known is not None:
            former = Former(known.broker, known.owner.session, known.ticket, known.durable)
        self._put(kind, name, place._replace(former=former))

    def former(self, kind: str, names: Iterable[ClientId]) -> dict[ClientId, Former]:
        """Return from whom these names were taken, without those that were not in use before."""
        found = {name: self._at[kind, name].former for name in names if (kind, name) in self._at}
        return {name: former for name, former in found.items() if former is not None}

    def hear(
        self, brokers: Collection[BrokerId], sessions: Collection[str], before: float
    ) -> list[tuple[str, ClientId]]:
        """Free the names of clients whose processes the host of these brokers no longer hears; return what changed.

        A process that is heard again, for example one that was stopped, has its names again, unless others took them.

        Parameters
        ----------
        brokers, sessions
            The brokers of a host, and the processes that it has heard lately.
        before
            Only clients that came to their broker before this time: others may not have called it yet.
        """
        heard = set(sessions)
        here = [(key, self._at[key]) for broker in brokers for key in self._here.get(broker, ())]
        silent = [
            key
            for key, place in here
            if place.owner.session not in heard
            and place.since < before
            and place.owner is not NOBODY
            and not (place.free or place.durable)
        ]
        again = [key for key, place in here if place.free and place.owner.session in heard]
        for key in silent:
            self._put(*key, self._at[key]._replace(free=True))
        for key in again:
            self._put(*key, self._at[key]._replace(free=False))
        while len(self._free) > FREE_MAX:
            self._remove(*next(iter(self._free)))
        return silent + again

    def relocate(
        self,
        kind: str,
        name: ClientId,
        members: Iterable[BrokerId],
        away: Iterable[BrokerId],
        wanted: BrokerId | None = None,
        near: Tiers | None = None,
        ticket: str = "",
        now: float = 0.0,
    ) -> BrokerId | None:
        """Assign another broker to a client that leaves its broker.

        Parameters
        ----------
        kind, name
            The client.
        members
            The members of the cluster of its broker.
        away
            Brokers that the client could not reach.
        wanted
            The broker that the client asks for.
        near
            The brokers by nearness to the client. With no tiers, all are equally near.
        ticket, now
            That of the call by which the client attached, and the time.

        Returns
        -------
        BrokerId or None
            None when every broker is gone or could not be reached.

        Raises
        ------
        BrokerUnavailable
            If all brokers are gone.
        NameTaken
            If another process has taken the name over.
        """
        self.require_own(kind, name, ticket)
        if len(self.gone) == len(self._load):
            raise BrokerUnavailable("no broker of the network is left")
        lost = {*away, *self.gone}
        if lost.issuperset(self._load):
            return None
        left = [member for member in members if member not in lost]
        chosen = max(left) if left and near is None else self._choose(lost, near)
        if wanted is not None and wanted in self._load and wanted not in lost:
            chosen = wanted
        known = self._at.get((kind, name))
        if known is not None:
            self._put(kind, name, known._replace(broker=chosen, since=now, free=False))
        return chosen

    def require_own(self, kind: str, name: ClientId, ticket: str) -> None:
        """Raise NameTaken if the client that attached by the call with this ticket has lost its name."""
        known = self._at.get((kind, name))
        if known is not None and ticket and known.ticket != ticket:
            raise taken_over(kind, name)

    def _put(self, kind: str, name: ClientId, place: Place) -> None:
        self._remove(kind, name)
        self._at[kind, name] = place
        self._here.setdefault(place.broker, {})[kind, name] = None
        if place.free:
            self._free[kind, name] = None
        self._load[place.broker] = self._load.get(place.broker, 0) + (not place.free)

    def put(self, kind: str, name: ClientId, broker: BrokerId) -> None:
        """Record that a client is at this broker now, and no longer at its previous one."""
        self._put(kind, name, self._at.get((kind, name), Place(broker))._replace(broker=broker))

    def leave(self, kind: str, name: ClientId, ticket: str = "") -> None:
        """Remove a client, if there is one of that name; with a ticket only the one that attached with it."""
        known = self._at.get((kind, name))
        if known is not None and (not ticket or known.ticket == ticket):
            self._remove(kind, name)

    def left(self, ticket: str) -> None:
        """Record that the clients that attached with this ticket have left: the call that attached them is over."""
        if ticket:
            self._left[ticket] = None
            if len(self._left) > LEFT_MAX:
                del self._left[next(iter(self._left))]

    def _remove(self, kind: str, name: ClientId) -> None:
        place = self._at.pop((kind, name), None)
        if place is not None:
            del self._here[place.broker][kind, name]
            self._free.pop((kind, name), None)
            self._load[place.broker] -= not place.free

    def _choose(self, lost: Iterable[BrokerId], near: Tiers | None) -> BrokerId:
        """Return the broker with the fewest clients among the nearest that are available."""
        living = self._load.keys() - self.gone - set(lost)
        if not living:
            raise BrokerUnavailable("no broker of the network is left")
        tied = next((tier for tier in near or () if not living.isdisjoint(tier)), ())
        return min(living.intersection(tied) or living, key=lambda broker: (self._load[broker], broker))

    def _check_names(
        self, kind: str, names: Sequence[ClientId], ticket: str, owner: Owner, *, take_over: bool
    ) -> None:
        if ticket in self._left:
            raise ClientError(f"{kind} {names[0]!r} was released: attach again")
        named: set[ClientId] = set()
        for name in names:
            if name in named:
                raise ClientError(f"{kind} {name!r} is named twice")
            named.add(name)
            self._check_free(kind, name, ticket, owner, take_over=take_over)
            others = (self._at.get((other, name)) for other in KINDS if other != kind)
            if self._one_name_each and any(other is not None and not other.free for other in others):
                raise ClientError(
                    f"there is already another client {name!r}: with stores and admission, publishers and "
                    "subscribers need different names"
                )

    def _check_free(self, kind: str, name: ClientId, ticket: str, owner: Owner, *, take_over: bool) -> None:
        known = self._at.get((kind, name))
        if known is None or known.free or (ticket and known.ticket == ticket):
            return
        if known.durable:
            raise NameTaken(
                f"there is already a durable {kind} {name!r} in this network: attach with durable=True, or "
                "choose another name"
            )
        restarted = owner.actor and known.owner.actor == owner.actor and known.owner.process != owner.process
        if not take_over and not restarted:
            raise NameTaken(
                f"there is already a {kind} {name!r} in this network: close it, choose another name, or take "
                "it over with take_over=True"
            )

    # State.

    def state(self) -> State:
        """Return the data that must outlive the rendezvous point."""
        return dict(self._at), set(self.gone), dict(self._left)

    def restore(self, state: State) -> None:
        """Restore the data that `state` returned."""
        clients, gone, self._left = state
        self.lose(gone)
        for (kind, name), place in clients.items():
            self._put(kind, name, place)


def taken_over(kind: str, name: ClientId) -> NameTaken:
    """Return the error of a client whose name another process has taken over."""
    return NameTaken(
        f"{kind} {name!r} was taken over by another client: this one receives and sends nothing more"
    )
