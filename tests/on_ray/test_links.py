"""Both ways in which bytes go between processes: events, gateways, healing and durable clients on small networks."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS, until
from rayvous.actors.channels.config import LINKS
from rayvous.protocol.gateways import AccessConfig, GatewayConfig, Principal
from rayvous.protocol.messages.recovery import Recovery

EVENTS = 50
ANYBODY = AccessConfig(anonymous=Principal(publish="TRUE", subscribe="TRUE"))


@pytest.fixture(scope="module", params=LINKS)
def linked(request: pytest.FixtureRequest, ray_started: None) -> Iterator[rv.Network]:
    """Two clusters of two brokers that heal, with a gateway; the last test kills a broker."""
    with rv.Network.launch(
        rv.ClusterTree(2, 2),
        recovery=Recovery.for_tests(),
        gateway=GatewayConfig("127.0.0.1:0"),
        access=ANYBODY,
        links=request.param,
    ) as net:
        net.await_convergence(PATIENCE_SECONDS)
        yield net


def carried(net: rv.Network) -> set[bool]:
    """Return whether each broker calls others over connections of its own."""
    return {sizes.get("hosts_by_channel", 0) > 0 for _, sizes in net.inspect.describe().nodes(data=True)}


def test_events_arrive_once_and_in_order(linked: rv.Network, fresh: str) -> None:
    at = sorted(linked.inspect.brokers())
    readers = [linked.subscriber(f"{fresh}-{broker}", broker=broker) for broker in at]
    for reader in readers:
        reader.subscribe(f"to = '{fresh}'")
    publisher = linked.publisher(fresh, broker=at[-1])
    publisher.publish_batch([{"to": fresh, "x": x} for x in range(EVENTS)])
    assert publisher.publish({"to": fresh, "x": EVENTS}) == EVENTS + 1
    linked.settle(PATIENCE_SECONDS)
    for reader in readers:
        assert [note.event["x"] for note in reader.notifications(0)] == list(range(EVENTS + 1))
    direct = linked.inspect.directory.channels is not None
    until(lambda: carried(linked) == {direct})


def test_clients_outside_publish_and_read(linked: rv.Network, fresh: str) -> None:
    (url,) = linked.gateways()
    query = {"selector": f"to = '{fresh}'"}
    with httpx.stream("GET", f"{url}/subscribe", params=query, timeout=PATIENCE_SECONDS) as response:
        said = (line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: {"))
        messages = map(json.loads, said)
        assert "event" not in next(messages), "it is subscribed"
        posted = httpx.post(f"{url}/events", json=[{"to": fresh, "x": x} for x in range(EVENTS)])
        assert posted.is_success, posted.text
        came = [next(messages)["event"]["x"] for _ in range(EVENTS)]
    assert came == list(range(EVENTS))


def test_a_durable_subscriber_gets_what_came_while_it_was_away(linked: rv.Network, fresh: str) -> None:
    reader = linked.subscriber(fresh, durable=True)
    reader.subscribe(f"to = '{fresh}'")
    publisher = linked.publisher(fresh)
    publisher.publish({"to": fresh, "x": 0})
    first = next(iter(reader.notifications(PATIENCE_SECONDS)))
    reader.acknowledge(first)
    reader.close()
    publisher.publish_batch([{"to": fresh, "x": x} for x in range(1, EVENTS)])
    back = linked.subscriber(fresh, durable=True)
    notes = back.notifications(PATIENCE_SECONDS)
    assert [next(notes).event["x"] for _ in range(1, EVENTS)] == list(range(1, EVENTS))
    back.end()


def test_a_killed_broker_is_replaced_and_nothing_is_lost(
    linked: rv.Network, traffic_at: Callable[..., Any]
) -> None:
    survey = linked.inspect.survey()
    victim = next(broker for broker, one in survey.items() if one["designated"] and one["parent"] is not None)
    stays = [broker for broker in survey if broker != victim]
    clients = {"all": stays[0], "odd": stays[-1], "few": victim}, {"p": stays[0], "q": victim}
    traffic = traffic_at(linked, *clients)
    if linked.inspect.directory.channels is not None:
        channels = linked._process._channels
        assert channels is not None
        until(lambda: linked.status().hosts_by_ray == channels.carriers()[1] == 0)
        assert channels.carriers()[0] >= 2
    with traffic.flowing():
        os.kill(linked.inspect.pid_of(victim), signal.SIGKILL)
        linked.await_convergence(PATIENCE_SECONDS)
    traffic.verify(100, PATIENCE_SECONDS)
    assert victim not in linked.inspect.survey() and traffic.publishers["q"].broker != victim
