"""What tests of STOMP without a network share: deliveries, and a session that is open."""

import pytest
from rayvous.gateway.deliveries import Delivery, json_of
from rayvous.gateway.stomp.frames import Frame
from rayvous.gateway.stomp.session import Session
from rayvous.gateway.stomp.wishes import Say, SessionLimits


def delivery(sequence, publisher="alice", event=None):
    """Return a delivery as a stream brings it."""
    event = {"x": 1} if event is None else event
    return Delivery(f"{publisher}:{sequence};signed", event, publisher, sequence, 1.5, json_of(event))


class Talk:
    """A session and what is put into it; frames are written as command, headers and body."""

    def __init__(self, limits=None, **connect):
        self.session = Session("s-1", limits or SessionLimits(), 0.0)
        self.connect = {"accept-version": "1.2", "host": "here"} | connect

    def __call__(self, command, body=b"", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.frame(Frame(command, named, body))

    def open(self):
        self.session.frame(Frame("CONNECT", self.connect))
        self.session.opened()
        return self

    def subscribe(self, **headers):
        (wish,) = self("SUBSCRIBE", **({"id": "0", "destination": "/events"} | headers))
        return wish.number

    def ack_of(self, number, delivery):
        said, *_ = self.session.deliver(number, delivery)
        return said.frame.headers.get("ack")


def error_of(outs):
    """Return what the ERROR among these says."""
    (frame,) = [out.frame for out in outs if isinstance(out, Say) and out.frame.command == "ERROR"]
    return frame.body.decode()


@pytest.fixture
def talk():
    return Talk().open()


@pytest.fixture
def talks():
    """Return what makes a session that is not open: limits, and headers of its CONNECT."""
    return Talk


@pytest.fixture
def delivered():
    return delivery


@pytest.fixture
def error():
    return error_of
