"""One client for both hosts: on Ray and in virtual time clients say the same, and the same machines decide what.

The clients of Ray run against fakes of hosts, which answer everything at once; those of the simulator in small
networks. What they say to each broker is compared. Every public method of the machines must be called by both hosts;
a call counts if its caller is in `rayvous.actors` or `rayvous.simulator`, so calls of a machine to itself do not.

Reference: docs/decisions/0024-one-simulated-network.md.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from packed_calls import PackedCalls, rendezvous_that_sends_to
from patience import PATIENCE_SECONDS
from rayvous.actors.clients.client import Context
from rayvous.actors.clients.durable import DurableSubscriber
from rayvous.actors.clients.process import ClientProcess
from rayvous.actors.clients.publisher import Publisher
from rayvous.actors.clients.subscriber import Subscriber
from rayvous.actors.host import handle
from rayvous.actors.host.requests import Away, Lacking, Stored, WhoAnswers
from rayvous.actors.host.sessions import DeliveryBatch
from rayvous.actors.network.names import LastingNames
from rayvous.clients.beginnings import Beginning
from rayvous.clients.link import ClientLinks
from rayvous.clients.past import PastReader
from rayvous.clients.publisher import PublisherMachine
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.effects import Received
from rayvous.protocol.errors import InputError, NameTaken, SubscriptionRejected
from rayvous.protocol.features import Features
from rayvous.protocol.messages.admission import AdmissionConfig, Advertise, Capacity, Refusal, Unadvertise
from rayvous.protocol.messages.pubsub import (
    Ack,
    Answers,
    Back,
    Consumed,
    Detach,
    Events,
    Flush,
    HasConsumed,
    HasHad,
    HasPublished,
    Lost,
    Numbered,
    Register,
    Resume,
    TakenOver,
)
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.replay.history import History
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.network import Step
from rayvous.simulator.simulation import Simulation

HEALING = Recovery.for_simulator()
ADMISSION = AdmissionConfig(0.0, capacity=Capacity(1_000))

Said = dict[int, list[Any]]
"""What a client has said to each broker, in order."""


def shown(message: Any) -> Any:
    """Return what must be equal on both hosts: all but times and versions, and what a broker has answered."""
    match message:
        case Advertise():
            return "advertise", message.number, str(message.filter), message.rate, message.default
        case Unadvertise():
            return "unadvertise", message.number, message.version is not None
        case Events():
            return "events", message.batch.sequence.tolist(), message.retransmitted
        case Numbered():
            return "numbered", message.number, message.before, shown(message.message)
        case Register():
            return "register", message.subscription, str(message.filter), message.admitted
        case Resume():
            return "resume", dict(message.marks), message.incarnation, message.numbers, list(message.begins)
        case Consumed():
            return "consumed", dict(message.marks), message.incarnation
        case Flush():
            return "flush"
    return message


FAREWELLS = (Detach, TakenOver)
"""What is said to a broker that was left, in another order; in the simulator, also when a connection ends."""
BESIDE = (Ack, Back, Away, HasHad, HasConsumed, HasPublished, Stored, WhoAnswers, Lacking)
"""What depends on how a host connects, polls and reports."""


def compared(said: dict[int, list[Any]]) -> Said:
    """Return what was said to each broker, its farewells last."""
    out: Said = {}
    for broker, messages in said.items():
        wanted = [message for message in messages if not isinstance(message, BESIDE)]
        left = [each for each in wanted if isinstance(each, TakenOver) or _is_farewell(each)]
        others = [
            shown(each) for each in wanted if not isinstance(each, FAREWELLS) and not _is_farewell(each)
        ]
        out[broker] = [*others, *sorted(map(str, map(shown, left)))]
    return out


def _is_farewell(message: Any) -> bool:
    return isinstance(message, Unadvertise) and message.version is not None


# On Ray.


class Answer:
    """The answer to a call, which may be awaited or not."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __await__(self) -> Any:
        return self._make().__await__()


