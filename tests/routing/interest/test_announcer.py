"""A broker announces exactly the root filters to its parent, without gaps, and answers every waiter."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rayvous.protocol.messages.pubsub import Announce, Withdraw
from rayvous.routing.filters.covering import covers
from rayvous.routing.filters.filter import Filter, to_filter
from rayvous.routing.interest.announcer import Announcer, AnnouncerSteps, Waiter
from rayvous.routing.matching import covering_dag
from rayvous.routing.matching.covering_dag import CoveringDag
from rayvous.routing.matching.index import MatchIndex

SELECTORS = (
    *(f"x > {i}" for i in range(4)),
    *(f"x BETWEEN {i} AND {i + 2}" for i in range(4)),
    *(f"x = {i}" for i in range(4)),
    "x IN (1, 3) OR s = 'a'", "s = 'a'", "s PREFIX 'a'", "s SUFFIX 'a'", "s LIKE '%a%'", "x > 1 AND s = 'a'",
    "TRUE", "FALSE",
)  # fmt: skip
FILTERS = tuple(map(to_filter, SELECTORS))


class Held:
    """An announcer with the index and slots that the routing table would keep for it."""

    def __init__(self, *, top: bool = False) -> None:
        self.index = MatchIndex()
        self.dag = CoveringDag(self.index)
        self.announcer = Announcer(self.dag, top=top)
        self.slots: dict[Filter, int] = {}

    def hold(self, item: Filter) -> AnnouncerSteps:
        self.slots[item] = self.index.insert(item)
        return self.announcer.hold(item, self.slots[item])

    def release(self, item: Filter) -> AnnouncerSteps:
        steps = self.announcer.release(item)
        self.index.remove(self.slots.pop(item))
        return steps


class Announcements(RuleBasedStateMachine):
    """Hold, release, wait and confirm in any order, with a model of what the parent knows."""

    @initialize(scan=st.sampled_from((0, 1000)))
    def start(self, scan: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(covering_dag, "SCAN_MAX", scan)
        self.machine = Held()
        self.parent: dict[Filter, int] = {}  # the filters that the parent knows, with their tokens
        self.confirmed: set[int] = set()
        self.tokens: list[int] = []
        self.waiting: dict[Waiter, Filter] = {}
        self.answered: Counter[Waiter] = Counter()
        self.next_waiter = 0

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    def take(self, steps: AnnouncerSteps, *, old: list[Filter]) -> None:
        """Apply the messages in order; after each one the parent must still cover every filter in `old`."""
        for message in steps.up:
            if isinstance(message, Announce):
                assert message.filter not in self.parent and message.token not in self.tokens
                self.parent[message.filter] = message.token  # type: ignore[index]
                self.tokens.append(message.token)
            else:
                assert isinstance(message, Withdraw)
                del self.parent[message.filter]  # type: ignore[arg-type]
            for item in old:
                assert self.covered(item, self.parent), f"the parent does not know of {item} after {message}"
        for waiter in steps.ready:
            self.answered[waiter] += 1
            wanted = self.waiting.pop(waiter)
            sure = [item for item, token in self.parent.items() if token in self.confirmed]
            assert self.covered(wanted, sure), f"{wanted} was answered too early"

    def covered(self, wanted: Filter, known: Any) -> bool:
        # With patterns `covers` may miss a cover that the DAG found through other filters; then that counts.
        return any(covers(item, wanted) for item in known) or self.machine.dag.root_above(wanted) in known

    @rule(item=st.sampled_from(FILTERS), waits=st.booleans())
    def hold(self, item: Filter, waits: bool) -> None:
        old = list(self.machine.slots)
        if item not in self.machine.slots:
            self.take(self.machine.hold(item), old=old)
        if waits:
            self.wait(item)

    def wait(self, item: Filter) -> None:
        waiter = (f"c{self.next_waiter}", self.next_waiter)
        self.next_waiter += 1
        self.waiting[waiter] = item
        self.take(self.machine.announcer.wait(waiter, item), old=[])

    @precondition(lambda self: self.machine.slots)
    @rule(data=st.data())
    def wait_for_what_is_held(self, data: Any) -> None:
        self.wait(data.draw(st.sampled_from(list(self.machine.slots))))

    @precondition(lambda self: self.machine.slots)
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        item = data.draw(st.sampled_from(list(self.machine.slots)))
        self.waiting = {waiter: wanted for waiter, wanted in self.waiting.items() if wanted != item}
        old = [other for other in self.machine.slots if other != item]
        steps = self.machine.release(item)
        self.take(steps, old=old)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def forget(self, data: Any) -> None:
        waiter = data.draw(st.sampled_from(list(self.waiting)))
        self.machine.announcer.forget(waiter, self.waiting.pop(waiter))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def wait_again(self, data: Any) -> None:
        waiter = data.draw(st.sampled_from(list(self.waiting)))
        self.take(self.machine.announcer.wait(waiter, self.waiting[waiter]), old=[])

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def installed(self, data: Any) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        before = len(self.waiting)
        current = token in self.parent.values()
        if current:
            self.confirmed.add(token)
        steps = self.machine.announcer.installed(token)
        assert steps.up == [] and (current or steps.ready == [])
        self.take(steps, old=[])
        assert len(self.waiting) == before - len(steps.ready)

    @rule()
    def a_token_that_was_never_given_does_nothing(self) -> None:
        assert self.machine.announcer.installed(10**9) == AnnouncerSteps()

    @invariant()
    def the_parent_knows_the_roots(self) -> None:
        announcer = self.machine.announcer
        announcer.check()
        assert set(self.parent) == set(announcer.announced()) == set(self.machine.dag.roots())
        assert all(count == 1 for count in self.answered.values())

    @invariant()
    def nobody_waits_for_what_is_installed(self) -> None:
        for wanted in self.waiting.values():
            token = self.parent[self.machine.dag.root_above(wanted)]
            assert token not in self.confirmed

    @rule()
    def all_are_answered_once_all_is_confirmed(self) -> None:
        for token in list(self.parent.values()):
            self.confirmed.add(token)
            self.take(self.machine.announcer.installed(token), old=[])
        assert self.waiting == {}


TestAnnouncements = Announcements.TestCase
TestAnnouncements.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


def told(steps: AnnouncerSteps) -> list[str]:
    return [("+" if isinstance(message, Announce) else "-") + str(message.filter) for message in steps.up]


def test_what_was_hidden_is_announced_before_the_withdrawal() -> None:
    held = Held()
    wide, low, high = map(to_filter, ("x > 0", "x = 1", "x > 5"))
    assert told(held.hold(low)) == ["+x = 1"]
    assert told(held.hold(wide)) == ["+x > 0", "-x = 1"]
    assert told(held.hold(high)) == []
    assert told(held.release(wide)) == ["+x = 1", "+x > 5", "-x > 0"]


def test_a_waiter_moves_to_what_covers_its_filter_now() -> None:
    held = Held()
    wide, low = map(to_filter, ("x > 0", "x = 1"))
    (first,) = held.hold(low).up
    assert held.announcer.wait(("c", 1), low).ready == []
    second, _ = held.hold(wide).up
    assert isinstance(first, Announce) and isinstance(second, Announce)
    assert held.announcer.installed(first.token).ready == []  # withdrawn since, so its answer has no effect
    assert held.announcer.installed(second.token).ready == [("c", 1)]
    assert held.announcer.wait(("c", 2), low).ready == [("c", 2)]


def test_the_answer_to_an_announcement_withdrawn_and_made_again_is_told_from_the_new_ones() -> None:
    held = Held()
    item = to_filter("x = 1")
    (first,) = held.hold(item).up
    held.release(item)
    (second,) = held.hold(item).up
    held.announcer.wait((7, 70), item)
    assert isinstance(first, Announce) and isinstance(second, Announce) and first.token != second.token
    assert held.announcer.installed(first.token).ready == []
    assert held.announcer.installed(second.token).ready == [(7, 70)]
    assert held.announcer.installed(second.token).ready == []


def test_at_the_root_all_is_installed_at_once_and_nobody_is_told() -> None:
    held = Held(top=True)
    wide, low = map(to_filter, ("x > 0", "x = 1"))
    for item in (low, wide):
        assert held.hold(item) == AnnouncerSteps()
        assert held.announcer.wait(("c", 1), item) == AnnouncerSteps(ready=[("c", 1)])
    assert held.release(wide) == AnnouncerSteps()
    held.announcer.check()
