"""What a subscriber has taken from its inbox reaches the reader, also if nothing more comes: the error is next."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from rayvous.actors.clients import subscriber as module
from rayvous.actors.clients.durable import DurableSubscriber
from rayvous.actors.clients.inbox import Inbox
from rayvous.actors.clients.subscriber import Subscriber
from rayvous.gateway.joined import _DurableFeed, _RayFeed
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import BrokerUnavailable, NameTaken, RayvousError
from rayvous.protocol.ids import ClientId

ERRORS = (BrokerUnavailable("gone"), NameTaken("another process has the name"))


class Reading(Subscriber):
    """A subscriber without a network, whose inbox has what it was given."""

    def __init__(self, *arrivals: int, error: RayvousError | None = None) -> None:
        self.received = 0
        self._inbox = Inbox("host", 100, None)
        for place, count in enumerate(arrivals):
            events = [{"x": 10 * place + turn} for turn in range(count)]
            batch = batch_of(events, publisher="bob", first_sequence=10 * place + 1)
            assert self._inbox.offer(batch, np.arange(count), 0.0)
        if error is not None:
            self._inbox.fail(error)


class Durable(Reading, DurableSubscriber):
    def __init__(self, *arrivals: int, error: RayvousError | None = None) -> None:
        super().__init__(*arrivals, error=error)
        self._handed: dict[ClientId, int] = {}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("arrivals", [(2,), (2, 1)], ids=["one", "two"])
def test_events_that_came_before_an_error_are_given_before_it(
    arrivals: tuple[int, ...], error: RayvousError
) -> None:
    alice = Durable(*arrivals, error=error)
    batches = alice.batches()
    values = [10 * place + turn for place, count in enumerate(arrivals) for turn in range(count)]
    assert next(batches).column("x").to_pylist() == values
    assert alice.received == len(values) and alice._handed == {"bob": values[-1] + 1}
    with pytest.raises(type(error), match=str(error)):
        next(batches)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("arrivals", [(2,), (2, 1)], ids=["one", "two"])
def test_events_that_came_before_an_error_are_given_to_a_coroutine_before_it(
    arrivals: tuple[int, ...], error: RayvousError
) -> None:
    async def read() -> None:
        batches = Reading(*arrivals, error=error).batches_async()
        assert (await anext(batches)).num_rows == sum(arrivals)
        with pytest.raises(type(error), match=str(error)):
            await anext(batches)

    asyncio.run(read())


def test_the_schema_of_an_iteration_only_widens_so_its_batches_make_a_table() -> None:
    alice = Reading(1)
    story = [[{"x": 2.5}], [{"y": "new"}], [{"x": 3, "y": 4}]]
    for place, events in enumerate(story, 2):
        alice._inbox.offer(batch_of(events, publisher="bob", first_sequence=place), np.arange(1), 0.0)
    batches = list(alice.batches(0, rows_max=1))
    names = [batch.schema.names[3:-2] for batch in batches]
    assert names == [["x"], ["x"], ["x", "y"], ["x", "y", "y:integer"]]
    table = pa.concat_tables(map(pa.table, batches), promote_options="permissive")
    assert table.column("x").to_pylist() == [0.0, 2.5, None, 3.0]
    assert set(table.schema.names) == set(batches[-1].schema.names)
    assert pa.types.is_float64(table.schema.field("x").type) and pa.types.is_int64(
        batches[0].schema.field("x").type
    )


def test_a_batch_of_many_bytes_is_filled_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES_MAX", 1)
    assert [batch.num_rows for batch in Reading(2, 1).batches(0)] == [2, 1]


def test_a_batch_is_filled_from_what_has_come_up_to_its_rows_and_ends_with_the_inbox() -> None:
    alice = Reading(2, 1, 3)
    batches = alice.batches(0, rows_max=3)
    assert [next(batches).num_rows for _ in range(2)] == [3, 3]
    assert next(batches, None) is None and alice.received == 6


def test_events_are_passed_straight_on_the_loop_that_fills_the_inbox_only_and_never_a_durable_subscriber() -> (
    None
):
    async def read(subscriber: Reading, feed: type[_RayFeed], *, here: bool) -> list[int]:
        loop = asyncio.get_running_loop()
        subscriber._process = SimpleNamespace(loop=loop if here else None)  # type: ignore[assignment]
        reader, had = feed.__new__(feed), list[int]()
        reader._subscriber = subscriber
        reader.listen(lambda: None, lambda batch, rows: had.extend(rows.tolist()) or True)  # type: ignore[func-returns-value]
        assert subscriber._inbox.take() is None
        assert subscriber._inbox.offer(batch_of([{"x": 1}] * 2), np.arange(2), 0.0)
        assert subscriber.received == len(had), "what was passed on is counted"
        return had

    assert asyncio.run(read(Reading(), _RayFeed, here=True)) == [0, 1]
    assert asyncio.run(read(Reading(), _RayFeed, here=False)) == []
    assert asyncio.run(read(Durable(), _DurableFeed, here=True)) == []
