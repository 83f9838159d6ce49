"""What a publisher may publish now, and how long it waits before more of it may go."""

import pytest
from rayvous.clients.quota import PublisherQuota
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.errors import NotAdvertised
from rayvous.routing.filters.filter import to_filter


def test_what_is_too_fast_goes_in_parts_with_the_time_to_wait_between_them() -> None:
    now = 100.0
    quota = PublisherQuota(lambda: now)
    quota.advertise(1, to_filter("x > 0"), 4.0, "wait")
    sent: list[int] = []
    waits: list[float] = []
    for part in quota.pass_on(batch_of([{"x": 1}] * 10)):
        if isinstance(part, EventBatch):
            sent.append(len(part))
        else:
            assert part > 0
            waits.append(part)
            now += part
    assert sum(sent) == 10 and len(sent) > 1 and len(waits) == len(sent) - 1
    assert sum(waits) == pytest.approx((10 - sent[0]) / 4.0)


def test_what_is_not_advertised_is_refused_before_anything_goes() -> None:
    quota = PublisherQuota(lambda: 0.0)
    quota.advertise(1, to_filter("x > 0"), 4.0, "wait")
    with pytest.raises(NotAdvertised, match="event 1 of 2"):
        next(quota.pass_on(batch_of([{"x": 1}, {"x": -1}])))
