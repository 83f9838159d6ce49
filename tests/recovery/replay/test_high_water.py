"""What a broker knows of the numbers of publishers, and what it tells over each link."""

import pickle

from hypothesis import given
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of, concat
from rayvous.protocol.snapshots import restore_state, state_of
from rayvous.recovery.replay.high_water import HighWater
from rayvous.recovery.replay.rounds import REMEMBERED_RETENTIONS, Rounds


def batch(publisher, first, count=1):
    return batch_of([{"n": 1}] * count, publisher=publisher, first_sequence=first)


def test_numbers_are_learned_from_events_whomever_they_are_for_and_only_rise():
    known = HighWater()
    known.saw(batch("p", 4, 3))
    known.saw(batch("p", 1, 2))
    known.saw(concat([batch("q", 7), batch("p", 9), batch("q", 8), batch("p", 2)]))
    known.saw(batch("r", 1, 0))
    assert known.marks() == {"p": 9, "q": 8}


def test_what_was_known_at_a_time_does_not_change_and_is_shared_until_something_is_new():
    known = HighWater()
    known.learn("p", 3)
    before = known.marks()
    assert known.marks() is before
    known.learn("p", 2)
    assert known.marks() is before
    known.learn("p", 4)
    assert before == {"p": 3} and known.marks() == {"p": 4}


def test_over_a_link_only_news_are_told_and_over_a_new_link_all():
    known = HighWater()
    known.taught({"p": 3, "q": 1})
    assert known.news_for(1) == {"p": 3, "q": 1}
    assert known.news_for(1) == {}
    known.learn("p", 4)
    assert known.news_for(1) == {"p": 4} and known.news_for(2) == {"p": 4, "q": 1}
    assert known.all_for(1) == {"p": 4, "q": 1} and known.news_for(1) == {}
    known.forget(1)
    assert known.news_for(1) == {"p": 4, "q": 1}
    pickle.dumps(known.news_for(1))  # an answer without news crosses to another process too


def test_a_link_that_is_closed_or_gone_is_a_new_one():
    rounds = Rounds(100, 60.0)
    for end in (rounds.close, rounds.forget):
        rounds.high_water.learn("p", 1)
        rounds.high_water.all_for(7)
        end(7)
        assert rounds.high_water.news_for(7) == {"p": 1}


def test_publishers_that_were_silent_for_long_are_forgotten_and_so_is_the_longest_silent_beyond_a_limit():
    known = HighWater(10.0, publishers_max=2)
    for at, name in ((0.0, "p"), (4.0, "q"), (8.0, "p"), (9.0, "r")):
        known.expire(at)
        known.learn(name, 1 + int(at))
    assert known.marks() == {"p": 9, "r": 10}
    known.expire(18.5)
    assert len(known) == 1 and known.news_for(1) == {"r": 10}
    rounds = Rounds(100, 60.0)
    rounds.high_water.learn("p", 1)
    rounds.expire(60.0 * REMEMBERED_RETENTIONS)
    assert len(rounds.high_water) == 1
    rounds.expire(60.0 * REMEMBERED_RETENTIONS + 1.0)
    assert len(rounds.high_water) == 0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("learn"), st.sampled_from("pqrs"), st.integers(1, 9)),
            st.tuples(st.sampled_from(["news", "all", "forget"]), st.integers(1, 3), st.just(0)),
        ),
        max_size=40,
    )
)
def test_whoever_adds_up_what_it_was_told_knows_all_that_was_known_then(steps):
    """Compared with one dictionary for each link; and restored from a snapshot, it goes on likewise."""
    known, reference = HighWater(), {}
    told = {1: {}, 2: {}, 3: {}}
    for do, what, number in steps:
        if do == "learn":
            known.learn(what, number)
            reference[what] = max(number, reference.get(what, 0))
        elif do == "forget":
            known.forget(what)
            told[what] = {}
        else:
            told[what] |= known.news_for(what) if do == "news" else known.all_for(what)
            assert told[what] == reference
        known.check()
        twin = HighWater()
        restore_state(twin, state_of(known))
        known = twin
    assert known.marks() == reference
