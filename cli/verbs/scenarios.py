"""``rayvous run``: a scenario file on either host, judged."""

from __future__ import annotations

from pathlib import Path

from ...faults.checker.reliability import judge
from ...protocol.errors import InputError
from ...protocol.scenarios.scenario import Scenario
from ...protocol.traces.trace import Trace
from ...routing.topologies.cluster_trees import topology_of
from .. import console
from .audit import check_trace_dir, keep_trace


def run_scenario_file(
    path: Path, on: str, trace_dir: Path | None = None, *, as_json: bool
) -> dict[str, object]:
    """Run a scenario file, print the verdict, and return it as a mapping.

    Raises
    ------
    InputError
        If the file or the host is invalid.
    """
    hosts = {"sim": _on_simulator, "ray": _on_ray}
    if on not in hosts:
        raise InputError(f"--on {on}: it must be one of {', '.join(hosts)}")
    check_trace_dir(trace_dir)
    scenario = Scenario.load(path)
    explicit = scenario.explicit(topology_of(scenario.topology).positions())
    trace, figures = hosts[on](explicit)
    figures |= keep_trace(trace_dir, trace)
    verdict = judge(trace)
    result = {"scenario": scenario.name, "on": on, "seed": scenario.seed, **verdict.to_dict(), **figures}
    if as_json:
        console.print_json(result)
    else:
        rows = {"scenario": scenario.name, "on": on, "seed": scenario.seed, **verdict.counts()}
        rows = {name.replace("_", " "): value for name, value in rows.items() if name not in console.COUNTED}
        rows |= console.conditions(verdict)
        rows |= {name.replace("_", " "): str(value) for name, value in figures.items()}
        console.print_table(f"rayvous run {path}", rows)
        console.print_verdict(verdict)
    return result


def _on_simulator(scenario: Scenario) -> tuple[Trace, dict[str, object]]:
    from ...simulator.run import run_scenario

    outcome = run_scenario(scenario)
    traffic = {kind: list(counts) for kind, counts in outcome.traffic.items()}
    figures = {
        "broker_steps": outcome.steps,
        "messages_lost": outcome.lost,
        "virtual_seconds": outcome.virtual_seconds,
        "traffic_events_and_control": traffic,
    }
    return outcome.trace, figures


def _on_ray(scenario: Scenario) -> tuple[Trace, dict[str, object]]:
    from ...actors.network.network import Network
    from ...faults.real.scenarios import replay

    with Network.launch(topology_of(scenario.topology), scheme=scenario.scheme) as net:
        return replay(net, scenario), {}
