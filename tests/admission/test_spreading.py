"""Advertisements at one broker: which word of a publisher that comes and goes counts.

Reference: paper 3, section 3.1; promise 1 (publishers publish only what they advertised).
"""

import pytest
from rayvous.admission.controller import Admission
from rayvous.protocol.effects import Inform, Send
from rayvous.protocol.messages.admission import (
    MICRO,
    AdmissionConfig,
    Advertise,
    Advertised,
    Ask,
    AskAnswer,
    Capacity,
    Greeting,
    KnownBehind,
    Release,
    Standing,
    Unadvertise,
    Unadvertised,
)
from rayvous.protocol.messages.pubsub import Cancel, Register
from rayvous.routing.filters.filter import to_filter

WIDE = to_filter("x > 0")


@pytest.mark.parametrize(
    "version, stays",
    [(None, False), (4, True), (5, False), (6, False)],
    ids=["whatever was said", "late, as said before the move", "as it was said", "later"],
)
def test_what_withdraws_an_advertisement_late_withdraws_nothing_newer(
    version: int | None, stays: bool
) -> None:
    """A publisher went elsewhere and is back before its former broker was told that it had gone."""
    machine = Admission(0, AdmissionConfig(), [1])
    machine.handle("p", Advertise(1, WIDE, 10, 3))
    machine.handle("p", Advertise(1, WIDE, 10, 5))
    out = machine.handle("p", Unadvertise(1, version))
    assert (("p", 1) in machine.books.adverts) == stays
    assert (out == []) == stays
    if not stays:
        assert out == [Send(1, Unadvertised("p", 1))]
    machine.check()


def test_what_was_never_advertised_is_withdrawn_in_vain() -> None:
    assert Admission(0, AdmissionConfig(), [1]).handle("p", Unadvertise(7, 3)) == []


def test_an_advertisement_that_comes_back_is_not_believed_but_answered():
    """So no two brokers believe in one that is gone because each has it from the other."""
    machine = Admission(0, AdmissionConfig(), [1, 2])
    machine.handle(1, Advertised("p", 1, WIDE, 10, 5, (7, 1)))
    assert machine.books.adverts["p", 1].link == 1
    out = machine.handle(1, Advertised("p", 1, WIDE, 10, 6, (7, 0, 1)))
    assert machine.books.adverts == {}
    assert sent_to(out, 2) == [Unadvertised("p", 1)] and sent_to(out, 1) == [KnownBehind(6)]
    machine.check()


def test_who_no_longer_gets_what_was_promised_is_told_and_told_when_all_is_well():
    """Reference: paper 3, section 6; under the full guarantee only."""
    for share, told in ((0.0, True), (0.4, False)):
        machine = Admission(0, AdmissionConfig(share, capacity=Capacity(15)), [1])
        machine.handle(1, Advertised("p", 1, to_filter("x > 5"), 10 * MICRO, 5, (1,)))
        (ask,) = sent_to(machine.handle("s", Register(1, WIDE)), 1)
        machine.handle(1, AskAnswer(ask.token, 1, ()))
        more = Advertised("q", 2, to_filter("x > 3"), 10 * MICRO, 6, (1,))
        for message, lacks in ((more, True), (Unadvertised("q", 2), False)):
            out = machine.handle(1, message)
            news = [each.news for each in out if isinstance(each, Inform) and each.client == "s"]
            assert [(type(each), each.number, bool(each.refusals)) for each in news] == (
                [(Standing, 1, lacks)] if told else []
            )
            assert bool(machine.subscriptions.lacking("s")) == (told and lacks)


def test_what_was_asked_since_a_greeting_is_not_forgotten_when_it_is_answered():
    """The neighbour forgot what came before the greeting, and knows what came after: it has to be told of the end."""
    everybody = AdmissionConfig(refusing_share_max=0.4)
    machine = Admission(0, everybody, [])
    (greeting,) = sent_to(machine.relink([3]), 3)
    assert isinstance(greeting, Greeting) and greeting.answer
    (ask,) = sent_to(machine.handle("s", Register(1, to_filter("x > 0"))), 3)
    assert isinstance(ask, Ask)
    machine.handle(3, Greeting((), False))
    (release,) = sent_to(machine.handle("s", Cancel(1)), 3)
    assert isinstance(release, Release) and release.filter == ask.filter


def sent_to(out, broker):
    return [each.message for each in out if isinstance(each, Send) and each.to == broker]
