"""Channels between real processes: a network that heals over them or without them, and who knocks at a door."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import ray
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.actors.channels.config import Door
from rayvous.actors.channels.pool import OPEN_SECONDS, UNPROVEN_MAX
from rayvous.actors.host.handle import HostHandle
from rayvous.faults.real.crash import crash
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.stable import Stable

SERVE = """
import sys
import ray
from ray.util.client.server.server import serve

ray.init(address=sys.argv[1], namespace="rayvous", log_to_driver=False)
serving = serve("127.0.0.1", int(sys.argv[2]))
print("serving", flush=True)
sys.stdin.read()
serving.stop(0)
"""


@pytest.fixture
def taken_port(ray_started: None) -> Iterator[str]:
    """A port of this node at which nobody else can listen, and which nobody reaches."""
    with closing(socket.create_server((ray.util.get_node_ip_address(), 0))) as server:
        yield str(server.getsockname()[1])


def carriers(net: rv.Network) -> tuple[int, int]:
    """Return how many hosts this process reaches by a channel, and how many by Ray."""
    channels = net._process._channels
    assert channels is not None
    return channels.carriers()


def test_a_network_heals_where_no_channel_can_be_opened(
    traffic_at: Callable[..., Any], taken_port: str
) -> None:
    """Over channels: `test_links.test_a_killed_broker_is_replaced_and_nothing_is_lost`."""
    topology = rv.ClusterTree(2, 2)
    with rv.Network.launch(topology, recovery=Recovery.for_tests(), links="direct", ports=taken_port) as net:
        net.await_convergence(PATIENCE_SECONDS)
        survey = net.inspect.survey()
        victim = next(b for b, one in survey.items() if one["designated"] and one["parent"] is not None)
        stays = [broker for broker in survey if broker != victim]
        traffic = traffic_at(
            net, {"all": stays[0], "odd": stays[-1], "few": victim}, {"p": stays[0], "q": victim}
        )
        known = carriers(net)
        assert known[0] == 0 and net.status().hosts_by_ray == known[1] > 0
        with traffic.flowing():
            os.kill(net.inspect.pid_of(victim), signal.SIGKILL)
            net.await_convergence(PATIENCE_SECONDS)
        traffic.verify(100, PATIENCE_SECONDS)
        assert traffic.publishers["q"].broker != victim


@pytest.fixture(scope="module")
def opened_directly(ray_started: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[rv.Network]:
    """Two brokers with stores, in a process each; the last test kills one, which Ray restarts."""
    stable = Stable(tmp_path_factory.mktemp("stores"))
    with rv.Network.launch(rv.ClusterTree(2, 1), stable=stable, links="direct") as net:
        yield net


@pytest.fixture
def client_server(ray_started: None) -> Iterator[str]:
    """The address at which drivers outside the cluster join the tests' Ray."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    # In a process of its own: a server leaves Ray when its last client has gone.
    line = [sys.executable, "-c", SERVE, ray.get_runtime_context().gcs_address, str(port)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdin is not None and serving.stdout is not None
        assert serving.stdout.readline() == "serving\n"
        yield f"ray://127.0.0.1:{port}"
        serving.stdin.close()


def test_a_driver_outside_the_network_of_the_cluster_uses_ray_until_it_gets_in(
    client_server: str, tmp_path: Path
) -> None:
    with rv.Network.launch(rv.ClusterTree(1, 1)) as net:
        found = tmp_path / "found.json"
        line = [sys.executable, Path(__file__).with_name("client_outside.py"), found, net.name]
        env = os.environ | {"RAY_ADDRESS": client_server}
        done = subprocess.run(
            line, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False, env=env
        )
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(found.read_text())
        assert told["client"] and told["by Ray"] and told["directly"]
        assert told["seconds"] >= OPEN_SECONDS
        assert told["status"] == 1 and told["opened"] == [1, 0]
        (once,) = told["said"]
        assert "its calls go by Ray" in once


def said_until_closed(knock: socket.socket) -> bytes:
    knock.settimeout(PATIENCE_SECONDS)
    said = b""
    try:
        while data := knock.recv(65536):
            said += data
    except ConnectionResetError:
        pass
    return said


def test_bad_peers_at_a_door_are_closed_and_disturb_nobody(opened_directly: rv.Network) -> None:
    net = opened_directly
    with ExitStack() as opened:
        subscriber, publisher = net.subscriber("s", broker=0), net.publisher("p", broker=1)
        subscriber.subscribe("x >= 0")
        door: Door | None = ray.get(HostHandle(net.inspect.host_of(1)).door())
        assert door is not None and door.address == ray.util.get_node_ip_address()

        def knock() -> socket.socket:
            return opened.enter_context(socket.create_connection((door.address, door.port)))

        strangers = [knock() for _ in range(UNPROVEN_MAX + 40)]
        loud = knock()
        loud.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert b"a frame of" in said_until_closed(loud)
        assert [publisher.publish({"x": x}) for x in range(50)] == list(range(1, 51))
        net.settle()
        assert len(list(subscriber.notifications(0))) == 50
        said_until_closed(strangers[0])  # it had to make room for another
        assert b"does not greet in time" in said_until_closed(strangers[-1])
        assert carriers(net) == (2, 0)
        for client in (subscriber, publisher):
            net.release(client)


def test_a_broker_that_ray_restarts_is_reached_again(opened_directly: rv.Network) -> None:
    net = opened_directly
    subscriber = net.subscriber("reader", broker=0)
    subscriber.subscribe("x >= 0")
    publisher = net.publisher("writer", broker=1)
    for x in range(20):
        publisher.publish({"x": x})
        if x == 9:
            assert carriers(net) == (2, 0)
            crash(net, 1)
    notes = subscriber.notifications(PATIENCE_SECONDS)
    assert [next(notes).event["x"] for _ in range(20)] == list(range(20))
