"""The last minute's latencies: accurate to one step, forgotten in time, few numbers for any input."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rayvous.actors.telemetry.latency import SECONDS, STEP, RecentLatencies, quantile, together


@given(
    st.lists(st.tuples(st.floats(1e-4, 900), st.integers(1, 50)), min_size=1, max_size=30),
    st.floats(0.01, 1),
)
def test_a_quantile_is_right_to_a_step(batches, share):
    one, other = RecentLatencies(), RecentLatencies()
    for at, (seconds, count) in enumerate(batches):
        (one, other)[at % 2].add(1000.0, seconds, count)
    found = quantile(together([one.counts(1000.0), other.counts(1000.0)]), share)
    times = np.sort(np.repeat(*map(list, zip(*batches, strict=True))))
    true = times[max(0, int(np.ceil(share * len(times) - 1e-9)) - 1)]
    assert true * 0.999 <= found <= true * STEP * 1.001


def test_what_is_older_than_a_minute_is_forgotten():
    lately = RecentLatencies()
    lately.add(1000.0, 5.0, 1)
    lately.add(1000.0 + SECONDS, 0.01, 1)
    assert sum(lately.counts(1000.0 + SECONDS).values()) == 2, "a minute at least"
    assert quantile(lately.counts(1000.0 + 1.5 * SECONDS), 1.0) < 0.02
    assert lately.counts(1000.0 + 3 * SECONDS) == {} and quantile({}, 0.5) is None


def test_any_latency_has_a_place():
    lately = RecentLatencies()
    for seconds in (0.0, -1.0, 1e-9, 1e9):  # clocks of two machines may differ
        lately.add(0.0, seconds, 1)
    assert sum(lately.counts(0.0).values()) == 4 and len(lately.counts(0.0)) == 2
