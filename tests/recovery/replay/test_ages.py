"""Messages that may have waited while the broker was paused get the greatest possible age (promise 2)."""

import pytest
from rayvous.protocol.effects import Inform, Received, Ticked
from rayvous.protocol.layers import Inward
from rayvous.protocol.messages.pubsub import ClockReads, ReadClock, Resume
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.replay.ages import Ages
from rayvous.recovery.replay.rounds import Rounds

RECOVERY = Recovery(heartbeat_seconds=1.0, suspect_after_seconds=3.0)


def ages_after(*ticks):
    """Return the two ages of a message that is received after these ticks; it was sent with 5 s and 1 s."""
    layer = Ages(RECOVERY, Rounds(10, 60.0))
    for now in ticks:
        assert layer.sees[Ticked](Ticked(now)) == [Inward(Ticked(now))]
        layer.check()
    (inward,) = layer.sees[Resume](Received("s", Resume({"p": 3}, 5.0, 1.0)))
    assert inward.event.source == "s" and inward.event.message.marks == {"p": 3}
    return inward.event.message.since_seconds, inward.event.message.away_seconds


@pytest.mark.parametrize(
    "ticks, waited",
    [
        ((), 0.0),
        ((50.0,), 0.0),  # the clock may start at any time
        ((0.0, 1.0, 2.0), 0.0),
        ((0.0, 30.0), 30.0),
        ((0.0, 30.0, 31.0, 32.0, 33.0), 30.0),  # waiting messages are received one after the other
        ((0.0, 30.0, 31.0, 32.0, 33.0, 33.5), 0.0),
        ((0.0, 30.0, 31.0, 41.0), 40.0),  # it may have waited during both pauses
        ((0.0, 30.0, 31.0, 32.0, 33.0, 34.0, 44.0), 10.0),
    ],
)
def test_a_message_may_have_waited_for_as_long_as_the_broker_stood_still(ticks, waited):
    assert ages_after(*ticks) == (5.0 + waited, 1.0 + waited)


@pytest.mark.parametrize(
    "noticed, repaired",
    [
        (31.0, 30.0),
        (50.0, 30.0),
        (50.5, 0.0),  # the broker was awake for long enough to notice it earlier
    ],
)
def test_a_failure_that_is_noticed_soon_after_is_as_old(noticed, repaired):
    """The broker could not notice anything while it was paused."""
    rounds = Rounds(10, 60.0)
    layer = Ages(RECOVERY, rounds)
    for now in (0.0, 30.0, *(30.5 + half / 2 for half in range(42))):
        layer.sees[Ticked](Ticked(now))
        rounds.expire(now)
        if now == noticed:
            rounds.close("parent")
            assert rounds.pending_repair_seconds() == repaired


def test_it_may_have_waited_for_as_long_as_the_host_did_not_get_to_it():
    layer = Ages(RECOVERY, Rounds(10, 60.0))
    for now, stalled in ((0.0, 0.0), (0.9, 0.4), (1.8, 0.8), (1.9, 0.8)):
        layer.sees[Ticked](Ticked(now, 0.0, stalled))
    (inward,) = layer.sees[Resume](Received("s", Resume({"p": 3}, 5.0, 1.0)))
    assert inward.event.message.away_seconds == pytest.approx(1.8)


@pytest.mark.parametrize("clock, waited", [(30.0, 0.0), (12.0, 0.0), (30.1, 30.0), (None, 30.0)])
def test_ages_that_count_from_a_reading_of_its_clock_are_right_however_long_they_wait(clock, waited):
    """A reading of the future is of another clock, so it says nothing."""
    layer = Ages(RECOVERY, Rounds(10, 60.0))
    for now in (0.0, 30.0):
        layer.sees[Ticked](Ticked(now))
    assert layer.takes[ReadClock](Received("s", ReadClock())) == [Inform("s", ClockReads(30.0))]
    comes = Resume({"p": 3}, 5.0, 1.0, ages_seconds={1: 2.0}, clock=clock)
    (inward,) = layer.sees[Resume](Received("s", comes))
    older = inward.event.message
    assert (older.since_seconds, older.ages_seconds) == (5.0 + waited, {1: 2.0 + waited})
    assert older.away_seconds == 31.0 and older.clock == clock
