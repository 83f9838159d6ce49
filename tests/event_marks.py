"""What joins, splits, encodes and stores event messages, walked with marks; run as a program, with a mark more.

As a program it adds one line to the source of `Events`, as somebody who adds a wire field would, and nothing else.
"""

import asyncio
import pickle
import sys
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from io import BytesIO
from typing import Any

AFTER = b"    number: int = 0\n"
ADDED = b'    colour: str = "none"\n'


def joined(messages: list[Any]) -> list[Any]:
    """Return what an outbox makes of messages that wait together."""
    from rayvous.actors.host.outbox import Outbox

    loads: list[list[Any]] = []

    async def fly(load: list[Any]) -> int:
        loads.append(load)
        return 0

    async def put() -> None:
        box = Outbox("a to b", fly, 10_000, 10_000)
        for message in messages:
            box.put(message)
        await box.drained()

    asyncio.run(put())
    return loads[0]


def split(message: Any) -> list[Any]:
    """Return the events of a message one by one."""
    rows = range(len(message.batch))
    return [replace(message, batch=message.batch.take([row])) for row in rows]


def over_the_wire(message: Any) -> Any:
    """Return a message as another process reads it."""
    from rayvous.protocol.wire import REDUCERS

    written = BytesIO()
    pickler = pickle.Pickler(written, protocol=5)
    pickler.dispatch_table = REDUCERS
    pickler.dump(message)
    return pickle.loads(written.getvalue())


def directed(message: Any) -> list[Any]:
    """Return what reaches the others of three brokers that share the distribution of events (LBDD)."""
    from rayvous.protocol.effects import Deliver, Received, Send
    from rayvous.protocol.messages.pubsub import Register
    from rayvous.routing.language.questions import to_filter
    from rayvous.routing.schemes.registry import scheme
    from rayvous.routing.topologies.cluster_trees import ClusterTree

    lbdd = scheme("lbdd")
    routers = {place.broker: lbdd(place) for place in lbdd.positions(ClusterTree(3, 1).positions())}
    brought = []
    wanted = Register(1, to_filter("x >= 0"))
    stages: list[list[tuple[int, Any, Any]]] = [[(1, "s1", wanted), (2, "s2", wanted)], [(0, "p", message)]]
    for coming in stages:
        while coming:
            here, source, came = coming.pop(0)
            for effect in routers[here].handle(Received(source, came)):
                if isinstance(effect, Send):
                    coming.append((effect.to, here, over_the_wire(effect.message)))
                elif isinstance(effect, Deliver):
                    brought.append(effect.brought_by)
    return brought


def marked(message: Any) -> dict[str, Any]:
    """Return the marks with which a message arrives, by each way that it takes; only equal marks are joined."""
    from rayvous.protocol.messages.pubsub import DEFAULT_MARKS, Numbered, marks_of
    from rayvous.recovery.durability.codec import decode, encode

    ways = {
        "joined": joined(split(message)),
        "wire": [over_the_wire(message)],
        "store": [decode(encode(message))],
        "store, numbered": [decode(encode(Numbered(1, 0, message))).message],
    }
    found = {way: {marks_of(each) for each in came} for way, came in ways.items()}
    assert [each.batch.documents() for each in ways["joined"]] == [message.batch.documents()], "joined as one"
    different = [
        replace(message, **{name: value}) for name, value in zip(names(), DEFAULT_MARKS, strict=True)
    ]
    apart = joined([each for one in different for each in (message, one)])
    assert [marks_of(each) for each in apart] == [
        marks for one in different for marks in (marks_of(message), marks_of(one))
    ], "never joined with others"
    return found


def names() -> list[str]:
    """Return the names of the marks."""
    from rayvous.protocol.messages.pubsub import Events

    return [name for name in Events.__match_args__ if name != "batch"]


def with_the_line(self: SourceFileLoader, path: str) -> bytes:
    """Read a file of code; that of event messages with a line more."""
    if path.endswith(".pyc") and "pubsub." in path:
        raise OSError("read the source")
    data = READ(self, path)
    if path.endswith("messages/pubsub.py"):
        assert data.count(AFTER) == 1
        return data.replace(AFTER, AFTER + ADDED)
    return data


READ = SourceFileLoader.get_data

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    SourceFileLoader.get_data = with_the_line  # type: ignore[method-assign]
    from rayvous.protocol.batch import batch_of
    from rayvous.protocol.ids import RoundNumber
    from rayvous.protocol.messages.pubsub import Events, marks_of

    whole = Events(
        batch_of([{"x": 1}, {"x": 2}]), RoundNumber(3, 4), True, (5, 6), 7.0, 8.0, 9.0, 10, 11, colour="red"
    )  # type: ignore[call-arg]
    assert marks_of(whole)[-1] == "red"
    assert set(map(frozenset, marked(whole).values())) == {frozenset([marks_of(whole)])}, marked(whole)
    reached = directed(whole)
    assert len(reached) == 2 and all(each.colour == "red" for each in reached), reached
    sys.stdout.write("red\n")
