"""Durable names and groups that begin in the past: server-sent events, a WebSocket and STOMP, with generic clients.

Reference: docs/replay.md and docs/last-value.md.
"""

import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
import rayvous as rv
import stomp
from patience import PATIENCE_SECONDS
from rayvous.actors.groups.worker import GroupWorker
from rayvous.protocol.errors import InputError
from rayvous.protocol.gateways import AccessConfig, GatewayConfig, Principal, digest_of
from rayvous.protocol.messages.recovery import Recovery
from websockets.sync.client import connect

TOKEN = "token-of-alice"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ACCESS = AccessConfig({"alice": Principal((digest_of(TOKEN),), "TRUE", "TRUE")})
PUBLISHED = [{"flight": f"AA{n % 2}", "n": n} for n in range(6)]


@pytest.fixture(scope="module")
def net(ray_started: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[rv.Network]:
    with rv.Network.launch(
        rv.ClusterTree(2, 1),
        brokers_per_actor=2,
        recovery=Recovery.for_tests(client_patience_seconds=6.0, history_seconds=86_400.0),
        stable=rv.Stable(str(tmp_path_factory.mktemp("stores"))),
        gateway=GatewayConfig("127.0.0.1:0", stomp="127.0.0.1:0"),
        access=ACCESS,
    ) as net:
        faa = net.publisher("faa")
        faa.publish_batch(PUBLISHED)
        faa.flush()
        yield net


@pytest.fixture
def url(net: rv.Network) -> str:
    return net.gateways()[0]


@pytest.fixture
def stomp_at(net: rv.Network) -> tuple[str, int]:
    where = urlsplit(net.gateways()[1])
    return "127.0.0.1", int(where.port or 0)


@contextmanager
def subscribed(url: str, **query: object) -> Iterator[Iterator[dict[str, str]]]:
    """Yield the server-sent events that have a message."""
    timeout = httpx.Timeout(PATIENCE_SECONDS)
    with httpx.stream("GET", f"{url}/subscribe", headers=BEARER, params=query, timeout=timeout) as response:
        assert response.status_code == 200, response.read()

        def messages() -> Iterator[dict[str, str]]:
            message: dict[str, str] = {}
            for line in response.iter_lines():
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    message[name] = value
                elif not line and "id" in message:
                    yield message
                    message = {}
                elif not line:
                    message = {}

        yield messages()


def numbers(messages: Iterator[dict[str, str]], count: int) -> list[int]:
    return [json.loads(next(messages)["data"])["event"]["n"] for _ in range(count)]


def test_a_stream_of_server_sent_events_begins_in_the_past_and_goes_on_where_it_was(
    net: rv.Network, url: str
) -> None:
    asked = {"selector": "n >= 0", "durable": "sse", "at": "oldest"}
    with subscribed(url, **asked) as messages:
        assert numbers(messages, 4) == [0, 1, 2, 3]
        last = next(messages)["id"]
    with subscribed(url, **asked, after=last) as messages:  # as an EventSource that connects again
        assert numbers(messages, 1) == [5]
    position = json.dumps({"faa": 4})
    with subscribed(url, selector="n >= 0", durable="sse-at", at=position) as messages:
        assert numbers(messages, 2) == [4, 5]
    with subscribed(url, selector="n >= 0", durable="sse-last", last_per="flight") as messages:
        assert numbers(messages, 2) == [4, 5]
    for name in ("sse", "sse-at", "sse-last"):
        net.end_durable(f"alice/{name}")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"at": "oldest"}, "at: only a durable name begins in the past: give durable"),
        ({"last_per": "flight"}, "last_per: only a durable name begins in the past: give durable"),
        ({"durable": "wrong", "at": "yesterday"}, "it must be a time such as"),
        ({"durable": "wrong", "at": "2999-01-01"}, "in the future"),
        ({"durable": "wrong", "at": '{"nobody": 1}'}, "no broker knows a publisher 'nobody'"),
        ({"durable": "wrong", "at": '{"faa": -1}'}, "at: position of 'faa'"),
        ({"durable": "wrong", "at": '{"faa"'}, "it must be a time such as"),
        ({"durable": "wrong", "last_per": ""}, "last_per"),
        (
            {"durable": "wrong", "group": "true", "last_per": "flight"},
            "last_per: a group is given every event",
        ),
        ({"durable": "wrong", "group": "true", "at": "2999-01-01"}, "in the future"),
    ],
)
def test_what_is_wrong_is_said_and_leaves_no_name_behind(
    net: rv.Network, url: str, asked: dict[str, str], said: str
) -> None:
    params = {"selector": "n >= 0", **asked}
    answer = httpx.get(f"{url}/subscribe", headers=BEARER, params=params, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 400 and said in answer.json()["detail"]
    assert not [each for each in net.durable() if each.subscriptions and "wrong" in each.name]


def test_a_websocket_begins_in_the_past(net: rv.Network, url: str) -> None:
    with connect(url.replace("http", "ws", 1) + "/ws", additional_headers=BEARER) as wire:
        asked = {"type": "subscribe", "selector": "n >= 0", "durable": "ws", "stream": "s", "ref": 1}
        wire.send(json.dumps({**asked, "at": True}))
        assert "at" in json.loads(wire.recv(PATIENCE_SECONDS))["error"]["detail"]
        wire.send(json.dumps({**asked, "at": {"faa": 2}, "last_per": "flight"}))
        assert json.loads(wire.recv(PATIENCE_SECONDS))["type"] == "subscribed"
        got = [json.loads(wire.recv(PATIENCE_SECONDS)) for _ in range(2)]
        assert [each["event"]["n"] for each in got] == [4, 5]
    net.end_durable("alice/ws")


class Heard(stomp.ConnectionListener):  # type: ignore[misc]
    """Puts what a client of STOMP hears into a queue."""

    def __init__(self) -> None:
        self.frames: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.frames.put(("message", frame.body))

    def on_error(self, frame: stomp.utils.Frame) -> None:
        self.frames.put(("error", f"{frame.headers.get('message', '')} {frame.body}"))


@contextmanager
def stomp_client(where: tuple[str, int]) -> Iterator[tuple[stomp.Connection12, Heard]]:
    connection, heard = stomp.Connection12([where]), Heard()
    connection.set_listener("heard", heard)
    connection.connect("", TOKEN, wait=True, headers={"client-id": "past"})
    try:
        yield connection, heard
    finally:
        connection.disconnect()


def test_stomp_begins_in_the_past(net: rv.Network, stomp_at: tuple[str, int]) -> None:
    for headers, expected in (
        ({"at": "oldest"}, [0, 1, 2, 3, 4, 5]),
        ({"at": '{"faa": 3}'}, [3, 4, 5]),
        ({"last-per": "flight"}, [4, 5]),
    ):
        with stomp_client(stomp_at) as (connection, heard):
            name = f"board{len(expected)}"
            asked = {"selector": "n >= 0", "durable-subscription-name": name, **headers}
            connection.subscribe("/events", id="1", headers=asked)
            got = [heard.frames.get(timeout=PATIENCE_SECONDS) for _ in expected]
            assert [json.loads(body)["n"] for _, body in got] == expected
            connection.unsubscribe("1", headers={"durable-subscription-name": name})
    with stomp_client(stomp_at) as (connection, heard):
        connection.subscribe("/events", id="1", headers={"selector": "n >= 0", "at": "oldest"})
        kind, said = heard.frames.get(timeout=PATIENCE_SECONDS)
        assert kind == "error" and "only a durable name begins in the past" in said


def test_a_group_begins_in_the_past_and_its_workers_share_it(net: rv.Network, url: str) -> None:
    one, two = (
        worker for worker in net.subscribers(["past"] * 2, group=True) if isinstance(worker, GroupWorker)
    )
    one.subscribe("n >= 0", at={"faa": 1})
    two.subscribe("n >= 0")  # it has begun
    net.publisher("later").publish({"n": 6})
    done: list[int] = []
    while len(done) < 6:
        for worker in (one, two):
            for note in worker.notifications(timeout_seconds=0.2):
                done.append(note.event["n"])
                worker.ack(note)
    assert sorted(done) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(InputError, match="last_per: a group is given every event"):
        two.subscribe("n >= 0", last_per="flight")
    with pytest.raises(InputError, match="it must be a time such as"):
        two.subscribe("n >= 0", at="yesterday")
    one.end()
    with subscribed(url, selector="n >= 0", durable="g", group="true", at="oldest") as messages:
        assert sorted(numbers(messages, 7)) == [0, 1, 2, 3, 4, 5, 6]
    net.end_durable("group:alice/g")
