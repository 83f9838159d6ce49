"""What a client requests while it moves also counts at the new broker, and nobody waits for the old one.

Rule: "An answer that arrives while the client is leaving the broker does not count"
(`actors.clients.client`).
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from fakes import Actor, Method, Ray
from packed_calls import PackedCalls, rendezvous_that_sends_to
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorUnavailableError, GetTimeoutError
from rayvous.actors.clients.client import Client, Context
from rayvous.actors.clients.durable import DurableSubscriber
from rayvous.actors.clients.process import ClientProcess
from rayvous.actors.clients.publisher import Publisher
from rayvous.actors.clients.subscriber import Subscriber
from rayvous.actors.host import handle
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import BrokerLeaving, ClientError, SubscriptionTimeout
from rayvous.protocol.features import Features
from rayvous.protocol.messages.admission import AdmissionConfig, Advertise, Unadvertise
from rayvous.protocol.messages.pubsub import Cancel, Detach, Events, Flush, ReadClock, Register, Resume
from rayvous.protocol.messages.recovery import Recovery

CLOCK = 777.0
"""What the clocks of brokers read."""

AClient = TypeVar("AClient", bound=Client)


class Host(PackedCalls):
    """The actor of a broker: it knows what one client wants and advertises; `gate` can delay its arrival."""

    def __init__(self, error: Exception | None = None) -> None:
        self.known: set[int] = set()
        self.error = error
        self.silent = False
        self.came, self.gate = threading.Event(), threading.Event()
        self.gate.set()
        self.asked: list[type] = []
        self.registers: list[Register] = []
        self.resumes: list[Resume] = []
        self.request = Method(self._request, BrokerHost.request)
        self.poll = Method(lambda *_: asyncio.sleep(PATIENCE_SECONDS, []), BrokerHost.poll)
        self.pid = Method(lambda: asyncio.sleep(0), BrokerHost.pid)
        self.end_session = Method(None, BrokerHost.end_session)

    def _request(self, broker: int, name: str, messages: Any, *more: Any) -> Any:
        self.asked += map(type, messages)
        self.registers += [message for message in messages if isinstance(message, Register)]
        self.resumes += [message for message in messages if isinstance(message, Resume)]
        comes = isinstance(messages[0], Resume | Advertise)
        for message in messages:
            match message:
                case Resume() | Detach():
                    self.known.clear()
                case Register(number) | Advertise(number):
                    self.known.add(number)
                case Cancel(number) | Unadvertise(number):
                    self.known.discard(number)

        async def answer() -> float | None:
            if self.error is not None:
                raise self.error
            if comes and not self.gate.is_set():
                self.came.set()
                await asyncio.to_thread(self.gate.wait, PATIENCE_SECONDS)
            return CLOCK if isinstance(messages[0], ReadClock) else None

        return Answer(self, answer)


class Late(Host):
    """A host that answers to the first subscription late, and to another one when `waits` was cleared."""

    def __init__(self) -> None:
        super().__init__()
        self.waits, self.answers = threading.Event(), threading.Event()

    def _request(self, broker: int, name: str, messages: Any, *more: Any) -> Any:
        made = super()._request(broker, name, messages, *more)
        if type(messages[0]) is not Register or self.waits.is_set():
            return made

        async def answer() -> None:
            self.waits.set()
            await asyncio.to_thread(self.answers.wait, PATIENCE_SECONDS)

        return Answer(self, answer)


class TwoBrokers(Host):
    """The actor of brokers 1 and 2, each of which knows on its own what the client wants and advertises."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts = {1: Host(), 2: Host()}

    def _request(self, broker: int, name: str, messages: Any, *more: Any) -> Any:
        return self.hosts[broker]._request(broker, name, messages, *more)


class Answer:
    """The answer to a call, for `await` and for `get`."""

    def __init__(self, host: Host, make: Callable[[], Any]) -> None:
        self.host, self._make = host, make

    def __await__(self) -> Any:
        return self._make().__await__()


class WaitingRay(Ray):
    """A fake of Ray that does wait, as what happens meanwhile is the test."""

    def get(self, call: Any, *, timeout: float | None = None) -> None:
        if isinstance(call, Answer) and call.host.silent:
            threading.Event().wait(timeout)
            raise GetTimeoutError("not in time")
        try:
            asyncio.run(asyncio.wait_for(call, timeout))
        except TimeoutError:
            raise GetTimeoutError("not in time") from None


