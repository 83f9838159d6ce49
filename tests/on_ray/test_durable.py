"""Durable clients that are killed with SIGKILL and return lose nothing and receive nothing twice.

Reference: promises 1 to 3; docs/exactly-once.md.
"""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray
import rayvous as rv
from ray.exceptions import RayActorError, RayTaskError
from rayvous.actors.network import launching
from rayvous.faults.real.crash import crash
from rayvous.protocol.errors import BrokerUnavailable, InputError, StorageFailed
from rayvous.protocol.messages.recovery import RENDEZVOUS, Recovery

PATIENCE_SECONDS = 300.0
"""As in `patience`, which is not on the path of the workers that import this file."""

PATIENT = Recovery.for_tests(suspect_after_seconds=4.0, client_patience_seconds=6.0)
"""A busy machine is not taken for a dead broker; whose process is dead is noticed at once by its clients."""


class Reader:
    """A durable subscriber in a process of its own."""

    def __init__(self, network: str, broker: int | None = None) -> None:
        self.alice = rv.Network.attach(network).subscriber("alice", durable=True, broker=broker)

    def pid(self) -> int:
        return os.getpid()

    def subscribe(self, selector: str) -> int:
        return self.alice.subscribe(selector)

    def broker(self) -> int:
        return self.alice.broker

    def position(self) -> dict[str, int]:
        return self.alice.position

    def losses(self) -> list[Any]:
        return self.alice.losses

    def read(
        self, count: int, acknowledge: bool = True, patience_seconds: float = PATIENCE_SECONDS
    ) -> list[tuple[str, int]]:
        """Read up to `count` notifications until no more arrive, and acknowledge each of them or none."""
        got: list[tuple[str, int]] = []
        for note in self.alice.notifications(timeout_seconds=patience_seconds):
            got.append((note.publisher, note.sequence))
            if acknowledge:
                self.alice.acknowledge(note)
            if len(got) == count:
                break
        return got


class Writer:
    """A durable publisher in a process of its own, which publishes events one at a time."""

    def __init__(self, network: str, broker: int | None = None) -> None:
        self.bob = rv.Network.attach(network).publisher("bob", durable=True, broker=broker)

    def pid(self) -> int:
        return os.getpid()

    def publish(self, count: int) -> int:
        for _ in range(count):
            self.bob.publish({"n": self.bob.published + 1})
        return self.bob.published

    def published(self) -> int:
        return self.bob.published

    def publish_for_ever(self) -> None:
        while True:
            self.publish(1)

    def flush(self) -> None:
        self.bob.flush(timeout_seconds=PATIENCE_SECONDS)


def start(kind: type, *arguments: Any) -> Any:
    return ray.remote(kind).options(num_cpus=0).remote(*arguments)


def kill(client: Any, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RayActorError):
        ray.get(client.pid.remote(), timeout=PATIENCE_SECONDS)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_subscriber_publisher_and_broker_are_killed_and_nothing_is_lost_or_repeated(
    ray_started: None,
) -> None:
    with rv.Network.launch(rv.ClusterTree(2, 2, degree=1), name="lasting", recovery=PATIENT) as net:
        net.await_convergence(PATIENCE_SECONDS)
        survey = net.inspect.survey()
        members = [broker for broker, one in survey.items() if not one["root"] and not one["designated"]]
        home = next(broker for broker in members if survey[broker]["cluster"] != survey[0]["cluster"])
        far = next(broker for broker, one in survey.items() if one["cluster"] == survey[0]["cluster"])
        reader, writer = start(Reader, "lasting", home), start(Writer, "lasting", far)
        ray.get(reader.subscribe.remote("n >= 0"))
        pid = ray.get(reader.pid.remote())
        assert ray.get(writer.publish.remote(10)) == 10
        acknowledged = ray.get(reader.read.remote(4))
        assert ray.get(reader.read.remote(3, acknowledge=False)) == [("bob", n) for n in (5, 6, 7)]

        # The subscriber is killed; while it is away its events are retained, and flush confirms that.
        kill(reader, pid)
        assert ray.get(writer.publish.remote(10)) == 20
        ray.get(writer.flush.remote())
        (behind,) = net.durable()
        assert (behind.name, behind.broker, behind.events) == ("alice", home, 16) and behind.seconds > 0
        assert net.status().durables[0].events == 16
        reader = start(Reader, "lasting")
        assert ray.get(reader.broker.remote()) == home
        acknowledged += ray.get(reader.read.remote(12))
        assert acknowledged == [("bob", n) for n in range(1, 17)], "what was not acknowledged comes again"

        # The subscriber is killed again, with its broker for good, and the publisher while it publishes.
        pid = ray.get(writer.pid.remote())
        beside = net.subscriber("beside", broker=far)
        beside.subscribe("n > 20")
        writer.publish_for_ever.remote()
        kill(reader, ray.get(reader.pid.remote()))
        crash(net, home)
        assert next(beside.notifications(PATIENCE_SECONDS)).sequence == 21, "it publishes"
        (lost,) = net.durable()
        assert (lost.name, lost.broker, lost.attached) == ("alice", None, False) and lost.away_seconds >= 0
        kill(writer, pid)
        net.release(beside)
        writer = start(Writer, "lasting")
        last = ray.get(writer.published.remote())
        assert last > 20
        assert ray.get(writer.publish.remote(5)) == last + 5
        reader = start(Reader, "lasting")
        assert ray.get(reader.broker.remote()) != home
        acknowledged += ray.get(reader.read.remote(last + 5 - 16))
        assert acknowledged == [("bob", n) for n in range(1, last + 6)]
        assert (
            ray.get(reader.read.remote(1, patience_seconds=2.0)) == []
            and ray.get(reader.losses.remote()) == []
        )
        assert ray.get(reader.position.remote()) == {"bob": last + 5}
        ray.get(writer.flush.remote())
        assert net.dead_letters() == []
        until(lambda: net.durable()[0].events == 0)  # the broker is told after the rendezvous point
        (whole,) = net.durable()
        assert whole.attached and whole.away_seconds == 0 and whole.selectors == ("n >= 0",)
        net.end_durable("alice")
        assert net.durable() == []
        with pytest.raises(RayTaskError, match=r"another process|taken over"):
            ray.get(reader.read.remote(1))


