"""Comparing tables: a difference counts when it stays, and only then (paper 4, section 2; decision 0028)."""

import pytest
from rayvous.faults.membership.comparing import STRIKES, Comparing, digest
from rayvous.protocol.effects import Received, Send, Ticked
from rayvous.protocol.errors import StateDamaged
from rayvous.protocol.ids import GROUP
from rayvous.protocol.layers import Inward
from rayvous.protocol.messages.recovery import Compare


class Tables:
    """A router whose tables are given."""

    def __init__(self):
        self.mine, self.theirs = [], {}

    def held(self):
        return iter(self.mine)

    def told(self):
        return self.theirs


@pytest.fixture
def tables():
    return Tables()


@pytest.fixture
def machine(tables):
    return Comparing(1, 2.0, tables)


def hear(machine, said, source=7):
    return machine.takes[Compare](Received(source, Compare(said)))


def tick(machine, now):
    return machine.sees[Ticked](Ticked(now))


def test_what_was_told_is_said_to_each_now_and_then(machine, tables):
    tables.theirs = {(3, 3): ["a", "b"], (GROUP, 4): []}
    said = [Send(3, Compare(digest(["b", "a"]))), Send(4, Compare(digest([])))]
    assert tick(machine, 0.0) == [*said, Inward(Ticked(0.0))]
    assert tick(machine, 1.9) == [Inward(Ticked(1.9))]
    assert tick(machine, 2.0) == [*said, Inward(Ticked(2.0))]


def test_a_difference_that_stays_is_damage(machine, tables):
    tables.mine = [("a", 7, 7), ("b", GROUP, 8), ("c", "client", 7)]
    for turn in range(2 * STRIKES):
        tick(machine, 2.0 * turn)
        assert hear(machine, digest(["a"])) == [] and hear(machine, digest(["b"]), source=8) == []
    for turn in range(STRIKES - 1):
        tick(machine, 20.0 + 2.0 * turn)
        hear(machine, digest(["a", "more"]))
        machine.check()
    tick(machine, 20.0 + 2.0 * STRIKES)
    with pytest.raises(StateDamaged, match="broker 1 does not hold for broker 7 what that has told it"):
        hear(machine, digest(["a", "more"]))


def test_what_is_on_its_way_is_not(machine, tables):
    for number in range(3 * STRIKES):  # it changes all the time, and is behind now and then
        tick(machine, 2.0 * number)
        tables.mine = [(f"n{number // 2}", 7, 7)]
        hear(machine, digest([f"n{number // 2 + number % 2}"]))
    for strike in range(3 * STRIKES):  # it is the same again now and then
        tick(machine, 100.0 + 2.0 * strike)
        hear(machine, digest(["other"] if strike % STRIKES else [tables.mine[0][0]]))


def test_what_a_cut_link_has_held_and_brings_at_once_counts_once(machine, tables):
    tables.mine = [("a", 7, 7)]
    tick(machine, 10.0)
    for _ in range(5 * STRIKES):
        hear(machine, digest(["b"]))
    assert machine.describe() == {"differences": 1}


def test_with_who_says_nothing_nothing_is_compared(machine, tables):
    tables.mine = [("a", 7, 7)]
    for now in range(0, 60, 2):
        tick(machine, float(now))
    assert machine.describe() == {"differences": 0}


def test_who_says_the_same_again_does_not_differ(machine, tables):
    hear(machine, digest(["a"]))
    assert machine.describe() == {"differences": 1}
    tables.mine = [("a", 7, 7)]
    hear(machine, digest(["a"]))
    assert machine.describe() == {"differences": 0}
