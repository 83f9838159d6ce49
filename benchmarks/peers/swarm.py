"""Many clients of one server in one thread: publish trades, receive notifications, count missing and surplus ones.

Rules
-----
* It uses as little CPU as possible, since it shares the machine with the server: it receives bytes and
  searches them for the numbers of trades, and parses only what the client itself has to decide.
* At most `WINDOW_EVENTS` are published and not delivered. So no server has to slow a publisher down, shed, or
  swap, and the measured rate is that at which it carries trades.
* If the client filters, it does so during the run, and only by the symbol and the price.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from .load import BLOCK_EVENTS, CENTS, Alert, Ints, Load
from .wires import READ_BYTES, Select, Wire

PUBLISHERS: Final = 4
WINDOW_EVENTS: Final = 4_096
CHUNK_EVENTS: Final = 64
PATIENCE_SECONDS: Final = 15.0
"""Notifications that are outstanding when nothing has arrived for this long are missing."""
SUBSCRIPTIONS_A_SESSION: Final = 50
"""How many of the subscriptions that are timed share a connection."""
CONNECT_SECONDS: Final = 60.0
TAIL_BYTES: Final = 128
"""More than the longest notification body."""

_NUMBERED: Final = re.compile(rb'"n":(\d+)\}')
_WHOLE: Final = re.compile(rb'"symbol":"(S\d+)","price":(\d+)\.(\d\d),"n":(\d+)\}')


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run of publishing: counts, and the time until the last notification was delivered."""

    events: int
    notifications: int
    seconds: float
    client_cpu_seconds: float


class Client:
    """The receiving half of one client; it `filters` if the server does not decide everything."""

    def __init__(self, sock: socket.socket, number: int, load: Load, filters: bool) -> None:
        self.sock, self.number = sock, number
        self.had: list[bytes] = []
        self._tail = b""
        self._floors: dict[bytes, int] | None = None
        if filters:
            self._floors = {alert.symbol.encode(): alert.floor for alert in load.alerts_of(number)}

    def take(self, data: bytes) -> int:
        """Process received bytes, and return the number of notifications completed by them."""
        data = self._tail + data
        found = (_NUMBERED if self._floors is None else _WHOLE).findall(data)
        end = data.rfind(b"}") + 1
        self._tail = data[max(end, len(data) - TAIL_BYTES) :]
        if self._floors is None:
            self.had += found
            return len(found)
        floors = self._floors
        for symbol, whole, cents, number in found:
            if (floor := floors.get(symbol)) is not None and int(whole + cents) > floor:
                self.had.append(number)
        return len(found)


class _Publisher:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.left = b""

    def send(self) -> bool:
        """Send as much as possible without blocking; return whether everything is sent."""
        with suppress(BlockingIOError):
            self.left = self.left[self.sock.send(self.left) :]
        return not self.left


