"""The CPU capacity of a broker: the highest event rate that was seen while the CPU was at its limit."""

import pytest
from rayvous.admission.meters import CapacityMeter


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
