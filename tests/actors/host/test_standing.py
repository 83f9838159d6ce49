"""Standing heartbeats between hosts: sent once, held, revoked; a machine without Ray and without a clock."""

from typing import Any

from rayvous.actors.host.standing import (
    HERE,
    LAPSE_HEARTBEATS,
    SILENT_HEARTBEATS,
    StandingHeartbeats,
    Stands,
)
from rayvous.protocol.ids import GROUP, BrokerId

AWAY = {7: "there", 8: "there", 9: "elsewhere"}
"""Which brokers are on other hosts; 1 and 2 are here."""


def standing() -> StandingHeartbeats:
    def host_of(broker: BrokerId) -> str | None:
        return None if broker < 7 else AWAY[broker]

    machine = StandingHeartbeats(1.0, host_of, lambda broker: 0)
    machine.goes_on(0.0)
    return machine


def says(
    machine: StandingHeartbeats, beat: Any, now: float, to: tuple[int, ...] = (7,), *, clear: bool = True
) -> bool:
    return machine.says(1, GROUP if len(to) > 1 else to[0], to, beat, now, clear=clear)


def held(machine: StandingHeartbeats, beat: Any = "all is well") -> None:
    """Let broker 1 repeat a heartbeat to broker 7 until it stands."""
    says(machine, beat, 0.0)
    says(machine, beat, 1.0)
    machine.told("there", machine.unconfirmed("there"))
    assert says(machine, beat, 2.0)


def test_a_beat_is_sent_until_the_other_host_has_said_that_it_holds_it() -> None:
    machine = standing()
    assert not says(machine, "a", 0.0) and not machine.receivers(), "it may never be said again"
    assert not says(machine, "a", 1.0)
    assert machine.receivers() == ["there"] and machine.unconfirmed("there") == (Stands(1, 0, 7, "a"),)
    assert not says(machine, "a", 2.0) and not machine.all_held(1, {7})
    machine.told("there", machine.unconfirmed("there"))
    assert says(machine, "a", 3.0) and machine.all_held(1, {7})
    assert machine.receivers() == ["there"] and machine.unconfirmed("there") == (), (
        "a beat of the host is enough now"
    )
    assert not machine.all_held(1, {7, 8}), "it says nothing to 8"


def test_what_is_new_goes_at_once_and_takes_back_what_stood() -> None:
    machine = standing()
    held(machine)
    assert not says(machine, "all is different", 3.0)
    assert machine.unconfirmed("there") == (Stands(1, 0, 7, None),)
    assert not says(machine, "all is well", 4.0), "nor does it stand again because it once did"


def test_what_is_said_again_while_it_is_taken_back_is_told_anew() -> None:
    machine = standing()
    held(machine, "a")
    says(machine, "b", 3.0)
    before = machine.unconfirmed("there")
    says(machine, "b", 4.0)
    machine.told("there", before)  # the call that was in flight
    assert machine.unconfirmed("there") == (Stands(1, 0, 7, "b"),) and not says(machine, "b", 5.0)


def test_what_stands_on_one_way_to_a_broker_stays_when_another_way_to_it_lapses() -> None:
    """It was designated and spoke to its cluster; then it speaks to one member. Reference: decision 0092."""
    machine = standing()
    for now in (0.0, 1.0):
        says(machine, "to all", now, (7, 8))
    machine.told("there", machine.unconfirmed("there"))
    for now in (2.0, 3.0):
        assert not says(machine, "to one", now)
    machine.told("there", machine.unconfirmed("there"))
    assert says(machine, "to one", 4.0)
    machine.lapse(1, 4.0)
    assert machine.unconfirmed("there") == () and machine.all_held(1, {7})
    assert not says(machine, "to all", 5.0, (7, 8)), "it has to come to stand again"


def test_nothing_comes_to_stand_ahead_of_what_is_on_its_way() -> None:
    machine = standing()
    for now in range(5):
        assert not says(machine, "a", now, clear=False)
    assert not machine.receivers()


def test_what_goes_to_a_group_stands_when_all_hosts_hold_it() -> None:
    machine = standing()
    for now in (0.0, 1.0):
        says(machine, "a", now, (2, 7, 8, 9))
    assert machine.beats(2, "here") == [(1, "a")], "between brokers of one host it stands at once"
    assert {each.to for each in machine.unconfirmed("there")} == {7, 8}
    machine.told("there", machine.unconfirmed("there"))
    assert not says(machine, "a", 2.0, (2, 7, 8, 9))
    machine.died("elsewhere")
    assert says(machine, "a", 3.0, (2, 7, 8, 9)), "who is dead has to hold nothing"
    assert not says(machine, "a", 4.0, (2, 7, 8)), "another group has yet to be told"


