"""The rendezvous point: the one address that everybody knows (paper 1, section 2: RP).

It knows the root, where every broker lives, and which clients there are, so that a process that knows the network's
name can attach to it. It takes no part in routing, so where it stands does not matter.

In a network that heals it also says who is root (`faults.membership.root_registry`), where a client goes whose broker
died, and with which number a publisher goes on whose name was used before. What it knows then is in a store before it
answers, so it goes on where it was when its process dies and Ray starts it again. Every method may be called again
with the same arguments, as Ray does for calls that were under way then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ...faults.membership.root_registry import RendezvousMachine
from ...faults.membership.view_registry import CubeRendezvous
from ...protocol.configs import Position
from ...protocol.effects import Received, Send, Ticked
from ...protocol.errors import BrokerUnavailable, ClientError, InputError
from ...protocol.ids import BrokerId, ClientId, ClusterId
from ...protocol.messages.recovery import RENDEZVOUS, RecoveryMessage
from ...routing.schemes.claims import claims_of
from ..broker import rendezvous_of, start_of
from ..clients.nearness import Tiers
from .directory import Directory as Directory
from .names import LastingNames
from .store import RendezvousStore

KINDS: Final = ("publisher", "subscriber")


class Rendezvous:
    """Keeps the directory of one network and places its clients.

    Parameters
    ----------
    store
        Where it keeps what must outlive it, and finds it when it is started again; None for a network that does not
        heal.
    clock
        Tells the time, and goes on over a restart; `lasting_clock` when None.
    """

    def __init__(
        self, store: RendezvousStore | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        self._store = store
        self._clock = clock or lasting_clock()
        self._directory: Directory | None = None
        self._machine: RendezvousMachine | CubeRendezvous | None = None
        self._clients: dict[
            tuple[str, ClientId], tuple[BrokerId, str | None]
        ] = {}  # where, and whose call it was
        self._sequences: dict[ClientId, int] = {}
        self._gone: set[BrokerId] = set()
        self._last: tuple[BrokerId, ClusterId] = (-1, -1)  # the highest ids that were given out to newcomers
        self._lives: dict[BrokerId, int] = {}  # of the brokers that were started again
        self._load: dict[BrokerId, int] = {}
        if store is not None:
            self.names = LastingNames(store)
            self._restore(store)

    def _restore(self, store: RendezvousStore) -> None:
        directory = store.get("directory")
        if directory is None:
            return
        self.open(directory, restored=True)
        self._clients, self._sequences, self._gone = store.get("clients") or ({}, {}, set())
        self._last = store.get("last") or self._last
        self._load |= {broker: 0 for broker in self._gone if broker not in self._load}
        for broker, _ in self._clients.values():
            self._load[broker] += 1
        self._lives = store.get("lives") or {}
        state = store.get("root")
        if state is not None and self._machine is not None:
            self._machine.restore(state)
        if self._machine is not None:
            self._machine.handle(Ticked(self._clock()))

    def _keep_clients(self) -> None:
        if self._store is not None:
            self._store.put("clients", (self._clients, self._sequences, self._gone))

    def open(self, directory: Directory, *, restored: bool = False) -> None:
        """Take the directory; from now on processes can attach."""
        self._directory = directory
        self._load = {position.broker: 0 for position in directory.positions}
        if directory.recovery is not None:
            self._machine = rendezvous_of(directory.recovery, start_of(directory.positions, directory.scheme))
            if not restored:
                self._machine.handle(Ticked(self._clock()))
        if self._store is not None and not restored:
            self._store.put("directory", directory)

    def directory(self) -> Directory | None:
        """Return the directory, or None while the network is being launched."""
        return self._directory

    # Clients.

    def place(
        self,
        kind: str,
        names: Sequence[ClientId],
        broker: BrokerId | None,
        ticket: str | None = None,
        near: Tiers | None = None,
    ) -> list[BrokerId]:
        """Give each client a broker: the one that is asked for, else of the nearest the one with the fewest clients.

        The same call, by its `ticket`, gets the same answer again. `near` has the brokers by nearness to the clients;
        without it all are equally near.

        Raises
        ------
        ClientError
            If a name is taken by a client of the same kind that is still attached.
        InputError
            If there is no such broker.
        BrokerUnavailable
            If the broker that is asked for is gone, or all are.
        """
        if broker is not None and broker not in self._load:
            known = f"{len(self._load)}, from {min(self._load)} to {max(self._load)}"
            raise InputError(f"no broker {broker}: there are {known}")
        if broker in self._gone:
            raise BrokerUnavailable(f"broker {broker} is gone: name another, or none")
        self._check_names(kind, names, ticket)
        places = []
        for name in names:
            known_place = self._clients.get((kind, name))
            chosen = self._choose(set(), near) if broker is None else broker
            if known_place is not None:
                chosen = known_place[0]
            else:
                self._put(kind, name, chosen, ticket)
            places.append(chosen)
        self._keep_clients()
        return places

    @property
    def _one_name_each(self) -> bool:
        """Whether publishers and subscribers number what they say to the same broker under their names."""
        directory = self._directory
        return directory is not None and directory.numbered and directory.admission is not None

    def _check_names(self, kind: str, names: Sequence[ClientId], ticket: str | None) -> None:
        named: set[ClientId] = set()
        for name in names:
            if name in named:
                raise ClientError(f"{kind} {name!r} is named twice")
            named.add(name)
            known = self._clients.get((kind, name))
            if known is not None and (ticket is None or known[1] != ticket):
                raise ClientError(
                    f"there is already a {kind} {name!r} in this network: close it, or take another name"
                )
            if self._one_name_each and any(
                (other, name) in self._clients for other in KINDS if other != kind
            ):
                raise ClientError(
                    f"there is already another client {name!r}: where brokers that have stores admit, publishers and "
                    "subscribers need names of their own"
                )

    def _put(self, kind: str, name: ClientId, broker: BrokerId, ticket: str | None) -> None:
        self._load[broker] += 1
        self._clients[kind, name] = (broker, ticket)

    def _choose(self, away: set[BrokerId], near: Tiers | None = None) -> BrokerId:
        """Return the broker with the fewest clients, of the nearest that are left."""
        living = {broker for broker in self._load if broker not in self._gone and broker not in away}
        if not living:
            raise BrokerUnavailable("no broker of the network is left")
        tied = next((tier for tier in near or () if not living.isdisjoint(tier)), ())
        return min(living.intersection(tied) or living, key=lambda broker: (self._load[broker], broker))

    def leave(
        self, kind: str, names: Sequence[ClientId], sequences: Mapping[ClientId, int] | None = None
    ) -> None:
        """Let clients go; `sequences` has the last number that each publisher used."""
        for name in names:
            place = self._clients.pop((kind, name), None)
            if place is not None:
                self._load[place[0]] -= 1
        for name, last in (sequences or {}).items():
            self._sequences[name] = max(last, self._sequences.get(name, 0))
        self._keep_clients()

    def sequences(self, names: Sequence[ClientId]) -> list[int]:
        """Return the last number that publishers of these names have used before, 0 for none."""
        return [self._sequences.get(name, 0) for name in names]

    def relocate(
        self,
        kind: str,
        name: ClientId,
        broker: BrokerId,
        dead: Mapping[BrokerId, Any],
        away: Sequence[BrokerId],
        wanted: BrokerId | None = None,
        near: Tiers | None = None,
    ) -> tuple[BrokerId, Any] | None:
        """Give a client that leaves its broker another: of the same cluster, the highest id first, else of any.

        Parameters
        ----------
        kind, name
            The client.
        broker
            Where it was.
        dead
            Brokers that are dead, as the client saw, and which actor that was; nobody is sent to them until they are
            started again.
        away
            Brokers that it could not reach.
        wanted
            Where it wants to go.
        near
            The brokers by nearness to the client: it goes to one of the nearest, the one with the fewest clients,
            whatever its cluster; with no tiers, to the one with the fewest of all.

        Returns
        -------
        tuple of BrokerId and actor, or None
            None when no living broker is left but those that it could not reach.

        Raises
        ------
        BrokerUnavailable
            If all brokers are dead.
        """
        assert self._directory is not None, "a client came from somewhere"
        hosts = self._directory.hosts
        self._gone.update(other for other, host in dead.items() if hosts.get(other) == host)
        lost = {*away, *self._gone}
        if len(self._gone) == len(self._load):
            raise BrokerUnavailable("no broker of the network is left")
        if len(lost) == len(self._load):
            return None
        fellows = [member for member in self._directory.cluster_of(broker) if member not in lost]
        chosen = max(fellows) if fellows and near is None else self._choose(set(away), near)
        if wanted is not None and wanted not in lost:
            chosen = wanted
        place = self._clients.pop((kind, name), None)
        if place is not None:
            self._load[place[0]] -= 1
            self._put(kind, name, chosen, place[1])
        self._keep_clients()
        return chosen, hosts[chosen]

    # Clients whose name outlives their process, in a network that heals.

    def come_back(
        self, name: ClientId, broker: BrokerId | None, ticket: str, near: Tiers | None = None
    ) -> tuple[BrokerId, dict[str, Any]]:
        """Give a durable subscriber a broker, the one where it was if that lives, and its record in its new life.

        Raises
        ------
        BrokerUnavailable
            If no broker is left.
        """
        place = self._settle("subscriber", name, self.names.subscriber(name)["broker"], broker, ticket, near)
        return place, self.names.come(name, place, ticket)

    def publisher_comes_back(
        self, name: ClientId, broker: BrokerId | None, ticket: str, near: Tiers | None = None
    ) -> tuple[BrokerId, dict[BrokerId, Any], int]:
        """Give a publisher a broker; return it, the actors of those that may know of it, and its highest number."""
        homes, reserved = self.names.publisher(name)
        place = self._settle("publisher", name, homes[-1] if homes else None, broker, ticket, near)
        if not homes:
            self.names.home(name, place, True)
        return place, {home: self.host_of(home) for home in homes}, reserved

    def homes_of(self, name: ClientId) -> list[BrokerId]:
        """Return the brokers that may have accepted a publisher's last events."""
        return self.names.publisher(name)[0]

    def _settle(
        self,
        kind: str,
        name: ClientId,
        was: BrokerId | None,
        asked: BrokerId | None,
        ticket: str,
        near: Tiers | None,
    ) -> BrokerId:
        known = self._clients.pop((kind, name), None)
        if known is not None:
            self._load[known[0]] -= 1
        wish = was if was is not None else asked
        place = wish if wish in self._load and wish not in self._gone else self._choose(set(), near)
        self._put(kind, name, place, ticket)
        self._keep_clients()
        return place

    def renew(self, name: ClientId, life: int, broker: BrokerId) -> int:
        """See :meth:`LastingNames.renew`."""
        return self.names.renew(name, life, broker)

    def acknowledge(self, name: ClientId, life: int, position: dict[ClientId, int]) -> None:
        """See :meth:`LastingNames.acknowledge`."""
        self.names.acknowledge(name, life, position)

    def subscriptions(self, name: ClientId, life: int, record: dict[str, Any]) -> None:
        """See :meth:`LastingNames.subscriptions`."""
        self.names.subscriptions(name, life, record)

    def end_durable(self, name: ClientId, life: int) -> None:
        """See :meth:`LastingNames.end`."""
        self.names.end(name, life)

    def home_of_publisher(self, name: ClientId, broker: BrokerId, sole: bool) -> None:
        """See :meth:`LastingNames.home`."""
        self.names.home(name, broker, sole)

    def reserve(self, name: ClientId, number: int) -> int:
        """See :meth:`LastingNames.reserve`."""
        return self.names.reserve(name, number)

    def bury(self, dead: Mapping[BrokerId, Any]) -> None:
        """Take in that brokers are dead, as a client saw, and which actor that was: it may have come back since."""
        assert self._directory is not None, "a client came from somewhere"
        hosts = self._directory.hosts
        self._gone.update(broker for broker, host in dead.items() if hosts.get(broker) == host)
        self._keep_clients()

    # Brokers, in a network that heals.

    def host_of(self, broker: BrokerId) -> Any:
        """Return the actor of a broker, or None when there is no such broker."""
        return None if self._directory is None else self._directory.hosts.get(broker)

    def hosts(self) -> dict[BrokerId, Any]:
        """Return the actor of every broker as it is now."""
        return {} if self._directory is None else dict(self._directory.hosts)

    def identities(self, brokers: int, *, cluster: bool) -> tuple[list[BrokerId], ClusterId]:
        """Return ids for so many brokers that are about to come, and, if asked for, one for a cluster of theirs."""
        assert self._directory is not None, "who asks has its directory"
        places = self._directory.positions
        first = max([self._last[0], *(place.broker for place in places)]) + 1
        last_cluster = max([self._last[1], *(place.cluster for place in places)]) + cluster
        self._last = first + brokers - 1, last_cluster
        if self._store is not None:
            self._store.put("last", self._last)
        return list(range(first, first + brokers)), last_cluster

    def admit(self, places: Sequence[Position], hosts: Mapping[BrokerId, Any]) -> None:
        """Take note of brokers that have come."""
        assert self._directory is not None, "they have its directory"
        self._directory.hosts.update(hosts)
        for place in places:
            self._load.setdefault(place.broker, 0)
        others = [place for place in self._directory.positions if place.broker not in hosts]
        now = [*others, *places]
        if not claims_of(self._directory.scheme).flat:
            now = with_members(now, places[0].cluster, places[0].members)
        self._take_places(now)

    def retire(self, brokers: Sequence[BrokerId]) -> None:
        """Send no client to these any more: they are about to leave."""
        self._gone.update(brokers)
        self._keep_clients()

    def clients_at(self, brokers: Sequence[BrokerId]) -> int:
        """Return how many clients are at these."""
        return sum(self._load[broker] for broker in brokers)

    def forget(self, broker: BrokerId) -> None:
        """Take note that a broker has left."""
        assert self._directory is not None, "it was there before"
        self._directory.hosts.pop(broker, None)
        self._gone.add(broker)
        self._load.setdefault(broker, 0)
        rest = [place for place in self._directory.positions if place.broker != broker]
        cluster = next((place.cluster for place in self._directory.positions if place.broker == broker), None)
        left = [member for member in self._directory.cluster_of(broker) if member != broker]
        if cluster is not None and left:
            rest = with_members(rest, cluster, left)
        self._take_places(rest)
        self._keep_clients()

    def _take_places(self, places: Sequence[Position]) -> None:
        assert self._directory is not None
        ordered = tuple(sorted(places, key=lambda place: place.broker))
        self._directory = replace(self._directory, positions=ordered)
        if self._store is not None:
            self._store.put("directory", self._directory)

    def next_life(self, broker: BrokerId) -> int:
        """Return the number of the life that a broker begins now; one that is used by nobody is no harm."""
        self._lives[broker] = self._lives.get(broker, 0) + 1
        if self._store is not None:
            self._store.put("lives", self._lives)
        return self._lives[broker]

    def reborn(self, broker: BrokerId, host: Any) -> None:
        """Take note that a broker has been started again, in this actor."""
        assert self._directory is not None, "it was there before"
        self._directory.hosts[broker] = host
        self._gone.discard(broker)
        if self._store is not None:
            self._store.put("directory", self._directory)
        self._keep_clients()

    def receive(self, source: BrokerId, messages: Sequence[RecoveryMessage]) -> None:
        """Take messages from a broker and answer it."""
        if self._machine is None or self._directory is None:
            return
        before = self._machine.state()
        answers: list[Send] = []
        for message in messages:
            answers += self._machine.handle(Ticked(self._clock()))
            answers += self._machine.handle(Received(source, message))
        if self._store is not None and (state := self._machine.state()) != before:
            self._store.put("root", state)
        for answer in answers:
            if answer.to not in self._directory.hosts:
                continue
            # Not waited for: who asks and hears nothing asks again.
            self._directory.hosts[answer.to].receive.remote(answer.to, RENDEZVOUS, [answer.message])

    def pid(self) -> int:
        """Return the id of the process that this is."""
        return os.getpid()


def lasting_clock() -> Callable[[], float]:
    """Return a clock that goes on over a restart, also elsewhere: the wall clock as it is now, and monotone since."""
    zero = time.time() - time.monotonic()
    return lambda: zero + time.monotonic()


def with_members(
    positions: Iterable[Position], cluster: ClusterId, members: Iterable[BrokerId]
) -> list[Position]:
    """Return the places with a cluster that has these members from now on."""
    now = tuple(sorted(members))
    return [
        replace(place, members=now, designated=place.designated if place.designated in now else now[-1])
        if place.cluster == cluster
        else place
        for place in positions
    ]
