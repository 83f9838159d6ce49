"""The failure detector: its arithmetic for given gaps, and its guarantees for any arrivals."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.membership.detector import (
    GAP_MAX,
    GAPS_KEPT,
    SUSPICION_TIMEOUT_MAX,
    Detector,
    mean_and_deviation,
    suspicion_timeout_for,
)

ADAPTIVE = Recovery(suspect_after_seconds=3.0, suspect_deviations=8.0).validate()
FIXED = Recovery(detector="fixed", suspect_after_seconds=3.0).validate()


@pytest.mark.parametrize(
    ("gaps", "mean", "deviation"),
    [
        ((), 0.0, 0.0),
        ((2.0,), 2.0, 0.0),
        ((1.0, 3.0), 2.0, 1.0),
        ((1.0, 1.0, 1.0, 5.0), 2.0, math.sqrt(3.0)),
        ((0.1,) * 10, 0.1, 0.0),
    ],
)
def test_mean_and_deviation(gaps, mean, deviation):
    assert mean_and_deviation(gaps) == pytest.approx((mean, deviation))


@pytest.mark.parametrize(
    ("gaps", "fixed", "adaptive"),
    [
        ((), 3.0, 3.0),  # nothing is known yet
        ((1.0,) * 16, 3.0, 3.0),  # regular: never below the minimum
        ((0.0,) * 16, 3.0, 3.0),  # a burst has no effect
        ((1.0, 2.0) * 8, 3.0, 5.5),  # 1.5 + 8 * 0.5
        ((2.5,) * 16, 3.0, 3.0),  # slow but regular
        ((1.0,) * 15 + (3.0,), 3.0, 1.125 + 8 * math.sqrt(15) / 8),  # once late
        ((1.0,) * 15 + (1e9,), 3.0, 12.0),  # the maximum: 4 * 3
    ],
)
def test_patience(gaps, fixed, adaptive):
    assert suspicion_timeout_for(gaps, FIXED) == fixed
    assert suspicion_timeout_for(gaps, ADAPTIVE) == pytest.approx(adaptive)


def regular(detector, sender, beats, gap=1.0):
    for beat in range(beats):
        detector.heard(sender, beat * gap)
    return (beats - 1) * gap


def test_who_is_silent_for_longer_than_its_patience_is_suspect():
    """If an NEB has not received the heartbeat for a period of time, it takes the DEB for dead.

    Reference: paper 1, 4.1.1
    """
    detector = Detector(FIXED)
    last = regular(detector, 7, beats=5)
    assert detector.deadline(7) == last + 3.0
    assert detector.suspects(last + 3.0) == []
    assert detector.suspects(last + 3.001) == [7]
    detector.heard(7, last + 3.002)
    assert detector.suspects(last + 3.002) == []


def test_suspects_rise_and_each_sender_has_its_own_record():
    detector = Detector(FIXED)
    for sender in (5, 1, 3):
        detector.heard(sender, 0.0)
    detector.heard(3, 2.0)
    assert detector.suspects(4.0) == [1, 5]
    assert detector.suspects(9.0) == [1, 3, 5]


def test_a_slow_sender_gets_more_time():
    detector = Detector(ADAPTIVE)
    now = 0.0
    for gap in (1.0, 2.0) * 8:
        detector.heard(1, now)
        now += gap
    detector.heard(1, now)
    assert detector.suspicion_timeout(1) == pytest.approx(5.5)
    assert detector.suspects(now + 5.4) == []
    assert detector.suspects(now + 5.6) == [1]


def test_one_very_long_gap_counts_little_more_than_the_patience_that_it_outlasted():
    detector = Detector(ADAPTIVE)
    last = regular(detector, 1, beats=20)
    detector.heard(1, last + 10_000.0)
    assert detector.suspicion_timeout(1) == pytest.approx(
        suspicion_timeout_for((1.0,) * 15 + (GAP_MAX * 3.0,), ADAPTIVE)
    )
    assert 6.0 < detector.suspicion_timeout(1) < 7.0
    for beat in range(1, GAPS_KEPT + 1):
        detector.heard(1, last + 10_000.0 + beat)
    assert detector.suspicion_timeout(1) == 3.0  # the window no longer contains the gap


def test_patience_grows_step_by_step_while_a_sender_stays_slow_and_ends_at_the_longest():
    detector = Detector(ADAPTIVE)
    now = regular(detector, 1, beats=20)
    seen = [detector.suspicion_timeout(1)]
    for _ in range(8):
        now += 100.0
        detector.heard(1, now)
        seen.append(detector.suspicion_timeout(1))
    assert seen[0] == 3.0 and max(seen) <= SUSPICION_TIMEOUT_MAX * 3.0
    assert seen[1] < seen[2] == SUSPICION_TIMEOUT_MAX * 3.0


@pytest.mark.parametrize("gap", [2.0, 3.25, 5.0, 11.0])
def test_a_sender_that_is_slow_from_the_first_beat_on_is_not_suspected_for_ever(gap):
    detector, now, suspected = Detector(ADAPTIVE), 0.0, []
    for _ in range(30):
        detector.heard(1, now)
        now += gap
        suspected.append(detector.suspects(now - 1e-6) == [1])
    assert sum(suspected) <= 6 and not any(suspected[-20:])


def test_forgotten_is_not_suspected_and_begins_anew():
    detector = Detector(ADAPTIVE)
    for now in (0.0, 1.0, 3.0, 4.0, 6.0):
        detector.heard(1, now)
    assert detector.suspicion_timeout(1) > 3.0
    detector.forget(1)
    detector.forget(1)
    assert detector.suspects(100.0) == []
    with pytest.raises(KeyError):
        detector.deadline(1)
    assert detector.suspicion_timeout(1) == 3.0
    detector.heard(1, 100.0)
    assert detector.deadline(1) == 103.0


def test_expecting_begins_a_wait_and_counts_no_gap():
    detector = Detector(ADAPTIVE)
    detector.expect(1, 10.0)
    assert detector.deadline(1) == 13.0
    last = regular(detector, 2, beats=20)
    detector.expect(2, last + 500.0)
    assert detector.deadline(2) == last + 503.0
    detector.heard(2, last + 501.0)
    assert detector.suspicion_timeout(2) == 3.0


@settings(max_examples=200, deadline=None)
@given(gaps=st.lists(st.floats(0.0, 1e6), max_size=40), fixed=st.booleans())
def test_patience_has_bounds_and_silence_always_ends_in_suspicion(gaps, fixed):
    recovery = FIXED if fixed else ADAPTIVE
    detector = Detector(recovery)
    now, cut = 0.0, []
    detector.heard(1, now)
    for gap in gaps:
        cut.append(min(gap, GAP_MAX * detector.suspicion_timeout(1)))
        now += gap
        detector.heard(1, now)
        assert 3.0 <= detector.suspicion_timeout(1) <= SUSPICION_TIMEOUT_MAX * 3.0
        # Times are large sums, so the gaps have rounding errors.
        assert detector.suspicion_timeout(1) == pytest.approx(
            suspicion_timeout_for(cut[-GAPS_KEPT:], recovery), abs=1e-6
        )
    assert detector.suspects(now) == []
    assert detector.suspects(now + SUSPICION_TIMEOUT_MAX * 3.0 + 1e-3) == [1]


def test_who_is_known_to_be_dead_is_suspected_at_once_until_it_is_heard():
    detector = Detector(Recovery(suspect_after_seconds=3.0))
    detector.expect(1, 10.0)
    detector.expect(2, 10.0)
    for sender in (1, 7):
        detector.learn_dead(sender)
    assert detector.suspects(10.0) == [1]
    detector.heard(1, 11.0)
    assert detector.suspects(11.0) == [] and detector.suspicion_timeout(1) >= 3.0


def test_whoever_is_heard_again_after_it_was_said_to_be_dead_is_alive_and_not_less_regular() -> None:
    """How long it was silent is not known, so that makes nobody more patient with it."""
    detector, sender = Detector(Recovery()), 1
    for second in range(6):
        detector.heard(sender, float(second))
    before = detector.suspicion_timeout(sender)
    detector.learn_dead(sender)
    assert detector.suspects(5.1) == [sender]
    detector.heard(sender, 5.2)
    assert not detector.suspects(5.3) and detector.suspicion_timeout(sender) == before
