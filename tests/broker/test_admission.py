"""Which events the admission layer lets go up the tree."""

import rayvous as rv
from rayvous.admission.books import Change
from rayvous.admission.sampling import SAMPLE
from rayvous.broker.admission import Admitting
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Placed
from rayvous.protocol.effects import Received, Send, Ticked
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig, Advertise, Advertised, Sample
from rayvous.protocol.messages.pubsub import Events

ABOVE = 4


def test_events_that_are_no_longer_wanted_above_go_up_until_the_grace_period_is_over() -> None:
    """The last events of a publisher that has moved are still on their way from its former broker."""
    layer = Admitting(1, Placed((0, ABOVE), ABOVE), AdmissionConfig(), grace_seconds=1.0)
    wanted = rv.to_filter("price < 10")

    def asked_for(held: bool) -> None:
        layer.admission.books.changes.append(Change(wanted, ABOVE, held))
        layer._follow()

    def goes_up(price: int) -> bool:
        sent = Send(ABOVE, Events(batch_of([{"price": price}])))
        return bool(layer.alters[Send](sent))

    def time_is(now: float) -> None:
        layer.sees[Ticked](Ticked(now))

    time_is(5.0)
    assert not goes_up(1)
    asked_for(True)
    assert goes_up(1) and not goes_up(11)
    asked_for(False)
    time_is(5.9)
    assert goes_up(1) and not goes_up(11)
    asked_for(True)  # and again, within the grace period: it then stays
    time_is(7.0)
    assert goes_up(1)
    asked_for(False)
    time_is(7.9)
    assert goes_up(1)
    time_is(8.0)
    assert not goes_up(1)


def test_a_sample_begins_anew_with_another_filter_and_is_told_to_those_who_know_the_advertisement() -> None:
    """Also under the number of an earlier advertisement: what that one covered says nothing of this one."""
    layer = Admitting(1, Placed((0, ABOVE), ABOVE), AdmissionConfig(estimator="measured"))

    def advertise(text: str, version: int) -> None:
        layer.takes[Advertise](Received("p", Advertise(1, rv.to_filter(text), 10 * MICRO, version)))

    def told(*prices: int) -> list[tuple[int, int]]:
        """Return to whom a sample is told after these events, and of how many events."""
        out = layer.sees[Events](Received("p", Events(batch_of([{"price": price} for price in prices]))))
        return [
            (each.to, len(each.message.events))
            for each in out
            if isinstance(each, Send) and isinstance(each.message, Sample)
        ]

    advertise("price > 0", 0)
    assert told(*[-1] * 8) == [] == told(*[1] * 7)
    assert told(1) == [(0, 8), (ABOVE, 8)]
    advertise("price > 5", 1)
    assert told(*[6] * 7) == [] and told(6) == [(0, 8), (ABOVE, 8)]


def test_a_publisher_that_moves_here_goes_on_with_the_sample_that_is_known_of_it() -> None:
    """Its traffic is the same: eight events do not replace a full sample, and nothing is charged anew."""
    layer = Admitting(1, Placed((0, ABOVE), ABOVE), AdmissionConfig(estimator="measured"))
    item = rv.to_filter("price > 0")
    full = batch_of([{"price": price} for price in range(1, SAMPLE + 1)])
    layer.takes[Advertised](Received(0, Advertised("p", 1, item, 10 * MICRO, 5, (0,), 1)))
    layer.takes[Sample](Received(0, Sample("p", 1, full, (0,))))
    layer.takes[Advertise](Received("p", Advertise(1, item, 10 * MICRO, 2)))
    out = layer.sees[Events](Received("p", Events(batch_of([{"price": 1}] * 100))))
    assert not [each for each in out if isinstance(each, Send) and isinstance(each.message, Sample)]
    sample = layer.admission.books.sample(("p", 1))
    assert sample is not None and len(sample) == SAMPLE
