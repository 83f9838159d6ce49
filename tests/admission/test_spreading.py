"""Advertisements at one broker: which message counts of a publisher that comes and goes.

Reference: paper 3, section 3.1; promise 1 (publishers publish only what they advertised).
"""

import pytest
from rayvous.admission.controller import Admission
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Inform, Send
from rayvous.protocol.messages.admission import (
    MICRO,
    AdmissionConfig,
    Advertise,
    Advertised,
    Ask,
    AskAnswer,
    Capacity,
    Degraded,
    Everywhere,
    Greeting,
    GuaranteeStatus,
    KnownBehind,
    Refusal,
    Release,
    Sample,
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
    """A publisher left and is back before its former broker was told that it had left."""
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
    """So no two brokers keep a withdrawn advertisement because each has it from the other."""
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
                [(GuaranteeStatus, 1, lacks)] if told else []
            )
            assert bool(machine.subscriptions.lacking("s")) == (told and lacks)


def test_what_was_asked_since_a_greeting_is_not_forgotten_when_it_is_answered():
    """The neighbour forgot what came before the greeting, not what came after: it needs the release."""
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


def test_who_waits_for_a_neighbour_that_begins_anew_waits_for_its_answer_to_the_new_word():
    """It has forgotten the advertisement: that is sent again, and the publisher waits for the new answer."""
    machine = Admission(0, AdmissionConfig(), [1])
    (before,) = sent_to(machine.handle("p", Advertise(1, WIDE, 10, 3)), 1)
    out = machine.handle(1, Greeting((), True))
    (answer,) = sent_to(out, 1)
    (again,) = answer.advertisements
    assert again.token != before.token and not [each for each in out if isinstance(each, Inform)]
    assert machine.handle(1, KnownBehind(before.token)) == []
    assert machine.handle(1, KnownBehind(again.token)) == [Inform("p", Everywhere(1))]


def test_a_neighbour_is_let_go_of_when_nothing_behind_it_meets_the_filter_any_more_and_not_before():
    machine = Admission(0, AdmissionConfig(), [1])
    for name, item in (("p", WIDE), ("q", to_filter("x > 3"))):
        machine.handle(1, Advertised(name, 1, item, 10, 5, (1,)))
    (ask,) = sent_to(machine.handle("s", Register(1, WIDE)), 1)
    machine.handle(1, AskAnswer(ask.token, 1, ()))
    assert sent_to(machine.handle(1, Unadvertised("q", 1)), 1) == []
    assert sent_to(machine.handle(1, Unadvertised("p", 1)), 1) == [Release(WIDE)]


def test_an_advertisement_goes_on_to_everybody_but_back_where_it_came_from():
    """Reference: paper 3, 4.2."""
    machine = Admission(0, AdmissionConfig(), [1, 2, 3])
    out = machine.handle(2, Advertised("p", 1, WIDE, 10, 5, (2,)))
    told = {to: [each for each in sent_to(out, to) if isinstance(each, Advertised)] for to in (1, 2, 3)}
    assert {to: len(each) for to, each in told.items()} == {1: 1, 2: 0, 3: 1}
    assert told[1][0].path == (2, 0)


def test_who_lets_go_of_a_degraded_filter_is_told_in_each_name_that_all_is_well():
    """A report on its way may arrive after a new request for the filter; the all-clear then cancels it."""
    machine = Admission(0, AdmissionConfig(), [1, 2])
    machine.handle(1, Advertised("p", 1, WIDE, 10, 5, (1,)))
    (ask,) = sent_to(machine.handle(2, Ask(WIDE, 0, 8)), 1)
    machine.handle(1, AskAnswer(ask.token, 1, ()))
    lacks = (Refusal(7, "cpu", 1.0, 0.0),)
    assert sent_to(machine.handle(1, Degraded(WIDE, 7, lacks)), 2) == [Degraded(WIDE, 7, lacks)]
    assert sent_to(machine.handle(2, Release(WIDE)), 2) == [Degraded(WIDE, 7, ())]


@pytest.mark.parametrize("answer", [False, True])
def test_what_a_neighbour_was_told_while_it_began_anew_counts_no_more(answer):
    """The reset follows the neighbour's greeting, so old reports do not count for its new requests."""
    machine = Admission(0, AdmissionConfig(), [1, 2])
    machine.handle(1, Advertised("p", 1, WIDE, 10, 5, (1,)))
    (ask,) = sent_to(machine.handle(2, Ask(WIDE, 0, 8)), 1)
    machine.handle(1, AskAnswer(ask.token, 1, ()))
    machine.handle(1, Degraded(WIDE, 7, (Refusal(7, "cpu", 1.0, 0.0),)))
    out = sent_to(machine.handle(2, Greeting((), answer)), 2)
    assert out[0] == Degraded(WIDE, 7, ())
    assert [type(each) for each in out[1:]] == [Greeting] * answer
    machine.check()


def test_a_sample_that_came_beside_counts_once_its_copy_of_the_advertisement_does():
    """The link of the copy that counts fails: the sample does not come again over the other."""
    machine = Admission(0, AdmissionConfig(estimator="measured"), [1, 2, 3])
    sample = batch_of([{"x": 1}] * 8)
    machine.handle(1, Advertised("p", 1, WIDE, 10, 5, (1,)))
    machine.handle(2, Advertised("p", 1, WIDE, 10, 5, (7, 2)))
    assert machine.handle(2, Sample("p", 1, sample, (7, 2))) == []
    assert machine.books.sample(("p", 1)) is None
    again = Admission(0, AdmissionConfig(estimator="measured"), [1, 2, 3])
    again.restore(machine.snapshot())
    for side in (machine, again):
        out = side.handle(1, Unadvertised("p", 1))
        assert side.books.sample(("p", 1)) == sample
        assert [each for each in sent_to(out, 3) if isinstance(each, Sample)] == [
            Sample("p", 1, sample, (7, 2, 0))
        ]
        side.check()
