"""The flushing layer: a flush ends when all brokers have answered and local clients have earlier events."""

from rayvous.protocol.effects import Drain, Drained, Flushed, Received, Send, Ticked
from rayvous.protocol.ids import FIRST_ROUND
from rayvous.protocol.layers import Delivered, Heard, Inward, IsDelivered, Passed, Tell
from rayvous.protocol.messages.pubsub import Flush
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.messages.rounds import Marker, MarkerDone
from rayvous.recovery.replay.flushing import Flushing

SETTINGS = Recovery.for_simulator(answer_seconds=2.0)


class Alone:
    def __init__(self, broker=1):
        self.layer = Flushing(broker, SETTINGS)

    def take(self, event):
        key = type(event.message) if isinstance(event, Received) else type(event)
        return (self.layer.takes.get(key) or self.layer.sees[key])(event)

    def leave(self, news):
        return self.layer.alters[type(news)](news)

    def passed(self, out, *to):
        """Report that the marker is on its way to these brokers; return the numbers of marker and drain."""
        (tell,) = [each.event for each in out if isinstance(each, Inward) and isinstance(each.event, Tell)]
        (drain,) = self.leave(Passed(tell.source, tell.message, frozenset(to)))
        assert isinstance(drain, Drain)
        return tell.message.number, drain.number


def test_it_waits_for_all_that_were_told_and_for_its_own_clients():
    machine = Alone()
    marker, drain = machine.passed(machine.take(Received("p", Flush(7))), 2, 3)
    assert machine.take(Received(2, MarkerDone(1, marker))) == []
    assert machine.take(Drained(drain)) == []
    assert machine.take(Received(2, MarkerDone(1, marker))) == [], "one answer counts once"
    assert machine.take(Received(3, MarkerDone(1, marker))) == [Flushed("p", 7)]
    marker, drain = machine.passed(machine.take(Received("p", Flush(8))), 2)
    assert machine.take(Received(2, MarkerDone(1, marker))) == [], "a client here has not polled yet"
    assert machine.take(Drained(drain)) == [Flushed("p", 8)]


def test_an_answer_of_an_earlier_marker_or_of_somebody_else_is_none():
    machine = Alone()
    marker, drain = machine.passed(machine.take(Received("p", Flush(1))), 2)
    machine.take(Drained(drain))
    assert machine.take(Received(2, MarkerDone(1, marker - 1))) == []
    assert machine.take(Received(3, MarkerDone(1, marker))) == []
    assert machine.take(Received(2, MarkerDone(9, marker))) == []
    machine.layer.check()
    assert machine.take(Received(2, MarkerDone(1, marker))) == [Flushed("p", 1)]


def test_what_is_not_answered_is_asked_again_later_and_later():
    machine = Alone()
    machine.take(Ticked(0.0))
    machine.take(Received("p", Flush(1)))  # the marker is never reported as passed
    asked = [
        now for now in range(1, 60) if any(isinstance(each.event, Tell) for each in machine.take(Ticked(now)))
    ]
    assert asked == [2, 6, 14, 30]


def test_questions_that_come_meanwhile_wait_for_the_next_marker_which_answers_them_all():
    machine = Alone()
    first, drain = machine.passed(machine.take(Received("p", Flush(1))), 2)
    assert machine.take(Received("q", Flush(1))) == []
    assert machine.leave(IsDelivered(5)) == []
    machine.take(Drained(drain))
    out = machine.take(Received(2, MarkerDone(1, first)))
    assert out[0] == Flushed("p", 1)
    second, drain = machine.passed(out, 2)
    machine.take(Drained(drain))
    answers = machine.take(Received(2, MarkerDone(1, second)))
    assert answers == [Flushed("q", 1), Inward(Delivered(5))]


def test_a_marker_of_another_broker_is_passed_on_and_answered_to_whom_it_came_from():
    machine = Alone()
    marker = Marker(9, 4, FIRST_ROUND, 0.0)
    number, drain = machine.passed(machine.leave(Heard(2, marker)), 3)
    assert number == 4 and machine.take(Drained(drain)) == []
    assert machine.take(Received(3, MarkerDone(9, 4))) == [Send(2, MarkerDone(9, 4))]
