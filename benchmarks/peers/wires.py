"""The client side of each protocol: connect, subscribe, and publish, as plain bytes over a blocking socket.

Rules
-----
* A subscription is in force when `subscribe` returns.
* The content of a notification ends in the number of its trade, ``"n":17}``, whatever surrounds it: so one
  client reads all protocols.
* NATS and Redis select by name alone, a headers exchange of RabbitMQ by equality: there the client gets
  surplus events, and filters itself. `Select` says which.

Reference: STOMP 1.2; the client protocol of NATS; RESP2; AMQP 0-9-1.
"""

from __future__ import annotations

import enum
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final, Protocol

from ...protocol.errors import BrokerUnavailable
from ...protocol.extras import extra
from .load import Alert

READ_BYTES: Final = 1 << 16
TOPIC: Final = "trades"


class Select(enum.Enum):
    """Where it is decided whether a client wants a trade."""

    SERVER = "server"
    SYMBOL = "symbol at the server, price in the client"
    CLIENT = "client"


class Wire(Protocol):
    """One protocol."""

    select: Select

    def connect(self, sock: socket.socket) -> None:
        """Open a session."""
        ...

    def subscribe(self, sock: socket.socket, alerts: Sequence[Alert], first: int = 0) -> None:
        """Subscribe to trades; the subscriptions are in force on return. `first` is how many the session has."""
        ...

    def trade(self, number: int, symbol: str, cents: int) -> bytes:
        """Return the bytes that publish a trade."""
        ...


def money(cents: int) -> str:
    """Return an amount in the form used by all wires."""
    return f"{cents // 100}.{cents % 100:02d}"


def _body(number: int, symbol: str, cents: int) -> str:
    return f'{{"symbol":"{symbol}","price":{money(cents)},"n":{number}}}'


def _until(sock: socket.socket, end: bytes, wrong: bytes) -> None:
    """Read until `end` was received; BrokerUnavailable on `wrong`, or if the connection ended."""
    said = b""
    while end not in said:
        data = sock.recv(READ_BYTES)
        said += data
        if not data or wrong in said:
            raise BrokerUnavailable(f"a peer has refused: {said[:500]!r}")


class Stomp:
    """STOMP 1.2 with selectors, as the gateway and ActiveMQ implement it.

    Parameters
    ----------
    token
        The passcode.
    """

    select = Select.SERVER

    def __init__(self, token: str = "") -> None:
        self._token = token

    def connect(self, sock: socket.socket) -> None:
        """Open a session."""
        sock.sendall(f"CONNECT\naccept-version:1.2\nhost:/\npasscode:{self._token}\n\n\0".encode())
        _until(sock, b"CONNECTED\n", b"ERROR\n")

    def subscribe(self, sock: socket.socket, alerts: Sequence[Alert], first: int = 0) -> None:
        """Subscribe once per alert; frames are processed in order, so the last receipt covers all."""
        said = []
        last = first + len(alerts) - 1
        for number, alert in enumerate(alerts, first):
            selector = f"symbol = '{alert.symbol}' AND price > {money(alert.floor)}"
            receipt = f"receipt:{last}\n" * (number == last)
            said.append(
                f"SUBSCRIBE\nid:{number}\ndestination:/topic/{TOPIC}\nselector:{selector}\n{receipt}\n\0"
            )
        sock.sendall("".join(said).encode())
        _until(sock, f"receipt-id:{last}\n".encode(), b"ERROR\n")

    def trade(self, number: int, symbol: str, cents: int) -> bytes:
        """Return a SEND with the properties in headers, as clients of JMS brokers do."""
        price = money(cents)
        return (
            f'SEND\ndestination:/topic/{TOPIC}\nsymbol:{symbol}\nprice:{price}\n\n{{"n":{number}}}\0'.encode()
        )


class Nats:
    """NATS, one subject; clients filter."""

    select = Select.CLIENT

    def connect(self, sock: socket.socket) -> None:
        """Open a session."""
        sock.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
        _until(sock, b"PONG\r\n", b"-ERR")

    def subscribe(self, sock: socket.socket, alerts: Sequence[Alert], first: int = 0) -> None:
        """Subscribe to all trades."""
        sock.sendall(f"SUB {TOPIC} 1\r\nPING\r\n".encode())
        _until(sock, b"PONG\r\n", b"-ERR")

    def trade(self, number: int, symbol: str, cents: int) -> bytes:
        """Return a PUB."""
        body = _body(number, symbol, cents)
        return f"PUB {TOPIC} {len(body)}\r\n{body}\r\n".encode()