class Swarm:
    """Connected and subscribed clients, and publishers beside them; a context manager.

    Parameters
    ----------
    wire
        The protocol.
    load
        Subscriptions of the clients, and the published trades.
    port
        The port of the server, on this machine.
    """

    def __init__(self, wire: Wire, load: Load, port: int) -> None:
        self._wire, self._load, self._port = wire, load, port
        self._sockets: list[socket.socket] = []
        self._trades = self._stream()
        self._symbols: list[int] = []
        self._prices: list[int] = []
        self._due = self._arrived = 0
        started = time.perf_counter()
        try:
            self._clients = [self._client(number) for number in range(load.clients)]
            self._publishers = [_Publisher(self._connected()) for _ in range(PUBLISHERS)]
        except BaseException:
            self.close()
            raise
        self.subscribe_seconds = time.perf_counter() - started
        self._poll = select.epoll()
        self._by_fd = {client.sock.fileno(): client for client in self._clients}
        self._out = {publisher.sock.fileno(): publisher for publisher in self._publishers}
        for sock in self._sockets:
            sock.setblocking(False)
            self._poll.register(sock.fileno(), select.EPOLLIN)
        match wire.select:
            case Select.SERVER:
                copies = 1
            case Select.SYMBOL:
                copies = 2
            case Select.CLIENT:
                copies = load.clients
        self._open_max = WINDOW_EVENTS * copies

    def _connected(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self._port), CONNECT_SECONDS)
        self._sockets.append(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wire.connect(sock)
        return sock

    def _client(self, number: int) -> Client:
        sock = self._connected()
        self._wire.subscribe(sock, self._load.alerts_of(number))
        return Client(sock, number, self._load, self._wire.select is not Select.SERVER)

    def close(self) -> None:
        """Close all connections."""
        for sock in self._sockets:
            sock.close()

    def __enter__(self) -> Swarm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Publishing.

    def _stream(self) -> Iterator[tuple[list[int], list[int], int]]:
        """Yield symbols and prices of the next trades, and the number of copies that the server has to send."""
        block = 0
        while True:
            symbols, prices = self._load.trades(block)
            block += 1
            for start in range(0, BLOCK_EVENTS, CHUNK_EVENTS):
                part = slice(start, start + CHUNK_EVENTS)
                yield symbols[part].tolist(), prices[part].tolist(), self._copies(symbols[part], prices[part])

    def _copies(self, symbols: Ints, prices: Ints) -> int:
        match self._wire.select:
            case Select.SERVER:
                return len(self._load.wanted(symbols, prices)[0])
            case Select.SYMBOL:
                return int(self._load.symbols_wanted(symbols).sum())
            case Select.CLIENT:
                return len(symbols) * self._load.clients

    def _encode(self, symbols: list[int], prices: list[int]) -> bytes:
        first, trade = len(self._symbols), self._wire.trade
        self._symbols += symbols
        self._prices += prices
        return b"".join(
            trade(first + i, f"S{symbol}", cents)
            for i, (symbol, cents) in enumerate(zip(symbols, prices, strict=True))
        )

    def run(self, seconds: float) -> Run:
        """Publish for that long, and return when everything is delivered, or nothing arrives any more."""
        events, notifications = len(self._symbols), self._notifications()
        cpu, started = time.process_time(), time.perf_counter()
        last = started
        while True:
            now = time.perf_counter()
            going = now - started < seconds
            free = [each for each in self._publishers if not each.left] if going else []
            for publisher in free:
                if self._due - self._arrived >= self._open_max:
                    break
                symbols, prices, copies = next(self._trades)
                publisher.left = self._encode(symbols, prices)
                self._due += copies
                if not publisher.send():
                    self._poll.modify(publisher.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
            if self._take(0.0 if free and self._due - self._arrived < self._open_max else 0.1):
                last = time.perf_counter()
            busy = any(each.left for each in self._publishers)
            if not going and not busy and self._arrived >= self._due:
                break
            if time.perf_counter() - max(last, started + seconds) > PATIENCE_SECONDS:
                break
        return Run(
            len(self._symbols) - events,
            self._notifications() - notifications,
            last - started,
            time.process_time() - cpu,
        )

    def _take(self, timeout: float) -> int:
        """Process available bytes, waiting up to the timeout; return the number of notifications."""
        before = self._arrived
        for fd, what in self._poll.poll(timeout):
            client = self._by_fd.get(fd)
            if client is not None:
                self._arrived += client.take(_received(client.sock))
                continue
            publisher = self._out[fd]
            if what & select.EPOLLOUT and publisher.send():
                self._poll.modify(fd, select.EPOLLIN)
            if what & ~select.EPOLLOUT:
                _received(publisher.sock)  # unsolicited replies
        return self._arrived - before

    def latencies(self, count: int) -> list[float]:
        """Return the latencies of single trades to a client that wants them, with no other load."""
        found = []
        for number in range(count):
            client = self._clients[number % len(self._clients)]
            symbol, price = int(self._load.alerts_of(client.number)[0].symbol[1:]), CENTS - 1
            one = np.array([symbol]), np.array([price])
            self._due += self._copies(*one)
            had = len(client.had)
            publisher = self._publishers[number % PUBLISHERS]
            publisher.left = self._encode([symbol], [price])
            started = time.perf_counter()
            publisher.send()
            while self._take(PATIENCE_SECONDS) and len(client.had) == had:
                pass
            found.append(time.perf_counter() - started)
            while self._arrived < self._due and self._take(PATIENCE_SECONDS):
                pass
        return found

    def subscription_seconds(self, count: int) -> list[float]:
        """Return how long each of so many more subscriptions takes, one after the other, on an idle server."""
        found = []
        for number in range(count):
            held = number % SUBSCRIPTIONS_A_SESSION
            if held == 0:
                sock = self._connected()
            alert = Alert(f"N{number}", CENTS // 2)
            started = time.perf_counter()
            self._wire.subscribe(sock, [alert], held)
            found.append(time.perf_counter() - started)
        return found

    # Results.

    def _notifications(self) -> int:
        return sum(len(client.had) for client in self._clients)

    def judge(self) -> tuple[int, int]:
        """Return the number of missing notifications, and of unwanted or duplicate ones."""
        had = ((client.number, int(number)) for client in self._clients for number in client.had)
        return judged(self._load, np.array(self._symbols), np.array(self._prices), had)


def judged(load: Load, symbols: Ints, prices: Ints, had: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the number of missing notifications (client, trade), and of unwanted or duplicate ones."""
    trades, clients = load.wanted(symbols, prices)
    wanted, got = Counter(zip(clients.tolist(), trades.tolist(), strict=True)), Counter(had)
    return (wanted - got).total(), (got - wanted).total()


def _received(sock: socket.socket) -> bytes:
    try:
        data = sock.recv(READ_BYTES)
    except BlockingIOError:
        return b""
    if not data:
        raise ConnectionError("a server has ended a connection")
    return data