def started_by_two(net: rv.Network, broker: int) -> int:
    """Restart a broker from two `Network` objects at once; return how many of them succeed."""

    def start_again(each: rv.Network) -> int:
        try:
            each.restart_broker(broker)
        except (InputError, BrokerUnavailable) as error:
            assert "alive" in str(error) or "started again by another process" in str(error)
            return 0
        return 1

    with ThreadPoolExecutor(2) as both:
        return sum(both.map(start_again, [net, rv.Network.attach(net.name)]))


def starts_it_again_and_ends(net: rv.Network, broker: int) -> Any:
    """Do what a process does that restarts a broker but is killed before the new actor is registered."""
    net._hosts.find_reborn()
    directory, point = net._hosts.directory, net._hosts.rendezvous
    incarnation = ray.get(point.start_again.remote([broker], directory.hosts[broker], "who ended"))
    unborn = launching._start_host(directory, [broker], incarnation)
    ray.get(
        unborn.start_brokers.remote([directory.positions[broker]], incarnation)
    )  # it has opened the store
    ray.get(point.give_up.remote("who ended"))  # which happens by itself after a minute
    return unborn  # in a detached network it would live without a handle, here it does not


def test_with_stores_all_that_was_accepted_outlives_publisher_and_broker(
    ray_started: None, tmp_path: Path
) -> None:
    """Under every scheme: `tests/simulator/test_crash_recover.py`."""
    tree = rv.ClusterTree(2, 2, degree=1)
    with rv.Network.launch(tree, name="stored", recovery=PATIENT, stable=rv.Stable(tmp_path)) as net:
        net.await_convergence(PATIENCE_SECONDS)
        far, near = net.inspect.positions[0].members[0], net.inspect.positions[-1].members[0]
        alice = net.subscriber("alice", broker=near)
        alice.subscribe("n >= 0")
        writer = start(Writer, "stored", far)
        assert ray.get(writer.publish.remote(5)) == 5
        pid = ray.get(writer.pid.remote())
        writer.publish_for_ever.remote()
        seen = [next(alice.notifications(PATIENCE_SECONDS)).sequence for _ in range(10)]
        crash(net, far)  # with events that it had accepted but not forwarded
        kill(writer, pid)
        unborn = starts_it_again_and_ends(net, far)
        assert started_by_two(net, far) == 1
        with pytest.raises(RayActorError):
            ray.get(unborn.__ray_ready__.remote())
        writer = start(Writer, "stored")
        last = ray.get(writer.published.remote())
        assert 10 <= last < 1_000_000, "the broker knows how far the publisher had come"
        assert ray.get(writer.publish.remote(1)) == last + 1
        for note in alice.notifications(PATIENCE_SECONDS):
            seen.append(note.sequence)
            if note.sequence == last + 1:
                break
        assert seen == list(range(1, last + 2))
        ray.get(writer.flush.remote())
        assert alice.losses == []
        net.close()
        # The names are free again, also that of the killed broker. Without the file of the rendezvous point
        # it is unknown to which network the other files belong.
        stable = rv.Stable(tmp_path)
        file = stable.backend().file_of(RENDEZVOUS)
        for each in file.parent.glob(f"{file.name}*"):
            each.unlink()
        with pytest.raises(StorageFailed, match="earlier network"):
            rv.Network.launch(rv.ClusterTree(1, 1), name="stored", recovery=PATIENT, stable=stable)


def test_only_a_network_that_heals_has_lasting_names(net: rv.Network, fresh: str) -> None:
    with pytest.raises(rv.InputError, match="does not heal"):
        net.subscriber(fresh, durable=True)
    with pytest.raises(rv.InputError, match="does not heal"):
        net.publisher(fresh, durable=True)
    with pytest.raises(rv.InputError, match="does not heal"):
        net.publisher(fresh).flush()
