"""Explains a scenario: one that is run in the simulator and has no faults."""

from __future__ import annotations

from ...protocol.ids import ClientId, EventId
from ...protocol.scenarios.scenario import Scenario
from ...simulator.run import prepare, run_prepared
from ..checker.reliability import judge
from .explain import Explanation, Ran, explain
from .recorder import Recorder


def explain_scenario(
    scenario: Scenario, subscriber: ClientId | None = None, event: EventId | str | None = None
) -> Explanation:
    """Run a scenario in virtual time, and explain what became of one event.

    Parameters
    ----------
    scenario
        The scenario.
    subscriber, event
        What is asked; what is not given is chosen, as in :func:`~.explain.explain`.

    Raises
    ------
    InputError
        If the scenario cannot be run, or there is no such subscriber or event, or nothing to explain.
    """

    def run(recorder: Recorder | None) -> Ran:
        simulation, explicit = prepare(scenario, **({} if recorder is None else recorder.options()))
        if recorder is not None:
            recorder.attend(simulation)
        trace = run_prepared(simulation, explicit).trace
        return Ran(trace, judge(trace), [], [])

    return explain(run, subscriber, event)


__all__ = ["explain_scenario"]
