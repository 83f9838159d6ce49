"""A publisher that leaves its broker: the next one gets everything it has published, without a gap.

Reference: promises 2 and 3; docs/decisions/0015-exactly-once.md.
"""

import asyncio
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from packed_calls import PackedCalls
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorUnavailableError
from rayvous.actors.clients.client import Context
from rayvous.actors.clients.process import ClientProcess
from rayvous.actors.clients.publisher import Publisher
from rayvous.actors.clients.waits import Pause
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import BrokerUnavailable
from rayvous.protocol.features import Features
from rayvous.protocol.messages.payloads import Outcome
from rayvous.protocol.messages.pubsub import Events, TakenOver
from rayvous.protocol.messages.recovery import Recovery


class Host(PackedCalls):
    """The actor of a broker, which accepts what is published; `gate` can make that wait."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.told: list[TakenOver] = []
        self.asked, self.took, self.gate = threading.Event(), threading.Event(), threading.Event()
        self.gate.set()
        self.request = SimpleNamespace(remote=self._take)
        self.poll = SimpleNamespace(remote=lambda *_: asyncio.sleep(PATIENCE_SECONDS))
        self.pid = SimpleNamespace(remote=lambda: asyncio.sleep(0))
        self.end_session = SimpleNamespace(remote=lambda *_: None)

    def _take(self, broker: int, name: str, messages: list[Events | TakenOver], *also: Any) -> Any:
        told = [each for each in messages if isinstance(each, TakenOver)]
        if told:
            self.told += told
            return None  # nobody waits for the answer

        async def take() -> None:
            self.asked.set()
            await asyncio.to_thread(self.gate.wait, PATIENCE_SECONDS)
            self.taken += [number for events in messages for number in events.batch.sequence.tolist()]
            self.took.set()

        return take()


class Bob(Publisher):
    """A publisher whose calls are answered without Ray."""

    async def _answer(self, call: Any, host: Any, seconds: float) -> Any:
        return asyncio.run(call)


def test_what_the_old_broker_takes_in_while_it_is_left_is_published_at_the_new_one_too() -> None:
    old, new = Host(), Host()

    async def relocate(*_: Any) -> Any:
        return 1, new

    directory = SimpleNamespace(
        hosts={0: old, 1: new},
        limits=Limits(call_seconds=PATIENCE_SECONDS),
        features=Features(Recovery.for_tests(client_patience_seconds=PATIENCE_SECONDS)),
    )
    process = ClientProcess("test", 60.0)
    rendezvous = SimpleNamespace(relocate=SimpleNamespace(remote=relocate))
    bob = Bob("bob", 0, Context(directory, process, rendezvous))  # type: ignore[arg-type]
    try:
        bob.publish({"n": 1})
        new.gate.clear()
        moving = process.submit(bob.move(old, False))
        assert new.asked.wait(PATIENCE_SECONDS), "what was published before is on its way to the new broker"
        old.took.clear()
        publishing = threading.Thread(target=bob.publish, args=({"n": 2},))
        publishing.start()
        assert old.took.wait(PATIENCE_SECONDS), "the old one still takes in what comes"
        new.gate.set()
        moving.result(PATIENCE_SECONDS)
        publishing.join(PATIENCE_SECONDS)
        bob.publish({"n": 3})
        assert old.taken == [1, 2]
        assert old.told == [TakenOver(1, 1)] and not new.told, (
            "what came after it brought that along is not told of"
        )
        assert new.taken == [1, 2, 3], "else #3 could overtake #2, which would be taken for old"
    finally:
        process.close()


@pytest.mark.parametrize(("numbered", "taken"), [(True, [1, 2]), (False, [3])])
def test_what_is_not_accepted_goes_first_where_nothing_is_lost_and_nothing_more_is_taken_until_then(
    numbered: bool, taken: list[int]
) -> None:
    class Carol(Publisher):
        """A publisher whose broker is unavailable at first."""

        away = True

        async def _hand_over(self, message: Any, *, held: bool = False) -> None:
            if self.away:
                raise BrokerUnavailable("away")
            events = message.message if numbered else message
            host.taken += events.batch.sequence.tolist()

    host = Host()
    directory = SimpleNamespace(hosts={0: host}, limits=Limits(), features=Features(stores=numbered))
    process: Any = SimpleNamespace(given_up={host: 0}, hold=lambda client: None)
    carol = Carol("carol", 0, Context(directory, process))
    carol._counted = True
    for _ in range(2):
        with pytest.raises(BrokerUnavailable):
            carol.publish({"n": 1})
    carol.away = False
    carol.publish({"n": 2})
    assert host.taken == taken and carol.published == taken[-1]


def test_the_session_at_a_host_goes_on_while_a_client_is_on_its_way_there() -> None:
    """Otherwise the publisher's advertisements there would be withdrawn when the last other client leaves."""
    old, new, polls, ended = Host(), Host(), threading.Semaphore(0), threading.Event()

    async def poll(*_: Any) -> list[Any]:
        polls.release()
        await asyncio.sleep(0.01)
        return []

    async def relocate(*_: Any) -> Any:
        return 1, new

    new.poll = SimpleNamespace(remote=poll)
    new.end_session = SimpleNamespace(remote=lambda *_: ended.set())
    directory = SimpleNamespace(
        hosts={0: old, 1: new},
        limits=Limits(call_seconds=PATIENCE_SECONDS),
        features=Features(Recovery.for_tests(client_patience_seconds=PATIENCE_SECONDS)),
    )
    process = ClientProcess("test", 60.0)
    bob = Bob(
        "bob", 0, Context(directory, process, SimpleNamespace(relocate=SimpleNamespace(remote=relocate)))
    )  # type: ignore[arg-type]
    last: Any = SimpleNamespace(host=new, broker=1)
    try:
        bob.publish({"n": 1})
        process.follow(last)
        new.gate.clear()
        moving = process.submit(bob.move(old, False))
        assert new.asked.wait(PATIENCE_SECONDS)
        process.leave(last)
        for _ in range(3):
            assert polls.acquire(timeout=PATIENCE_SECONDS), "it is polled as before"
        new.gate.set()
        moving.result(PATIENCE_SECONDS)
        assert bob.broker == 1 and not ended.is_set()
    finally:
        process.ending = True
        process.close()


