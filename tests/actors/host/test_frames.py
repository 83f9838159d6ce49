"""Calls of a host's methods, encoded as bytes."""

import asyncio
import pickle
import sys
from dataclasses import dataclass, fields
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
from ray import cloudpickle
from rayvous.actors.host import frames
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.sessions import DeliveryBatch, Farewell
from rayvous.actors.later import Later
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.pubsub import Events, Gone, Lost


class Host:
    """Returns the arguments of a request."""

    @property
    def incoming(self) -> "Host":
        return self

    async def request(self, *arguments: Any) -> Any:
        return arguments

    async def left(self, broker: int) -> None:
        raise AssertionError("it is not called so")


def test_a_call_and_its_answer_go_as_bytes() -> None:
    given = 3, "alice", [{"a": 1}], 2.5
    calls: list[tuple[bytes, ...]] = []
    actor = SimpleNamespace(call=SimpleNamespace(remote=lambda *pieces: calls.append(pieces)))
    frames.called(actor, "request", *given)
    (pieces,) = calls
    assert len(pieces) == 1
    answer = asyncio.run(frames.answered(Host(), pieces))
    assert isinstance(answer, bytes) and frames.unpacked([answer]) == given


def test_ray_keeps_no_record_of_calls_that_events_go_with() -> None:
    made: Any = ray.remote(BrokerHost)
    assert made.__ray_metadata__.method_meta.enable_task_events == {"call": False}


def test_only_what_goes_with_events_is_called_so() -> None:
    with pytest.raises(InputError, match="'left'"):
        asyncio.run(frames.answered(Host(), [frames.packed(("left", (3,)))]))


@pytest.mark.parametrize("size", [0, frames.PIECE_BYTES, frames.PIECE_BYTES + 1, frames.CALL_BYTES_MAX])
def test_what_is_long_goes_in_pieces_that_stay_inside_the_call(size: int) -> None:
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    pieces = frames.in_pieces(data)
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= frames.PIECE_BYTES < 100 * 1024  # Ray's bound for what a call carries


def test_what_is_too_long_for_a_call_goes_by_the_store() -> None:
    data = b"x" * (frames.CALL_BYTES_MAX + 1)
    assert frames.in_pieces(data) == [data]


def test_a_delivery_batch_is_the_same_afterwards() -> None:
    batch = batch_of([{"a": n} for n in range(100)], publisher="p")
    starts, rows = np.array([0, 60, 160], np.intp), np.r_[np.arange(60), np.arange(100)]
    losses = (Lost("p", 3, 4),)
    delivery = DeliveryBatch(7, batch, ("a", "b"), starts, rows, 3, 9, losses, True)
    assert all(repr(getattr(delivery, each.name)) != repr(each.default) for each in fields(delivery))
    found = frames.unpacked([frames.packed(delivery)])
    assert (found.number, found.clients, found.broker, found.note, found.last) == (7, ("a", "b"), 3, 9, True)
    assert found.losses == losses
    assert found.starts.tolist() == starts.tolist() and found.rows.tolist() == rows.tolist()
    assert found.batch.events() == batch.events()


def test_what_the_script_of_a_user_defines_is_carried_whole() -> None:
    """Other processes run other scripts, and pickle would store only the name of the class."""

    @dataclass
    class Mine:
        number: int

    Mine.__module__, Mine.__qualname__ = "__main__", "Mine"
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(Mine(3))
    assert frames.unpacked([frames.packed([Mine(3)])])[0].number == 3


def test_what_pickle_finds_in_this_script_only_is_carried_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    import __main__

    kind = type("Mine", (), {"__module__": "__main__"})
    monkeypatch.setattr(__main__, "Mine", kind, raising=False)
    data = frames.packed(kind())
    monkeypatch.delattr(__main__, "Mine")
    assert type(frames.unpacked([data])).__name__ == "Mine"


