"""Quotas of publishers at their broker, as a machine: what waits, how long, in which order and bounds.

Reference: paper 3, section 3.1 (v_pmax); promise 9.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.admission.bucket import TokenBucket
from rayvous.admission.quota import BURST_SECONDS, Quotas
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig
from rayvous.routing.filters.filter import Filter
from rayvous.routing.language.questions import to_filter


@dataclass
class Advert:
    filter: Filter
    rate: int


def advert(selector: str, rate: float) -> Advert:
    return Advert(to_filter(selector), round(rate * MICRO))


def events(count: int, x: int = 1, **more: str) -> EventBatch:
    return batch_of([{"x": x, **more}] * count, publisher="p", first_sequence=1)


def quotas(adverts: dict[int, Advert], **config: int) -> Quotas[int]:
    return Quotas(
        lambda publisher: adverts, AdmissionConfig(**config).validate(), retransmission_seconds=10.0
    )  # type: ignore[arg-type]


PLAYS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.4, 3.0]), st.integers(1, 30), st.booleans()), max_size=40
)


@given(st.sampled_from([0.5, 2.0, 7.0]), PLAYS)
def test_nothing_is_lost_or_overtaken_and_no_more_passes_than_rate_and_burst(
    rate: float, plays: list[tuple[float, int, bool]]
) -> None:
    """In any interval at most the burst, the largest message, and the rate times its length may pass."""
    held = quotas({1: advert("x = 1", rate)})
    now, largest = 0.0, 0
    entered: list[int] = []
    passed: list[tuple[float, int, int]] = []
    for turn, (pause, size, _) in enumerate(plays):
        now += pause
        passed += [(now, each.what, len(each.batch)) for _, each in held.release(now)]
        held.check()
        largest = max(largest, size)
        outcome = held.enter("p", events(size), turn, now)
        if outcome != "refused":
            entered.append(turn)
        if outcome == "passes":
            passed.append((now, turn, size))
        assert (held.wait_seconds("p", now) > 0) == bool(held.waiting("p"))
    while held.waiting("p"):
        first, wait = held.waiting("p")[0].what, held.wait_seconds("p", now)
        assert not held.release(now + wait - 1e-3), "no sooner than it says"
        now += wait
        passed += [(now, each.what, len(each.batch)) for _, each in held.release(now)]
        assert passed[-1][1] >= first, "and no later"
    assert [turn for _, turn, _ in passed] == entered
    burst = max(1.0, rate) * BURST_SECONDS
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            most = burst + largest + rate * (passed[last][0] - passed[first][0])
            assert sum(size for _, _, size in passed[first : last + 1]) <= most + 1e-3


@given(
    st.sampled_from([1.0, 5.0, 40.0]),
    st.lists(st.tuples(st.integers(1, 80), st.floats(0.0, 1.0)), max_size=30),
)
def test_who_keeps_to_its_rate_never_waits_when_messages_are_late_by_up_to_a_second(
    rate: float, plays: list[tuple[int, float]]
) -> None:
    """The publisher's own bucket limits each message, which then takes up to a second, in order."""
    held = quotas({1: advert("x = 1", rate)})
    own, now, arrived = TokenBucket.full(rate, 0.0), 0.0, 0.0
    for wanted, late in plays:
        size = min(wanted, int(own.burst))
        now += own.wait_seconds(size, now) + 1e-9
        own, passed = own.take(size, now)
        assert passed == size
        arrived = max(arrived, now + late)
        held.release(arrived)
        assert held.enter("p", events(size), 0, arrived) == "passes"


