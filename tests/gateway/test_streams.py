"""A stream hands items to its taker in order, as far as there is room, and the rest when room is freed."""

import asyncio
import gc
import weakref
from collections import deque

import numpy as np
import pytest
from rayvous.clients.places import taken_over
from rayvous.gateway.deliveries import Texts
from rayvous.gateway.network import Arrived
from rayvous.gateway.positions import Seal
from rayvous.gateway.queues import Gap
from rayvous.gateway.streams import BREATH, Stream
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import BrokerUnavailable, StreamEnded
from rayvous.protocol.gateways import GatewayLimits
from rayvous.protocol.messages.pubsub import Lost
from rayvous.routing.language.questions import to_filter


class Feed:
    def __init__(self):
        self.arrivals, self.last, self.error, self.marks = deque(), 0, None, []

    def listen(self, more, straight):
        self.more, self.straight = more, straight

    def take(self):
        if not self.arrivals and self.error is not None:
            raise self.error
        return self.arrivals.popleft() if self.arrivals else None

    def come(self, count, rows=None, **more):
        batch = batch_of([{"x": 1}] * count, publisher="a", first_sequence=self.last + 1)
        self.last += count
        self.arrivals.append(Arrived(batch, np.arange(count) if rows is None else np.array(rows), **more))
        self.more()

    def pass_on(self, count):
        batch = batch_of([{"x": 1}] * count, publisher="a", first_sequence=self.last + 1)
        self.last += count
        if self.straight(batch, np.arange(count)):
            return True
        self.arrivals.append(Arrived(batch, np.arange(count)))
        self.more()
        return False

    async def acknowledge(self, marks):
        self.marks.append(marks)

    async def close(self):
        pass


class Taker:
    """Takes items while it has room, of which each item uses up `each`."""

    def __init__(self, room):
        self.room, self.had, self.reason, self.each = room, [], None, 1

    def take(self, item):
        assert self.room > 0, "there was no room for that"
        self.room -= self.each * (not isinstance(item, Gap))
        self.had.append(item if isinstance(item, Gap) else item.sequence)

    def take_rows(self, reading, rows):
        for taken, row in enumerate(rows):
            if self.room <= 0:
                return taken
            self.take(reading.delivery(row))
        return len(rows)

    def ended(self, reason):
        self.reason = reason


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_stream_whose_name_is_taken_over_ends_at_once_and_says_so():
    async def work(feed, stream, taker):
        feed.error = taken_over("subscriber", "alice/zed")
        feed.more()
        await turns()
        assert stream.ended == taker.reason and "'alice/zed' was taken over by another client" in taker.reason
        with pytest.raises(StreamEnded, match="taken over"):
            await stream.receive()

    streaming(work, 10, durable="zed")


def streaming(work, room, limits=None, **options):
    async def whole():
        feed, taker = Feed(), Taker(room)
        stream = Stream(feed, limits or GatewayLimits(), Texts(), filter=to_filter("TRUE"), **options)
        await stream.begin(None)
        stream.hand_to(taker)
        await turns()
        await work(feed, stream, taker)
        await stream.close()

    asyncio.run(whole())


def test_what_finds_room_is_handed_over_and_the_rest_when_there_is_room_again_in_order():
    async def work(feed, stream, taker):
        feed.come(5)
        await turns()
        assert taker.had == [1, 2, 3]
        taker.room = 3  # before the stream is told, more arrives
        feed.come(2)
        await turns()
        assert taker.had == [1, 2, 3, 4, 5, 6]
        taker.room = 3
        stream.go_on()
        await turns()
        assert taker.had == [1, 2, 3, 4, 5, 6, 7]

    streaming(work, 3)


def test_a_network_that_had_nothing_more_is_not_asked_again_before_it_calls():
    async def work(feed, stream, taker):
        asked, take = [], feed.take
        feed.take = lambda: asked.append(len(feed.arrivals)) or take()
        feed.come(2, last=True)
        await turns()
        assert taker.had == [1, 2] and asked == [1]
        feed.come(1)
        await turns()
        assert taker.had == [1, 2, 3] and asked == [1, 1, 0]

    streaming(work, 9)