@contextmanager
def attached(
    kind: type[AClient], first: Host, second: Host, *more: Any, admission: Any = None
) -> Iterator[AClient]:
    """Yield a client at broker 1; if it has to move, it is sent to broker 2."""

    directory: Any = SimpleNamespace(
        hosts={1: first, 2: second},
        limits=Limits.for_tests(call_seconds=PATIENCE_SECONDS),
        features=Features(Recovery.for_tests(client_patience_seconds=PATIENCE_SECONDS), admission=admission),
    )
    rendezvous = rendezvous_that_sends_to(2, second)
    process = ClientProcess("net", PATIENCE_SECONDS)
    try:
        yield kind("alice", 1, Context(directory, process, rendezvous), *more)
    finally:
        process.ending = True
        process.close()


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    WaitingRay(monkeypatch, handle)


def while_it_moves(client: Client, second: Host, act: Callable[[], object]) -> None:
    """Do something that the old broker answers while the client is moving to the new one."""
    second.gate.clear()
    moving = client.process.submit(client.go_to(2))
    assert second.came.wait(PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as other:
        done = other.submit(act)
        # Until the call is done, or waits for the end of the move.
        while not done.done() and not client._moving._waiters:
            time.monotonic()
        second.gate.set()
        done.result(PATIENCE_SECONDS)
    moving.result(PATIENCE_SECONDS)
    assert client.broker == 2


def test_what_is_cancelled_while_it_moves_is_cancelled_at_the_new_broker() -> None:
    first, second = Host(), Host()
    with attached(Subscriber, first, second) as alice:
        kept, cancelled = alice.subscribe_all(["x > 0", "y > 0"])
        while_it_moves(alice, second, lambda: alice.unsubscribe(cancelled))
        assert second.known == {kept} == set(alice.subscriptions)


def test_a_subscriber_comes_with_what_it_has_read_of_the_clock_of_its_next_broker() -> None:
    first, second = Host(), Host()
    with attached(Subscriber, first, second) as alice:
        alice.subscribe("x > 0")
        alice.process.submit(alice.move(first, False)).result(PATIENCE_SECONDS)
        assert second.asked == [ReadClock, Resume, Register]
        (resume,) = second.resumes
        assert resume.clock == CLOCK and list(resume.ages_seconds) == [1]


def test_what_is_subscribed_while_it_moves_to_a_broker_of_the_same_host_is_installed_there() -> None:
    host = TwoBrokers()
    with attached(Subscriber, host, host) as alice:
        kept, cancelled = alice.subscribe_all(["x > 0", "y > 0"])

        def act() -> None:
            alice.unsubscribe(cancelled)
            assert alice.subscribe("z > 0") == 3

        while_it_moves(alice, host.hosts[2], act)
        assert host.hosts[2].known == {kept, 3} == set(alice.subscriptions) and alice.moves == 1


def test_what_is_advertised_while_it_moves_to_a_broker_of_the_same_host_is_known_there() -> None:
    host = TwoBrokers()
    with attached(Publisher, host, host) as bob:
        bob.advertise("x > 0")
        while_it_moves(bob, host.hosts[2], lambda: bob.advertise("y > 0"))
        assert host.hosts[2].known == {1, 2} and bob.moves == 1


def test_a_client_that_has_moved_away_and_back_asks_again_for_what_it_was_waiting_for() -> None:
    first, second = Late(), Host()
    with attached(Subscriber, first, second) as alice, ThreadPoolExecutor(1) as other:

        async def relocate(kind: str, name: str, broker: int, *_: Any) -> Any:
            return (2, second) if broker == 1 else (1, first)

        alice._rendezvous = Actor(Rendezvous, relocate=relocate)
        subscribed = other.submit(alice.subscribe, "x > 0")
        assert first.waits.wait(PATIENCE_SECONDS)
        for broker in (2, 1):
            alice.process.submit(alice.go_to(broker)).result(PATIENCE_SECONDS)
        assert alice.broker == 1 and alice.moves == 2 and not first.known
        first.answers.set()
        assert subscribed.result(PATIENCE_SECONDS) == 1 and first.known == {1} == set(alice.subscriptions)


def test_who_has_turned_a_subscription_in_vain_asks_again_and_waits() -> None:
    """Also if its process ends before: a durable subscriber has written it down before it asks."""
    written: list[Any] = []

    class Alice(DurableSubscriber):
        async def _ask_rendezvous(self, method: str, *arguments: Any) -> Any:
            written.append(arguments[-1]["local_first"])

    record = SubscriberMachine(durable=True).record() | {"life": 1, "seen": 0.0}
    first = Late()
    first.waits.set()
    with attached(Alice, first, Host(), record) as alice:
        number = alice.subscribe("x > 0", local_first=True)
        assert written == [[number]]
        first.waits.clear()
        for _ in range(2):
            with pytest.raises(SubscriptionTimeout, match="subscription 1 is not installed everywhere"):
                alice.set_local_first(number, False, timeout_seconds=0)
            assert written[-1] == []
        first.waits.set()
        alice.set_local_first(number, False)
        assert [each.local_first for each in first.registers] == [True, False, False, False]
        alice.set_local_first(number, False)
        assert len(first.registers) == 4, "now it is installed"


def test_who_moves_while_it_turns_a_subscription_is_answered_when_that_is_installed_elsewhere() -> None:
    first, second = Late(), Host()
    first.waits.set()
    with attached(Subscriber, first, second) as alice, ThreadPoolExecutor(1) as other:
        number = alice.subscribe("x > 0", local_first=True)
        first.waits.clear()
        turned = other.submit(alice.set_local_first, number, False)
        assert first.waits.wait(PATIENCE_SECONDS)
        alice.process.submit(alice.go_to(2)).result(PATIENCE_SECONDS)
        first.answers.set()
        turned.result(PATIENCE_SECONDS)
        asked = second.registers[-1]
        assert not asked.local_first and not asked.admitted, "what was admitted has no answer"


def test_who_closes_while_it_moves_is_nowhere() -> None:
    """Otherwise its subscriptions would stay as long as its process has any other client there."""
    first, second = Host(), Host()
    with attached(Subscriber, first, second) as alice:
        alice.subscribe("x > 0")
        while_it_moves(alice, second, alice.close)
        assert not second.known and not first.known


def test_what_is_advertised_while_it_moves_is_advertised_at_the_new_broker() -> None:
    first, second = Host(), Host()
    with attached(Publisher, first, second) as bob:
        bob.advertise("x > 0")

        def act() -> None:
            bob.unadvertise(1)
            assert bob.advertise("y > 0") == 2

        while_it_moves(bob, second, act)
        assert second.known == {2}


def test_what_was_published_under_a_withdrawn_advertisement_moves_under_it() -> None:
    first, second = Host(), Host()
    with attached(Publisher, first, second, admission=AdmissionConfig(0.0)) as bob:
        bob.advertise("x > 0", max_rate=5.0)
        bob.publish({"x": 1})
        bob.unadvertise(1)
        bob.process.submit(bob.go_to(2)).result(PATIENCE_SECONDS)
        assert second.asked[:3] == [Advertise, Events, Unadvertise] and not second.known


def test_a_flush_goes_on_at_the_next_broker_when_the_first_is_silent() -> None:
    first, second = Host(), Host()
    first.silent = True
    with attached(Publisher, first, second) as bob, ThreadPoolExecutor(1) as other:
        flushed = other.submit(bob.flush)
        while Flush not in first.asked:
            time.monotonic()
        moved = bob.process.submit(bob.move(first, False))  # as the poll does when it notices
        moved.result(PATIENCE_SECONDS)
        flushed.result(PATIENCE_SECONDS)
        assert Flush in second.asked


def test_who_waits_for_another_broker_is_told_when_the_network_is_closed() -> None:
    first = Host(ActorUnavailableError("away", None))

    async def nobody(*arguments: Any) -> None:
        return None

    with attached(Publisher, first, first) as bob, ThreadPoolExecutor(1) as other:
        bob._rendezvous = Actor(Rendezvous, relocate=nobody)
        published = other.submit(bob.publish, {"x": 1})
        while not bob._moving.locked():
            time.monotonic()
        bob.process.close()
        with pytest.raises(ClientError, match="the network is closed in this process"):
            published.result(PATIENCE_SECONDS)
        with pytest.raises(ClientError, match="the network is closed in this process"):
            bob.process.run(asyncio.sleep(0))


def test_a_durable_subscriber_whose_broker_is_about_to_leave_comes_back_at_another() -> None:
    first, second = Host(BrokerLeaving("broker 1 leaves the network")), Host()
    record = SubscriberMachine(durable=True).record() | {"life": 1, "seen": 0.0}
    with attached(DurableSubscriber, first, second, record) as alice:
        assert alice.broker == 2
