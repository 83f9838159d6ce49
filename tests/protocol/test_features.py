"""What follows from the features of a network, and what stands where one is absent."""

import math

import pytest
from rayvous.protocol.features import NONE, Features
from rayvous.protocol.messages.admission import AdmissionConfig
from rayvous.protocol.messages.recovery import Recovery

ADMISSION = AdmissionConfig()
TIMES = Recovery(heartbeat_seconds=0.5, client_patience_seconds=4.0, compare_heartbeats=8.0)


@pytest.mark.parametrize(
    ("features", "heals", "numbers", "admits", "outlives", "quotas_only"),
    [
        (NONE, False, False, False, False, False),
        (Features(TIMES), True, False, False, True, False),
        (Features(stores=True), False, True, False, True, False),
        (Features(TIMES, True), True, False, False, True, False),
        (Features(admission=ADMISSION), False, False, True, False, True),
        (Features(TIMES, True, ADMISSION), True, False, True, True, False),
        (Features(None, True, ADMISSION), False, True, True, True, False),
    ],
)
def test_what_kind_of_network_has_these_features(
    features: Features, heals: bool, numbers: bool, admits: bool, outlives: bool, quotas_only: bool
) -> None:
    assert (features.heals, features.numbers, features.admits) == (heals, numbers, admits)
    assert (features.outlives_processes, features.quotas_only) == (outlives, quotas_only)


def test_times_are_those_of_the_configuration() -> None:
    healing = Features(TIMES)
    assert healing.times is healing.usual_times is TIMES
    assert healing.late_seconds == healing.member_patience_seconds == 0.5
    assert healing.client_patience_seconds == 4.0
    assert healing.compares and healing.compare_seconds == 4.0
    kept = (TIMES.retention_events_max, TIMES.retention_seconds, TIMES.retention_bytes_max)
    assert healing.retention == kept


def test_where_nothing_heals_waits_have_no_limit_and_nothing_is_retained() -> None:
    assert NONE.late_seconds == math.inf
    assert NONE.member_patience_seconds is None and NONE.client_patience_seconds is None
    assert not NONE.compares and NONE.compare_seconds is None
    assert NONE.retention == (0, 0.0, 0) and NONE.usual_times == Recovery()
    with pytest.raises(AssertionError, match="does not heal"):
        _ = NONE.times


def test_a_network_that_heals_need_not_compare() -> None:
    assert not Features(Recovery()).compares and Features(Recovery()).compare_seconds is None