def test_room_is_asked_for_before_each_since_one_may_fill_it():
    async def work(feed, stream, taker):
        taker.each = 3
        feed.come(3)
        await turns()
        assert taker.had == [1]  # the others wait
        taker.room = 6
        stream.go_on()
        await turns()
        assert taker.had == [1, 2, 3]
        feed.come(2)
        await turns()
        taker.room = 3
        stream.go_on()
        await turns()
        assert taker.had == [1, 2, 3, 4]

    streaming(work, 3)


def test_what_was_shed_or_lost_is_told_before_what_comes_then():
    async def work(feed, stream, taker):
        feed.come(5)
        await turns()
        taker.room = 10
        feed.come(1, losses=[Lost("b", 3, 4)])
        await turns()
        shed, *rest, lost, last = taker.had
        assert (shed.reason, shed.count, shed.of) == ("slow", 3, {"a": (1, 3)})
        assert (rest, lost.reason, last) == ([4, 5], "network", 6)

    streaming(work, 0, GatewayLimits(queue_events_max=2))


def test_a_gap_is_told_though_nothing_waits_behind_it():
    async def work(feed, stream, taker):
        feed.arrivals.append(Arrived(losses=[Lost("b", 3, 4)]))
        feed.more()
        await turns()
        assert [gap.reason for gap in taker.had] == ["network"]
        feed.come(1, losses=[Lost("b", 5, 5)])
        await turns()
        assert [type(item) for item in taker.had] == [Gap, Gap, int]

    streaming(work, 9)


def test_much_that_comes_at_once_lets_others_have_a_turn():
    async def work(feed, stream, taker):
        feed.come(3 * BREATH)
        had = [0, len(taker.had)]
        while len(taker.had) < 3 * BREATH:
            await asyncio.sleep(0)
            had.append(len(taker.had))
        assert max(np.diff(had)) == BREATH

    streaming(work, 10**6)


def test_what_nothing_precedes_is_handed_over_in_the_turn_in_which_it_comes():
    async def work(feed, stream, taker):
        assert feed.pass_on(2) and taker.had == [1, 2]
        assert feed.pass_on(3) and taker.had == [1, 2, 3, 4]  # the last waits here
        assert not feed.pass_on(1), "one waits before it"
        await turns()
        taker.room = 9
        stream.go_on()
        assert not feed.pass_on(1), "what waits is about to be handed over"
        await turns()
        assert taker.had == [1, 2, 3, 4, 5, 6, 7] and feed.pass_on(1) and taker.had[-1] == 8
        feed.come(1, losses=[Lost("b", 3, 4)])
        await turns()
        taker.room = 2 * BREATH
        assert not feed.pass_on(BREATH + 1), "others have a turn meanwhile"
        assert not feed.pass_on(1), "the last of these waits before it"
        await turns()
        assert isinstance(taker.had.pop(8), Gap) and taker.had == [*range(1, 12 + BREATH)]

    streaming(work, 4, GatewayLimits())


def test_who_awaits_items_is_passed_nothing_straight_and_neither_is_a_durable_stream():
    async def work(feed, stream, taker):
        assert not feed.pass_on(1)
        await turns()
        stream.hand_to(None)
        await turns()
        assert not feed.pass_on(1)
        await turns()
        assert [item.sequence for item in await stream.receive()] == [2]

    streaming(work, 9, durable="d", seal=Seal("s", "d"))

    async def waits(feed, stream, taker):
        stream.hand_to(None)
        await turns()
        assert not feed.pass_on(1)
        await turns()
        assert [item.sequence for item in await stream.receive()] == [1]
        await stream.close()
        stream.hand_to(taker)
        assert not feed.pass_on(1) and not taker.had

    streaming(waits, 9)


def test_what_cannot_be_handed_over_straight_ends_the_stream_and_its_taker_is_told(caplog):
    async def work(feed, stream, taker):
        taker.take = lambda item: 1 / 0
        assert feed.pass_on(1), "nobody else takes it"
        assert taker.reason == stream.ended == "the gateway has failed"
        assert "ZeroDivisionError" in caplog.text

    streaming(work, 9)