def test_what_waits_is_bounded_in_events_and_in_bytes_and_one_message_may_always_wait() -> None:
    held = quotas({1: advert("x = 1", 1.0)}, held_events_max=10)
    assert held.enter("p", events(3), 1, 0.0) == "passes", "a full bucket is enough, and owes for the rest"
    assert held.enter("p", events(50), 2, 0.0) == "waits"
    assert held.enter("p", events(1), 3, 0.0) == "refused"
    assert [each.what for _, each in held.release(100.0)] == [2]
    assert held.enter("p", events(6), 4, 100.0) == held.enter("p", events(4), 5, 100.0) == "waits"
    assert held.enter("p", events(1), 6, 100.0) == "refused"
    held.check()
    large = events(1, name="n" * 1000)
    small = quotas({1: advert("x = 1", 1.0)}, held_bytes_max=2500)
    outcomes = [small.enter("p", large, turn, 0.0) for turn in range(6)]
    assert outcomes == ["passes", "passes", "waits", "waits", "refused", "refused"]


def test_each_advertisement_has_a_bucket_of_its_own_and_the_first_that_covers_pays() -> None:
    held = quotas({1: advert("x = 1", 1.0), 2: advert("x < 5", 10.0)})
    assert held.enter("p", events(2, x=1), 1, 0.0) == held.enter("p", events(20, x=2), 2, 0.0) == "passes"
    assert held.enter("p", events(1, x=2), 3, 0.0) == "waits"
    assert held.wait_seconds("p", 0.0) == pytest.approx(0.1)
    assert held.enter("p", events(1, x=9), 4, 0.0) == "waits", (
        "what none covers costs nothing, and keeps its place"
    )
    assert [each.what for _, each in held.release(0.11)] == [3, 4]


def test_an_advertisement_covers_an_event_with_arrays_only_by_all_its_ways() -> None:
    held = quotas({1: advert("x = 1", 1.0), 2: advert("x > 0", 1.0)})
    batch = batch_of([{"x": [1, 2]}, {"x": [1]}], publisher="p", first_sequence=1)
    assert held._charges("p", batch, retransmitted=False) == {(1, False): 1, (2, False): 1}


def test_who_advertises_anew_and_anew_gains_nothing_and_who_withdraws_waits_for_nothing() -> None:
    adverts = {1: advert("x = 1", 1.0)}
    held = quotas(adverts)
    assert held.enter("p", events(2), 0, 0.0) == "passes"
    assert held.enter("p", events(1), 1, 0.0) == "waits"
    del adverts[1]
    assert [each.what for _, each in held.release(0.0)] == [1], (
        "it is for others to say that this is not advertised"
    )
    for number in range(2, 9):
        adverts[number] = advert("x = 1", 1.0)
        assert held.enter("p", events(1), number, 0.0) == "waits"
        del adverts[number]
        held.release(0.0)
    adverts[9] = advert("x = 1", 1.0)
    held.release(30.0)
    assert not held.knows("p"), "a full bucket is as good as none"
    assert held.enter("p", events(2), 9, 30.0) == "passes"


def test_a_rate_that_changes_changes_the_bucket_and_not_how_full_it_is() -> None:
    adverts = {1: advert("x = 1", 10.0)}
    held = quotas(adverts)
    assert held.enter("p", events(20), 0, 0.0) == "passes"
    adverts[1] = advert("x = 1", 100.0)
    assert held.enter("p", events(1), 1, 0.0) == "waits"
    assert held.wait_seconds("p", 0.0) == pytest.approx(0.01)


def test_what_is_published_again_has_as_much_as_a_publisher_keeps_and_no_more() -> None:
    held = quotas({1: advert("x = 1", 5.0)})
    assert [held.enter("p", events(30), turn, 0.0, retransmitted=True) for turn in range(3)] == [
        "passes",
        "passes",
        "waits",
    ]
    held = quotas({1: advert("x = 1", 5.0)})
    assert held.enter("p", events(60), 0, 0.0, retransmitted=True) == "passes"
    assert held.enter("p", events(10), 1, 0.0) == "passes", "what is new is paid for by another bucket"
    assert held.enter("p", events(1), 2, 0.0) == "waits"


@pytest.mark.parametrize("name", ["held_events_max", "held_bytes_max"])
def test_bounds_are_checked(name: str) -> None:
    with pytest.raises(InputError, match=name):
        AdmissionConfig(**{name: 0}).validate()  # type: ignore[arg-type]
