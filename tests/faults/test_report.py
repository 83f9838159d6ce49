"""What a chaos run reports of losses that limits excuse, and that a lossless one excuses none."""

from rayvous.faults.plans.cases import draw_case
from rayvous.faults.plans.lossless_cases import UNLIMITED, without_limits
from rayvous.faults.plans.stable_cases import with_stores
from rayvous.faults.report import ChaosReport
from rayvous.protocol.traces.trace import (
    Confirmed,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Shed,
    Trace,
)


def one_of_four_is_shed():
    events = [Published(1.0, "p", number, {}) for number in (1, 2, 3, 4)]
    came = [Notified(2.0, "c", "p", number) for number in (1, 3, 4)]
    lost = [Shed(1.5, "p", 2, "queue", 6.0, 5.0), LossTold(2.0, "c", "p", 2)]
    return Trace(
        [Registered(0.0, "c", 1, "TRUE"), Confirmed(0.0, "c", 1), *events, *lost, *came, Settled(3.0)]
    )


def judged(lossless):
    report = ChaosReport("sim", {"seed": 7}, converged_seconds=1.0)
    report.judge(one_of_four_is_shed(), lossless=lossless)
    return report


def test_the_share_that_each_limit_excuses_is_reported():
    report = judged(lossless=False)
    assert report.holds and report.outcome == "holds"
    assert report.verdict.losses == {"queue": 1} and report.verdict.loss_shares == {"queue": 0.25}
    assert report.to_dict()["verdict"]["loss_shares"] == {"queue": 0.25}


def test_without_limits_no_loss_is_excused():
    report = judged(lossless=True)
    assert report.outcome == "violated" and not report.verdict.violated
    assert report.problems == [
        "1 notifications were not delivered, which queue explains: without limits nothing may be lost"
    ]


def test_a_case_without_limits_differs_in_nothing_else():
    for seed in range(12):
        case = with_stores(draw_case(seed, brokers_max=6))
        free = without_limits(case)
        assert free.lossless and free.describe()["lossless"] and not case.lossless
        limits = {name: getattr(free.recovery, name) for name in UNLIMITED}
        assert limits == UNLIMITED and free.recovery.validate()
        assert (free.plan, free.actions, free.durable) == (case.plan, case.actions, case.durable)
    assert without_limits(draw_case(0, heals=False)).recovery is None
