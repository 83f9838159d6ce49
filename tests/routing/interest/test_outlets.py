"""An outlet announces the fewest filters, installed once all targets answer, and restores from a snapshot."""

import random

import pytest
from rayvous.protocol.effects import Multicast, Send
from rayvous.protocol.ids import GROUP
from rayvous.protocol.messages.pubsub import Announce, Withdraw
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.interest.announcer import Announcer
from rayvous.routing.interest.outlets import FlatOrder, Outlet
from rayvous.routing.matching.covering_dag import CoveringDag
from rayvous.routing.matching.index import MatchIndex

WIDE, NARROW, OTHER = (to_filter(text) for text in ("x > 1", "x > 2", "y = 1"))
FILTERS = [to_filter(f"{name} {sign} {n}") for name in "xy" for sign in (">", "=") for n in range(3)]


def outlet(**how):
    return Outlet((3, 4), 7, **({"covering": True} | how))


def test_a_filter_is_installed_when_everyone_whom_it_was_told_has_answered():
    way = outlet()
    [announce] = way.hold(WIDE).up
    assert way.hold(NARROW).up == [] and len(way) == 1 and NARROW in way
    for waiter, item in ((("a", 1), WIDE), (("b", 2), NARROW)):
        assert way.wait(waiter, item).ready == []
    way.forget(("nobody", 9), OTHER)
    assert way.answered(3, announce.token).ready == []
    assert way.answered(3, announce.token).ready == [], "the other one has not"
    assert way.answered(5, announce.token).ready == [], "who was not told does not count"
    assert sorted(way.answered(4, announce.token).ready) == [("a", 1), ("b", 2)]
    assert way.wait(("c", 3), NARROW).ready == [("c", 3)], "it is there"
    assert way.answered(4, announce.token).ready == []
    way.check([WIDE, NARROW])


def test_what_is_let_go_is_withdrawn_after_what_it_hid_and_its_answer_counts_no_more():
    way = outlet()
    [first] = way.hold(WIDE).up
    way.hold(NARROW)
    announce, withdraw = way.release(WIDE).up
    assert (type(announce), announce.filter) == (Announce, NARROW) and withdraw == Withdraw(WIDE)
    assert WIDE not in way and list(way.announced()) == [NARROW] == list(way.tokens)
    way.wait(("a", 1), NARROW)
    for to in (3, 4):
        assert way.answered(to, first.token).ready == []
    way.forget(("a", 1), NARROW)
    for to in (3, 4):
        assert way.answered(to, announce.token).ready == [], "it waits no longer"
    assert way.release(NARROW).up == [Withdraw(NARROW)] and len(way) == 0
    way.check([])


def test_it_is_told_one_by_one_or_the_group_at_once():
    messages = [Withdraw(WIDE), Withdraw(OTHER)]
    assert outlet().effects(messages) == [Send(to, message) for message in messages for to in (3, 4)]
    group = Outlet((3, 4), GROUP, covering=True)
    assert group.effects(messages) == [Multicast(message) for message in messages]


@pytest.mark.parametrize("how", [{}, {"covering": False}, {"merging": True}], ids=str)
def test_a_twin_that_is_made_from_its_snapshot_does_what_it_does(how):
    """Reference: decision 0021, a layer can be put down and made again."""
    rng = random.Random(3)
    for _ in range(12):
        way, held, tokens = outlet(**how), [], []
        for number in range(25):
            if number % 8 == 7:
                twin = outlet(**how)
                twin.restore(way.snapshot())
                twin.check(held)
                assert twin.snapshot() == way.snapshot()
                ways, way = [way, twin], twin
            else:
                ways = [way]
            if held and rng.random() < 0.3:
                item = held.pop(rng.randrange(len(held)))
                found = [each.release(item) for each in ways]
            elif tokens and rng.random() < 0.5:
                answer = rng.choice((3, 4)), rng.choice(tokens)
                found = [each.answered(*answer) for each in ways]
            elif held and rng.random() < 0.5:
                wanted = ("s", number), rng.choice(held)
                found = [each.wait(*wanted) for each in ways]
            elif left := [item for item in FILTERS if item not in held]:
                held.append(rng.choice(left))
                found = [each.hold(held[-1]) for each in ways]
            assert all(each == found[0] for each in found)
            tokens += [each.token for each in found[0].up if isinstance(each, Announce)]
            way.check(held)


@pytest.mark.parametrize("top", [False, True])
def test_a_new_parent_has_nothing_installed_and_no_parent_everything(top):
    """Reference: paper 1, 4.2.2: the joiner announces its own to the new parent."""
    index = MatchIndex()
    announcer = Announcer(CoveringDag(index), top=False)
    [announce] = announcer.hold(WIDE, index.insert(WIDE)).up
    announcer.wait(("a", 1), WIDE)
    announcer.installed(announce.token)
    assert announcer.all_installed()
    announcer.hold(OTHER, index.insert(OTHER))
    announcer.wait(("b", 2), OTHER)
    steps = announcer.renew(top=top)
    assert steps.ready == ([("b", 2)] if top else []) and steps.up == []
    assert announcer.all_installed() is top
    assert announcer.wait(("c", 3), WIDE).ready == ([("c", 3)] if top else [])
    assert announcer.installed(announce.token).ready == [], "the answer of the parent before"
    token = dict(announcer.tokens())[WIDE]
    assert announcer.installed(token).ready == ([] if top else [("c", 3)])
    announcer.check()


def test_filters_in_no_order_are_all_roots_and_come_back():
    flat = FlatOrder()
    for item in (WIDE, NARROW):
        assert flat.insert(item, 0) == []
    twin = FlatOrder()
    twin.restore(flat.snapshot(), {}.__getitem__)
    assert list(twin.roots()) == [WIDE, NARROW] and len(twin) == 2
    assert twin.is_root(NARROW) and twin.root_above(NARROW) == NARROW and twin.remove(WIDE) == []
    assert WIDE not in twin and NARROW in twin
