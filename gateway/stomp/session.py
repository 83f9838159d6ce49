"""The state machine of a STOMP 1.2 or 1.1 connection: frames and ticks in, frames and requests to the core out.

Rules
-----
* Results are carried out in order, before the next frame is put in. When a request fails, the results behind
  it are dropped and `failed` returns the replacement. So a receipt means that its frame has been executed.
* A table of state and command gives the method for each allowed frame. Any other frame causes an ERROR.
* Every ERROR says what to do, and closes the connection. Later frames are ignored.
* A client can make the session store only limited data: subscriptions, transactions, open messages.

Reference: STOMP 1.2, from "Connecting" to "Server Frames". STOMP does not define durable subscriptions: they
are requested with the headers of ActiveMQ, Artemis and RabbitMQ (docs/stomp.md).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...protocol import checks
from ...protocol.errors import RayvousError
from ...protocol.values import Value
from ..deliveries import Delivery, Reading
from .acknowledging import Unacknowledged
from .columns import batch_of_run
from .content import event_of, expires_of, selector_of
from .frames import Frame
from .headers import Refused, beats_of, key_of, needed, prefetch_of, terms_of
from .messages import head_of, header_line, parts_1_1, parts_1_2
from .requests import (
    Acknowledge,
    Close,
    Forget,
    Open,
    Out,
    Publish,
    PublishOnce,
    Refuse,
    Say,
    StompLimits,
    Subscribe,
    Unsubscribe,
)
from .runs import Sends

VERSIONS: Final = ("1.2", "1.1")
"""Preferred version first. In 1.1 an answer names a subscription and a message, and headers have no escape for CR."""
SERVER: Final = "rayvous"
OPENING: Final = ("CONNECT", "STOMP")
TICKS_A_HEARTBEAT: Final = 4
_NAME_HEADERS: Final = ("activemq.subscriptionName", "durable-subscription-name", "durable-subscriber-name")
_KEPT_HEADERS: Final = ("durable", "persistent")
_ACKS: Final = ("auto", "client", "client-individual")


class State(enum.Enum):
    """The state of a connection."""

    NEW = "before CONNECT"
    OPENING = "before CONNECTED"
    OPEN = "connected"
    CLOSED = "closed"


@dataclass(slots=True)
class _Subscription:
    number: int
    id: str
    head: bytes
    durable: str | None
    open: Unacknowledged | None
    """None in mode auto."""
    group: bool = False


@dataclass(slots=True)
class _Transaction:
    events: list[dict[str, Value]] = field(default_factory=list)
    answers: list[Frame] = field(default_factory=list)
    expires: dict[int, float] = field(default_factory=dict)
    size: int = 0

    def __len__(self) -> int:
        return len(self.events) + len(self.answers)


class StompSession:
    """One connection.

    Parameters
    ----------
    name
        The name of the session in CONNECTED.
    limits
        Limits on what the client can make the gateway store.
    now
        Seconds of any monotonic clock; all later times are of the same clock.
    """

    def __init__(self, name: str, limits: StompLimits, now: float) -> None:
        self._name, self._limits = name, limits
        self._state = State.NEW
        self._begun = self._heard = self._said = now
        self._waiting = True
        self._frame_began: float | None = None
        self._beat_seconds = self._silence_seconds = 0.0  # 0 for none
        self._client_id, self._version = "", VERSIONS[0]
        self._parts: Callable[[Reading], Sequence[bytes]] = parts_1_2
        self._numbers = 0
        self._by_id: dict[str, _Subscription] = {}
        self._by_number: dict[int, _Subscription] = {}
        self._transactions: dict[str, _Transaction] = {}
        self.rejected = 0
        """Messages answered with NACK, and discarded."""

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._state

    @property
    def size(self) -> int:
        """The bytes that its transactions hold."""
        return sum(each.size for each in self._transactions.values())

    # Time.

    def took(self) -> None:
        """Record that bytes came and are being processed: until `waits`, the client is not held to timeouts."""
        self._waiting = False

    def waits(self, now: float, within: bool) -> None:
        """Record that everything received is processed, except for an incomplete frame if `within`."""
        self._waiting = True
        self._heard = now
        if not within:
            self._frame_began = None
        elif self._frame_began is None:
            self._frame_began = now

    def said(self, now: float) -> None:
        """Record that bytes were sent."""
        self._said = now

    @property
    def tick_seconds(self) -> float:
        """The longest time until the next tick that keeps the agreed heart-beats and the timeouts."""
        limits = self._limits
        beats = [self._beat_seconds, self._silence_seconds]
        if self._state is not State.OPEN:
            beats.append(limits.heartbeat_seconds)  # none is agreed yet
        patience = min(limits.connect_seconds, limits.frame_seconds) / 2
        return min([patience, *(beat / TICKS_A_HEARTBEAT for beat in beats if beat)])

    def tick(self, now: float, partial: Frame | None = None) -> list[Out]:
        """Return a heart-beat if one is due, or the end if the client has been silent or slow for too long.

        `partial` is the part of an incomplete frame that has come.

        Reference: STOMP 1.2, "Heart-beating".
        """
        if self._state is State.CLOSED:
            return []
        if self._waiting and (late := self._late(now)):
            return self.failed(partial, late)
        if self._beat_seconds and now - self._said >= self._beat_seconds / 2:
            return [Say(None)]
        return []

    def _late(self, now: float) -> str:
        """Return which timeout the client has exceeded; empty if none."""
        limits, silence = self._limits, self._silence_seconds * self._limits.heartbeat_grace
        if self._state is State.NEW and now - self._begun > limits.connect_seconds:
            return f"no CONNECT for {limits.connect_seconds:g} s: send it first"
        if self._frame_began is not None and now - self._frame_began > limits.frame_seconds:
            return f"a frame did not come whole within {limits.frame_seconds:g} s: send it at once"
        if silence and now - self._heard > silence:
            return f"nothing was heard for {silence:g} s: send heart-beats as agreed, or agree to send none"
        return ""

    # Frames.

    def frame(self, frame: Frame) -> list[Out]:
        """Return the results of a client's frame."""
        self._frame_began = None
        if self._state is State.CLOSED:
            return []
        handler = TRANSITIONS.get((self._state, frame.command))
        try:
            if handler is None:
                raise Refused(_out_of_place(self._state, frame.command))
            outs = handler(self, frame)
        except RayvousError as error:
            return self.failed(frame, str(error))
        if (receipt := frame.headers.get("receipt")) is not None and frame.command not in OPENING:
            outs.append(Say(Frame("RECEIPT", {"receipt-id": receipt})))
        if frame.command == "DISCONNECT":
            outs.append(Close())
        return outs

    def sends(self, run: Sends) -> list[Out]:
        """Return the results of a run of SENDs; empty if its frames must be put in one by one."""
        batch = batch_of_run(run) if self._state is State.OPEN else None
        if batch is None:
            return []
        self._frame_began = None
        said = (Frame("RECEIPT", {"receipt-id": receipt}) for receipt in run.values("receipt"))
        return [Publish(batch), *map(Say, said)]

    def failed(self, frame: Frame | None, why: str) -> list[Out]:
        """Return the ERROR for a frame that cannot be executed, or for invalid input, and the close.

        Reference: STOMP 1.2, "ERROR".
        """
        self._state = State.CLOSED
        headers = {"message": checks.shown(why)[1:-1], "content-type": "text/plain;charset=utf-8"}
        if frame is not None and frame.command in OPENING:
            headers["version"] = ",".join(VERSIONS)
        if frame is not None and "receipt" in frame.headers:
            headers["receipt-id"] = frame.headers["receipt"]
        about = "" if frame is None else f"{frame.command}: "
        return [Say(Frame("ERROR", headers, f"{about}{why}\n".encode())), Close()]

    def _connect(self, frame: Frame) -> list[Out]:
        """STOMP 1.2, "Connecting", "Protocol Negotiation", "Heart-beating"."""
        headers = frame.headers
        accepted = [each.strip() for each in headers.get("accept-version", "1.0").split(",")]
        version = next((each for each in VERSIONS if each in accepted), None)
        if version is None:
            raise Refused(
                f"this gateway speaks STOMP {' and '.join(VERSIONS)}: send accept-version:{VERSIONS[0]}"
            )
        self._version = version
        self._parts = parts_1_1 if version == "1.1" else parts_1_2
        ours = self._limits.heartbeat_seconds
        sends, wants = beats_of(frame)
        self._silence_seconds = max(sends, ours) if sends else 0.0
        self._beat_seconds = max(wants, ours) if wants else 0.0
        self._client_id = headers.get("client-id", "")
        bearer = headers.get("authorization", "")
        if bearer and not bearer.lower().startswith("bearer "):
            raise Refused("authorization must be: Bearer, and then the token")
        token = headers.get("passcode") or bearer[len("bearer ") :].strip() or None
        self._state = State.OPENING
        return [Open(token, headers.get("login") or None)]

    def opened(self) -> list[Out]:
        """Return what is sent once the core has opened a session.

        Reference: STOMP 1.2, "CONNECTED Frame".
        """
        if self._state is not State.OPENING:
            return []
        self._state = State.OPEN
        beat = f"{self._limits.heartbeat_seconds * 1000:.0f}"
        headers = {
            "version": self._version,
            "session": self._name,
            "server": SERVER,
            "heart-beat": f"{beat},{beat}",
        }
        return [Say(Frame("CONNECTED", headers))]

    def _send(self, frame: Frame) -> list[Out]:
        """STOMP 1.2, "SEND"."""
        needed(frame, "destination")
        key, frame = key_of(frame)
        event, until = event_of(frame), expires_of(frame)  # now, so that an error names the right frame
        if "transaction" not in frame.headers:
            return [_publish((event,), key, {} if until is None else {0: until})]
        if key is not None:
            raise Refused("a transaction is published at once, so it has one key: put it on the COMMIT")
        transaction = self._transaction(frame)
        if until is not None:
            transaction.expires[len(transaction.events)] = until
        transaction.events.append(event)
        return self._later(frame)

    def _subscribe(self, frame: Frame) -> list[Out]:
        """STOMP 1.2, "SUBSCRIBE"."""
        headers, limits = frame.headers, self._limits
        id, destination = needed(frame, "id"), needed(frame, "destination")
        if id in self._by_id:
            raise Refused(f"id {checks.shown(id)} is in use: unsubscribe first, or take another")
        if len(self._by_id) >= limits.subscriptions_max:
            raise Refused(
                f"a connection may have {limits.subscriptions_max} subscriptions: unsubscribe from some"
            )
        mode = headers.get("ack", "auto")
        if mode not in _ACKS:
            raise Refused(f"ack is {checks.shown(mode)}: it must be {', '.join(_ACKS)}")
        selector = selector_of(destination, headers.get("selector", ""))
        durable = self._durable_name(frame)
        if durable is not None and any(durable == other.durable for other in self._by_id.values()):
            raise Refused(
                f"durable name {checks.shown(durable)} is in use here: unsubscribe first, or take another"
            )
        window = prefetch_of(frame, limits.unacknowledged_max)
        terms = terms_of(frame)
        self._numbers += 1
        unacknowledged = Unacknowledged(mode == "client", window, limits.unacknowledged_bytes_max)
        opens = None if mode == "auto" else unacknowledged
        group = _group_of(frame)
        one = _Subscription(self._numbers, id, head_of(id), durable, opens, group is not None)
        self._by_id[id] = self._by_number[one.number] = one
        return [Subscribe(one.number, selector, durable, headers.get("narrow") == "true", group, terms)]

    def _unsubscribe(self, frame: Frame) -> list[Out]:
        """STOMP 1.2, "UNSUBSCRIBE"; a frame that names a durable subscription ends it permanently."""
        id, durable = needed(frame, "id"), self._durable_name(frame)
        one = self._by_id.pop(id, None)
        outs: list[Out] = []
        if one is not None:
            del self._by_number[one.number]
            outs.append(Unsubscribe(one.number))
        elif durable is None:
            raise Refused(f"there is no subscription with id {checks.shown(id)} on this connection")
        if durable is not None:
            outs.append(Forget(durable, _group_of(frame) is not None))
        return outs

    def _durable_name(self, frame: Frame) -> str | None:
        """Return the name that a frame gives to a durable subscription, or None."""
        headers = frame.headers
        names = [headers[header] for header in _NAME_HEADERS if headers.get(header)]
        if not names and any(headers.get(header) == "true" for header in _KEPT_HEADERS):
            names = [headers["id"]]
        if not names:
            return None
        return f"{self._client_id}.{names[0]}" if self._client_id else names[0]

    def _answer(self, frame: Frame) -> list[Out]:
        """STOMP 1.2, "ACK", "NACK"."""
        number = self._number_of(frame)
        if "transaction" not in frame.headers:
            return self._settle(frame, number)
        self._transaction(frame).answers.append(frame)
        return self._later(frame)

    def _number_of(self, frame: Frame) -> int:
        if self._version == "1.1":
            one = self._by_id.get(needed(frame, "subscription"))
            name = needed(frame, "message-id")
            return 0 if one is None or one.open is None else one.open.number_of(name)
        id = needed(frame, "id")
        number = int(id) if id.isascii() and id.isdigit() and len(id) < 16 else 0
        if not 0 < number <= self._numbers:
            raise Refused(f"no message has ack id {checks.shown(id)}: send the ack header of the MESSAGE")
        return number

    def _settle(self, frame: Frame, number: int) -> list[Out]:
        for one in self._by_id.values():
            if one.open is not None and number in one.open:
                break
        else:
            return []  # already answered, or its subscription has ended
        assert one.open is not None
        if frame.command == "NACK" and one.group:
            wait = _seconds_of(frame)
            settled = one.open.settle(number)
            self.rejected += len(settled)
            return [Refuse(one.number, sent.id, wait) for sent in settled]
        if frame.command == "NACK" and frame.headers.get("requeue") == "true":
            meant = one.open.meant(number).items()
            return [self._message(one, each, sent.part, {"redelivered": "true"}) for each, sent in meant]
        settled = one.open.settle(number)
        self.rejected += len(settled) * (frame.command == "NACK")
        return (
            [] if one.durable is None else [Acknowledge(one.number, settled[-1].id, not one.open.cumulative)]
        )

    # Transactions.

    def _begin(self, frame: Frame) -> list[Out]:
        """STOMP 1.2, "BEGIN"."""
        name = needed(frame, "transaction")
        if name in self._transactions:
            raise Refused(f"transaction {checks.shown(name)} has begun already: commit or abort it first")
        if len(self._transactions) >= self._limits.transactions_max:
            raise Refused(f"{self._limits.transactions_max} transactions are open: commit or abort one first")
        self._transactions[name] = _Transaction()
        return []

    def _later(self, frame: Frame) -> list[Out]:
        """Charge a frame to the transaction in which it waits."""
        limits = self._limits
        self._transaction(frame).size += len(frame.body) + sum(
            len(name) + len(value) for name, value in frame.headers.items()
        )
        every = self._transactions.values()
        if sum(map(len, every)) > limits.transaction_frames_max:
            raise Refused(
                f"transactions may hold {limits.transaction_frames_max:,} frames: commit more often"
            )
        if self.size > limits.transaction_bytes_max:
            raise Refused(f"transactions may hold {limits.transaction_bytes_max:,} bytes: commit more often")
        return []

    def _transaction(self, frame: Frame) -> _Transaction:
        name = needed(frame, "transaction")
        if name not in self._transactions:
            raise Refused(f"transaction {checks.shown(name)} has not begun: send BEGIN first")
        return self._transactions[name]

    def _commit(self, frame: Frame) -> list[Out]:
        """STOMP 1.2, "COMMIT": its events are published as one batch, and then positions advance."""
        transaction = self._transaction(frame)
        del self._transactions[frame.headers["transaction"]]
        key, _ = key_of(frame)
        events, expires = tuple(transaction.events), transaction.expires
        outs: list[Out] = [_publish(events, key, expires)] if events else []
        for answer in transaction.answers:
            outs += self._settle(answer, self._number_of(answer))
        return outs

    def _abort(self, frame: Frame) -> list[Out]:
        """STOMP 1.2, "ABORT"."""
        self._transaction(frame)
        del self._transactions[frame.headers["transaction"]]
        return []

    def _disconnect(self, frame: Frame) -> list[Out]:
        """STOMP 1.2, "DISCONNECT"."""
        self._state = State.CLOSED
        return []

    # Messages.

    def room(self, number: int) -> bool:
        """Return whether a subscription may be sent one more message now."""
        one = self._by_number.get(number)
        if one is None or self._state is not State.OPEN:
            return False
        return one.open is None or one.open.room

    def plain_head(self, number: int) -> bytes | None:
        """Return the start of all messages of a subscription, if they differ in nothing but the event.

        None if it has ended, or a message of it has headers of its own, or has to be acknowledged.
        """
        one = self._by_number.get(number)
        if one is None or one.open is not None or one.durable is not None or self._state is not State.OPEN:
            return None
        return one.head

    def parts_of(self, reading: Reading) -> Sequence[bytes]:
        """Return what follows a plain head, for each event of a batch."""
        return reading.written(self._parts)

    def said_plain(self, messages: int, now: float) -> None:
        """Record that so many messages with a plain head were sent."""
        self._numbers += messages
        self._said = now

    def deliver(self, number: int, delivery: Delivery, gaps: str = "") -> list[Out]:
        """Return the MESSAGE for a delivery to a subscription; empty if the subscription has ended.

        `gaps`, the events missing before it, are reported in a header.

        Reference: STOMP 1.2, "MESSAGE".
        """
        one = self._by_number.get(number)
        if one is None or self._state is not State.OPEN:
            return []
        self._numbers += 1
        part = delivery.written(self._parts)
        if not gaps and one.open is None and one.durable is None and not delivery.deliveries:  # as most are
            return [Say(one.head + part)]
        told = {"gaps": gaps} if gaps else {}
        if delivery.deliveries:
            told["deliveries"] = str(delivery.deliveries)
        if delivery.deliveries > 1:
            told["redelivered"] = "true"
        said = self._message(one, self._numbers, part, told)
        if one.open is not None:
            one.open.sent(self._numbers, delivery, part)
            return [said]
        return [said] if one.durable is None else [said, Acknowledge(number, delivery.id, False)]

    def _message(self, one: _Subscription, number: int, part: bytes, told: dict[str, str]) -> Say:
        head = one.head
        for name, value in told.items():
            head += header_line(name, value)
        if one.open is not None:
            head += header_line("ack", str(number))
        return Say(head + part)


