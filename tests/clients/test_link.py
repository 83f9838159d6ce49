"""What a client sends again after a disconnection: all unacknowledged messages, in their original order.

Promise 3: what a broker has accepted is delivered; so no event may be refused because of an advertisement
that was withdrawn after it was published.
"""

from rayvous.clients.link import ClientLinks
from rayvous.protocol.batch import batch_of
from rayvous.protocol.messages.admission import Advertise, Unadvertise
from rayvous.protocol.messages.pubsub import Ack, Back, Events, Numbered
from rayvous.routing.filters.filter import to_filter


def events(first, size):
    return Events(batch_of([{"n": n} for n in range(size)], publisher="p", first_sequence=first))


def said(messages):
    assert all(isinstance(message, Numbered) for message in messages)
    return [message.message for message in messages]


def test_what_is_sent_again_goes_in_the_order_of_both_interfaces():
    link = ClientLinks()
    order = [Advertise(1, to_filter("n >= 0"), 1), events(1, 3), events(4, 1), Unadvertise(1), events(5, 2)]
    for message in order:
        link.send(message)
    assert [each.before for each in link.kept()] == [0, 0, 3, 1, 4]
    back, *again = link.back()
    assert back == Back(0) and said(again) == said(link.kept()) == order
    link.acknowledged("subscriptions", 1)
    link.acknowledged("events", 3)
    assert said(link.back()[1:]) == [order[2], Unadvertise(1), order[4]]
    assert [each.number for each in link.kept()] == [4, 2, 6], "each interface has numbers of its own"


def test_what_has_come_before_is_acknowledged_again_and_is_not_new() -> None:
    link = ClientLinks()
    assert link.take(3) == (True, Ack(3))
    assert link.take(3) == link.take(2) == (False, Ack(3))
    assert link.back() == [Back(3)]
