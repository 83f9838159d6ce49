"""Groups, and durable names that begin in the past: server-sent events, a WebSocket and STOMP, with generic clients.

Reference: docs/replay.md, docs/last-value.md and docs/groups.md.
"""

import json
import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import httpx
import pytest
import rayvous as rv
import stomp
from patience import PATIENCE_SECONDS, until
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
    assert "alice/wrong" not in [each.name for each in net.durable()]


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
        self.frames: queue.SimpleQueue[tuple[str, str, dict[str, str]]] = queue.SimpleQueue()

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.frames.put(("message", frame.body, frame.headers))

    def on_error(self, frame: stomp.utils.Frame) -> None:
        self.frames.put(("error", f"{frame.headers.get('message', '')} {frame.body}", frame.headers))


@contextmanager
def stomp_client(where: tuple[str, int]) -> Iterator[tuple[stomp.Connection12, Heard]]:
    connection, heard = stomp.Connection12([where]), Heard()
    connection.set_listener("heard", heard)
    connection.connect("", TOKEN, wait=True, headers={"client-id": "past"})
    try:
        yield connection, heard
    finally:
        if connection.is_connected():
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
            assert [json.loads(body)["n"] for _, body, _ in got] == expected
            connection.unsubscribe("1", headers={"durable-subscription-name": name})
    with stomp_client(stomp_at) as (connection, heard):
        connection.subscribe("/events", id="1", headers={"selector": "n >= 0", "at": "oldest"})
        kind, said, _ = heard.frames.get(timeout=PATIENCE_SECONDS)
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


def test_two_connections_of_stomp_share_a_group_and_what_one_refuses_or_leaves_comes_again(
    net: rv.Network, stomp_at: tuple[str, int]
) -> None:
    name = {"durable-subscription-name": "team", "group": "true"}
    asked = {"selector": "team >= 0", "group-key": "team", **name}
    with stomp_client(stomp_at) as (one, of_one), stomp_client(stomp_at) as (two, of_two):
        for connection in (one, two):
            connection.subscribe("/events", id="1", ack="client-individual", headers=asked)
        until_subscribed(net, "group:alice/past.team")
        bob = net.publisher("of-team")
        bob.publish_batch([{"team": n} for n in range(20)])
        got: dict[int, int] = {}
        refused = set[int]()
        while len(got) < 20:
            for connection, heard in ((one, of_one), (two, of_two)):
                with suppress(queue.Empty):
                    _, body, headers = heard.frames.get(timeout=0.05)
                    number = json.loads(body)["team"]
                    if number % 5 == 0 and number not in refused:
                        refused.add(number)
                        connection.nack(headers["ack"], seconds="0.1")
                    else:
                        got[number] = int(headers["deliveries"])
                        connection.ack(headers["ack"])
        assert got == {n: 2 if n % 5 == 0 else 1 for n in range(20)} and sorted(refused) == [0, 5, 10, 15]
        bob.publish({"team": 99})
        stayer, of_stayer = None, of_one
        while stayer is None:
            for leaver, of_leaver, other, of_other in (
                (one, of_one, two, of_two),
                (two, of_two, one, of_one),
            ):
                with suppress(queue.Empty):
                    of_leaver.frames.get(timeout=0.05)
                    leaver.transport.disconnect_socket()  # without an acknowledgement
                    stayer, of_stayer = other, of_other
                    break
        _, body, headers = of_stayer.frames.get(timeout=PATIENCE_SECONDS)
        assert json.loads(body) == {"team": 99}
        stayer.ack(headers["ack"])
        stayer.unsubscribe("1", headers=name)


def until_subscribed(net: rv.Network, name: str) -> None:
    """Wait until a group is there with its subscription: STOMP says nothing of that by itself."""
    until(lambda: any(each.name == name for each in net.durable()))


def test_two_streams_of_server_sent_events_share_a_group(net: rv.Network, url: str) -> None:
    asked = {"selector": "crew >= 0", "durable": "crew", "group": "true"}

    def say(word: str, **body: object) -> int:
        answer = httpx.post(
            f"{url}/{word}", headers=BEARER, json={"durable": "crew", **body}, timeout=PATIENCE_SECONDS
        )
        return answer.status_code

    bob, sent = net.publisher("of-crew"), 0
    with ThreadPoolExecutor(1) as beside, subscribed(url, **asked) as messages:
        with subscribed(url, **asked) as others:
            had = beside.submit(next, others)
            while not had.done():  # until it has some of them, with which it leaves
                bob.publish({"crew": sent})
                sent += 1
                wait([had], timeout=0.2)
        first = json.loads(next(messages)["data"])
        assert say("refuse", id=first["id"], seconds=0.1) == 204
        got: dict[int, int] = {}
        while len(got) < sent:
            said = json.loads(beside.submit(next, messages).result(PATIENCE_SECONDS)["data"])
            assert say("acknowledge", id=said["id"], alone=True) == 204
            got[said["event"]["crew"]] = said["deliveries"]
        assert got.pop(first["event"]["crew"]) == 2 and set(got.values()) <= {1, 2}
        assert say("refuse", id=first["id"]) == 409, "it is done"
    answer = httpx.delete(
        f"{url}/durables/crew", params={"group": "true"}, headers=BEARER, timeout=PATIENCE_SECONDS
    )
    assert answer.status_code == 204
    assert not [each for each in net.durable() if each.name == "group:alice/crew"]
