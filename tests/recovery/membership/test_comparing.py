"""Comparing tables: only a difference that persists counts as damage (paper 4, section 2; decision 0028)."""

import pytest
from rayvous.protocol.effects import Received, Send, Ticked
from rayvous.protocol.errors import StateDamaged
from rayvous.protocol.ids import GROUP, RoundNumber
from rayvous.protocol.layers import Inward, RoundHeard, RoundWanted
from rayvous.protocol.messages.comparing import Compare
from rayvous.protocol.messages.pubsub import HasHad, HasPublished
from rayvous.protocol.messages.recovery import RENDEZVOUS
from rayvous.recovery.membership.comparing import STRIKES, Compared, Comparing, digest


class Known:
    """A fake broker; the test sets everything that is compared."""

    def __init__(self):
        self.mine, self.theirs = [], {}
        self.places, self.numbers = {}, {}
        self.had, self.published, self.present = {}, {}, RoundNumber(1, 5)
        self.sound, self.waits_for = True, set()
        self.expire = {}

    def held(self):
        return iter(self.mine)

    def announced(self):
        return self.theirs

    def agreed(self):
        return self.places

    def streams(self):
        return self.numbers

    def unannounced(self):
        return self.waits_for

    def round(self):
        return self.present

    def marks(self, client):
        return self.had.get(client)

    def expiring(self, client):
        return self.expire.get(client, {})

    def accepted(self, publisher):
        return self.published.get(publisher, 0)

    def check(self):
        assert self.sound, "it does not hold together"


@pytest.fixture
def tables():
    return Known()


@pytest.fixture
def machine(tables):
    return Comparing(1, 2.0, Compared(tables, tables, tables, tables.check))


def hear(machine, said=b"", source=7, **more):
    return machine.takes[Compare](Received(source, Compare(said, **more)))


def tick(machine, now):
    return machine.sees[Ticked](Ticked(now))


def test_what_was_told_is_said_to_each_now_and_then(machine, tables):
    tables.theirs = {(3, 3): ["a", "b"], (GROUP, 4): []}
    tables.places, tables.numbers = {3: "here", RENDEZVOUS: "view"}, {4: (1, 2)}
    said = [
        Send(3, Compare(digest(["b", "a"]), place=digest(["here"]), round=tables.present)),
        Send(4, Compare(digest([]), stream=digest([(1, 2)]), round=tables.present)),
        Send(RENDEZVOUS, Compare(place=digest(["view"]), round=tables.present)),
    ]
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


def test_to_wait_for_who_has_told_all_is_damage(machine, tables):
    """Also if that broker wants nothing, since a broker that waits takes no part in the view."""
    tables.waits_for = {7}
    for turn in range(STRIKES - 1):
        tick(machine, 2.0 * turn)
        assert hear(machine, digest([])) == [] and hear(machine, digest([]), source=8) == []
    tick(machine, 2.0 * STRIKES)
    with pytest.raises(StateDamaged, match="does not hold for broker 7"):
        hear(machine, digest([]))


def test_what_is_on_its_way_is_not(machine, tables):
    for number in range(3 * STRIKES):  # it changes all the time and sometimes lags
        tick(machine, 2.0 * number)
        tables.mine = [(f"n{number // 2}", 7, 7)]
        hear(machine, digest([f"n{number // 2 + number % 2}"]))
    for strike in range(3 * STRIKES):  # it is sometimes equal again
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


@pytest.mark.parametrize("other", [7, RENDEZVOUS])
def test_who_stands_elsewhere_than_others_know_starts_again(machine, tables, other):
    tables.places = {other: "here"}
    for turn in range(STRIKES - 1):
        tick(machine, 2.0 * turn)
        assert hear(machine, place=digest(["there"]), source=other) == []
    tick(machine, 2.0 * STRIKES)
    with pytest.raises(StateDamaged, match="does not stand where"):
        hear(machine, place=digest(["there"]), source=other)


def test_of_somebody_with_whom_nothing_is_agreed_nothing_is_believed(machine, tables):
    for turn in range(3 * STRIKES):
        tick(machine, 2.0 * turn)
        assert hear(machine, place=digest(["there"]), stream=digest(["x"]), round=RoundNumber(9, 9)) == []


def test_a_later_round_of_who_belongs_here_is_begun(machine, tables):
    tables.places = {7: "here", RENDEZVOUS: "view"}
    later = RoundNumber(1, 6)
    assert hear(machine, place=digest(["here"]), round=later) == [Inward(RoundHeard(later))]
    assert hear(machine, place=digest(["here"]), round=tables.present) == []
    assert hear(machine, place=digest(["view"]), round=later, source=RENDEZVOUS) == []


def test_streams_that_stay_different_are_begun_anew(machine, tables):
    tables.numbers = {7: (1, 2)}
    out = []
    for turn in range(STRIKES):
        tick(machine, 2.0 * turn)
        out += hear(machine, stream=digest([(1, 3)]))
    assert out == [Inward(RoundWanted())]
    machine.check()  # this is not damage of tables or places


def test_what_a_subscriber_has_had_is_what_it_says(machine, tables):
    def say(marks):
        return machine.takes[HasHad](Received("s", HasHad(marks)))

    assert say({"p": 3}) == [], "it is not known here yet"
    tables.had = {"s": {"p": 3, "q": 0}}
    for turn in range(STRIKES):
        tick(machine, 2.0 * turn)
        assert say({"p": 3}) == []
    for turn in range(STRIKES - 1):
        tick(machine, 20.0 + 2.0 * turn)
        assert say({"p": 2}) == [], "the last may be on its way"
    tick(machine, 40.0)
    with pytest.raises(StateDamaged, match="does not know what subscriber 's' has had"):
        say({"p": 2})


def test_a_subscriber_need_not_have_had_what_expires(machine, tables):
    """The last event that was for it may have been dropped on the way; any other number is damage."""
    tables.had, tables.expire = {"s": {"p": 9}}, {"s": {"p": 9}}
    for turn in range(2 * STRIKES):
        tick(machine, 2.0 * turn)
        assert machine.takes[HasHad](Received("s", HasHad({"p": 2}))) == []
    tables.had = {"s": {"p": 1009}}
    for turn in range(STRIKES - 1):
        tick(machine, 20.0 + 2.0 * turn)
        assert machine.takes[HasHad](Received("s", HasHad({"p": 2}))) == []
    tick(machine, 40.0)
    with pytest.raises(StateDamaged):
        machine.takes[HasHad](Received("s", HasHad({"p": 2})))


def test_nobody_can_have_accepted_what_was_not_published(machine, tables):
    tables.published = {"p": 5}
    assert machine.takes[HasPublished](Received("p", HasPublished(5))) == []
    with pytest.raises(StateDamaged, match="accepted what publisher 'p' has not published"):
        machine.takes[HasPublished](Received("p", HasPublished(4)))


def test_whether_the_state_holds_together_is_looked_at_as_often(machine, tables):
    tick(machine, 0.0)
    tables.sound = False
    tick(machine, 1.9)
    with pytest.raises(AssertionError, match="does not hold together"):
        tick(machine, 2.0)
