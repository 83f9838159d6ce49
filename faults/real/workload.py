"""The clients of a run on Ray: each carries out its actions in a thread of its own, and everything is recorded.

Rules
-----
* A client carries out one action after the other, each not before its time; a long action delays the following
  ones.
* A subscription counts as confirmed when `subscribe` has returned, an event as published when `publish` was called.
* A client whose process is killed dies at its time, whatever it is doing. It returns at its time, or as soon after
  as it can; actions that it missed are skipped.
* A durable subscriber acknowledges what it has heard after a delay.
* A client whose first broker takes no clients any more, since it leaves, begins at any other, as a user's would.
* Any other failed call is a finding: in a network that heals in time no call fails.
* With admission control a publisher advertises before it first publishes, as in the simulator, and again in each
  later life. A refused subscription counts as cancelled, and never existed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import ray

from ...actors.clients.publisher import Publisher
from ...actors.clients.subscriber import Subscriber
from ...actors.network.network import Network
from ...protocol.batch import EventBatch
from ...protocol.errors import BrokerUnavailable, InputError, RayvousError, SubscriptionRejected
from ...protocol.features import Features
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import Recovery
from ...protocol.traces.account import Account
from ...routing.language.questions import to_filter
from ..checker.books import Clients
from ..plans.cases import Action, DrawnAdvertisement, publishes
from .killable_clients import KillableClients, ProcessIsDead, Spares, arrived, state_of

LISTEN_SECONDS: Final = 0.05
ACKNOWLEDGE_SECONDS: Final = 0.3
"""The delay after which a durable subscriber acknowledges a notification."""

Client: TypeAlias = Publisher | Subscriber | KillableClients


class RunningWorkload:
    """All clients of a run.

    Parameters
    ----------
    net
        The network.
    clock
        Returns the seconds of the run.
    zero
        When the clock was 0, in seconds since 1970.
    finding
        Called with a sentence for each call that failed.
    say
        Called with a sentence for each client that died or returned.
    silent
        Returns the brokers that would not answer now.
    durable
        The durable subscribers.
    deaths
        How often each client dies whose process is killed.
    recovery, stable
        How much brokers retain, and whether they have stores.
    adverts, priorities
        With admission control: the advertisement of each publisher, and the priority of each subscriber, by default
        0.

    Attributes
    ----------
    account
        The actions and notifications of clients.
    admitted, refused
        The number of admitted and refused subscriptions; without admission control all are admitted.
    """

    def __init__(
        self,
        net: Network,
        clock: Callable[[], float],
        zero: float,
        finding: Callable[[str], None],
        *,
        say: Callable[[str], None],
        silent: Callable[[], Collection[BrokerId]],
        durable: Collection[str] = (),
        deaths: Mapping[str, int] = MappingProxyType({}),
        recovery: Recovery | None = None,
        stable: bool = False,
        adverts: Mapping[str, DrawnAdvertisement] = MappingProxyType({}),
        priorities: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.account = Account(Features(recovery, stable))
        self.admitted = self.refused = 0
        self._adverts = adverts
        self._advertised: set[str] = set()
        self._priorities = priorities
        self._net = net
        self._clock = clock
        self._zero = zero
        self._finding = finding
        self._say = say
        self._silent = silent
        self._durable = durable
        self._mortal = frozenset(deaths)
        self._spares = Spares(net.name, sum(deaths.values()) + len(deaths))
        self._clients: dict[str, Client] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._cancelled: dict[str, set[int]] = {}
        self._waiting: set[str] = set()  # clients that are due to return
        self._told: dict[str, int] = {}  # how many losses a subscriber had been told of
        self._heard_at: dict[
            str, float
        ] = {}  # since when a durable subscriber has unacknowledged notifications
        self._turn = threading.Lock()
        self._listening = threading.Lock()
        self._ended = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def moves(self) -> int:
        """How often a client has changed its broker."""
        return sum(client.moves for client in self._clients.values())

    def play(self, actions: Sequence[Action], start: float) -> list[threading.Thread]:
        """Start these actions, counted from `start`; return the threads, one per client, and one for deaths."""
        by_client: dict[str, list[Action]] = {}
        for action in actions:
            if action.client not in self._clients:
                self._clients[action.client] = self._attach(action)
            if action.do != "stop":
                by_client.setdefault(action.client, []).append(action)
        threads = [
            threading.Thread(target=self._do_all, args=(mine, start), daemon=True, name=client)
            for client, mine in by_client.items()
        ]
        deaths = [action for action in actions if action.do == "stop"]
        threads.append(
            threading.Thread(target=self._kill_all, args=(deaths, start), daemon=True, name="death")
        )
        for thread in threads:
            thread.start()
        return threads

    def _attach(self, action: Action) -> Client:
        name = action.client  # its first action may be a move
        if name in self._durable:
            self.account.durable(self._clock(), name)
        if name in self._mortal:
            mortal = KillableClients(name, action.broker, publishes(name), self._spares)
            mortal.start()
            return mortal
        try:
            return self._attach_at(name, action.broker)
        except BrokerUnavailable:  # it has left, or takes no more clients since it is about to
            return self._attach_at(name, None)

    def _attach_at(self, name: str, broker: BrokerId | None) -> Publisher | Subscriber:
        if not publishes(name):
            return self._net.subscriber(name, broker=broker, durable=name in self._durable)
        publisher = self._net.publisher(name, broker=broker)
        publisher.on_accepted = lambda at, batch: self._accepted(time.time(), at, batch)
        return publisher

    def _accepted(self, at_seconds: float, broker: BrokerId, batch: EventBatch) -> None:
        with self._turn:
            self.account.accepted(at_seconds - self._zero, broker, batch)

    def _advertise(self, name: str, client: Client) -> None:
        advert = self._adverts.get(name)
        if advert is not None:
            self._advertised.add(name)
            _call(client, "advertise", advert.selector, max_rate=advert.rate)

    def go_to(self, brokers: Sequence[BrokerId]) -> None:
        """Let one client of this process in four move to new brokers."""
        for place, (name, client) in enumerate(sorted(self._clients.items())):
            if place % 4 == 0 and not isinstance(client, KillableClients):
                try:
                    client.move_to(brokers[place // 4 % len(brokers)])
                except RayvousError as error:
                    self._failed(name, "go to a new broker", error)

    def books(self) -> Clients:
        """Return the clients' side of the books, for the judge of the books of all brokers."""
        clients = Clients(refused=self.refused)
        for name, client in self._clients.items():
            home, wanted, lacking = (
                client.state() if isinstance(client, KillableClients) else state_of(client)
            )
            clients.homes[name] = home
            if name in self._advertised:
                clients.adverts[name] = to_filter(self._adverts[name].selector)
            elif name not in self._adverts:
                clients.wanted[name], clients.lacking[name] = wanted, lacking
        return clients

    def await_end(self, threads: Iterable[threading.Thread], seconds: float) -> None:
        """Wait until all actions are done; unfinished ones are findings."""
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._finding(f"{thread.name} hangs in a call")

    def close(self) -> None:
        """Record the remaining notifications, and stop listening; the second time does nothing."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._listener.join()
        self._hear_all()
        self._spares.close()

    # Actions of clients.

    def _do_all(self, actions: Sequence[Action], start: float) -> None:
        for action in actions:
            time.sleep(max(0.0, start + action.at_seconds - self._clock()))
            client = self._clients[action.client]
            try:
                if self._is_there(client, action):
                    self._do(action, client)
            except ProcessIsDead:
                continue
            except Exception as error:  # a thread that it ended would report nothing
                self._failed(action.client, action.do, error)

    def _failed(self, client: str, do: str, error: Exception) -> None:
        self._finding(f"{self._clock():.3f} s: {client} cannot {do}: {type(error).__name__}: {error}")

    def _is_there(self, client: Client, action: Action) -> bool:
        """Return whether a client can act, after its return if it is due."""
        if not isinstance(client, KillableClients):
            return True
        if action.do == "start" and not client.alive:
            self._waiting.add(client.name)
        if client.name in self._waiting and self._may_start(client):
            self._start(client)
        return client.alive and action.do != "start"

    def _do(self, action: Action, client: Client) -> None:
        name, now = action.client, self._clock
        if action.do == "move":
            self._move(client, action.broker)
        elif publishes(name):
            assert not isinstance(client, Subscriber)
            if name not in self._advertised:
                self._advertise(name, client)
            with self._turn:
                self.account.published(now(), name, client.published + 1, list(action.events))
            client.publish_batch(list(action.events))
        elif action.do == "subscribe":
            with self._turn:
                self.account.subscribed(now(), name, action.number, action.selector)
            try:
                priority = self._priorities.get(name, 0)
                given = _call(client, "subscribe", action.selector, priority=priority)
            except SubscriptionRejected:
                with self._turn:
                    self.refused += 1
                    self.account.cancelled(now(), name, action.number)
                return
            self._numbers[name, action.number] = given
            with self._turn:
                self.admitted += 1
                self.account.confirmed(now(), name, action.number)
        elif (number := self._numbers.get((name, action.number))) is not None:
            with self._turn:
                self.account.cancelled(now(), name, action.number)
            self._cancelled.setdefault(name, set()).add(number)
            _call(client, "unsubscribe", number)

    def _move(self, client: Client, broker: BrokerId) -> None:
        """Move a client to a broker; it stays where it is if that one has left the network."""
        try:
            _call(client, "move_to", broker)
        except InputError:
            if broker in self._net.inspect.brokers():
                raise

    def release(self, names: Iterable[str]) -> None:
        """Let publishers in this process leave the network."""
        for name in names:
            self._net.release(self._clients.pop(name))  # type: ignore[arg-type]

    def flush(self, seconds: float, names: Collection[str] | None = None) -> list[str]:
        """Let publishers flush, all if None; return, as sentences, those that got no answer in time."""
        unanswered = []
        for name, client in self._clients.items():
            if names is not None and name not in names:
                continue
            if isinstance(client, Publisher) or (isinstance(client, KillableClients) and client.publishes):
                try:
                    _call(client, "flush", timeout_seconds=seconds)
                except RayvousError as error:
                    unanswered.append(f"{name} was not told that all is delivered: {error}")
        return unanswered

    # Deaths and returns.

    def _kill_all(self, deaths: Sequence[Action], start: float) -> None:
        for action in deaths:
            time.sleep(max(0.0, start + action.at_seconds - self._clock()))
            client = self._clients[action.client]
            if isinstance(client, KillableClients) and client.kill():
                if client.publishes:
                    with self._turn:
                        self.account.died(self._clock(), client.name)
                self._say(f"client {client.name} is killed")

    def revive(self) -> None:
        """Restart all dead client processes; a publisher whose broker is dead for good goes elsewhere."""
        for client in self._clients.values():
            if isinstance(client, KillableClients) and not client.alive:
                try:
                    self._start(client)
                except RayvousError as error:
                    self._failed(client.name, "come back", error)

    def homeless(self) -> list[str]:
        """Return, as sentences, the clients in own processes that are not at a live broker."""
        living = set(self._net.inspect.hosts())
        mortals = [client for client in self._clients.values() if isinstance(client, KillableClients)]
        return [f"{client.name} has not moved yet" for client in mortals if client.host() not in living]

    def _may_start(self, client: KillableClients) -> bool:
        """Return whether all brokers answer that may have accepted a publisher's last events."""
        if not client.publishes:
            return True
        homes = ray.get(self._net.inspect.rendezvous.homes_of.remote(client.name))
        return not set(homes) & set(self._silent())

    def _start(self, client: KillableClients) -> None:
        """Restart a client, and record what its return reveals of its actions and notifications before."""
        self._waiting.discard(client.name)
        with self._listening:  # nothing that the dead process had heard is recorded after this
            if client.alive:
                return  # another thread was quicker
            used = client.published
            found = client.start()
            with self._turn:
                self._came_back(client, used, found)
        if client.name in self._advertised:
            self._advertise(client.name, client)
        self._say(f"client {client.name} is back")
        for number in self._cancelled.get(client.name, set()) & set(client.numbers()):
            client.call("unsubscribe", number)  # it died of it before that was recorded

    def _came_back(self, client: KillableClients, used: int, found: int | dict[str, int]) -> None:
        if not isinstance(found, int):
            self.account.rolled_back(client.name, found)
        elif found <= used:
            self.account.never_accepted(client.name, found)
            self.account.accepted_up_to(self._clock(), client.broker, client.name, found)
        else:
            known = self._net.inspect.accepted(client.name, without=self._silent())
            self.account.died_with_broker(self._clock(), client.name, known, self._silent())
            self._say(f"a broker of {client.name} is dead: what only that had above #{known} is lost")
        self.account.taken_back(self._clock(), client.name, client.held)

    # Notifications of clients.

    def _listen(self) -> None:
        while not self._ended.wait(LISTEN_SECONDS):
            self._hear_all()

    def _hear_all(self) -> None:
        for name, client in list(self._clients.items()):
            try:
                with self._listening:
                    self._hear(name, client)
            except ProcessIsDead:
                continue
            except Exception as error:
                self._failed(name, "listen", error)

    def _hear(self, name: str, client: Client) -> None:
        if isinstance(client, KillableClients):
            if not client.alive:
                return
            if client.publishes:
                for accepted in client.accepted():
                    self._accepted(*accepted)
                return
            heard, losses = client.hear()
        elif isinstance(client, Subscriber):
            heard, losses = arrived(client), client.losses[self._told.get(name, 0) :]
            self._told[name] = self._told.get(name, 0) + len(losses)
        else:
            return
        with self._turn:
            for received_at, publisher, sequence in heard:
                self.account.notified(received_at - self._zero, name, publisher, sequence)
            if losses:
                self.account.told(self._clock(), name, losses)
        if name in self._durable:
            self._acknowledge(name, client, bool(heard or losses))

    def _acknowledge(self, name: str, client: KillableClients | Subscriber, news: bool) -> None:
        now = self._clock()
        if news:
            self._heard_at.setdefault(name, now)
        if now - self._heard_at.get(name, now) >= ACKNOWLEDGE_SECONDS:
            del self._heard_at[name]
            _call(client, "acknowledge")


def _call(client: Client, method: str, *arguments: object, **options: object) -> Any:
    """Call a method of a client, wherever it is."""
    if isinstance(client, KillableClients):
        return client.call(method, *arguments, **options)
    return getattr(client, method)(*arguments, **options)
