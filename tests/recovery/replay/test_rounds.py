"""Rounds of retransmission, link by link (docs/decisions/0011-recovery.md)."""

from rayvous.protocol.batch import batch_of
from rayvous.protocol.ids import FIRST_ROUND, RoundNumber
from rayvous.recovery.replay.rounds import Rounds

ONE, TWO, NEXT_TERM = RoundNumber(1, 1), RoundNumber(1, 2), RoundNumber(2, 1)


def rounds(events_max=10, seconds=60.0):
    return Rounds(events_max, seconds)


def test_a_link_that_was_never_closed_lets_everything_pass():
    machine = rounds()
    assert machine.passes(7, FIRST_ROUND) and machine.passes("alice", ONE)


def test_a_closed_link_opens_with_the_first_round_after_it_is_ready():
    machine = rounds()
    machine.close(7)
    assert not machine.passes(7, FIRST_ROUND)
    assert machine.begin(ONE)
    assert not machine.passes(7, ONE), "what is wanted over it was not installed when the round began"
    machine.make_ready(7, FIRST_ROUND)
    assert not machine.passes(7, ONE)
    assert machine.begin(TWO)
    assert machine.passes(7, TWO)
    assert not machine.passes(7, ONE), (
        "an event of an earlier round that is late would be ahead of what it lost"
    )
    assert machine.closed_links() == []


def test_a_round_that_may_have_begun_before_the_link_was_ready_does_not_open_it():
    machine = rounds()
    machine.close("alice")
    machine.make_ready("alice", TWO)
    assert machine.begin(TWO), "heard of only now"
    assert not machine.passes("alice", TWO)
    assert machine.begin(NEXT_TERM)
    assert machine.passes("alice", NEXT_TERM)


def test_rounds_only_grow_and_a_new_term_is_higher_than_any_number():
    machine = rounds()
    assert machine.begin(TWO)
    assert not machine.begin(ONE) and not machine.begin(TWO)
    assert machine.begin(NEXT_TERM)
    assert machine.current == NEXT_TERM


def test_closing_again_forgets_the_round_in_which_it_was_open():
    machine = rounds()
    machine.close(7)
    machine.make_ready(7, FIRST_ROUND)
    machine.begin(ONE)
    machine.close(7)
    assert not machine.passes(7, TWO)
    machine.forget(7)
    assert machine.passes(7, TWO)


def test_a_link_is_closed_since_it_was_closed_last_unless_it_was_closed_all_the_time():
    """Only a round that repairs everything missed since then opens it."""
    for opened_between in (True, False):
        machine = rounds()
        machine.close(7)
        if opened_between:
            machine.make_ready(7, FIRST_ROUND)
            machine.begin(ONE)
        machine.expire(20.0)
        machine.close(7)
        machine.make_ready(7, ONE)
        machine.begin(TWO, repair_window_seconds=5.0)
        assert machine.passes(7, TWO) == opened_between
        assert machine.too_old() != opened_between


def test_nothing_is_kept_longer_than_it_has_to_be_unless_the_time_is_told_late():
    machine = rounds(seconds=10.0)
    machine.keep(0.0, "p", batch_of([{"n": 1}]))
    machine.expire(10.0)
    assert machine.kept()
    machine.expire(10.5)
    assert not machine.kept()


def test_what_is_kept_is_bounded_by_count_and_what_is_forgotten_is_counted():
    machine = rounds(events_max=5)
    for number in range(4):
        machine.keep(0.0, "p", batch_of([{"n": number}, {"n": number}]))
    assert [kept.batch.events()[0]["n"] for kept in machine.kept()] == [2, 3]
    assert machine.forgotten == 4


def test_one_batch_is_kept_however_large_it_is():
    machine = rounds(events_max=1)
    machine.keep(0.0, "p", batch_of([{"n": number} for number in range(9)]))
    assert len(machine.kept()) == 1


def test_what_is_kept_is_bounded_by_age():
    machine = rounds(seconds=10.0)
    for at in (0.0, 5.0, 9.0):
        machine.keep(at, "p", batch_of([{"at": at}]))
    machine.expire(15.5)
    assert [kept.at for kept in machine.kept()] == [9.0]
    assert machine.forgotten == 0, "what is old enough was not lost"


def test_events_published_before_the_end_of_a_failure_may_be_lacking_while_that_is_remembered():
    machine = rounds(seconds=10.0)
    machine.expire(100.0)
    assert machine.may_lack(95.0, 5.0) and not machine.may_lack(94.0, 5.0), "what is not noticed yet"
    machine.begin(ONE, repair_window_seconds=30.0)
    assert machine.may_lack(70.0, 5.0) and machine.may_lack(100.0, 5.0) and not machine.may_lack(69.0, 5.0)
    machine.expire(100.0 + 10 * 10.0)
    assert machine.may_lack(70.0, 5.0)
    machine.expire(100.0 + 10 * 10.0 + 1)
    assert not machine.may_lack(70.0, 5.0)
    machine.repair_from(150.0)
    assert machine.may_lack(145.0, 5.0) and not machine.may_lack(144.0, 5.0), "what no round has mended yet"


def test_a_failure_is_news_unless_an_older_one_was_learned_of_not_long_ago():
    machine = rounds(seconds=10.0)
    machine.expire(100.0)
    assert machine.learn(90.0) and not machine.learn(90.0) and not machine.learn(95.0)
    assert machine.learn(89.0), "it may have begun earlier"
    machine.expire(120.0)
    assert machine.learn(95.0), "it is remembered for longer"
    assert machine.may_lack(89.0, 5.0) and not machine.may_lack(88.0, 5.0)


def test_nothing_is_let_go_too_soon_because_the_time_was_told_late():
    """Promise 2: nothing is lost within `retention_seconds`, even if the clock of a broker is behind."""
    machine = Rounds(100, 10.0, late_seconds=1.0)
    machine.expire(50.0)
    machine.keep(50.0, "p", batch_of([{}], publisher="p"))  # it came at 50.9, before the next tick
    machine.expire(60.8)
    assert len(machine.kept()) == 1
    machine.expire(61.1)
    assert not machine.kept()


def test_a_gap_that_is_known_stays_known_when_what_was_before_it_is_forgotten():
    """A publisher comes back without what it published elsewhere; then its first events are forgotten."""
    machine = rounds(events_max=2)
    machine.keep(1.0, "p", batch_of([{}, {}], publisher="p", first_sequence=1, published_at=1.0))
    machine.gone["p"] = 7, 4.0
    machine.keep(5.0, "p", batch_of([{}], publisher="p", first_sequence=8, published_at=5.0))
    assert machine.gone["p"] == (7, 4.0)
    machine.keep(6.0, "p", batch_of([{}, {}], publisher="p", first_sequence=9, published_at=6.0))
    assert machine.gone["p"] == (8, 5.0)
