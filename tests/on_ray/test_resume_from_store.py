"""Every process of a network is killed, clients too, and a network launched on its stores continues.

Reference: promises 1, 3 and 7; docs/durability.md.
"""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import ray
import rayvous as rv
from ray.exceptions import RayActorError
from rayvous.protocol.messages.recovery import Recovery

PATIENCE_SECONDS = 300.0
"""As in `patience`, which is not on the path of the workers that import this file."""

PATIENT = Recovery.for_tests(suspect_after_seconds=4.0, client_patience_seconds=6.0)
EVENTS = 20


class Client:
    """A process with a durable subscriber and two publishers, of which only bob is durable."""

    def __init__(self, network: str) -> None:
        self.net = rv.Network.attach(network)
        self.alice = self.net.subscriber("alice", durable=True)
        self.bob = self.net.publisher("bob", durable=True)
        self.carol = self.net.publisher("carol")

    def pid(self) -> int:
        return os.getpid()

    def subscribe(self) -> None:
        self.alice.subscribe("n >= 0")

    def publish(self, count: int) -> tuple[int, int]:
        for number in range(count):
            for publisher in (self.bob, self.carol):
                publisher.publish({"n": number})
        return self.bob.published, self.carol.published

    def read(self, count: int) -> list[tuple[str, int]]:
        """Read up to `count` notifications until no more arrive, and acknowledge them."""
        got: list[tuple[str, int]] = []
        for note in self.alice.notifications(timeout_seconds=PATIENCE_SECONDS if count else 1.0):
            got.append((note.publisher, note.sequence))
            if len(got) == count:
                break
        self.alice.acknowledge()
        return got

    def losses(self) -> list[Any]:
        return self.alice.losses


def client_of(name: str) -> Any:
    return ray.remote(Client).options(num_cpus=0).remote(name)


def kill_all(net: rv.Network, client: Any) -> None:
    """Kill the client, the rendezvous point and the brokers, as a power failure does; none restarts."""
    pids = [net.inspect.pid_of(broker) for broker in net.inspect.brokers()]
    os.kill(ray.get(client.pid.remote()), signal.SIGKILL)
    ray.kill(net.inspect.rendezvous)
    with pytest.raises(RayActorError):  # until then it could move the client elsewhere
        while True:
            ray.get(net.inspect.rendezvous.pid.remote(), timeout=PATIENCE_SECONDS)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_what_was_accepted_and_not_read_comes_when_all_are_there_again(
    ray_started: None, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"recovery": PATIENT, "stable": rv.Stable(tmp_path)}
    net = rv.Network.launch(rv.ClusterTree(2, 2, degree=1), name="power", **how)
    new = net.add_broker(net.inspect.positions[0].cluster)
    net.await_convergence(PATIENCE_SECONDS)
    client = client_of(net.name)
    ray.get(client.subscribe.remote())
    assert ray.get(client.publish.remote(EVENTS)) == (EVENTS, EVENTS)
    read = ray.get(client.read.remote(EVENTS))
    os.kill(ray.get(net.inspect.rendezvous.pid.remote()), signal.SIGKILL)  # Ray restarts it
    ray.get(client.publish.remote(EVENTS))
    read += ray.get(client.read.remote(EVENTS // 2))
    kill_all(net, client)
    net.close()

    with rv.Network.launch(rv.ClusterTree(1, 1), name="again", **how) as net:
        assert net.inspect.brokers() == [0, 1, 2, 3, new] and net.inspect.directory.launches == 2
        net.await_convergence(PATIENCE_SECONDS)
        client = client_of("again")
        assert ray.get(client.publish.remote(1)) == (2 * EVENTS + 1, 2 * EVENTS + 1), "they count on"
        read += ray.get(client.read.remote(4 * EVENTS + 2 - len(read)))
        assert ray.get(client.read.remote(0)) == [] == ray.get(client.losses.remote())
        for name in ("bob", "carol"):
            assert [number for who, number in read if who == name] == list(range(1, 2 * EVENTS + 2))
        ray.kill(client)
