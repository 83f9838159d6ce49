"""The name of a client is free again when its process has died, and can be taken over before that.

Reference: docs/service.md, "Names"; docs/decisions/0113-names-of-dead-clients.md.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import ray
import rayvous as rv
from ray.exceptions import RayActorError
from rayvous.protocol.messages.recovery import Recovery

PATIENCE_SECONDS = 300.0
"""As in `patience`, which is not on the path of the workers that import this file."""

SESSION_SECONDS = 3.0


class Kid:
    """A subscriber and a publisher of one name, in a process of their own."""

    def __init__(self, network: str, name: str, *, durable: bool = False, take_over: bool = False) -> None:
        net = rv.Network.attach(network)
        self.subscriber = net.subscriber(name, durable=durable, take_over=take_over)
        self.subscriber.subscribe("x >= 0")
        self.publisher = net.publisher(name, durable=durable, take_over=take_over)

    def ready(self) -> int:
        return os.getpid()

    def publish(self, x: int) -> int:
        return self.publisher.publish({"x": x})

    def read(self) -> tuple[int, int]:
        """Wait for the next event, and return its x and its number."""
        note = next(self.subscriber.notifications(9 * PATIENCE_SECONDS))
        return note.event["x"], note.sequence

    async def read_in_batches(self) -> int:
        async for batch in self.subscriber.batches_async():
            return batch.num_rows
        return 0

    def close(self) -> None:
        self.subscriber.close()
        self.publisher.close()


@pytest.fixture(scope="module", params=["plain", "heals"])
def named(ray_started: None, request: pytest.FixtureRequest) -> Iterator[rv.Network]:
    recovery = Recovery.for_tests() if request.param == "heals" else None
    limits = rv.Limits.for_tests(session_seconds=SESSION_SECONDS)
    with rv.Network.launch(
        rv.ClusterTree(1, 2), brokers_per_actor=2, limits=limits, recovery=recovery
    ) as net:
        yield net
        net.inspect.check()


@pytest.fixture
def kid_of(named: rv.Network) -> Iterator[Callable[..., Any]]:
    """Start a process with a subscriber and a publisher of this name; all are killed at the end."""
    kids = list[Any]()

    def start(name: str, *, restarts: int = 0, **how: bool) -> Any:
        kid = (
            ray.remote(Kid).options(max_restarts=restarts, max_concurrency=4).remote(named.name, name, **how)
        )
        kids.append(kid)
        ray.get(kid.ready.remote(), timeout=PATIENCE_SECONDS)
        return kid

    yield start
    for kid in kids:
        ray.kill(kid)


def kill(kid: Any) -> None:
    """Send SIGKILL to a process, and wait until Ray knows."""
    os.kill(ray.get(kid.ready.remote(), timeout=PATIENCE_SECONDS), signal.SIGKILL)
    with suppress(RayActorError):
        ray.get(kid.ready.remote(), timeout=PATIENCE_SECONDS)


def test_a_name_is_taken_over_at_once_and_free_when_the_session_is_over(
    named: rv.Network, kid_of: Callable[..., Any], fresh: str
) -> None:
    kid = kid_of(fresh)
    used = ray.get(kid.publish.remote(1))
    for attach in (named.subscriber, named.publisher):
        with pytest.raises(rv.NameTaken, match=r"there is already .*take_over=True"):
            attach(fresh)
    kill(kid)
    subscriber = named.subscriber(fresh, take_over=True)
    subscriber.subscribe("x = 2")
    publisher = named.publisher(fresh, take_over=True)
    number = publisher.publish({"x": 2})
    assert number > used or not named.inspect.heals, (
        "else its events would be taken for those of the dead one"
    )
    assert next(subscriber.notifications(PATIENCE_SECONDS)).sequence == number
    for client in (subscriber, publisher):
        named.release(client)

    living = f"{fresh}-living"
    kid_of(living)
    kill(kid_of(fresh))
    deadline = time.monotonic() + PATIENCE_SECONDS
    for attach in (named.subscriber, named.publisher):
        while True:
            try:
                named.release(attach(fresh))
                break
            except rv.NameTaken:
                assert time.monotonic() < deadline
                time.sleep(0.2)
    for attach in (named.subscriber, named.publisher):
        with pytest.raises(rv.NameTaken):
            attach(living)


def test_a_restarted_actor_has_its_own_names_again(
    named: rv.Network, kid_of: Callable[..., Any], fresh: str
) -> None:
    kid = kid_of(fresh, restarts=-1)
    os.kill(ray.get(kid.ready.remote()), signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            number = ray.get(kid.publish.remote(3), timeout=PATIENCE_SECONDS)
            break
        except RayActorError:
            assert time.monotonic() < deadline, "it died for good"
            time.sleep(0.1)
    assert ray.get(kid.read.remote(), timeout=PATIENCE_SECONDS) == (3, number)


def test_whoever_had_the_name_ends_at_once(named: rv.Network, kid_of: Callable[..., Any], fresh: str) -> None:
    """Whoever waits for one event in the network that heals, and for batches in the other."""
    first = kid_of(fresh)
    waiting = (first.read if named.inspect.heals else first.read_in_batches).remote()
    second = kid_of(fresh, take_over=True)
    with pytest.raises(rv.NameTaken, match="was taken over by another client"):
        ray.get(waiting, timeout=PATIENCE_SECONDS)
    with pytest.raises(rv.NameTaken, match="was taken over by another client"):
        ray.get(first.publish.remote(1), timeout=PATIENCE_SECONDS)
    ray.get(first.close.remote(), timeout=PATIENCE_SECONDS)  # and takes nothing from the second
    number = ray.get(second.publish.remote(4), timeout=PATIENCE_SECONDS)
    assert ray.get(second.read.remote(), timeout=PATIENCE_SECONDS) == (4, number)
    with pytest.raises(rv.NameTaken, match="there is already"):
        named.subscriber(fresh)


def test_the_former_reader_of_a_durable_name_ends_at_once(
    named: rv.Network, kid_of: Callable[..., Any], fresh: str
) -> None:
    if not named.inspect.heals:
        with pytest.raises(rv.InputError, match="does not heal"):
            named.subscriber(fresh, durable=True)
        return
    first = kid_of(fresh, durable=True)
    waiting = first.read.remote()
    second = kid_of(fresh, durable=True)
    with pytest.raises(rv.NameTaken, match="was taken over by another client"):
        ray.get(waiting, timeout=PATIENCE_SECONDS)
    with pytest.raises(rv.NameTaken):
        ray.get(first.publish.remote(1), timeout=PATIENCE_SECONDS)
    ray.get(first.close.remote(), timeout=PATIENCE_SECONDS)
    number = ray.get(second.publish.remote(5), timeout=PATIENCE_SECONDS)
    assert ray.get(second.read.remote(), timeout=PATIENCE_SECONDS) == (5, number)


@pytest.mark.parametrize("named", ["heals"], indirect=True)
def test_a_durable_name_is_in_one_place_and_ends_by_word(named: rv.Network, fresh: str) -> None:
    """Reference: docs/exactly-once.md."""
    first = named.subscriber(fresh, durable=True)
    number = first.subscribe(f"of = '{fresh}'")
    bob = named.publisher(fresh)
    bob.publish({"of": fresh})
    note = next(first.notifications(PATIENCE_SECONDS))
    second = named.subscriber(fresh, durable=True)
    assert second.subscriptions.keys() == {number}
    with pytest.raises(rv.ClientError, match=r"was taken over|has returned"):
        first.acknowledge(note)
    assert next(second.notifications(PATIENCE_SECONDS)).sequence == 1
    second.acknowledge()
    second.close()
    bob.publish({"of": fresh})
    bob.flush()
    third = named.subscriber(fresh, durable=True)
    assert next(third.notifications(PATIENCE_SECONDS)).sequence == 2
    third.end()
    fourth = named.subscriber(fresh, durable=True)
    assert fourth.subscriptions == {} and fourth.position == {}
    fourth.end()
    named.release(bob)