class Host(PackedCalls):
    """The actor of a broker, which answers at once and remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.deliveries: list[Any] = []
        self.refuses = False
        self.request = SimpleNamespace(remote=self._request)
        self.poll = SimpleNamespace(remote=self._poll)
        self.pid = SimpleNamespace(remote=lambda: asyncio.sleep(0))
        self.alive = SimpleNamespace(remote=lambda name: asyncio.sleep(0, []))
        self.end_session = SimpleNamespace(remote=lambda *_: None)

    def _request(self, broker: int, name: str, messages: Any, *more: Any) -> Any:
        self.said += messages
        return Answer(partial(self._answer, messages))

    async def _answer(self, messages: Any) -> Any:
        match messages[-1]:
            case Register() if self.refuses:
                raise SubscriptionRejected("no", (Refusal(1, "cpu", 1.0, 0.0),), 1)
            case Register():
                return {each.subscription: {} for each in messages if isinstance(each, Register)}
            case WhoAnswers():
                return {1: Answers(1, ())}
            case Lacking():
                return {1: (Refusal(1, "cpu", 1.0, 0.0),)}
            case Stored() | Numbered():
                return 0
        return None

    async def _poll(self, *_: Any) -> list[Any]:
        while not self.deliveries:
            await asyncio.sleep(0.01)
        found, self.deliveries = self.deliveries, []
        return found


def get(answer: Any, timeout: float) -> Any:
    """Replace `ray.get`."""

    async def wait() -> Any:
        return await answer

    return asyncio.run(asyncio.wait_for(wait(), timeout))


@contextmanager
def on_ray(
    kind: type[Any], *more: Any, stores: bool = False, admission: Any = None, history_seconds: float = 0.0
) -> Iterator[Any]:
    """Yield a client at broker 1; if it has to move, it is sent to broker 2."""
    first, second = Host(), Host()

    directory: Any = SimpleNamespace(
        hosts={1: first, 2: second},
        limits=Limits.for_tests(),
        features=Features(
            None
            if stores
            else Recovery.for_tests(
                client_patience_seconds=PATIENCE_SECONDS, history_seconds=history_seconds
            ),
            stores or history_seconds > 0,
            admission,
        ),
    )
    rendezvous = rendezvous_that_sends_to(2, second)
    process = ClientProcess("net", None if stores else PATIENCE_SECONDS, stores)
    try:
        client = kind("client", 1, Context(directory, process, rendezvous), *more)
        client.hosts = {1: first, 2: second}
        yield client
    finally:
        process.ending = True
        process.close()


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "ray", SimpleNamespace(get=get))

    async def stored(self: DurableSubscriber, *arguments: Any) -> None:
        pass

    monkeypatch.setattr(DurableSubscriber, "_ask_rendezvous", stored)
    monkeypatch.setattr(DurableSubscriber, "_store_position", stored)


def go_to_2(client: Any) -> None:
    client.process.submit(client.go_to(2)).result(PATIENCE_SECONDS)


def told(client: Any) -> Said:
    return compared({broker: host.said for broker, host in client.hosts.items()})


def delivered(client: Any, number: int = 1, note: int = 0, losses: Any = ()) -> None:
    """Let the client's host bring it the events 1 and 2 of bob, and report losses."""
    batch = batch_of([{"n": 1}, {"n": 2}], publisher="bob")
    rows = np.arange(2)
    delivery = DeliveryBatch(number, batch, (client.name,), np.array([0, 2]), rows, 1, note, (), last=True)
    deliveries = [delivery]
    if losses:
        nothing = np.zeros(0, np.intp)
        deliveries.append(
            DeliveryBatch(number + 1, batch, (client.name,), np.array([0, 0]), nothing, 1, 0, losses)
        )
    client.host.deliveries = deliveries
    assert len(list(client.notifications(0.2))) == 2


# In virtual time. Broker 1 is beside broker 2 there, too.


