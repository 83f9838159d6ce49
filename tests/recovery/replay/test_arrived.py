"""Which kept events are known to be delivered; an event that is forgotten before that is in doubt."""

from rayvous.recovery.replay.arrived import Arrived


def kept(*times):
    arrived = Arrived(10.0)
    for number, now in enumerate(times, 1):
        arrived.kept(number, now)
    return arrived


def test_it_asks_half_a_retention_after_the_first_that_it_has_not_asked_for_and_once():
    arrived = kept(0.0, 4.0)
    assert arrived.question(4.9) is None and arrived.question(5.0) == 2
    assert arrived.question(9.0) is None, "it waits for the answer"
    arrived.kept(3, 6.0)
    arrived.answered(2)
    assert arrived.question(10.9) is None and arrived.question(11.0) == 3


def test_what_is_forgotten_before_it_is_known_to_have_come_is_in_doubt_until_it_is():
    arrived = kept(0.0, 1.0, 2.0)
    arrived.question(5.0)
    arrived.forgotten(1, "p")
    arrived.kept(4, 6.0)
    arrived.forgotten(4, "q")
    assert arrived.in_doubt == {"p": 1, "q": 4}
    arrived.answered(3)
    assert arrived.in_doubt == {"q": 4} and arrived.confirmed == 3
    arrived.forgotten(2, "p")
    assert arrived.in_doubt == {"q": 4}, "that has come"
    assert arrived.question(6.0) == 4, "whoever is in doubt is asked for at once"


def test_a_new_life_knows_the_answer_and_doubts_what_was_forgotten_since_it_was_asked():
    before = kept(0.0, 1.0, 2.0)
    before.question(6.0)
    answer = before.answered(3)
    assert answer == (3, 6.0)
    arrived = kept(0.0, 7.0)  # two entries are still kept
    arrived.restore(answer, {"p": 5.0, "q": 6.5})
    assert arrived.confirmed == 2, "no number is known that is not there"
    assert arrived.in_doubt == {"q": 2}
