"""What is written reads back equal; data that names anything but our own values is refused."""

import os
import pickle
import subprocess
from dataclasses import fields
from importlib import import_module
from operator import attrgetter

import numpy as np
import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import StorageFailed
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import Announce, Events, Register
from rayvous.protocol.values import Timestamp
from rayvous.recovery.durability.codec import decode, encode
from rayvous.routing.filters.filter import to_filter

SELECTORS = (
    "price > 10",
    "name LIKE 'a%b_' AND NOT name LIKE '%z'",
    "a IN ('x', 'y') OR b BETWEEN 1 AND 2.5",
    "x IS NULL AND d = TRUE",
    "NOT (s = 'q')",
)


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_filter_reads_back_equal(selector: str) -> None:
    wanted = to_filter(selector)
    for message in (Register(3, wanted), Announce(wanted, 7)):
        assert decode(encode(message)) == message
    assert hash(decode(encode(wanted))) == hash(wanted)


def test_a_batch_reads_back_equal() -> None:
    events = [{"i": 1, "f": 2.5, "s": "x", "b": True, "t": Timestamp(5)}, {"i": 2}, {"s": "ü"}]
    batch = batch_of(events, publisher="p", first_sequence=9, published_at=1.5)
    again = decode(encode(("p", Events(batch))))[1].batch
    assert again.events() == batch.events()
    assert [again.identity(row) for row in range(3)] == [("p", 9), ("p", 10), ("p", 11)]
    assert np.array_equal(again.published_at, batch.published_at)


def test_events_read_back_with_all_that_is_said_of_them() -> None:
    """In a hypercube, an event that does not say where it was published is not forwarded."""
    said = {"round": RoundNumber(2, 3), "retransmitted": True, "ballot": (4, 5), "entry": 6}
    said |= {"age_seconds": 0.5, "forgot_seconds": 1.5, "repair_window_seconds": 2.5, "number": 7}
    read = decode(encode(Events(batch_of([{"i": 1}]), **said)))
    found = {field.name: getattr(read, field.name) for field in fields(read)}
    assert found.pop("batch").events() == ({"i": 1},) and found == said


class Harm:
    def __reduce__(self):
        return os.system, ("touch /tmp/harm",)


@pytest.mark.parametrize(
    "bytes_of_another",
    [
        b"V" + pickle.dumps(Harm()),
        b"V" + pickle.dumps(os.system),
        b"V" + pickle.dumps(subprocess.Popen),
        b"V" + pickle.dumps(eval),
        b"V" + pickle.dumps(getattr),
        b"not a pickle",
        b"",
        b"V",
        pickle.dumps({"a": 1}),  # as in files of format 1
        encode({"a": 1})[:-2],
    ],
)
def test_anything_else_is_refused(bytes_of_another: bytes) -> None:
    with pytest.raises(StorageFailed):
        decode(bytes_of_another)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("numpy", "load"),
        ("rayvous.protocol.batch", "batch_of"),  # ours, but a function
        ("rayvous.protocol.checks", "Path"),  # a class that a module of ours imports
        ("rayvous.recovery.durability.sqlite_store", "SqliteStore"),
        ("rayvous.protocol.messages.pubsub", "Events.__init__"),
    ],
)
def test_what_is_there_and_no_part_of_the_protocol_is_not_even_looked_up(module: str, name: str) -> None:
    assert callable(attrgetter(name)(import_module(module))), "or it would be refused for not being there"
    named = b"".join(b"\x8c" + bytes((len(word),)) + word.encode() for word in (module, name))
    with pytest.raises(StorageFailed, match=f"name {module}.{name}, which is no part of the protocol"):
        decode(b"V\x80\x04" + named + b"\x93.")
