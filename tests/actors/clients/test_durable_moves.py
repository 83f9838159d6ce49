"""A durable subscriber that moves while it acknowledges: the new broker learns what it need not retain.

Reference: docs/decisions/0015-exactly-once.md.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from packed_calls import PackedCalls, rendezvous_that_sends_to
from patience import PATIENCE_SECONDS
from rayvous.actors.clients.client import Context
from rayvous.actors.clients.durable import DurableSubscriber
from rayvous.actors.clients.process import ClientProcess
from rayvous.actors.host.requests import Away
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import BrokerUnavailable, StorageFailed
from rayvous.protocol.features import Features
from rayvous.protocol.messages.pubsub import Consumed, HasConsumed
from rayvous.protocol.messages.recovery import Recovery


class Host(PackedCalls):
    """The actor of a broker; `gate` can make an arriving subscriber wait."""

    def __init__(self) -> None:
        self.told: list[Consumed] = []
        self.asked, self.heard, self.gate = threading.Event(), threading.Event(), threading.Event()
        self.gate.set()
        self.request = SimpleNamespace(remote=self._request)
        self.poll = SimpleNamespace(remote=lambda *_: asyncio.sleep(PATIENCE_SECONDS))
        self.end_session = SimpleNamespace(remote=lambda *_: None)

    def _request(self, broker: int, name: str, messages: Sequence[Any], session: str = "") -> Any:
        if isinstance(messages[0], Consumed):
            self.told += messages
            self.heard.set()
            return None
        if isinstance(messages[0], Away):
            return None

        async def take() -> None:
            self.asked.set()
            await asyncio.to_thread(self.gate.wait, PATIENCE_SECONDS)

        return take()


class Alice(DurableSubscriber):
    """A subscriber whose calls to the rendezvous point succeed, without Ray."""

    async def _store_position(self, beside: object) -> None:
        pass

    async def _ask_rendezvous(self, method: str, *arguments: Any) -> Any:
        return None


async def answer(value: Any) -> Any:
    return value


@contextmanager
def alice_at(first: Host, second: Host) -> Iterator[tuple[Alice, ClientProcess]]:
    """Yield a durable subscriber at broker 1, and its process; if it has to move, it is sent to broker 2."""
    recovery = Recovery.for_tests(client_patience_seconds=PATIENCE_SECONDS)
    directory: Any = SimpleNamespace(
        hosts={1: first, 2: second}, limits=Limits.for_tests(), features=Features(recovery)
    )
    rendezvous = rendezvous_that_sends_to(2, second)
    record = SubscriberMachine(durable=True).record() | {"life": 1, "seen": 0.0}
    process = ClientProcess("net", PATIENCE_SECONDS)
    try:
        yield Alice("alice", 1, Context(directory, process, rendezvous), record), process
    finally:
        process.ending = True
        process.close()


def test_what_is_acknowledged_during_a_move_is_told_to_the_broker_that_it_goes_to() -> None:
    first, second = Host(), Host()
    with alice_at(first, second) as (alice, process):
        second.gate.clear()
        moving = process.submit(alice.move(first, True))
        assert second.asked.wait(PATIENCE_SECONDS)
        alice._hand_out("bob", 3)
        alice.acknowledge()
        assert alice.position == {"bob": 3}
        second.gate.set()
        moving.result(PATIENCE_SECONDS)
        assert second.heard.wait(PATIENCE_SECONDS)
        assert second.told == [Consumed({"bob": 3}, 2)] and first.told == []


def test_a_subscriber_whose_position_cannot_be_stored_goes_on_when_it_can_be_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store of the rendezvous point was on a full disk: the broker that was restarted waits for the subscriber."""
    first, second, full = Host(), Host(), threading.Event()
    full.set()

    async def renew(name: str, incarnation: int, broker: int) -> int:
        if full.is_set():
            raise StorageFailed("the disk is full")
        return incarnation + 1

    with alice_at(first, second) as (alice, process):
        alice._rendezvous = SimpleNamespace(
            renew=SimpleNamespace(remote=renew),
            relocate=SimpleNamespace(remote=lambda *said: answer(None if 2 in said[4] else (2, second))),
        )
        monkeypatch.setattr(alice, "_directory", SimpleNamespace(limits=Limits.for_tests(call_seconds=0.2)))
        monkeypatch.setattr(
            alice,
            "_features",
            Features(Recovery.for_tests(heartbeat_seconds=0.01, client_patience_seconds=0.1)),
        )
        with pytest.raises(BrokerUnavailable, match=r"no other broker took it in time \(the disk is full\)"):
            process.submit(alice.move(first, False)).result(PATIENCE_SECONDS)
        with pytest.raises(BrokerUnavailable, match="the disk is full"):
            next(alice.notifications())
        full.clear()
        assert second.asked.wait(PATIENCE_SECONDS)
        place = process.submit(alice._arrived()).result(PATIENCE_SECONDS)
        assert (place.broker, place.host) == (2, second)
        assert next(alice.notifications(0), None) is None, "and its readers wait again"


class Both(Host):
    """One actor that hosts two brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[int, str]] = []

    def _request(self, broker: int, name: str, messages: Sequence[Any], session: str = "") -> Any:
        self.order += [(broker, type(message).__name__) for message in messages]
        return None if isinstance(messages[0], Away) else super()._request(broker, name, messages, session)


def test_who_goes_to_a_broker_in_the_same_actor_leaves_the_old_one_first() -> None:
    """Otherwise both would deliver events through the one session at that actor."""
    both = Both()
    with alice_at(both, both) as (alice, process):
        both.order.clear()
        process.submit(alice.go_from(1)).result(PATIENCE_SECONDS)
        assert both.order[:2] == [(1, "Away"), (2, "Resume")] and alice.broker == 2


def test_a_durable_subscriber_says_what_its_broker_was_told_and_not_what_nobody_has_written_down_yet() -> (
    None
):
    """Otherwise its broker would release events that are lost if the rendezvous point never records this."""
    host = Host()
    with alice_at(host, host) as (alice, process):
        alice._hand_out("bob", 3)
        alice.acknowledge()
        assert host.heard.wait(PATIENCE_SECONDS)
        alice._machine.acknowledge({"bob": 5})  # the rendezvous point has not answered yet
        said: list[Any] = []
        host.request = SimpleNamespace(remote=lambda broker, name, messages: said.extend(messages))

        async def say() -> None:
            alice.say()
            async with alice._moving:
                alice.say()

        process.submit(say()).result(PATIENCE_SECONDS)
        assert said == [HasConsumed({"bob": 3}, 1)], "and while it goes elsewhere nothing"


def test_clients_of_brokers_that_compare_say_what_they_know_again_and_again() -> None:
    process = ClientProcess("net", PATIENCE_SECONDS, compare_seconds=0.01)
    said = threading.Semaphore(0)
    mover: Any = SimpleNamespace(host=Host(), say=said.release)
    try:
        process.follow(mover)
        assert said.acquire(timeout=PATIENCE_SECONDS) and said.acquire(timeout=PATIENCE_SECONDS)
    finally:
        process.ending = True
        process.close()
