"""Generic HTTP and WebSocket clients (httpx, websockets, curl) on a network that heals."""

import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
import ray
import rayvous as rv
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from patience import PATIENCE_SECONDS
from rayvous.actors.network.gateways import gateways_of
from rayvous.protocol.gateways import AccessConfig, GatewayConfig, GatewayLimits, Principal, digest_of
from websockets.sync.client import connect

RAYVOUS = Path(sys.executable).with_name("rayvous")
TOKENS = {name: f"token-of-{name}" for name in ("alice", "bob", "eve")}
ACCESS = AccessConfig(
    {
        "alice": Principal(
            (digest_of(TOKENS["alice"]),),
            "TRUE",
            "TRUE",
            events_per_second=1e6,
            priority_max=3,
            max_delay=True,
        ),
        "bob": Principal((digest_of(TOKENS["bob"]),), "origin = 'JFK'", "origin = 'JFK'"),
        "eve": Principal((digest_of(TOKENS["eve"]),)),
    },
    anonymous=Principal(subscribe="public = TRUE"),
)
LIMITS = GatewayLimits(
    connections_max=20, request_seconds=4.0, stall_seconds=5.0, heartbeat_seconds=0.5, queue_events_max=500
)


@pytest.fixture(scope="module")
def outside(ray_started):
    """A network with a gateway on the only node."""
    with rv.Network.launch(
        rv.ClusterTree(2, 2),
        brokers_per_actor=2,
        recovery=rv.Recovery(heartbeat_seconds=0.3, client_patience_seconds=3.0),
        gateway=GatewayConfig("127.0.0.1:0", stomp="127.0.0.1:0", limits=LIMITS),
        access=ACCESS,
    ) as net:
        yield net


@pytest.fixture
def url(outside):
    url, _ = outside.gateways()
    return url


def bearer(who):
    return {} if who is None else {"Authorization": f"Bearer {TOKENS.get(who, who)}"}


def post(url, who, *events, **kwargs):
    return httpx.post(
        f"{url}/events", headers=bearer(who), json=list(events), timeout=PATIENCE_SECONDS, **kwargs
    )


def keyed(url, who, event):
    headers = bearer(who) | {"Idempotency-Key": '"the first"'}
    return httpx.post(f"{url}/events", headers=headers, json=event, timeout=PATIENCE_SECONDS)


class Messages:
    """Server-sent events, as a client reads them line by line."""

    def __init__(self, response):
        assert response.status_code == 200, response.read()
        self._lines = response.iter_lines()
        self.last_id = None

    def next(self):
        message = {}
        for line in self._lines:
            if not line and message:
                self.last_id = message.get("id", self.last_id)
                return message
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                message[name] = value
        raise EOFError

    def events(self, count):
        return [json.loads(self.next()["data"])["event"] for _ in range(count)]


@contextmanager
def subscribed(url, who, after=None, **query):
    headers = bearer(who) | ({} if after is None else {"Last-Event-ID": after})
    timeout = httpx.Timeout(PATIENCE_SECONDS)
    with httpx.stream("GET", f"{url}/subscribe", headers=headers, params=query, timeout=timeout) as response:
        messages = Messages(response)
        assert messages.next()["event"] == "subscribed"
        yield messages


