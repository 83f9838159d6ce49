"""The token bucket and the meters: functions of times and counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.admission.bucket import TokenBucket
from rayvous.admission.meters import CapacityMeter, RateHistory
from rayvous.protocol.errors import InputError


@given(
    st.floats(0.1, 1000),
    st.floats(1, 50),
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 40)), max_size=30),
)
def test_no_more_passes_than_the_burst_and_the_rate(
    rate: float, burst: float, asks: list[tuple[float, int]]
) -> None:
    now, passed = 0.0, [(0.0, 0)]
    bucket = TokenBucket.full(rate, now, burst)
    for pause, events in asks:
        now += pause
        bucket, let = bucket.take(events, now)
        assert 0 <= let <= events
        passed.append((now, let))
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            seconds = passed[last][0] - passed[first][0]
            assert sum(let for _, let in passed[first : last + 1]) <= burst + rate * seconds + 1e-6


@given(st.floats(0.1, 1000), st.integers(1, 100))
def test_who_waits_as_long_as_told_may_pass(rate: float, events: int) -> None:
    bucket, _ = TokenBucket.full(rate, 0.0).take(10**9, 0.0)
    wait = bucket.wait_seconds(events, 0.0)
    _, let = bucket.take(events, wait + 1e-9)
    assert let == min(events, int(bucket.burst))


def test_a_bucket_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="rate 0"):
        TokenBucket.full(0, 0.0)


def test_a_history_knows_the_busiest_window() -> None:
    history = RateHistory(window_seconds=2.0)
    assert history.highest is None
    for events, now in ((10, 0.1), (10, 1.9), (5, 2.1), (30, 7.0)):
        history.saw(events, now)
    assert history.highest == 15.0


def test_capacity_is_the_highest_rate_at_the_limit_of_the_cpu() -> None:
    meter = CapacityMeter(utilisation_max=0.8)
    assert not meter.sample(0.0, 0.0, 0)
    assert not meter.sample(1.0, 0.5, 900) and meter.highest == 0.0  # fast, but not at its limit
    assert meter.sample(2.0, 1.4, 1400) and meter.highest == 500.0
    assert not meter.sample(3.0, 2.3, 1700) and meter.highest == 500.0
    assert meter.sample(4.0, 3.2, 2400) and meter.highest == 700.0
