"""What is asked for and charged at one broker; whole networks are tested in tests/simulator.

Reference: paper 3, section 4.2; docs/decisions/0031-schemes-are-charged-for-what-they-send.md.
"""

from itertools import pairwise
from random import Random

import pytest
from rayvous.admission.advertisements import LOCAL
from rayvous.admission.books import Books
from rayvous.admission.controller import Admission
from rayvous.protocol.configs import IN_A_TREE, Ways
from rayvous.protocol.effects import Send
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig, Capacity, CapacityMeasured, Refusal
from rayvous.routing.language.questions import to_filter

EVERYTHING = to_filter("TRUE")


def test_what_a_brokers_own_publisher_publishes_is_not_taken_off_twice():
    """They are received whoever wants them: a client here asks only for what comes from elsewhere."""
    books = Books(0, Capacity(17))
    books.advertise(("here", 1), EVERYTHING, 10 * MICRO, LOCAL)
    books.advertise(("there", 1), EVERYTHING, 8 * MICRO, 5)
    assert books.refusals(EVERYTHING, LOCAL) == (Refusal(0, "cpu", 8.0, 7.0),)


def cluster(share=0.0):
    """Return broker 0, the designated broker of a cluster with 1 and 2, which is joined to broker 9."""
    config = AdmissionConfig(share, capacity=Capacity(100, 60), capacities={2: Capacity(30)})
    return Admission(0, config, (1, 2, 9), Ways(group=(1, 2), speaks=True))


@pytest.mark.parametrize("ways", [IN_A_TREE, Ways(floods=True)])
def test_what_goes_over_several_links_is_taken_in_once(ways):
    """The CPU is charged for events that are taken in: a broker does not pay again for each link that wants them."""
    books = Books(0, Capacity(100), ways=ways)
    for link in (1, 2, 3):
        books.join(link)
    books.advertise(("theirs", 1), to_filter("x = 1"), 10 * MICRO, 1)
    books.advertise(("mine", 1), to_filter("x = 2"), 5 * MICRO, LOCAL)
    for link in (2, 3):
        books.hold(to_filter("x > 0"), link, 0)
    books.check()
    reserved = books.reserved()
    assert reserved["cpu", None] == 15 * MICRO
    assert reserved["bandwidth", 2] == reserved["bandwidth", 3] == 15 * MICRO


