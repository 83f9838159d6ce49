"""Generic STOMP clients on a network that heals: stomp.py, and @stomp/stompjs in a real browser.

Without npm or Chromium the browser test is skipped. The file of stompjs is fetched once, into the user's
cache.
"""

import asyncio
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import rayvous as rv
import stomp
from patience import PATIENCE_SECONDS
from rayvous.gateway.access import Access
from rayvous.gateway.core import Gateway
from rayvous.gateway.joined import Joined
from rayvous.gateway.serving import listeners_of
from rayvous.protocol.gateways import AccessConfig, GatewayConfig, GatewayLimits, Principal, digest_of

STOMPJS = "@stomp/stompjs@7.1.1"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rayvous" / "stompjs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCRIPT = Path(__file__).with_name("stomp_page.js")
ACCESS = AccessConfig(
    {
        "alice": Principal((digest_of("token-of-alice"),), publish="TRUE", subscribe="TRUE"),
        "bob": Principal((digest_of("token-of-bob"),), publish="JMSDestination = '/topic/bob'"),
    }
)
LIMITS = GatewayLimits(heartbeat_seconds=2.0, stall_seconds=30.0)


class Served:
    """A gateway with STOMP over TCP, over TLS and over WebSocket, on an event loop of its own."""

    def __init__(self, net, config):
        self.net, self._config = net, config
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._do(self._start())

    def _do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS)

    async def _start(self):
        limits = self._config.limits
        self.joined = Joined(self.net, limits.queue_events_max)
        self.core = Gateway(self.joined, Access(ACCESS), limits)
        addresses = {"http": "127.0.0.1:0", "stomp": "127.0.0.1:0", "origins": ("*",)}
        http, plain = listeners_of(self.core, GatewayConfig(**addresses, limits=limits), self.net)
        (encrypted,) = listeners_of(self.core, self._config, self.net)[1:]
        self.listeners = [http, plain, encrypted]
        self.port, self.tls_port = (urlsplit(each.url).port for each in (plain, encrypted))
        self.broker = f"{http.url.replace('http', 'ws')}/stomp"
        for listener in self.listeners:
            await listener.start()

    def close(self):
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self):
        for listener in self.listeners:
            await listener.stop()
        await self.core.close()
        await self.joined.close()  # its polls would outlive the event loop

    @property
    def addresses(self):
        return [("127.0.0.1", self.port)]


class Heard(stomp.ConnectionListener):
    """Records the frames that a client receives."""

    def __init__(self):
        self.messages, self.receipts, self.errors = [], [], []
        self.beats, self.lost = 0, False
        self._told = threading.Condition()

    def _note(self, where, what):
        with self._told:
            where.append(what)
            self._told.notify_all()

    def on_message(self, frame):
        self._note(self.messages, frame)

    def on_receipt(self, frame):
        self._note(self.receipts, frame.headers["receipt-id"])

    def on_error(self, frame):
        self._note(self.errors, frame)

    def on_heartbeat(self):
        self._note([], None)
        self.beats += 1

    def on_heartbeat_timeout(self):
        self.lost = True

    def until(self, reached):
        with self._told:
            assert self._told.wait_for(lambda: reached(self), PATIENCE_SECONDS), vars(self)

    def bodies(self, count):
        self.until(lambda heard: len(heard.messages) >= count)
        return [json.loads(frame.body) for frame in self.messages]