def test_a_payload_that_is_distributed_again_keeps_the_number_that_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker's process ended when some targets had notified, and is followed by another one with its state."""

    class Dora(Publisher):
        """A publisher whose calls are answered at once."""

        async def _answer(self, call: Any, place: Any, seconds: float) -> Any:
            return call

    monkeypatch.setattr(Pause, "block", lambda pause: None)
    begun: list[tuple[str, list[int]]] = []

    def answers(method: str, at: int, *said: Any) -> Any:
        if method == "bulk_begin":
            (payload,) = said
            begun.append((payload.name, payload.batch.sequence.tolist()))
            return 0
        if method == "bulk_end":
            if len(begun) == 1:
                raise ActorUnavailableError("the broker's process has ended", None)
            return Outcome()
        return (1,)

    class Bulk:
        """The actor of the broker, with what payloads need."""

        bulk_targets, bulk_begin, bulk_slices, bulk_end = (
            SimpleNamespace(remote=partial(answers, method))
            for method in ("bulk_targets", "bulk_begin", "bulk_slices", "bulk_end")
        )

    host: Any = Bulk()
    directory: Any = SimpleNamespace(
        hosts={0: host}, limits=Limits(call_seconds=PATIENCE_SECONDS), features=Features(stores=True)
    )
    process: Any = SimpleNamespace(given_up={host: 0}, hold=lambda client: None)
    dora = Dora("dora", 0, Context(directory, process))
    done = dora.distribute(b"abc", topic="maps", slice_bytes=1)
    assert begun == [(done.payload, [1])] * 2, "one event, with one identity"
    assert dora.published == 1
