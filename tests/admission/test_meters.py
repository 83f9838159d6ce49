"""What brokers measure: the highest event rate while the CPU was at its limit, and how long events wait."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.admission.advertisements import LOCAL
from rayvous.admission.controller import Admission
from rayvous.admission.delays import Delays
from rayvous.admission.meters import CapacityMeter, DelayMeter
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.admission import (
    MICRO,
    AdmissionConfig,
    Capacity,
    CapacityMeasured,
    DelaysMeasured,
)
from rayvous.routing.language.questions import to_filter

CPU = "cpu", None


@pytest.mark.parametrize("seconds", [0.25, 1.0, 4.0])
def test_a_rate_counts_when_the_cpu_was_at_its_limit_however_long_was_looked(seconds):
    """Reference: paper 3, 4.1."""
    meter = CapacityMeter(utilisation_max=0.8)
    assert not meter.sample(10.0, 0.0, 0), "a first look says nothing"
    now, cpu, events = 10.0, 0.0, 0
    for share, rate, highest in (
        (0.5, 900, 0),
        (0.9, 400, 400),
        (0.7, 800, 400),
        (0.9, 300, 400),
        (1.0, 500, 500),
    ):
        now, cpu, events = now + seconds, cpu + share * seconds, events + int(rate * seconds)
        rises = meter.highest < highest
        assert meter.sample(now, cpu, events) == rises and meter.highest == highest
    assert not meter.sample(now, cpu + 1, events + 10_000), "no time has passed"


def test_a_capacity_that_begins_with_zero_admits_nothing_from_elsewhere_until_it_is_measured():
    """4.1: the initial value is 0. By default the configured capacity counts until then."""
    item = to_filter("x > 5")
    for until, refused in (("zero", [("cpu", 0.0)]), ("configured", [])):
        config = AdmissionConfig(0.0, capacity=Capacity(100), measure=True, until_measured=until).validate()
        admission = Admission(0, config, (1,))
        admission.books.advertise(("p", 1), to_filter("x > 0"), 10 * MICRO, 1)
        assert [(each.resource, each.free) for each in admission.books.refusals(item, LOCAL)] == refused
        admission.handle(0, CapacityMeasured(40.0))
        assert admission.books.refusals(item, LOCAL) == ()


def test_a_capacity_of_zero_that_nothing_measures_is_an_error():
    with pytest.raises(InputError, match="until_measured 'zero' needs measure=True"):
        AdmissionConfig(until_measured="zero").validate()
    with pytest.raises(InputError, match="until_measured"):
        AdmissionConfig(until_measured="one", measure=True).validate()


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 9)), max_size=60), st.floats(0.5, 20))
def test_the_longest_wait_is_that_of_the_window_and_of_no_more_than_a_tenth_before(
    waits: list[tuple[float, float]], window: float
) -> None:
    meter, now, seen = DelayMeter(window), 0.0, []
    for pause, seconds in waits:
        now += pause
        meter.saw(seconds, now)
        seen.append((now, seconds))
        least, most = (
            max((wait for at, wait in seen if now - at < long * (1 - 1e-9)), default=0.0)
            for long in (window, window * 1.1000001)
        )
        assert least <= meter.highest(now) <= max(most, least)
    assert meter.highest(now + 1.2 * window) == 0


@given(st.lists(st.tuples(st.floats(1.01, 9), st.integers(0, 50), st.floats(0, 2)), max_size=30))
def test_what_was_admitted_within_the_window_is_expected_to_wait_beside_what_was_measured(
    steps: list[tuple[float, int, float]],
) -> None:
    delays, now, in_force, load = Delays(10.0), 0.0, [(-math.inf, 0)], 0
    for pause, after, measured in steps:
        now += pause
        delays.tell(DelaysMeasured(now, measured, {7: 0.25}), {CPU: load})
        load = after
        in_force.append((now, load))
        delays.check()
        before = [amount for at, amount in in_force if at <= now - 10.0][-1]
        wait = measured + max(0, load - before) / 20
        assert delays.expected(LOCAL, {CPU: load}, {CPU: 20}) == pytest.approx(wait)
        link = {CPU: load, ("bandwidth", 7): 30}
        expected = delays.expected(7, link, {CPU: 20, ("bandwidth", 7): math.inf})
        assert expected == pytest.approx(wait + 0.25)