class Redis:
    """Redis, one channel; clients filter."""

    select = Select.CLIENT

    def connect(self, sock: socket.socket) -> None:
        """Open a session."""
        sock.sendall(b"PING\r\n")
        _until(sock, b"+PONG\r\n", b"-ERR")

    def subscribe(self, sock: socket.socket, alerts: Sequence[Alert], first: int = 0) -> None:
        """Subscribe to all trades."""
        sock.sendall(f"SUBSCRIBE {TOPIC}\r\n".encode())
        _until(sock, b":1\r\n", b"-ERR")

    def trade(self, number: int, symbol: str, cents: int) -> bytes:
        """Return a PUBLISH."""
        body = _body(number, symbol, cents)
        return f"*3\r\n$7\r\nPUBLISH\r\n${len(TOPIC)}\r\n{TOPIC}\r\n${len(body)}\r\n{body}\r\n".encode()


class Amqp:
    """AMQP 0-9-1: a headers exchange, a queue per client, a binding per alert; `pika` writes and reads the frames."""

    select = Select.SYMBOL

    def __init__(self) -> None:
        with extra("peers"):
            import pika.frame
            import pika.spec
        self._frame, self._spec = pika.frame, pika.spec
        publish = pika.spec.Basic.Publish(exchange=TOPIC, routing_key="")
        self._publish = pika.frame.Method(1, publish).marshal()
        self._properties: dict[str, bytes] = {}

    def connect(self, sock: socket.socket) -> None:
        """Open a session, and declare the exchange."""
        spec = self._spec
        sock.sendall(b"AMQP\0\0\x09\x01")
        self._answer(sock, spec.Connection.Start)
        login = spec.Connection.StartOk(mechanism="PLAIN", response="\0guest\0guest", locale="en_US")
        login.client_properties = {}
        self._say(sock, 0, login)
        self._answer(sock, spec.Connection.Tune)
        self._say(sock, 0, spec.Connection.TuneOk(channel_max=1, frame_max=131_072, heartbeat=0))
        self._ask(sock, 0, spec.Connection.Open(virtual_host="/"), spec.Connection.OpenOk)
        self._ask(sock, 1, spec.Channel.Open(), spec.Channel.OpenOk)
        declare = spec.Exchange.Declare(exchange=TOPIC, type="headers", arguments={})
        self._ask(sock, 1, declare, spec.Exchange.DeclareOk)

    def subscribe(self, sock: socket.socket, alerts: Sequence[Alert], first: int = 0) -> None:
        """Bind an exclusive queue to the symbol of each alert, and consume without acknowledgements."""
        spec = self._spec
        own = spec.Queue.Declare(queue="", exclusive=True, auto_delete=True, arguments={})
        queue = self._ask(sock, 1, own, spec.Queue.DeclareOk).queue
        for alert in alerts:
            match = {"x-match": "all", "symbol": alert.symbol}
            self._ask(
                sock, 1, spec.Queue.Bind(queue=queue, exchange=TOPIC, arguments=match), spec.Queue.BindOk
            )
        consume = spec.Basic.Consume(queue=queue, no_ack=True, arguments={})
        self._ask(sock, 1, consume, spec.Basic.ConsumeOk)

    def trade(self, number: int, symbol: str, cents: int) -> bytes:
        """Return a Publish, its header and its body."""
        body = _body(number, symbol, cents).encode()
        properties = self._properties.get(symbol)
        if properties is None:
            made = self._spec.BasicProperties(headers={"symbol": symbol})
            properties = self._properties[symbol] = b"".join(made.encode())
        header = struct.pack(">HHQ", self._spec.Basic.INDEX, 0, len(body)) + properties
        whole: bytes = self._publish + _amqp_frame(2, header) + _amqp_frame(3, body)
        return whole

    def _say(self, sock: socket.socket, channel: int, method: object) -> None:
        sock.sendall(self._frame.Method(channel, method).marshal())

    def _ask(self, sock: socket.socket, channel: int, method: object, answer: type) -> Any:
        self._say(sock, channel, method)
        return self._answer(sock, answer)

    def _answer(self, sock: socket.socket, wanted: type) -> Any:
        """Read one frame, which must be the expected method."""
        said = b""
        while True:
            _, frame = self._frame.decode_frame(said)
            if frame is not None:
                break
            data = sock.recv(READ_BYTES)
            if not data:
                raise BrokerUnavailable(f"a peer has refused: it was waited for {wanted.__name__}")
            said += data
        if not isinstance(getattr(frame, "method", None), wanted):
            raise BrokerUnavailable(f"a peer has refused: {frame!r} instead of {wanted.__name__}")
        return frame.method


def _amqp_frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce"
