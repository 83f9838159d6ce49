"""Links that lead elsewhere: requests over them are made anew, and only where events can come from.

Reference: paper 3, section 4; docs/decisions/0023-reservations-go-the-ways-of-events.md.
"""

import pytest
from rayvous.admission.controller import Admission
from rayvous.protocol.configs import Ways
from rayvous.protocol.effects import Send
from rayvous.protocol.messages.admission import AdmissionConfig, Advertised, Ask, AskAnswer, Refusal
from rayvous.protocol.messages.pubsub import Cancel, Detach, Register
from rayvous.routing.filters.filter import to_filter

WIDE, NARROW = to_filter("x > 0"), to_filter("x > 5")
FROM_BOTH = Ways(onward=((None, (1, 2)), (1, ()), (2, (1,))))
"""Events that arrive over link 1 are for local clients only."""
FROM_TWO = Ways(onward=((None, (1, 2)), (2, (1,))))
"""No events arrive over link 1 any more; between the other links, events go as before."""


def asks(out, to):
    return [
        each.message
        for each in out
        if isinstance(each, Send) and each.to == to and isinstance(each.message, Ask)
    ]


def with_two_clients(ways):
    """Return a broker that has asked neighbour 1 for what two clients of different priorities want."""
    machine = Admission(0, AdmissionConfig(), [1, 2], ways)
    machine.handle(1, Advertised("p", 1, NARROW, 10, 5, (1,)))
    (ask,) = asks(machine.handle("low", Register(1, WIDE)), 1)
    machine.handle(1, AskAnswer(ask.token, 1, ()))
    machine.handle("high", Register(1, WIDE, 2))
    assert machine.questions.asked[1][WIDE].priority == 2
    return machine


def test_who_wanted_it_most_leaves_and_the_neighbour_is_asked_with_what_is_left():
    machine = with_two_clients(FROM_BOTH)
    (ask,) = asks(machine.handle("high", Detach()), 1)
    assert (ask.filter, ask.priority) == (WIDE, 0)
    machine.check()


def test_what_was_asked_over_a_link_that_leads_here_no_more_is_forgotten():
    """Regression: a client that left later broke the broker, as nobody wanted the filter over that link."""
    for message in (Detach(), Cancel(1)):
        machine = with_two_clients(FROM_BOTH)
        machine.relink([1, 2], FROM_TWO)
        assert WIDE not in machine.questions.asked[1]
        assert asks(machine.handle("high", message), 1) == []
        machine.check()


@pytest.mark.parametrize("refused_before", [False, True])
def test_what_was_admitted_is_asked_for_though_the_same_is_asked_about_or_was_refused(refused_before):
    """Over a new link, a neighbour holds for good what it had only asked about, so it cannot be refused."""
    machine = Admission(0, AdmissionConfig(0.0), [1, 2])
    machine.handle(2, Advertised("p", 1, NARROW, 10, 5, (2,)))
    (question,) = asks(machine.handle(1, Ask(WIDE, 0, 7)), 2)
    verdict = AskAnswer(question.token, 1, (Refusal(2, "cpu", 10.0, 0.0),))
    for message in (verdict, None) if refused_before else (None, verdict):
        if message is None:
            assert asks(machine.handle(1, Ask(WIDE, 0, 0)), 2) == [Ask(WIDE, 0, 0)]
        else:
            assert [each.message.token for each in machine.handle(2, message)] == [7], "who asked is answered"
    assert WIDE in machine.books.held[1] and WIDE in machine.questions.asked[2]
    machine.check()
