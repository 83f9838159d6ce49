"""``rayvous explain``: what became of one event on its way to one subscriber, in words and as a diagram."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...faults.explaining.explain import Explanation, Ran, event_of
from ...faults.explaining.traces import explain_trace
from ...protocol.errors import InputError
from ...protocol.ids import ClientId, EventId
from ...protocol.scenarios.scenario import Scenario
from .. import console
from ..inputs import scenario_or_case


def run_explain(
    given: Path, subscriber: ClientId | None, event: str | None, out: Path | None, *, as_json: bool
) -> dict[str, Any]:
    """Explain a scenario, a case or a trace, print it, and return it as a mapping.

    Raises
    ------
    InputError
        If the file or folder is none of these, or does not have what is asked; nothing was written then.
    """
    asked = None if event is None else event_of(event)
    if out is not None and out.suffix.lower() not in (".html", ".htm", ".svg"):
        raise InputError(f"--out {out}: the file must end in .html or .svg")
    explanation = (
        _of_folder(given, subscriber, asked) if given.is_dir() else _of_file(given, subscriber, asked)
    )
    result = explanation.to_dict()
    if out is not None:
        result["out"] = str(explanation.save(out))
    if as_json:
        console.print_json(result)
        return result
    for line in explanation.lines:
        console.out.print(line, markup=False, soft_wrap=True, highlight=False)
    if out is not None:
        console.out.print(f"diagram: {out}", markup=False, soft_wrap=True)
    return result


def _of_file(path: Path, subscriber: ClientId | None, event: EventId | None) -> Explanation:
    from ...faults.explaining.scenarios import explain_scenario
    from ...faults.simulated.chaos import explain_case

    loaded = scenario_or_case(path, "no scenario and no case; a trace is a folder")
    if isinstance(loaded, Scenario):
        return explain_scenario(loaded, subscriber, event)
    return explain_case(loaded, {}, subscriber, event)


def _of_folder(folder: Path, subscriber: ClientId | None, event: EventId | None) -> Explanation:
    from ...faults.checker.reliability import judge
    from ...faults.checker.verdict import Verdict
    from ...pipelines.audit.telemetry_part import Telemetry, explain_telemetry, runs_in
    from ...pipelines.audit.trace_part import load_part

    if not (folder / "trace.json").exists() and runs_in(folder):
        return explain_telemetry(Telemetry.from_folder(folder), subscriber, event)
    trace, subscriber, event, left = load_part(folder, subscriber, event)
    verdict = Verdict() if left else judge(trace)
    return explain_trace(Ran(trace, verdict, [], []), subscriber, event, left)


__all__ = ["run_explain"]
