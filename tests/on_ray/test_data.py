"""Events as data on Ray: record batches."""

import asyncio

import pyarrow as pa
import rayvous as rv


def test_batches_have_what_has_arrived_in_columns(net: rv.Network, fresh: str) -> None:
    alice, bob = net.subscriber(f"{fresh}-alice"), net.publisher(f"{fresh}-bob")
    alice.subscribe(f"run = '{fresh}' AND x >= 2")
    bob.publish_batch([{"run": fresh, "x": x, "to": "JFK" if x % 2 else None} for x in range(6)])
    bob.publish({"run": fresh, "x": 6.5})
    net.settle()
    table = pa.Table.from_batches([*alice.batches(timeout_seconds=0)])
    assert table.column("x").to_pylist() == [2.0, 3.0, 4.0, 5.0, 6.5], "both arrivals are in one batch"
    assert table.column("to").to_pylist() == [None, "JFK", None, "JFK", None]
    assert table.column("_sequence").to_pylist() == [3, 4, 5, 6, 7]
    assert set(table.column("_publisher").to_pylist()) == {bob.name}

    async def first() -> pa.RecordBatch:
        async for batch in alice.batches_async(rows_max=1):
            return batch
        raise AssertionError("it has ended")

    bob.publish_batch([{"run": fresh, "x": x} for x in (8, 9)])
    assert asyncio.run(first()).column("x").to_pylist() == [8, 9], "an arrival is not divided"
    assert alice.received == 7
