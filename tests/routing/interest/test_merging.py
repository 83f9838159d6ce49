"""Merged announcements match exactly what is held, without gaps, are few, and every waiter is answered."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.messages.pubsub import Announce
from rayvous.routing.interest.merging import MergingAnnouncer
from rayvous.routing.language.questions import to_filter
from rayvous.routing.matching.covering_dag import CoveringDag
from rayvous.routing.matching.index import MatchIndex

EVENTS = [
    {name: value for name, value in (("x", x), ("s", s), ("y", y)) if value is not None}
    for x, s, y in itertools.product((None, 0, 1, 2, 3, 4), (None, "a", "b"), (None, 1, 2))
]
SELECTORS = (
    *(f"x = {i}" for i in range(5)),
    *(f"x BETWEEN {i} AND {i + 1}" for i in range(4)),
    *(f"x > {i} AND s = '{s}'" for i in range(3) for s in "ab"),
    *(f"x = {i} AND s = '{s}' AND y = {y}" for i in range(2) for s in "ab" for y in (1, 2)),
    "s = 'a'", "s = 'b'", "s <> 'a'", "x = 1 OR y = 1", "x = 3 OR s = 'a'", "s LIKE '%a%'", "TRUE", "FALSE",
)  # fmt: skip
FILTERS = tuple(dict.fromkeys(map(to_filter, SELECTORS)))
MATCHES = {item: frozenset(i for i, event in enumerate(EVENTS) if item.matches(event)) for item in FILTERS}


class Held:
    """An announcer with its index, and a model of what the parent knows after each message."""

    def __init__(self):
        self.index = MatchIndex()
        self.announcer = MergingAnnouncer(CoveringDag(self.index), top=False)
        self.slots, self.parent, self.messages = {}, {}, 0

    def hold(self, item):
        old = list(self.slots)
        self.slots[item] = self.index.insert(item)
        return self.take(self.announcer.hold(item, self.slots[item]), old)

    def release(self, item):
        steps = self.announcer.release(item)
        self.index.remove(self.slots.pop(item))
        return self.take(steps, list(self.slots))

    def take(self, steps, stays):
        needed = frozenset().union(*(MATCHES[item] for item in stays))
        for message in steps.up:
            self.messages += 1
            if isinstance(message, Announce):
                assert message.filter not in self.parent
                self.parent[message.filter] = message.token
            else:
                del self.parent[message.filter]
            assert needed <= matched(self.parent), f"a gap after {message}"
        self.announcer.check()
        assert matched(self.parent) == frozenset().union(*(MATCHES[item] for item in self.slots))
        return steps


def matched(filters):
    return frozenset(i for i, event in enumerate(EVENTS) if any(item.matches(event) for item in filters))


@given(st.lists(st.sampled_from(FILTERS), max_size=40))
@settings(max_examples=150, deadline=None)
def test_what_is_announced_is_exactly_what_is_held_at_every_moment(toggles):
    held = Held()
    for item in toggles:
        if item in held.slots:
            held.release(item)
        else:
            held.hold(item)
    for item in list(held.slots):
        held.release(item)
    assert held.parent == {} and not held.announcer._groups and not held.announcer._by_rest


@given(st.lists(st.tuples(st.sampled_from(FILTERS), st.booleans()), max_size=30), st.data())
@settings(max_examples=80, deadline=None)
def test_whoever_waits_is_answered_once_and_not_too_early(toggles, data):
    held, waiting, sure, answered = Held(), {}, set(), []

    def heard(steps):
        for waiter in steps.ready:
            item = waiting.pop(waiter)
            known = [each for each, token in held.parent.items() if token in sure]
            assert MATCHES[item] <= matched(known)
            answered.append(waiter)

    for number, (item, confirm) in enumerate(toggles):
        if item in held.slots:
            waiting = {waiter: wanted for waiter, wanted in waiting.items() if wanted != item}
            heard(held.release(item))
        else:
            heard(held.hold(item))
            waiting["c", number] = item
            heard(held.announcer.wait(("c", number), item))
        if confirm and held.parent:
            token = data.draw(st.sampled_from(sorted(held.parent.values())))
            sure.add(token)
            heard(held.announcer.installed(token))
    for token in list(held.parent.values()):
        sure.add(token)
        heard(held.announcer.installed(token))
    assert waiting == {} and len(set(answered)) == len(answered)


def test_many_ranges_become_one_filter_and_come_apart_again():
    held = Held()
    held.announcer.check()
    names = [to_filter(f"x = {i}") for i in range(5)]
    for item in names:
        held.hold(item)
    assert list(held.parent) == [to_filter("x IN (0, 1, 2, 3, 4)")]
    for item in names[1:]:
        held.release(item)
    assert list(held.parent) == [to_filter("x = 0")]
    assert held.messages == 5 + 4 + 4 + 4, "each change takes an announcement and a withdrawal"


def test_filters_that_differ_in_two_attributes_are_left_alone():
    held = Held()
    first, second = map(to_filter, ("x > 0 AND s = 'a'", "x > 1 AND s = 'b'"))
    held.hold(first)
    held.hold(second)
    assert set(held.parent) == {first, second}


class Bare:
    """An announcer and its index."""

    def __init__(self):
        self.index = MatchIndex()
        self.dag = CoveringDag(self.index)
        self.announcer = MergingAnnouncer(self.dag, top=False)
        self.slots = {}

    def hold(self, item):
        self.slots[item] = self.index.insert(item)
        return self.announcer.hold(item, self.slots[item])

    def again(self):
        other = Bare()
        other.slots = dict(self.slots)
        other.index.restore(self.index.snapshot())
        other.dag.restore(self.dag.snapshot(), other.slots.__getitem__)
        other.announcer.restore(self.announcer.snapshot())
        return other


@pytest.mark.parametrize("leaves", [None, 0, 1])
def test_an_announcer_that_is_restored_merges_what_the_other_merges(leaves):
    """If two groups have the same rest, a new filter joins the later group, provided that it still exists."""
    filters = [to_filter(f"{each} AND x = 1") for each in ("s LIKE 'a%'", "s LIKE '%b'", "s = 'c'")]
    bare = Bare()
    for item in filters[:2]:
        bare.hold(item)
    if leaves is not None:
        bare.announcer.release(filters[leaves])
        bare.index.remove(bare.slots.pop(filters[leaves]))
    again = bare.again()
    assert again.hold(filters[2]) == bare.hold(filters[2])
    again.announcer.check()