def _group_of(frame: Frame) -> dict[str, object] | None:
    """Return the settings of the group that a frame asks for; None if it asks for none."""
    key = frame.headers.get("group-key")
    if frame.headers.get("group") != "true":
        if key is not None:
            raise Refused("group-key: only a group has it: add group:true")
        return None
    return {} if key is None else {"group_key": key}


def _seconds_of(frame: Frame) -> float:
    """Return the delay with which a NACK gives an event back."""
    given = frame.headers.get("seconds", "0")
    try:
        return checks.seconds("seconds", float(given))
    except ValueError:
        raise Refused(f"seconds is {checks.shown(given)}: it must be a number") from None


def _publish(
    events: tuple[dict[str, Value], ...], key: str | None, expires: Mapping[int, float]
) -> Publish | PublishOnce:
    return Publish(events, expires) if key is None else PublishOnce(events, key, expires)


def _out_of_place(state: State, command: str) -> str:
    if state is State.NEW:
        return "the first frame must be CONNECT"
    if command in OPENING:
        return "this connection is open already: open another one"
    return "wait for CONNECTED"


TRANSITIONS: Final[dict[tuple[State, str], Callable[[StompSession, Frame], list[Out]]]] = {
    **{(State.NEW, command): StompSession._connect for command in OPENING},
    (State.OPEN, "SEND"): StompSession._send,
    (State.OPEN, "SUBSCRIBE"): StompSession._subscribe,
    (State.OPEN, "UNSUBSCRIBE"): StompSession._unsubscribe,
    (State.OPEN, "ACK"): StompSession._answer,
    (State.OPEN, "NACK"): StompSession._answer,
    (State.OPEN, "BEGIN"): StompSession._begin,
    (State.OPEN, "COMMIT"): StompSession._commit,
    (State.OPEN, "ABORT"): StompSession._abort,
    (State.OPEN, "DISCONNECT"): StompSession._disconnect,
}
"""The allowed frames of each state. `frame` adds receipts and the close."""