@pytest.mark.parametrize("seed", range(20))
def test_loads_are_those_of_a_count_event_by_event(seed):
    """Each advertisement followed by hand over every link, in a tree and flooded."""
    rng = Random(seed)
    floods = rng.random() < 0.3
    books = Books(0, Capacity(10_000), ways=Ways(floods=floods))
    links = [LOCAL, *range(1, rng.randint(2, 6))]
    for link in links[1:]:
        books.join(link)
    advertised = [(rng.choice(links), value, rng.randint(1, 9)) for value in range(rng.randint(1, 8))]
    for number, (link, value, rate) in enumerate(advertised):
        books.advertise(("p", number), to_filter(f"x = {value}"), rate * MICRO, link)
    held = [(rng.choice(links), rng.randint(0, 8)) for _ in range(rng.randint(0, 8))]
    for link, low in held:
        books.hold(to_filter(f"x >= {low}"), link, 0)

    taken_in, carried = 0, dict.fromkeys(links[1:], 0)
    for source, value, rate in advertised:
        wanted = {link for link, low in held if value >= low}
        to = (set(links) if floods and wanted else wanted) - {source}
        taken_in += rate if to or source == LOCAL else 0
        for link in to - {LOCAL}:
            carried[link] += rate
    reserved = books.reserved()
    assert reserved["cpu", None] == taken_in * MICRO
    assert {link: reserved["bandwidth", link] // MICRO for link in carried} == carried


def test_what_is_multicast_is_one_message_on_the_group_and_comes_to_every_member():
    admission = cluster()
    books = admission.books
    books.advertise(("out", 1), to_filter("x = 1"), 20 * MICRO, 9)
    books.advertise(("in", 1), to_filter("x = 2"), 7 * MICRO, 1)
    books.hold(EVERYTHING, 2, 0)
    rates = {
        account: amount // MICRO for account, amount in books.reserved().items() if account[0] != "memory"
    }
    assert rates == {
        ("cpu", None): 27,
        ("cpu", 1): 27,  # its own publisher's 7, and the 20 that are multicast
        ("cpu", 2): 27,
        ("bandwidth", 9): 0,
        ("bandwidth", -1): 20,  # member 1 multicasts its 7 itself
    }
    books.advertise(("out", 2), to_filter("x = 3"), 10 * MICRO, 9)
    assert [each.broker for each in books.degraded()[EVERYTHING, 2]] == [2]
    assert str(Refusal(0, "bandwidth", 9, 5, -1)).startswith("broker 0 to its cluster: bandwidth")


def test_what_does_not_fit_on_the_group_is_refused_by_its_name():
    books = cluster().books
    books.advertise(("out", 1), to_filter("x = 1"), 90 * MICRO, 9)
    refusals = books.refusals(EVERYTHING, 1)
    assert Refusal(0, "bandwidth", 90.0, 60.0, -1) in refusals
    assert {each.resource for each in refusals} <= {"bandwidth", "cpu"}


def test_what_members_hand_on_is_charged_to_the_link_of_each_copy():
    """Paper 5: members take part in distributing; here each sends to the next, and nothing is multicast."""

    def chain(origin, others):
        return {sender: (to,) for sender, to in pairwise((origin, *others))}

    ways = Ways(group=(1, 2), speaks=True)
    admission = Admission(0, AdmissionConfig(), (1, 2, 9), ways, chain)
    for _ in range(2):
        books = admission.books
        assert books.flows.link_account(1) is None, "others have it"
        books.advertise(("out", 1), to_filter("x = 1"), 20, 9)
        books.advertise(("in", 1), to_filter("x = 2"), 7, 1)
        books.hold(EVERYTHING, 2, 0)
        rates = {account: amount for account, amount in books.reserved().items() if amount}
        del rates["memory", None]
        assert rates == {
            ("cpu", None): 27,
            ("cpu", 1): 27,
            ("cpu", 2): 27,
            ("bandwidth", 1): 20,
            ("bandwidth", (1, 2)): 20,
            ("bandwidth", (1, 0)): 7,
            ("bandwidth", 2): 7,
        }
        books.check()
        admission.books.lead(ways)  # under other ways, the members pass events on as before


def test_what_is_measured_at_a_member_counts_at_whoever_speaks_for_it():
    """Paper 3, 4.1: the highest rate at the limit. The member reports it, and again after a greeting."""
    config = AdmissionConfig(capacity=Capacity(100))
    member = Admission(2, config, (0,), Ways(group=(0,)))
    assert member.handle(2, CapacityMeasured(25.0)) == [Send(0, CapacityMeasured(25.0))]
    speaker = cluster()
    speaker.handle(2, CapacityMeasured(25.0))
    assert speaker.books.limit(("cpu", 2)) == 25 * MICRO and speaker.books.limit(("cpu", 1)) == 100 * MICRO
    assert speaker.handle(7, CapacityMeasured(25.0)) == [] and speaker.strays == 1
    again = Books(0, Capacity(100), capacity_of=lambda broker: Capacity(1))
    again.restore(speaker.books.snapshot())
    assert again.limit(("cpu", 2)) == 25 * MICRO


def test_books_that_add_reserve_an_advertisement_for_each_filter_that_meets_it():
    """Paper 3, 4.2: the rate of the subscription plus that of those before. By default an event is carried once."""
    amounts = {}
    for adds in ("union", "sum"):
        books = Books(0, Capacity(100), adds=adds)
        for link in (1, 2):
            books.join(link)
        books.advertise(("p", 1), to_filter("x = 1"), 10 * MICRO, 1)
        books.advertise(("mine", 1), to_filter("x = 2"), 5 * MICRO, LOCAL)
        for wanted in ("x > 0", "x = 1", "x < 9"):  # each meets the first, two of them the second
            assert not books.refusals(to_filter(wanted), 2)
            books.hold(to_filter(wanted), 2, 0)
        books.check()
        amounts[adds] = {
            key: amount // MICRO for key, amount in books.reserved().items() if key[0] != "memory"
        }
        [again] = books.refusals(to_filter("x >= 1 AND x < 9"), 2) or [None]
        assert again is None
        books.measured(45.0)
        refused = books.refusals(to_filter("x >= 1 AND x < 8"), 2)
        assert bool(refused) == (adds == "sum"), (
            "what another filter covers asks for nothing, unless all add up"
        )
        for wanted in ("x > 0", "x = 1", "x < 9"):
            assert books.drop(to_filter(wanted), 2)
        assert books.reserved()["bandwidth", 2] == 0 and books.reserved()["cpu", None] == 5 * MICRO
    assert amounts["union"] == {("cpu", None): 15, ("bandwidth", 1): 0, ("bandwidth", 2): 15}
    assert amounts["sum"] == {("cpu", None): 40, ("bandwidth", 1): 0, ("bandwidth", 2): 40}