class Virtual:
    """A network in virtual time, and what its clients have said to each broker."""

    def __init__(self, **options: Any) -> None:
        self.said: dict[str, dict[int, list[Any]]] = {}
        self.net = Simulation(ClusterTree(1, 3), record=self._note, seed=1, **options)
        self.net.advance(5.0)

    def _note(self, step: Step) -> None:
        received = step.received
        if isinstance(received, Received) and isinstance(received.source, str):
            here = self.said.setdefault(received.source, {1: [], 2: []})
            here[step.broker.position.broker].append(received.message)

    def told(self, client: str = "client") -> Said:
        return compared(self.said[client])

    def do(self, act: Callable[..., object], *arguments: Any, **named: Any) -> None:
        """Do something, and give everybody the time to answer."""
        act(*arguments, **named)
        self.net.advance(3.0)


def in_virtual_time(*, stores: bool = False, **options: Any) -> Virtual:
    return Virtual(store=in_memory if stores else None, recovery=None if stores else HEALING, **options)


# What clients do, on Ray and in virtual time.

EVENTS = [{"n": 1}, {"n": 2}]


def a_publisher_on_ray() -> Said:
    with on_ray(Publisher, admission=ADMISSION) as bob:
        assert bob.advertise("n > 0", max_rate=50.0) == 1
        assert bob.advertise("n > 1", max_rate=50.0) == 2
        bob.publish_batch(EVENTS)
        bob.flush()
        bob.unadvertise(1)
        go_to_2(bob)
        bob.publish_batch([{"n": 3}])
        bob.say()
        bob.unadvertise(2)
        return told(bob)


def a_publisher_in_virtual_time() -> Said:
    world = in_virtual_time(admission=ADMISSION)
    net, do = world.net, world.do
    do(net.advertise, "client", 1, "n > 0", 50.0, 1)
    do(net.advertise, "client", 1, "n > 1", 50.0, 2)
    do(net.publish, "client", 1, EVENTS)
    do(net.flush, "client", 1)
    do(net.unadvertise, "client", 1)
    do(net.move, "client", 2)
    do(net.publish, "client", 2, [{"n": 3}])
    do(net.unadvertise, "client", 2)
    return world.told()


def a_numbered_publisher_on_ray() -> Said:
    with on_ray(Publisher, stores=True, admission=ADMISSION) as bob:
        bob.advertise("n > 0", max_rate=50.0)
        bob.publish_batch(EVENTS)
        bob.publish_batch([{"n": 3}])
        bob.unadvertise(1)
        return told(bob)


def a_numbered_publisher_in_virtual_time() -> Said:
    world = in_virtual_time(stores=True, admission=ADMISSION)
    net, do = world.net, world.do
    do(net.advertise, "client", 1, "n > 0", 50.0)
    do(net.publish, "client", 1, EVENTS)
    do(net.publish, "client", 1, [{"n": 3}])
    do(net.unadvertise, "client", 1)
    return world.told()


def a_subscriber_on_ray() -> Said:
    with on_ray(Subscriber) as alice:
        alice.subscribe("n > 0")
        alice.subscribe("n > 9")
        delivered(alice)
        alice.unsubscribe(2)
        go_to_2(alice)
        alice.subscribe("n > 5", local_first=True)
        alice.set_local_first(3, True)  # as it is
        alice.set_local_first(3, False)
        with pytest.raises(InputError, match="has no subscription 2"):
            alice.set_local_first(2, True)
        alice.say()
        return told(alice)


def a_subscriber_in_virtual_time() -> Said:
    world = in_virtual_time()
    net, do = world.net, world.do
    do(net.subscribe, "client", 1, "n > 0")
    do(net.subscribe, "client", 1, "n > 9")
    do(net.publish, "bob", 1, EVENTS)
    do(net.unsubscribe, "client", 2)
    do(net.move, "client", 2)
    do(net.subscribe, "client", 2, "n > 5", local_first=True)
    do(net.set_local_first, "client", 3, True)
    do(net.set_local_first, "client", 3, False)
    return world.told()