@pytest.mark.parametrize("room", [9, 1])
def test_what_waits_is_handed_over_before_the_end_is_told(room):
    async def work(feed, stream, taker):
        feed.come(3)
        feed.error = BrokerUnavailable("the broker is gone")
        feed.more()
        await turns()
        assert (taker.had, taker.reason) == (([1, 2, 3], "the broker is gone") if room > 3 else ([1], None))
        taker.room = 9
        stream.go_on()
        await turns()
        assert (taker.had, taker.reason) == ([1, 2, 3], "the broker is gone")

    streaming(work, room)


def test_a_durable_stream_goes_on_when_it_is_acknowledged_and_takes_no_more_than_there_is_room_for():
    async def work(feed, stream, taker):
        ids, take = [], taker.take
        taker.take = lambda item: (ids.append(item.id), take(item))
        feed.come(6)
        feed.come(1)
        await turns()
        assert taker.had == [1, 2] and len(feed.arrivals) == 1
        await stream.acknowledge(ids[-1])
        await turns()
        assert taker.had == [1, 2, 3, 4] and feed.marks == [{"a": 2}]
        await stream.acknowledge(ids[-1])
        await turns()
        assert taker.had == [1, 2, 3, 4, 5, 6] and not feed.arrivals

    limits = GatewayLimits(queue_events_max=2, unacknowledged_max=2)
    streaming(work, 100, limits, durable="d", seal=Seal("s", "d"))


@pytest.mark.parametrize("waits", [False, True])
def test_what_cannot_be_handed_over_ends_the_stream_and_its_taker_is_told(waits, caplog):
    async def work(feed, stream, taker):
        if waits:
            feed.come(1)
            await turns()
        taker.room, taker.take = 9, lambda item: 1 / 0
        feed.come(1)
        await turns()
        assert taker.reason == stream.ended == "the gateway has failed"
        assert "ZeroDivisionError" in caplog.text

    streaming(work, 0)


def test_who_has_let_go_is_brought_nothing_and_who_closes_it_tells_its_taker():
    async def work(feed, stream, taker):
        stream.hand_to(None)
        feed.come(1)
        await turns()
        assert taker.had == []
        stream.hand_to(taker)
        await turns()
        assert taker.had == [1]
        await stream.close("opened elsewhere")
        assert taker.reason == "opened elsewhere"

    streaming(work, 9)


@pytest.mark.parametrize(("room", "rows"), [(0, [7, 30]), (3, [7, 9, 20, 30, 31]), (0, range(40))])
def test_what_waits_keeps_no_batch_of_which_it_is_a_small_part(room, rows):
    async def work(feed, stream, taker):
        feed.come(40, rows)
        await turns()
        stream.hand_to(None)
        items = await stream.receive()
        assert [(each.sequence, each.text) for each in items] == [
            (row + 1, '{"x":1}') for row in [*rows][room:]
        ]
        assert {len(each._reading.batch) for each in items} == {len(items)}

    streaming(work, room)


def test_what_was_read_goes_without_the_search_for_rings():
    gc.collect()
    gc.disable()
    try:
        read = Texts().read(batch_of([{"x": 1}]))
        assert read[0].text == '{"x":1}' and read[0].event == {"x": 1}
        gone = weakref.ref(read[0]._reading)
        del read
        assert gone() is None
    finally:
        gc.enable()


def test_streams_that_are_behind_do_not_read_the_same_batches_one_after_the_other_anew():
    """Batches that were read are kept for the next stream; beyond the limit, those used last are kept."""
    texts, batches = Texts(), [batch_of([{"x": number}] * 64) for number in range(64)]
    first = [texts.read(batch) for batch in batches]
    assert all(texts.read(batch) is read for batch, read in zip(batches, first, strict=True))
    large = [batch_of([{"x": "y" * 1_000_000}] * 4) for _ in range(60)]
    read = [texts.read(batch) for batch in large]
    assert texts.read(large[-1]) is read[-1] and texts.read(batches[0]) is not first[0]
    assert len(texts._kept) < len(batches) + len(large)