def test_a_host_of_which_nothing_is_known_is_told_nothing() -> None:
    machine = standing()
    for now in range(4):
        assert not says(machine, "a", now, (7, 99))
    assert not machine.receivers()


def test_what_a_broker_says_no_more_lapses() -> None:
    machine = standing()
    held(machine)
    machine.lapse(1, 2.0 + LAPSE_HEARTBEATS)
    assert not machine.unconfirmed("there")
    machine.renew(1, 50.0)
    machine.lapse(1, 50.0 + LAPSE_HEARTBEATS)
    assert not machine.unconfirmed("there"), "who was not told the time could not say it"
    machine.lapse(1, 50.1 + LAPSE_HEARTBEATS)
    assert machine.unconfirmed("there") == (Stands(1, 0, 7, None),)


def test_a_beat_of_a_host_is_one_of_each_whose_beats_stand_there() -> None:
    machine = standing()
    news = [Stands(7, 0, 1, "a"), Stands(8, 0, 1, "b")]
    assert machine.hears("there", news, 5.0) == news
    assert machine.hears("elsewhere", [Stands(9, 0, 2, "c")], 6.0)
    assert machine.hears("there", [], 7.0) == []
    assert machine.beats(1, "there") == [(7, "a"), (8, "b")] and machine.beats(2, "there") == []
    assert machine.heard(1, 0.0) == {7: [5.0, 7.0], 8: [5.0, 7.0]} and machine.heard(2, 6.0) == {9: []}
    assert machine.alive_by_host(1, 7.0) == {7, 8}
    machine.hears("there", [Stands(7, 0, 1, None)], 8.0)
    assert machine.beats(1, "there") == [(8, "b")]


def test_what_stood_on_the_word_of_another_host_is_not_taken_back_by_this_one() -> None:
    machine = standing()
    machine.hears("elsewhere", [Stands(7, 1, 1, "a")], 5.0)
    machine.hears("there", [Stands(7, 0, 1, None)], 5.0)
    assert machine.beats(1, "elsewhere") == [(7, "a")]


def test_a_host_that_is_not_heard_is_silent_and_vouches_for_nobody() -> None:
    machine = standing()
    machine.hears("there", [Stands(7, 0, 1, "a")], 5.0)
    machine.goes_on(5.0 + SILENT_HEARTBEATS)
    assert machine.silent(5.0 + SILENT_HEARTBEATS) == []
    machine.goes_on(7.0)
    assert machine.silent(7.0) == ["there"] and machine.alive_by_host(1, 7.0) == frozenset()
    machine.hears("there", [], 8.0)
    assert machine.alive_by_host(1, 8.0) == {7}, "it was only late"


def test_nothing_is_left_of_a_broker_that_is_forgotten() -> None:
    machine = standing()
    held(machine)
    machine.hears("there", [Stands(7, 0, 1, "a"), Stands(8, 0, 1, "b")], 5.0)
    machine.forget(7)
    assert machine.unconfirmed("there") == (Stands(1, 0, 7, None),)
    assert machine.beats(1, "there") == [(8, "b")]
    assert not says(machine, "all is well", 6.0), "in its next incarnation it has heard nothing"
    held(machine)
    machine.forget_all()
    assert machine.unconfirmed("there") == (Stands(1, 0, 7, None),)


def test_what_has_arrived_stands_before_it_is_repeated() -> None:
    machine = standing()
    machine.says(0, 1, (1,), "well", 0.0, clear=False)
    machine.settle(0, {1, 2}, lambda link: False)
    assert machine.beats(1, HERE) == [] and not machine.all_held(0, {1})
    machine.settle(0, {2}, lambda link: True)
    assert machine.beats(1, HERE) == [], "it may never be said again"
    machine.settle(0, {1, 2}, lambda link: link == 1)
    assert machine.beats(1, HERE) == [(0, "well")] and machine.all_held(0, {1})


def test_time_in_which_this_host_was_behind_is_nobodys_silence() -> None:
    machine = standing()
    machine.hears("there", (), 10.0, 2.0)
    machine.goes_on(13.0, 3.0)
    assert machine.silent(12.0, 2.0) == ["there"]
    assert machine.silent(12.0, 3.0) == []
    assert machine.silent(13.0, 3.0) == ["there"]


def test_what_was_heard_before_this_host_was_behind_is_as_old_as_without_that() -> None:
    machine = standing()
    machine.hears("there", [Stands(7, 0, 1, "well")], 10.0, 2.0)
    assert machine.heard(1, 0.0, 2.0) == {7: [10.0]}
    assert machine.heard(1, 0.0, 5.5) == {7: [13.5]}
