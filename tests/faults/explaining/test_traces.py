"""Explaining by a trace alone: what clients saw, and where brokers accepted."""

import pytest
from rayvous.faults.checker.reliability import judge
from rayvous.faults.explaining.explain import Ran
from rayvous.faults.explaining.traces import explain_trace
from rayvous.faults.report import ChaosReport
from rayvous.protocol.errors import InputError
from rayvous.protocol.traces.trace import Bounded, Died, Kept, Trace


def a_trace(*, notified=True, lost=False):
    trace = Trace([Bounded(0.0, "", 1, 10**9, 60.0)])
    trace.subscribed(1.0, "alice", 1, "price > 10")
    trace.confirmed(1.5, "alice", 1)
    trace.published(2.0, "bob", 1, [{"price": 12}])
    trace.operations.append(Kept(2.1, 3, "bob", 1, 1, 40))
    if notified:
        trace.notified(2.5, "alice", "bob", 1)
    if lost:
        trace.published(3.0, "bob", 2, [{"price": 1}])
        trace.operations.append(Kept(3.1, 3, "bob", 2, 2, 40))
        trace.lost(4.0, "bob", 1, "alice")
    trace.operations.append(Died(5.0, 3, ""))
    trace.settled(9.0)
    return trace


def ran(trace):
    return Ran(trace, judge(trace), [], [(5.0, "fault: crash broker 3")])


def test_a_delivered_event_is_a_sample():
    found = explain_trace(ran(a_trace()))
    assert found.finding.outcome == "delivered" and found.journey.taken[0].broker == 3
    assert "broker 3 takes it from bob" in str(found) and "alice #1: confirmed" in str(found)


def test_a_missing_event_was_last_seen_where_it_was_accepted():
    found = explain_trace(ran(a_trace(notified=False)))
    assert (found.finding.outcome, found.finding.broker) == ("missing", 3)
    assert "accepted it at 2.100 s" in found.finding.was and "trace_events=True" in found.finding.should
    assert "what happened between the brokers is not in a trace" in found.journey.left_out


def test_a_loss_is_told_with_its_limit():
    found = explain_trace(ran(a_trace(notified=False, lost=True)))
    assert "by the limit 'retention'" in found.finding.why
    assert "alice is told that it is lost" in str(found)


def test_a_report_of_a_run_on_ray_explains_by_its_trace():
    report = ChaosReport("ray", {"seed": 1})
    report.judge(a_trace(notified=False), keep_trace=True)
    assert report.explain().finding.broker == 3
    with pytest.raises(InputError, match="no subscriber"):
        report.explain("zoe")


def test_a_trace_of_nothing_has_nothing_to_explain():
    with pytest.raises(InputError, match="nothing to explain"):
        explain_trace(Ran(Trace(), judge(Trace()), [], []))
