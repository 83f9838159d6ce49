"""The CPU capacity of a broker: the highest event rate that was seen while the CPU was at its limit."""

import pytest
from rayvous.admission.advertisements import LOCAL
from rayvous.admission.controller import Admission
from rayvous.admission.meters import CapacityMeter
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig, Capacity, CapacityMeasured
from rayvous.routing.language.questions import to_filter


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
