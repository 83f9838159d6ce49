"""The rendezvous point: the one address that every process knows (paper 1, section 2: RP).

It knows the root, the actor of every broker, and the clients, so that a process that knows the network's name can
attach to it. It takes no part in routing, so its placement does not matter.

`clients.places` decides to which broker a client goes. In a network that heals, the rendezvous point also
decides which broker is root (`recovery.membership.root_registry`), and the number from which a publisher resumes
whose name was used before.

If the network heals or its brokers have stores, the rendezvous point stores its state before it answers, so it
resumes after its process dies and Ray restarts it. Every method is safe to repeat with the same arguments, because
Ray repeats calls that were in flight when the process died. If both hold, the rendezvous point may also resume
where an earlier network ended (`resume_from_store`). What hosts tell it by themselves is not
repeated by Ray: they say it again anyway, and of a call that is in flight when the network ends Ray would print that
it will be tried again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import uuid4

import ray

from ...broker import rendezvous_of, start_of
from ...clients.places import NOBODY, Former, Owner, Places, Tiers
from ...protocol.configs import Position
from ...protocol.effects import Received, Send, Ticked
from ...protocol.errors import BrokerUnavailable
from ...protocol.ids import BrokerId, ClientId, ClusterId
from ...protocol.messages.recovery import RENDEZVOUS, RecoveryMessage
from ...recovery.membership.root_registry import RendezvousMachine
from ...recovery.membership.view_registry import ViewRendezvous
from ...recovery.replay.repeats import Answer, NumbersRequest, Repeats
from ...routing.schemes.claims import Membership
from ...routing.schemes.registry import scheme as scheme_of
from ..host.handle import HostHandle
from ..parts import of
from .directory import Directory as Directory
from .game_days import GameDays, Note
from .names import SEQUENCE, LastingNames
from .remains import LaunchWatch
from .resume_from_store import Earlier, alive_at, carried_over, earlier_of, note_seconds, written_of
from .store import BORN, CLIENTS, DIRECTORY, GAME_DAY, ROOT, RendezvousStore

KEYS: Final = "keys"
"""Calls about keys have a thread of their own: they write nothing, so they need not wait for writes."""

START_SECONDS: Final = 60.0
"""How long other processes that want to restart the same brokers wait for the one that does; it may have died
meanwhile."""


class Placed(NamedTuple):
    """The brokers of clients that attach, and who had some of their names before, with the actor of its broker."""

    brokers: list[BrokerId]
    former: dict[ClientId, tuple[Former, Any]]


class Rendezvous:
    """Holds the directory of one network and places its clients.

    Parameters
    ----------
    store
        Where it stores what must outlive it, and finds it after a restart; None for a network that neither heals
        nor has stores.
    clock
        Returns the time, and continues across a restart; `lasting_clock` when None.
    name, launcher_seconds
        The network, and how long its launcher may be silent before the network ends if it is not open yet; None
        watches nothing.
    """

    def __init__(
        self,
        store: RendezvousStore | None = None,
        clock: Callable[[], float] | None = None,
        name: str = "",
        launcher_seconds: float | None = None,
    ) -> None:
        self._store = store
        self._clock = clock or lasting_clock()
        self._directory: Directory | None = None
        self._machine: RendezvousMachine | ViewRendezvous | None = None
        self._places = Places()
        self._sequences: dict[ClientId, int] = {}
        self._last: tuple[BrokerId, ClusterId] = (-1, -1)  # the highest ids given to new brokers
        self._incarnations: dict[BrokerId, int] = {}  # of restarted brokers: the last incarnation given out
        self._born: dict[BrokerId, int] = {}  # the incarnation in which each registered
        self._starting: dict[BrokerId, tuple[str, float]] = {}  # which process restarts it, and since when
        self._repeats = Repeats()
        self._game_days = GameDays()
        self._lost_at: dict[BrokerId, float] = {}  # when a client first saw each of these brokers dead
        self._edition = uuid4().hex  # names the actors of all brokers as they are now
        self._noted = float("-inf")  # when it was last noted that the network is alive
        if store is not None:
            store.keep(self._copied)
            self.names = LastingNames(store)
            directory = store.get(DIRECTORY)
            if directory is not None:
                self._begin(directory)
        watched = launcher_seconds is not None and self._directory is None
        self._watch = LaunchWatch(name, launcher_seconds) if watched and launcher_seconds else None

    def _begin(self, directory: Directory) -> None:
        """Take the directory, and read the rest of the state from the store."""
        self._directory = directory
        self._hosts_change()
        # If a publisher and a subscriber both number their messages to a broker under their names, the names must
        # differ.
        one_name_each = directory.features.numbers and directory.features.admits
        brokers = (position.broker for position in directory.positions)
        self._places = Places(brokers, one_name_each=one_name_each)
        if directory.features.heals:
            self._machine = rendezvous_of(
                directory.features.times, start_of(directory.positions, directory.scheme)
            )
        if self._store is not None:
            self._recall(self._store)
        if self._machine is not None:
            self._machine.handle(Ticked(self._now()))

    def _recall(self, store: RendezvousStore) -> None:
        places, self._sequences = store.get(CLIENTS) or (({}, set(), {}), {})
        self._places.restore(places)
        self._last = store.get("last") or self._last
        self._incarnations = store.get("lives") or {}
        self._born = store.get(BORN) or {}
        self._game_days.resume(store.get(GAME_DAY) or "", self._now())
        state = store.get(ROOT)
        if state is not None and self._machine is not None:
            self._machine.restore(state)

    def _now(self) -> float:
        """Return the network's time."""
        return self._clock() - (0.0 if self._directory is None else self._directory.still_seconds)

    def _keep_clients(self) -> None:
        if self._store is not None:
            self._store.put(CLIENTS, (self._places.state(), self._sequences))

    def _keep_directory(self) -> None:
        if self._store is not None and self._directory is not None:
            self._store.write({DIRECTORY: self._directory}, written_of(self._directory))

    def _copied(self) -> dict[str, Any]:
        """Return what only the copy holds; on any thread."""
        directory = self._directory
        if directory is None or not directory.features.heals:
            return {}
        numbers = {f"{SEQUENCE}{name}": number for name, number in self._sequences.copy().items()}
        return {**written_of(directory), **alive_at(self._clock(), directory.features.times), **numbers}

    def _note_incarnation(self) -> None:
        """Note from time to time that the network is alive."""
        now, directory = self._clock(), self._directory
        if self._store is None or directory is None or not directory.features.heals:
            return
        if now - self._noted >= note_seconds(directory.features.times):
            self._noted = now
            self._store.note(alive_at(now, directory.features.times))

    def earlier(self, wanted: Mapping[str, Any]) -> Earlier | None:
        """Return the network that the stores belong to; None if they are new. `wanted` is the result of `made_of`.

        Raises
        ------
        InputError
            If the earlier network had other settings.
        StorageFailed
            If the stores cannot be read, or that network still runs.
        """
        return None if self._store is None else earlier_of(self._store.earlier(), wanted, self._clock())

    def open(
        self,
        directory: Directory,
        earlier: Earlier | None = None,
        accepted: Mapping[ClientId, int] | None = None,
    ) -> None:
        """Take the directory; from now on processes can attach.

        Parameters
        ----------
        directory
            The network's directory.
        earlier, accepted
            The network that this one resumes, and the last numbers of publishers, as its brokers know them.
        """
        if self._store is not None and self._directory is None:  # else: repeated after a restart
            stored, copied = dict[str, Any](), dict[str, Any]()
            if earlier is not None:
                stored, copied = carried_over(self._store.earlier(), earlier, accepted or {})
            features = directory.features
            begun = alive_at(self._clock(), features.times) if features.heals else {}
            self._store.write(stored, copied | written_of(directory) | begun)
            # Stored last: a restarted rendezvous point that finds the directory finds everything else.
            self._store.put(DIRECTORY, directory)
        self._begin(directory)
        if self._watch is not None:
            self._watch.done()

    def launching(self) -> None:
        """Note that the launcher of the network lives; in the group KEYS, since the launch may be a long call."""
        if self._watch is not None:
            self._watch.beat()

    def directory(self) -> Directory | None:
        """Return the directory, or None while the network is being launched."""
        return self._directory

    # Clients.

    def place(
        self,
        kind: str,
        names: Sequence[ClientId],
        broker: BrokerId | None,
        ticket: str = "",
        near: Tiers | None = None,
        owner: Owner = NOBODY,
        take_over: bool = False,
    ) -> Placed:
        """Give each client a broker; see :meth:`Places.attach`. Also return who had a name before."""
        now = self._now()
        brokers = self._places.attach(kind, names, broker, ticket, near, owner, take_over=take_over, now=now)
        self._keep_clients()
        return Placed(brokers, self._former(kind, names))

    def _former(self, kind: str, names: Sequence[ClientId]) -> dict[ClientId, tuple[Former, Any]]:
        """Return the former holders of names, each with the actor of its broker."""
        found = self._places.former(kind, names)
        return {name: (former, self.host_of(former.broker)) for name, former in found.items()}

    def leave(
        self,
        kind: str,
        names: Mapping[ClientId, str],
        sequences: Mapping[ClientId, int] | None = None,
    ) -> None:
        """Detach clients, each with the ticket of the call that attached it, unless their names were taken over.

        `sequences` has the last number that each publisher used.
        """
        for name, ticket in names.items():
            self._places.leave(kind, name, ticket)
            self._places.left(ticket)
        for name, last in (sequences or {}).items():
            self._sequences[name] = max(last, self._sequences.get(name, 0))
        self._keep_clients()
        if self._store is not None and sequences:
            self._store.write({}, {f"{SEQUENCE}{name}": self._sequences[name] for name in sequences})

    @ray.method(max_task_retries=0)  # type: ignore[untyped-decorator]
    def hear(self, brokers: Sequence[BrokerId], sessions: Sequence[str]) -> None:
        """Free the names of clients of dead processes.

        Parameters
        ----------
        brokers, sessions
            The brokers of a host that has run for longer than a session lasts, and the processes of clients that it
            has heard within that time.
        """
        directory = self._directory
        if directory is None:
            return
        seconds, now = directory.limits.session_seconds, self._now()
        freed = self._places.hear(brokers, sessions, now - seconds)
        lost = [broker for broker, since in self._lost_at.items() if now - since > seconds]
        freed += self._places.hear(lost, (), now - seconds)  # clients that were alive have gone elsewhere
        if freed:
            self._keep_clients()

    def sequences(self, names: Sequence[ClientId]) -> list[int]:
        """Return the last number that a publisher of each name has used before; 0 if there was none."""
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
        ticket: str = "",
    ) -> tuple[BrokerId, Any] | None:
        """Give a client that leaves `broker` another broker, with its actor; see :meth:`Places.relocate`.

        `dead` maps brokers that the client saw die to their actors. No client is sent to these brokers until they
        are restarted.
        """
        directory = self._lose(dead)
        members = directory.cluster_of(broker)
        chosen = self._places.relocate(kind, name, members, away, wanted, near, ticket, self._now())
        self._keep_clients()
        return None if chosen is None else (chosen, directory.hosts[chosen])

    def _lose(self, dead: Mapping[BrokerId, Any]) -> Directory:
        """Record that brokers are dead, if these actors are still theirs."""
        assert self._directory is not None, "a client came from somewhere"
        hosts = self._directory.hosts
        lost = [broker for broker, host in dead.items() if hosts.get(broker) == host]
        self._places.lose(lost)
        self._lost_at = dict.fromkeys(lost, self._now()) | self._lost_at
        return self._directory

    # Clients whose names outlive their processes, in a network that heals.

    def reattach(
        self,
        name: ClientId,
        broker: BrokerId | None,
        ticket: str,
        near: Tiers | None = None,
        owner: Owner = NOBODY,
    ) -> tuple[BrokerId, dict[str, Any], dict[ClientId, tuple[Former, Any]]]:
        """Give a durable subscriber a broker, its previous one if that is alive, and its record in its new incarnation.

        Also return who had the name before.

        Raises
        ------
        InputError
            If there never was such a broker.
        BrokerUnavailable
            If no broker is left.
        """
        self._places.require_known(broker)
        was = self.names.subscriber(name)["broker"]
        place = self._settle("subscriber", name, broker if was is None else was, ticket, near, owner)
        return place, self.names.come(name, place, ticket), self._former("subscriber", [name])

    def reattach_publisher(
        self,
        name: ClientId,
        broker: BrokerId | None,
        ticket: str,
        near: Tiers | None = None,
        owner: Owner = NOBODY,
    ) -> tuple[BrokerId, dict[BrokerId, Any], int, dict[ClientId, tuple[Former, Any]]]:
        """Give a publisher a broker; return it, the actors of its previous brokers, and its highest number.

        The previous brokers are those that may have accepted its last events. Also return who had the name before.
        It raises the errors of :meth:`reattach`.
        """
        self._places.require_known(broker)
        homes, reserved = self.names.publisher(name)
        place = self._settle("publisher", name, homes[-1] if homes else broker, ticket, near, owner)
        if not homes:
            self.names.home(name, place, True)
        known = {home: self.host_of(home) for home in homes}
        return place, known, reserved, self._former("publisher", [name])

    def homes_of(self, name: ClientId) -> list[BrokerId]:
        """Return the brokers that may have accepted a publisher's last events."""
        return self.names.publisher(name)[0]

    def _settle(
        self,
        kind: str,
        name: ClientId,
        wanted: BrokerId | None,
        ticket: str,
        near: Tiers | None,
        owner: Owner,
    ) -> BrokerId:
        place = self._places.reattach(kind, name, wanted, ticket, near, owner, self._now())
        self._keep_clients()
        return place

    renew = of("names", LastingNames.renew)
    acknowledge = of("names", LastingNames.acknowledge)
    subscriptions = of("names", LastingNames.subscriptions)
    rewind = of("names", LastingNames.rewind)
    end_durable = of("names", LastingNames.end)
    durables_seen = of("names", LastingNames.seen)
    home_of_publisher = of("names", LastingNames.home)
    reserve = of("names", LastingNames.reserve)

    # Events that clients of gateways publish under a key; all these calls are in the group KEYS.

    def claim(
        self, owner: str, publisher: ClientId, last: int, requests: Sequence[NumbersRequest]
    ) -> tuple[list[Answer], float]:
        """Claim keys for events that are about to be published; see :meth:`Repeats.claim`. Also return the time."""
        now = self._now()
        return self._repeats.claim(owner, publisher, last, requests, now), now

    def settle(self, owner: str, keys: Sequence[str], publisher: ClientId, *, accepted: bool) -> None:
        """Record the outcome of a publication; see :meth:`Repeats.settle`."""
        self._repeats.settle(owner, keys, publisher, accepted=accepted)

    def withdraw(self, owner: str, publisher: ClientId, last: int) -> None:
        """Record what was not published; see :meth:`Repeats.withdraw`."""
        self._repeats.withdraw(owner, publisher, last)

    def bury(self, dead: Mapping[BrokerId, Any]) -> None:
        """Record that brokers are dead, as a client saw, with their actors: a broker may have been restarted since."""
        self._lose(dead)
        self._keep_clients()

    # Brokers, in a network that heals.

    def host_of(self, broker: BrokerId) -> Any:
        """Return the actor of a broker, or None if there is no such broker."""
        return None if self._directory is None else self._directory.hosts.get(broker)

    def whereabouts(self, broker: BrokerId) -> tuple[Any, int] | None:
        """Return the actor of a broker and its incarnation there; None if there is no such broker."""
        host = self.host_of(broker)
        return None if host is None else (host, self._born.get(broker, 0))

    def hosts(self) -> dict[BrokerId, Any]:
        """Return the current actor of every broker."""
        return {} if self._directory is None else dict(self._directory.hosts)

    def hosts_since(self, edition: str) -> tuple[str, dict[BrokerId, Any]] | None:
        """Return the current actor of every broker, and what names this answer; None if `edition` names it already."""
        return None if edition == self._edition else (self._edition, self.hosts())

    def _hosts_change(self) -> None:
        """Note that some broker has another actor now, or that there are other brokers."""
        self._edition = uuid4().hex

    def identities(self, brokers: int, *, cluster: bool) -> tuple[list[BrokerId], ClusterId]:
        """Return ids for so many brokers that are about to join, and, if `cluster`, a new id for their cluster."""
        assert self._directory is not None, "who asks has its directory"
        places = self._directory.positions
        first = max([self._last[0], *(place.broker for place in places)]) + 1
        last_cluster = max([self._last[1], *(place.cluster for place in places)]) + cluster
        self._give_out(first + brokers - 1, last_cluster)
        return list(range(first, first + brokers)), last_cluster

    def _give_out(self, broker: BrokerId, cluster: ClusterId) -> None:
        """Record that ids up to these are not given to new brokers any more."""
        last = max(self._last[0], broker), max(self._last[1], cluster)
        if last != self._last and self._store is not None:
            self._store.put("last", last)
        self._last = last

    def admit(self, places: Sequence[Position], hosts: Mapping[BrokerId, Any]) -> None:
        """Record brokers that have joined."""
        assert self._directory is not None, "they have its directory"
        self._directory.hosts.update(hosts)
        self._hosts_change()
        self._places.add(place.broker for place in places)
        others = [place for place in self._directory.positions if place.broker not in hosts]
        now = [*others, *places]
        if scheme_of(self._directory.scheme).membership is not Membership.NODES:
            cluster = places[0].cluster  # other brokers may have joined it since these positions were made
            now = with_members(now, cluster, [place.broker for place in now if place.cluster == cluster])
        self._take_places(now)

    def retire(self, brokers: Sequence[BrokerId]) -> None:
        """Send no more clients to these brokers: they are about to leave."""
        self._places.lose(brokers)
        self._keep_clients()

    def let_leave(self, brokers: Sequence[BrokerId], living: Sequence[BrokerId]) -> bool:
        """Retire brokers that are to leave; return False, and do nothing, if no other of the living would stay.

        It is decided here since this is one place: of two operators, each may leave the broker that the other removes.
        """
        if not set(living).difference(brokers, self._places.gone):
            return False
        self.retire(brokers)
        return True

    def clients_at(self, brokers: Sequence[BrokerId]) -> int:
        """Return how many clients are at these brokers."""
        return self._places.clients_at(brokers)

    def trustee_of(self, broker: BrokerId, living: Sequence[BrokerId]) -> BrokerId | None:
        """Return who of the living takes over what a leaving broker retains: one of its cluster, if it stays."""
        assert self._directory is not None, "it was there before"
        near = self._directory.cluster_of(broker)
        staying = [each for each in living if each != broker and each not in self._places.gone]
        return min(staying, key=lambda each: (each not in near, each), default=None)

    def handed_over(self, broker: BrokerId, trustee: BrokerId) -> None:
        """Record that the trustee of a leaving broker holds its durable subscribers."""
        self.names.inherit_subscribers(broker, trustee)

    def forget(self, broker: BrokerId, trustee: BrokerId | None = None) -> None:
        """Record that a broker has left, and that its trustee knows what it had accepted."""
        assert self._directory is not None, "it was there before"
        if trustee is not None:
            self.names.inherit(broker, trustee)
        self._directory.hosts.pop(broker, None)
        self._hosts_change()
        self._places.lose([broker])
        rest = [place for place in self._directory.positions if place.broker != broker]
        cluster = next((place.cluster for place in self._directory.positions if place.broker == broker), None)
        self._give_out(broker, -1 if cluster is None else cluster)
        left = [member for member in self._directory.cluster_of(broker) if member != broker]
        if cluster is not None and left:
            rest = with_members(rest, cluster, left)
        self._take_places(rest)
        self._keep_clients()

    def _take_places(self, places: Sequence[Position]) -> None:
        assert self._directory is not None
        ordered = tuple(sorted(places, key=lambda place: place.broker))
        self._directory = replace(self._directory, positions=ordered)
        self._keep_directory()

    def next_incarnation(self, *brokers: BrokerId) -> int:
        """Return the number of the incarnation that brokers begin now; an unused number is harmless."""
        incarnation = 1 + max(self._incarnations.get(broker, 0) for broker in brokers)
        self._incarnations.update(dict.fromkeys(brokers, incarnation))
        if self._store is not None:
            self._store.put("lives", self._incarnations)
        return incarnation

    def start_again(self, brokers: Sequence[BrokerId], dead: Any, by: str) -> int:
        """Return the incarnation in which a process may restart brokers.

        Other processes may not restart them until this one has, gives up, or has taken longer than `START_SECONDS`.

        Parameters
        ----------
        brokers
            The brokers to restart.
        dead
            The actor that they were in, which the process saw die.
        by
            A name for this attempt of the process.

        Raises
        ------
        BrokerUnavailable
            If another process has restarted one of them since, or has recently begun to.
        """
        now = self._now()
        for broker in brokers:
            other, since = self._starting.get(broker, (by, now))
            if self.host_of(broker) != dead or (other != by and now - since < START_SECONDS):
                raise BrokerUnavailable(f"broker {broker} is started again by another process, or has been")
        self._starting.update(dict.fromkeys(brokers, (by, now)))
        return self.next_incarnation(*brokers)

    def give_up(self, by: str) -> None:
        """Record that a process does not restart brokers after all."""
        self._starting = {broker: entry for broker, entry in self._starting.items() if entry[0] != by}

    def reborn(self, broker: BrokerId, host: Any, incarnation: int) -> None:
        """Record that a broker has been restarted, in this actor and incarnation.

        Raises
        ------
        BrokerUnavailable
            If another process has been given a later incarnation for it.
        """
        assert self._directory is not None, "it was there before"
        if incarnation < self._incarnations.get(broker, 0):
            raise BrokerUnavailable(f"broker {broker} is started again by another process")
        self._starting.pop(broker, None)
        self._lost_at.pop(broker, None)
        self._directory.hosts[broker], self._born[broker] = host, incarnation
        self._hosts_change()
        self._places.found(broker)
        self._keep_directory()
        if self._store is not None:
            self._store.put(BORN, self._born)
        self._keep_clients()

    # Game days.

    def game_day(self, holder: str, notes: Sequence[Note], *, ends: bool = False) -> str:
        """Take what a game day says; return who else has one, or "". See :meth:`GameDays.claim`."""
        before = self._game_days.holder
        other = self._game_days.claim(holder, notes, self._now(), ends=ends)
        if self._store is not None and self._game_days.holder != before:
            self._store.put(GAME_DAY, self._game_days.holder)
        return other

    def notes(self) -> tuple[Note, ...]:
        """Return what game days have said of late, oldest first."""
        return self._game_days.notes()

    @ray.method(max_task_retries=0)  # type: ignore[untyped-decorator]
    def receive(self, source: BrokerId, messages: Sequence[RecoveryMessage]) -> None:
        """Handle messages from a broker and answer it."""
        if self._machine is None or self._directory is None:
            return
        before = self._machine.state()
        answers: list[Send] = []
        for message in messages:
            answers += self._machine.handle(Ticked(self._now()))
            answers += self._machine.handle(Received(source, message))
        if self._store is not None and (state := self._machine.state()) != before:
            self._store.put(ROOT, state)
            self._store.note({ROOT: state})
        self._note_incarnation()
        for answer in answers:
            if answer.to not in self._directory.hosts:
                continue
            # Not waited for: a broker that gets no answer asks again.
            HostHandle(self._directory.hosts[answer.to]).tell(answer.to, RENDEZVOUS, [answer.message])

    def end(self) -> None:
        """End for good, once everything is written."""
        if self._store is not None:
            self._store.close()
        ray.actor.exit_actor()

    def pid(self) -> int:
        """Return the id of this process."""
        return os.getpid()


def lasting_clock() -> Callable[[], float]:
    """Return a clock that continues across a restart, also elsewhere: the current wall clock, monotonic from now on."""
    zero = time.time() - time.monotonic()
    return lambda: zero + time.monotonic()


def with_members(
    positions: Iterable[Position], cluster: ClusterId, members: Iterable[BrokerId]
) -> list[Position]:
    """Return the positions, where this cluster has these members from now on."""
    now = tuple(sorted(members))
    return [
        replace(place, members=now, designated=place.designated if place.designated in now else now[-1])
        if place.cluster == cluster
        else place
        for place in positions
    ]