def test_each_form_of_publishing_reaches_ray_and_comes_back(outside, url, fresh, tmp_path):
    inside = outside.subscriber(fresh)
    inside.subscribe("form IS NOT NULL")
    flight = CloudEvent({"type": "delay", "source": "/jfk"}, {"form": "cloud"})
    body = tmp_path / "events.jsonl"
    body.write_text('{"form": "lines"}\n{"form": "more"}\n')
    with subscribed(url, "alice", selector="form IS NOT NULL") as messages:
        assert post(url, "alice", {"form": "json"}).status_code == 202
        authorization = f"Authorization: Bearer {TOKENS['alice']}"
        command = ["curl", "-sS", "-H", authorization, "-H", "Content-Type: application/x-ndjson"]
        done = subprocess.run(
            [*command, "--data-binary", f"@{body}", f"{url}/events?flush=true"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(done.stdout)["last"] - json.loads(done.stdout)["first"] == 1
        for message in (to_structured_event(flight), to_binary_event(flight)):
            headers = {"content-type": "application/json", **message.headers, **bearer("alice")}
            assert httpx.post(f"{url}/events", headers=headers, content=message.body).status_code == 202
        came = messages.events(5)
    assert [event["form"] for event in came] == ["json", "lines", "more", "cloud", "cloud"]
    assert came[3]["ce_type"] == came[4]["ce_type"] == "delay"
    notes = inside.notifications(PATIENCE_SECONDS)
    assert [next(notes).event["form"] for _ in range(5)] == [event["form"] for event in came]
    outside.release(inside)


def test_a_durable_stream_loses_nothing_when_it_is_cut_and_when_its_gateway_is_killed(outside, url):
    had = []
    publisher = outside.publisher("inside")
    query = {"selector": "n >= 0", "durable": "mail"}
    with subscribed(url, "alice", **query) as messages:
        post(url, "alice", *({"n": n} for n in range(20)))
        publisher.publish_batch([{"n": n} for n in range(20, 40)])
        had += messages.events(25)
        last = messages.last_id
    publisher.publish_batch([{"n": n} for n in range(40, 60)])  # while no stream is open
    with subscribed(url, "alice", last, durable="mail") as messages:
        had += messages.events(10)
        last = messages.last_id
        first = keyed(url, "alice", {"once": 1})
        [gateway] = gateways_of(outside.inspect.directory)
        before = ray.get(gateway.pid.remote())
        os.kill(before, signal.SIGKILL)
        publisher.publish_batch([{"n": n} for n in range(60, 80)])
    reborn, stomp = outside.gateways()  # waits until Ray has restarted it
    assert ray.get(gateway.pid.remote()) != before
    with subscribed(reborn, "alice", last, durable="mail") as messages:
        had += messages.events(45)
    assert sorted(event["n"] for event in had) == list(range(80))
    assert first.status_code == 202
    assert keyed(reborn, "alice", {"once": 1}).json() == first.json() | {"repeated": True}
    assert keyed(reborn, "alice", {"once": 2}).status_code == 422
    with socket.create_connection((urlsplit(stomp).hostname, urlsplit(stomp).port)) as wire:
        wire.sendall(b"CONNECT\naccept-version:1.2\nhost:x\npasscode:token-of-alice\n\n\0")
        assert wire.recv(9) == b"CONNECTED"
    gone = httpx.delete(f"{reborn}/durables/mail", headers=bearer("alice"), timeout=PATIENCE_SECONDS)
    assert gone.status_code == 204
    outside.release(publisher)


def test_a_key_does_not_wait_for_what_the_rendezvous_point_writes(outside, url):
    """The rendezvous point is blocked, as while the control store of Ray is away: decision 0100."""

    def prepare(rendezvous):
        rendezvous.go_on = threading.Event()

    def stand_still(rendezvous):
        rendezvous.go_on.wait(PATIENCE_SECONDS)

    def go_on(rendezvous):
        rendezvous.go_on.set()

    call = outside.inspect.rendezvous.__ray_call__
    ray.get(call.remote(prepare))
    still = call.remote(stand_still)
    try:
        first, again = (
            httpx.post(f"{url}/events", headers=bearer("alice") | {"Idempotency-Key": "still"}, json={"n": 1})
            for _ in range(2)
        )
        assert (first.status_code, again.json()) == (202, first.json() | {"repeated": True})
        assert ray.wait([still], timeout=0)[1], "it stands still"
    finally:
        ray.get([call.options(concurrency_group="keys").remote(go_on), still])


def test_a_client_that_reads_nothing_is_cut_off_and_slows_nobody(outside, url):
    host, port = urlsplit(url).hostname, urlsplit(url).port
    [gateway] = gateways_of(outside.inspect.directory)
    process = psutil.Process(ray.get(gateway.pid.remote()))
    with socket.create_connection((host, port)) as slow:
        head = f"Host: localhost\r\nAuthorization: Bearer {TOKENS['alice']}"
        request = f"GET /subscribe?selector=TRUE HTTP/1.1\r\n{head}\r\n\r\n"
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(request.encode())
        assert slow.recv(12) == b"HTTP/1.1 200"
        with subscribed(url, "alice", selector="TRUE") as messages:
            before = process.memory_info().rss
            begun = time.monotonic()
            for start in range(0, 2000, 100):
                post(url, "alice", *({"n": n, "text": "x" * 10_000} for n in range(start, start + 100)))
                assert [event["n"] for event in messages.events(100)] == list(range(start, start + 100))
            seconds = time.monotonic() - begun
            grown = process.memory_info().rss - before
        assert (
            grown < 64 << 20
        )  # 40 MB went through, partly several times; at most 1 MiB waits for the slow client
        deadline = time.monotonic() + 20 * LIMITS.stall_seconds
        while not cut_off(slow):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert seconds < PATIENCE_SECONDS
    metrics = httpx.get(f"{url}/metrics").text
    shed = next(line for line in metrics.splitlines() if line.startswith("rayvous_gateway_shed_total"))
    assert float(shed.rpartition(" ")[2]) > 0


def cut_off(connection):
    """Return whether the other side has closed a connection: sending then fails with a reset."""
    try:
        connection.send(b" ")
    except OSError:
        return True
    return False


@pytest.mark.parametrize(
    ("who", "event", "publishes", "selector", "subscribes"),
    [
        (None, {"origin": "JFK"}, 403, "public = TRUE AND n = 1", 200),
        (None, {"origin": "JFK"}, 403, "n = 1", 403),
        ("nobody", {"origin": "JFK"}, 401, "n = 1", 401),
        ("alice", {"origin": "LGA"}, 202, "n = 1", 200),
        ("bob", {"origin": "JFK"}, 202, "origin = 'JFK' AND n = 1", 200),
        ("bob", {"origin": "LGA"}, 403, "origin LIKE 'J%'", 403),
        ("eve", {"origin": "JFK"}, 403, "FALSE", 200),
    ],
)
def test_who_may_do_what(url, who, event, publishes, selector, subscribes):
    assert post(url, who, event).status_code == publishes
    params = {"selector": selector}
    with httpx.stream("GET", f"{url}/subscribe", headers=bearer(who), params=params) as answer:
        assert answer.status_code == subscribes


@pytest.mark.parametrize("name", [{}, {"durable": "late"}, {"durable": "late", "group": "true"}])
def test_what_a_subscription_asks_of_admission_control_comes_to_the_network(url, name):
    params = {"selector": "n = 1", "priority": 3, "max_delay": 0.5, **name}
    answer = httpx.get(f"{url}/subscribe", headers=bearer("alice"), params=params, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 400
    assert "max_delay needs brokers that measure" in answer.json()["detail"]


def test_a_socket_comes_back_behind_what_it_acknowledged(url):
    where = url.replace("http", "ws", 1) + "/ws"
    ask = {"type": "subscribe", "durable": "box", "stream": "s", "ref": 1}
    with connect(where, additional_headers=bearer("alice")) as wire:
        wire.send(json.dumps(ask | {"selector": "box = TRUE"}))
        assert json.loads(wire.recv(PATIENCE_SECONDS))["type"] == "subscribed"
        wire.send(json.dumps({"type": "publish", "events": [{"box": True, "n": n} for n in range(6)]}))
        told = [json.loads(wire.recv(PATIENCE_SECONDS)) for _ in range(7)]
        notes = [each for each in told if each["type"] == "event"]
        wire.send(json.dumps({"type": "acknowledge", "stream": "s", "id": notes[3]["id"], "ref": 2}))
        assert json.loads(wire.recv(PATIENCE_SECONDS)) == {"type": "done", "ref": 2}
    with connect(where, additional_headers=bearer("alice")) as wire:
        wire.send(json.dumps(ask))
        told = [json.loads(wire.recv(PATIENCE_SECONDS)) for _ in range(3)]
        assert [each["event"]["n"] for each in told[1:]] == [4, 5]
        wire.send(json.dumps({"type": "unsubscribe", "durable": "box"}))
        assert json.loads(wire.recv(PATIENCE_SECONDS))["type"] == "end"


def test_slow_headers_and_too_many_connections_are_turned_away(url):
    address = urlsplit(url).hostname, urlsplit(url).port
    begun = time.monotonic()
    with socket.create_connection(address) as half:
        half.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        half.settimeout(PATIENCE_SECONDS)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while half.recv(1000):
                pass
            raise ConnectionResetError
    assert time.monotonic() - begun < 20 * LIMITS.request_seconds
    many = [socket.create_connection(address) for _ in range(LIMITS.connections_max + 5)]
    try:
        waiting, turned_away = set(many), 0
        while turned_away < 5:
            said, _, _ = select.select(waiting, [], [], PATIENCE_SECONDS)
            assert said, f"{turned_away} were turned away"
            waiting -= set(said)
            turned_away += sum(b"503" in received(one) for one in said)
    finally:
        for one in many:
            one.close()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while httpx.get(f"{url}/healthz").status_code != 200:  # until the connections are released
        assert time.monotonic() < deadline


def received(connection):
    try:
        return connection.recv(1000)
    except ConnectionResetError:
        return b""


@pytest.fixture
def certificate(tmp_path):
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    return tmp_path


def test_the_command_serves_with_tls_until_it_is_told_to_end(outside, certificate):
    files = ["--certificate", certificate / "cert.pem", "--private-key", certificate / "key.pem"]
    address = ray.get_runtime_context().gcs_address
    words = [RAYVOUS, "gateway", outside.name, "--http", "127.0.0.1:0", *files, "--address", address]
    with subprocess.Popen(
        list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        timer = threading.Timer(PATIENCE_SECONDS, command.kill)
        timer.start()
        try:
            url = command.stdout.readline().strip()
            assert url.startswith("https://127.0.0.1:"), command.stderr.read()
            trusted = ssl.create_default_context(cafile=certificate / "cert.pem")
            answer = httpx.post(f"{url}/events", headers=bearer("alice"), json={"n": 1}, verify=trusted)
            assert answer.status_code == 202, answer.text
            described = httpx.get(f"{url}/openapi.json", verify=trusted).json()
            assert described["paths"].keys() >= {"/events", "/subscribe", "/ws"}
            command.send_signal(signal.SIGTERM)
            assert command.wait(PATIENCE_SECONDS) == 0, command.stderr.read()
        finally:
            timer.cancel()
            command.kill()


def test_a_port_that_is_taken_leaves_nothing_behind(ray_started, url):
    taken = GatewayConfig(urlsplit(url).netloc)
    with pytest.raises(rv.InputError, match=r"gateway http .*: Address already in use"):
        rv.Network.launch(rv.ClusterTree(1, 1), name="taken", gateway=taken, access=ACCESS)
    with pytest.raises(rv.NetworkNotFound):
        rv.Network.attach("taken")