def a_durable_subscriber_on_ray() -> Said:
    record = SubscriberMachine(durable=True).record() | {"life": 1, "seen": 0.0}
    with on_ray(DurableSubscriber, record) as alice:
        alice.subscribe("n > 0")
        delivered(alice)
        alice.acknowledge()
        go_to_2(alice)
        return told(alice)


def a_durable_subscriber_in_virtual_time() -> Said:
    world = in_virtual_time()
    net, do = world.net, world.do
    do(net.subscribe, "client", 1, "n > 0", durable=True)
    do(net.publish, "bob", 1, EVENTS)
    do(net.move, "client", 2)
    return world.told()


SAME = {
    "a publisher": (a_publisher_on_ray, a_publisher_in_virtual_time),
    "a publisher of brokers that number": (a_numbered_publisher_on_ray, a_numbered_publisher_in_virtual_time),
    "a subscriber": (a_subscriber_on_ray, a_subscriber_in_virtual_time),
    "a durable subscriber": (a_durable_subscriber_on_ray, a_durable_subscriber_in_virtual_time),
}


@pytest.mark.parametrize("who", SAME)
def test_a_client_says_the_same_to_its_brokers_on_both_hosts(who: str) -> None:
    ray, virtual = SAME[who]
    said = ray()
    assert said == virtual() and sum(map(len, said.values())) >= 4


# Everything else that both hosts tell the machines.


def the_rest_on_ray() -> None:
    with on_ray(Subscriber) as alice:
        alice.subscribe("n > 0")
        delivered(alice, losses=(Lost("bob", 3, 4),))
        assert alice.losses == [Lost("bob", 3, 4)]
        assert list(alice.degraded()) == [1] and alice.answers(1) == Answers(1, ())
        alice.host.refuses = True
        with pytest.raises(SubscriptionRejected):
            alice.subscribe("n > 9")
        assert list(alice.subscriptions) == [1]
    with on_ray(Subscriber, stores=True) as alice:
        alice.subscribe("n > 0")
        delivered(alice, note=3)
        alice.host.deliveries = [
            DeliveryBatch(2, batch_of([{"n": 1}], publisher="bob"), ("client",), *_one(), 1, 3)
        ]
        assert not list(alice.notifications(0.2)), "it has come before"
    _begins_in_the_past()


class FromTheFirst(DurableSubscriber):
    """A durable subscriber that is told what brokers have of the past."""

    history = History(1e9, 1 << 30)

    async def _ask_brokers(self, moment: float) -> Any:
        return {1: self.history.spans(moment)}, {1}

    async def _page(self, broker: int, question: Any) -> Any:
        return self.history.page(question)


def _begins_in_the_past() -> None:
    store: dict[str, Any] = {}
    names: Any = LastingNames(SimpleNamespace(get=store.get, put=store.__setitem__))  # type: ignore[arg-type]
    FromTheFirst.history.append("bob", batch_of([{"n": n} for n in range(9)], publisher="bob"))
    with on_ray(FromTheFirst, names.come("client", 1, "first"), history_seconds=600.0) as alice:
        alice.subscribe("n > 0", at={"bob": 2})
        assert [note.sequence for note in alice.notifications(0.2)] == list(range(3, 10))
        alice.acknowledge_up_to({"bob": 5})
        assert alice.position == {"bob": 5} and not alice.losses
        names.subscriptions("client", 1, alice._machine.record())
    names.acknowledge("client", 1, {}, None, alice._machine.past)
    assert names.rewind("client", Beginning({"bob": 3})) and not names.rewind("nobody", Beginning({}))
    record = names.come("client", 1, "again")
    assert record["past"]["todo"] == {"bob": (3, 9)} and record["life"] == 3
    with pytest.raises(NameTaken):
        names.acknowledge("client", 1, {"bob": 7})


def _one() -> tuple[Any, Any]:
    return np.array([0, 1]), np.arange(1)