def test_modules_that_are_registered_to_be_carried_whole_are(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("nowhere_else")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Mine = type("Mine", (), {"__module__": module.__name__})  # type: ignore[attr-defined]
    cloudpickle.register_pickle_by_value(module)
    try:
        data = frames.packed(module.Mine())
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    monkeypatch.delitem(sys.modules, module.__name__)
    assert type(frames.unpacked([data])).__name__ == "Mine"


def test_a_message_of_events_that_is_passed_on_is_written_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Events(batch_of([{"x": 1, "y": "\ud800"}], publisher="bob"))
    came = frames.published_of(3, "b\u00f3b\ud800", [said], "ticket", 1.5)
    method, (at, client, (read,), ticket, since) = frames.call_of(came)
    assert (method, at, client, ticket, since) == ("request", 3, "b\u00f3b\ud800", "ticket", 1.5)
    assert read.batch.events() == said.batch.events()

    def written(value: object) -> bytes:
        raise AssertionError("it is written again")

    with monkeypatch.context() as patch:
        patch.setattr(frames, "packed", written)
        patch.setattr(frames, "small_of", written)
        passed_on = frames.load_of(1, 3, [read])
        with pytest.raises(AssertionError, match="written again"):
            frames.load_of(1, 3, [Events(read.batch)])  # another message
        with pytest.raises(AssertionError, match="written again"):
            frames.load_of(1, 3, [read, read])
    method, (to, source, (found,)) = frames.call_of(passed_on)
    assert (method, to, source) == ("receive", 1, 3) and found.batch.events() == said.batch.events()
    assert passed_on.endswith(came[-40:]), "with the same bytes"


@pytest.mark.parametrize("said", [(), (2,), (2, 7.5), (0, 7.5)])
def test_a_load_says_what_its_sender_says(said: tuple[Any, ...]) -> None:
    method, arguments = frames.call_of(frames.load_of(-1, 3, [Gone(4)], *said))
    assert (method, arguments) == ("receive", (-1, 3, [Gone(4)], *said))


@pytest.mark.parametrize("notifications", [1, 31, 200])
def test_a_delivery_of_any_size_is_read_as_it_was_written(notifications: int) -> None:
    clients = tuple(f"c{number}" for number in range(notifications))
    starts, rows = np.arange(notifications + 1), np.zeros(notifications, np.intp)
    given = DeliveryBatch(7, batch_of([{"x": 1}]), clients, starts, rows, 3, 4, (), True)
    found = frames.unpacked([frames.packed([given])])[0]
    for each in fields(DeliveryBatch):
        mine, its = getattr(given, each.name), getattr(found, each.name)
        if each.name == "batch":
            assert mine.events() == its.events()
        elif isinstance(mine, np.ndarray):
            assert mine.dtype == its.dtype and mine.tolist() == its.tolist()
        else:
            assert mine == its


def answered_poll(answer: list[DeliveryBatch]) -> bytes:
    """Return the bytes of an answer to a poll that waited."""
    poll: Later[list[DeliveryBatch]] = Later()
    host = SimpleNamespace(incoming=SimpleNamespace(poll=lambda *_: poll))
    begun = frames.begun(host, frames.packed(("poll", ())))
    assert isinstance(begun, Later)
    poll.give(answer)
    return begun.value


def came(count: int = 1) -> tuple[EventBatch, bytes]:
    """Return a batch that has come in a message of its own, and the bytes of the call."""
    sent = batch_of([{"x": number, "y": "\ud800"} for number in range(count)], publisher="p")
    call = frames.published_of(3, "bob", [Events(sent)], "ticket", 1.5)
    return frames.call_of(call)[1][2][0].batch, call


@pytest.mark.parametrize(
    "clients", [("c",), ("",), ("\ud800", "b\u00f3b"), tuple("abcdefgh"), ("a\0b",), ("a", "\0")]
)
@pytest.mark.parametrize(("count", "beside"), [(1, (3, 4, (), True)), (5, (-1, 0, (), False))])
def test_a_delivery_of_what_has_just_come_has_the_bytes_that_came(clients, count, beside) -> None:
    batch, call = came(count)
    starts = np.arange(len(clients) + 1) * count
    rows = np.tile(np.arange(count), len(clients))
    given = DeliveryBatch(7, batch, clients, starts, rows, *beside)
    written = answered_poll([given])
    assert (written[0] == frames.DELIVERED) == (not any("\0" in client for client in clients))
    assert call[-40:] in written
    (found,) = frames.unpacked([written])
    assert (found.number, found.clients, found.broker, found.note, found.losses, found.last) == (
        7,
        clients,
        *beside,
    )
    assert found.starts.tolist() == starts.tolist() and found.rows.tolist() == rows.tolist()
    assert found.starts.flags.aligned and found.rows.flags.aligned
    assert found.batch.events() == batch.events()


def test_any_other_answer_to_a_poll_is_a_pickle() -> None:
    batch, _ = came()
    one, zero = np.arange(2), np.zeros(1, np.intp)
    other = batch_of([{"x": 1}])
    given = DeliveryBatch(7, batch, ("c",), one, zero)
    lossy = DeliveryBatch(7, batch, ("c",), one, zero, losses=(Lost("p", 3, 4),))
    for answer in ([], [given, given], [lossy], [DeliveryBatch(7, other, ("c",), one, zero)], [Farewell(3)]):
        assert answered_poll(answer)[0] == 128
        assert len(frames.unpacked([answered_poll(answer)])) == len(answer)