class Client:
    """A connection of stomp.py."""

    def __init__(self, served, name="", token="token-of-alice", heartbeats=(0, 0), tls=False, version="1.2"):
        address = [("127.0.0.1", served.tls_port)] if tls else served.addresses
        make = stomp.Connection12 if version == "1.2" else stomp.Connection11
        self.connection = make(address, heartbeats=heartbeats)
        if tls:
            self.connection.set_ssl(address, ssl_version=ssl.PROTOCOL_TLS_CLIENT, ca_certs=str(tls))
        self.heard = Heard()
        self.connection.set_listener("heard", self.heard)
        headers = {"client-id": name} if name else {}
        self.connection.connect("", token, wait=True, headers=headers)
        self._receipts = 0

    def _done(self, ask, *given, **named):
        self._receipts += 1
        receipt = f"r{self._receipts}"
        headers = {**named.pop("headers", {}), "receipt": receipt}
        ask(*given, headers=headers, **named)
        self.heard.until(lambda heard: receipt in heard.receipts)

    def subscribe(self, destination="/events", id="0", ack="auto", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._done(self.connection.subscribe, destination, id, ack, headers=named)

    def publish(self, destination="/events", **event):
        self._done(self.connection.send, destination, json.dumps(event), "application/json")

    def cut(self):
        """Break the connection without a DISCONNECT."""
        self.connection.transport.socket.shutdown(socket.SHUT_RDWR)
        self.connection.transport.stop()

    def leave(self):
        self.connection.disconnect(receipt="bye")
        self.heard.until(lambda heard: "bye" in heard.receipts)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem"))
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(made, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def served(ray_started, certificate):
    pem = {"certificate": certificate / "certificate.pem", "private_key": certificate / "key.pem"}
    with rv.Network.launch(rv.ClusterTree(2, 1), recovery=rv.Recovery(), brokers_per_actor=2) as net:
        gateway = Served(net, GatewayConfig("127.0.0.1:0", "127.0.0.1:0", limits=LIMITS, **pem))
        yield gateway
        gateway.close()


@pytest.fixture
def client(served):
    """Return a function that makes clients; those still connected at the end disconnect."""
    clients = []

    def make(*given, **named):
        clients.append(Client(served, *given, **named))
        return clients[-1]

    yield make
    for one in clients:
        if one.connection.is_connected() and not one.heard.errors:  # an error ends the connection
            one.leave()


def test_what_is_published_comes_where_destination_and_selector_say(client):
    """STOMP 1.2, "SEND", "SUBSCRIBE"; text with headers as JMS clients send it."""
    alice, other = client(), client()
    alice.subscribe("/topic/prices", selector="price > 10 AND who LIKE 'Zo%'")
    for price, who in ((9, "Zoë"), (11, "Ann"), (12, "Zoë")):
        other._done(other.connection.send, "/topic/prices", "a text", headers={"price": price, "who": who})
    other._done(other.connection.send, "/topic/others", "a text", headers={"price": 13, "who": "Zoë"})
    alice.heard.until(lambda heard: heard.messages)
    (frame,) = alice.heard.messages
    assert (frame.body, frame.headers["price"], frame.headers["who"]) == ("a text", "12", "Zoë")
    assert frame.headers["destination"] == "/topic/prices"


def test_an_event_of_python_comes_and_what_is_sent_is_an_event_there(client, served):
    alice = client()
    alice.subscribe("/events", selector="of = 'python'")
    watcher = served.net.subscriber("watcher")
    watcher.subscribe("of = 'stomp'")
    served.net.publisher("pythonic").publish({"of": "python", "n": 1})
    assert alice.heard.bodies(1) == [{"of": "python", "n": 1}]
    alice.publish(of="stomp", n=2)
    assert next(watcher.notifications(PATIENCE_SECONDS)).event == {"of": "stomp", "n": 2}


def test_what_expires_says_when_on_both_sides(client, served):
    alice, watcher = client(), served.net.subscriber("clock watcher")
    alice.subscribe("/events", selector="of = 'time'")
    watcher.subscribe("of = 'time'")
    now = round(time.time() * 1e3)
    for number, until in ((1, now - 60_000), (2, now + 60_000)):
        headers = {"of": "time", "n": number, "expires": until}
        alice._done(alice.connection.send, "/events", "a text", headers=headers)
    note = next(watcher.notifications(PATIENCE_SECONDS))
    assert note.event["n"] == 2 and abs(note.expires_at * 1e3 - now - 60_000) < 1_000
    served.net.publisher("timely").publish({"of": "time", "n": 3}, ttl=60.0)
    alice.heard.until(lambda heard: len(heard.messages) == 2)
    assert all(int(frame.headers["expires"]) > now for frame in alice.heard.messages)
    watcher.close()


@pytest.mark.parametrize(
    ("ack", "answered", "again"),
    [("auto", None, []), ("client", 1, [2]), ("client-individual", 0, [1, 2]), ("client", None, [0, 1, 2])],
)
def test_a_durable_subscriber_that_is_cut_comes_again_with_nothing_lost(client, fresh, ack, answered, again):
    """STOMP 1.2, "SUBSCRIBE ack Header", "ACK"; docs/exactly-once.md."""
    alice, other = client(fresh), client()
    asked = {"selector": f"run = '{fresh}'", "activemq.subscriptionName": "news"}
    alice.subscribe("/events", ack=ack, **asked)
    for n in range(3):
        other.publish(run=fresh, n=n)
    assert [event["n"] for event in alice.heard.bodies(3)] == [0, 1, 2]
    if answered is not None:
        acknowledged = alice.heard.messages[answered].headers["ack"]
        alice._done(lambda id, headers: alice.connection.ack(id, receipt=headers["receipt"]), acknowledged)
    if ack == "auto":
        alice._done(
            lambda id, headers: alice.connection.begin(id, headers), "after what was sent is written down"
        )
    alice.cut()
    other.publish(run=fresh, n=3)
    alice = client(fresh)
    alice.subscribe("/events", ack=ack, **asked)
    assert [event["n"] for event in alice.heard.bodies(len(again) + 1)] == [*again, 3]
    alice._done(lambda id, headers: alice.connection.unsubscribe(id, headers=headers | asked), "0")


def test_a_client_of_1_1_acknowledges_by_subscription_and_message(client, fresh):
    """STOMP 1.1, "ACK": the default version of `stomp.Connection`."""
    alice = client(fresh, version="1.1")
    asked = {"selector": f"run = '{fresh}'", "activemq.subscriptionName": "news"}
    alice.subscribe("/events", ack="client", **asked)
    for n in range(2):
        alice.publish(run=fresh, n=n)
    alice.heard.bodies(2)
    first = alice.heard.messages[0].headers["message-id"]
    alice._done(lambda id, headers: alice.connection.ack(id, "0", receipt=headers["receipt"]), first)
    alice.cut()
    alice = client(fresh, version="1.1")
    alice.subscribe("/events", ack="client", **asked)
    assert [event["n"] for event in alice.heard.bodies(1)] == [1]
    alice._done(lambda id, headers: alice.connection.unsubscribe(id, headers=headers | asked), "0")


def test_a_transaction_is_all_or_nothing(client, fresh):
    """STOMP 1.2, "BEGIN", "COMMIT", "ABORT"."""
    alice, other = client(), client()
    alice.subscribe(f"/topic/{fresh}")
    for end in (other.connection.abort, other.connection.commit):
        name = other.connection.begin()
        for n in range(2):
            body = json.dumps({"n": n, "end": end.__name__})
            other._done(
                other.connection.send,
                f"/topic/{fresh}",
                body,
                "application/json",
                headers={"transaction": name},
            )
        end(name)
    events = alice.heard.bodies(2)
    assert [(event["n"], event["end"]) for event in events] == [(0, "commit"), (1, "commit")]


def test_a_refusal_is_an_error_that_says_what_to_do(client):
    """STOMP 1.2, "ERROR"."""
    bob = client(token="token-of-bob")
    bob.publish("/topic/bob", n=1)
    bob.connection.send("/topic/alice", "{}", "application/json", headers={"receipt": "never"})
    bob.heard.until(lambda heard: heard.errors)
    assert "the right to publish of 'bob'" in bob.heard.errors[0].body
    assert bob.heard.errors[0].headers["receipt-id"] == "never"
    assert "never" not in bob.heard.receipts


def test_who_talks_on_still_reads_what_was_wrong(served):
    """STOMP 1.2, "Connection Lingering": closing at once would lose the ERROR."""
    with socket.create_connection(served.addresses[0], PATIENCE_SECONDS) as end:
        end.sendall(b"GET / HTTP/1.1\r\n" + b"x" * 300_000)
        said = b"".join(iter(lambda: end.recv(1 << 16), b""))
    assert said.startswith(b"ERROR\n")
    assert b"is not a command" in said or b"begins with a command" in said


def test_heart_beats_go_both_ways(client):
    """STOMP 1.2, "Heart-beating": after three beats neither side has given the other up."""
    alice = client(heartbeats=(2000, 2000))
    alice.heard.until(lambda heard: heard.beats >= 3)
    assert not alice.heard.lost
    alice.publish(n=1)


def test_over_tls(client, certificate, fresh):
    alice = client(tls=certificate / "certificate.pem")
    alice.subscribe(f"/topic/{fresh}")
    alice.publish(f"/topic/{fresh}", filler="x" * 300_000)
    assert alice.heard.bodies(1)[0]["filler"] == "x" * 300_000


def stompjs():
    """Return the browser file of @stomp/stompjs; npm fetches it if it is missing."""
    file = CACHE / "node_modules" / "@stomp" / "stompjs" / "bundles" / "stomp.umd.min.js"
    if not file.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        line = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), STOMPJS]
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        if done.returncode:
            pytest.skip(f"no stompjs: {' '.join(line)}")
    return file


@contextmanager
def browser(folder, url):
    """Open a page in Chromium; it reports its result with STOMP, and an error only in its title."""
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions")
    still = (
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
    )
    process = subprocess.Popen(
        [CHROMIUM, *quiet, *still, f"--user-data-dir={folder}", url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")
@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm: apt-get install npm")
def test_stompjs_in_a_browser(client, served, tmp_path):
    alice = client()
    alice.subscribe("/told")
    scripts = [Path(shutil.copy(file, tmp_path)).name for file in (stompjs(), SCRIPT)]
    page = tmp_path / "page.html"
    tags = "".join(f"<script src={name}></script>" for name in scripts)
    page.write_text(f"<!doctype html><meta charset=utf-8>{tags}", encoding="utf-8")
    with browser(tmp_path / "profile", f"{page.as_uri()}?{served.broker}"):
        (told,) = alice.heard.bodies(1)
    assert told["version"] == "1.2"
    assert json.loads(told["got"]) == {"JMSDestination": "/topic/page", "price": 11, "who": "Zoë"}