def the_rest_in_virtual_time() -> None:
    narrow = {2: Capacity(1.0)}
    net = in_virtual_time(admission=AdmissionConfig(0.0, capacity=Capacity(1_000), capacities=narrow)).net
    net.advertise("bob", 1, "n > 0", 50.0)
    net.advance(5.0)
    net.subscribe("alice", 1, "n > 0")
    net.subscribe("carol", 2, "n > 0", 1)
    net.advance(5.0)
    assert net.clients.refused == 1
    net.move("alice", 2)
    net.advance(5.0)
    assert net.sessions["alice"].subscriber is not None and net.sessions["alice"].subscriber.lacking
    net.stop("bob")
    assert net.start("bob")
    net = Simulation(ClusterTree(4, 1), "hypercube", seed=1)
    net.advertise("bob", 1, "n > 0")
    assert net.run_until_installed("alice", net.subscribe("alice", 1, "n > 0", local_first=True))
    net = Simulation(ClusterTree(1, 3), recovery=Recovery.for_simulator(compare_heartbeats=1.0), seed=1)
    net.publish("bob", 1, EVENTS)
    net.subscribe("alice", 1, "n > 0", durable=True)
    net.subscribe("alice", 1, "n > 1")
    net.advance(5.0)
    assert net.stop("alice") and net.start("alice")
    net.advance(5.0)
    assert len(net.sessions["alice"].machine.in_force) == 2
    recovery = Recovery.for_simulator(history_seconds=600.0)
    net = Simulation(ClusterTree(1, 3), recovery=recovery, seed=1, store=in_memory)
    net.publish("bob", 2, EVENTS)
    net.crash(0)
    net.subscribe_at("alice", 1, ["n > 0"], "oldest")
    net.advance(5.0)
    net.restart(0)
    net.advance(5.0)
    net.rewind("alice", "oldest")
    net.advance(5.0)
    assert net.notifications("alice") == [("bob", 1), ("bob", 2)]
    _loses_something()


def _loses_something() -> None:
    recovery = Recovery.for_simulator(retention_seconds=15.0)
    net = Simulation(ClusterTree(3, 2, degree=1).positions(), recovery=recovery, seed=1, store=in_memory)
    net.subscribe("alice", 2, "n >= 0", 1, durable=True)
    net.advance(2.0)
    net.publish("p", 5, [{"n": 1}])
    net.advance(2.0)
    net.cut([(one, other) for one in (4, 5) for other in (0, 1, 2, 3)], "apart")
    net.publish("p", 5, [{"n": 1}])
    net.advance(40.0)
    net.publish("p", 5, [{"n": 1}])
    net.mend("apart")
    net.advance(30.0)
    assert net.account.losses["alice"]


MACHINES = (PublisherMachine, SubscriberMachine, PastReader, ClientLinks)
OF_THE_READER = {"past_read", "past_answered", "past_filters"}
"""What `PastReader` tells a subscriber, for both hosts."""

RULES = {
    f"{machine.__name__}.{name}"
    for machine in MACHINES
    for name, found in vars(machine).items()
    if callable(found) and not name.startswith("_") and name not in OF_THE_READER
}


def called_from(package: str, patch: pytest.MonkeyPatch) -> set[str]:
    """Return a set that will have the public methods of the machines that this package has called."""
    called: set[str] = set()

    def traced(name: str, real: Any, *given: Any, **named: Any) -> Any:
        if sys._getframe(2).f_globals["__name__"].startswith(package):
            called.add(name)
        return real(*given, **named)

    for machine in MACHINES:
        for rule in (name for name in vars(machine) if f"{machine.__name__}.{name}" in RULES):
            found = partial(traced, f"{machine.__name__}.{rule}", getattr(machine, rule))
            patch.setattr(machine, rule, lambda *given, found=found, **named: found(*given, **named))
    return called


@pytest.mark.parametrize(
    ("package", "place", "rest"),
    [("rayvous.actors", 0, the_rest_on_ray), ("rayvous.simulator", 1, the_rest_in_virtual_time)],
    ids=["Ray", "the simulator"],
)
def test_every_rule_of_the_client_machines_is_used_on(
    package: str, place: int, rest: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = called_from(package, monkeypatch)
    for both in SAME.values():
        both[place]()
    rest()
    assert called == RULES
