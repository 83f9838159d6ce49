"""Local publishers' advertisements and the subscriptions they serve (paper 2, 2.3); changes and snapshots."""

from rayvous.protocol.messages.pubsub import Answer
from rayvous.routing.interest.local_first import LocalFirst, Reply
from rayvous.routing.language.questions import to_filter

LOW, HIGH, ALL = (to_filter(text) for text in ("x < 5", "x > 10", "x >= 0"))


def advertised():
    local = LocalFirst(3)
    assert local.advertise("p", 1, LOW, 4) == [LOW]
    return local


def test_news_is_what_was_advertised_before_and_is_now_and_the_same_again_is_none():
    local = advertised()
    assert local.advertise("p", 1, LOW, 6) == []
    assert local.advertise("p", 1, HIGH, 7) == [LOW, HIGH]
    assert local.advertise("p", 2, LOW, 1) == [LOW]
    assert local.here(ALL).known == (Answer("p", 3, HIGH), Answer("p", 3, LOW))
    assert local.forget("p") == [HIGH, LOW] and local.here(ALL).known == ()
    assert local.forget("p") == []


def test_a_withdrawal_that_is_late_takes_nothing_back():
    local = advertised()
    assert local.unadvertise("p", 1, 3) == [] and local.unadvertise("p", 2, None) == []
    assert local.unadvertise("p", 1, 4) == [LOW]
    local.advertise("p", 1, LOW, 9)
    assert local.unadvertise("p", 1, None) == [LOW]


def test_whom_news_is_about_and_who_is_served():
    local = advertised()
    local.permitted |= {("s", 1): LOW, ("s", 2): HIGH}
    assert local.touched(iter([ALL])) == [("s", 1), ("s", 2)]
    assert local.touched([LOW]) == [("s", 1)] and local.touched([]) == []
    local.served["s", 1] = local.here(LOW)
    assert local.drop(("s", 1)) and not local.drop(("s", 2)) and local.permitted == {}


def test_a_twin_from_its_snapshot_knows_what_was_said_when():
    local = advertised()
    local.permitted["s", 1] = LOW
    local.served["s", 1] = local.here(LOW)
    local.elsewhere[HIGH] = Reply((Answer("q", 7, HIGH),), 2)
    twin = LocalFirst(3)
    twin.restore(local.snapshot())
    twin.check()
    assert twin.snapshot() == local.snapshot()
    assert twin.reply(ALL, HIGH) == local.reply(ALL, HIGH) != Reply()
    assert twin.unadvertise("p", 1, 3) == [], "it was said again since"
