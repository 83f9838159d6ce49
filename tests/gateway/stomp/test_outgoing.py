"""The output queue of one client: data of one turn goes out together, at once if possible, and in order."""

import asyncio
import gc

from rayvous.actors.host.departures import departures_here
from rayvous.gateway.serving import YOUNG_OBJECTS, settle_memory
from rayvous.gateway.stomp.outgoing import SLICE_BYTES, Outgoing


class Wire:
    def __init__(self, takes=True):
        self.takes, self.offered, self.sent = takes, [], []
        self.goes = asyncio.Event()

    def offer(self, data):
        if self.takes:
            self.offered.append(data)
        return self.takes

    async def send(self, data):
        self.sent.append(data)
        await self.goes.wait()


def run(work):
    async def whole(wire):
        out = Outgoing(wire, 5.0)
        sending = asyncio.ensure_future(out.run())
        await work(out, wire)
        sending.cancel()
        return wire

    return asyncio.run(whole(Wire()))


def test_what_is_put_in_one_turn_goes_out_together_and_at_once():
    async def work(out, wire):
        for data in (b"a", b"b"):
            out.put(data)
        assert len(out) == 2
        await out.room(1)
        out.put(b"c")
        await out.room(1)

    wire = run(work)
    assert (wire.offered, wire.sent) == ([b"ab", b"c"], [])


def test_what_is_put_in_one_step_goes_out_when_the_step_is_done():
    async def work(out, wire):
        departures = departures_here()
        departures.hold()
        out.put(b"a")
        out.put(b"b")
        assert wire.offered == []
        departures.go()
        assert wire.offered == [b"ab"] and len(out) == 0, "without a turn of the event loop"

    run(work)


def test_a_client_whose_connection_fails_silences_no_other():
    async def work(out, wire):
        broken, departures = Wire(), departures_here()
        broken.offer = None  # calling it is an error
        first = Outgoing(broken, 5.0)
        departures.hold()
        first.put(b"a")
        out.put(b"b")
        departures.go()
        assert wire.offered == [b"b"]
        first.put(b"a")
        out.put(b"c")
        await asyncio.sleep(0)
        assert wire.offered == [b"b", b"c"]

    run(work)


def test_what_is_not_taken_at_once_is_sent_and_nothing_goes_before_it():
    async def work(out, wire):
        wire.takes = False
        out.put(b"a")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        wire.takes = True
        out.put(b"b")
        await asyncio.sleep(0)
        assert (wire.sent, wire.offered) == ([b"a"], []), "a is on its way"
        wire.goes.set()
        await out.room(1)
        out.put(b"x" * (SLICE_BYTES + 1))
        await out.room(1)

    wire = run(work)
    assert wire.sent == [b"a", b"b", b"x" * SLICE_BYTES, b"x"] and wire.offered == []


def test_a_process_that_only_serves_is_not_searched_for_rings_all_the_time():
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        settle_memory()
        assert gc.get_freeze_count() > 10_000 and gc.get_threshold()[0] == YOUNG_OBJECTS
    finally:
        if not frozen:  # by the run itself, which would be slower afterwards
            gc.unfreeze()
        gc.set_threshold(*before)
