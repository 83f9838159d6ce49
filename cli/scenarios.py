"""``rayvous run``: a scenario file on either host, judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..faults.expectation import expectation_of
from ..faults.reliability import compare
from ..protocol.errors import InputError
from ..protocol.scenario import Scenario
from ..routing.topologies import topology_of
from . import console

Deliveries = dict[str, list[tuple[str, int]]]


def run_scenario_file(path: Path, on: str, *, as_json: bool) -> dict[str, Any]:
    """Run a scenario file, print the verdict, and return it as a mapping.

    Raises
    ------
    InputError
        If the file or the host is not one.
    """
    hosts = {"sim": _on_simulator, "ray": _on_ray}
    if on not in hosts:
        raise InputError(f"--on {on}: it is one of {', '.join(hosts)}")
    scenario = Scenario.load(path)
    explicit = scenario.explicit(topology_of(scenario.topology).positions())
    notified, figures = hosts[on](explicit)
    expected = expectation_of(explicit)
    verdict = compare(expected.published, expected.must, expected.may, notified)
    result = {"scenario": scenario.name, "on": on, "seed": scenario.seed, **verdict.to_dict(), **figures}
    if as_json:
        console.print_json(result)
    else:
        console.print_table(f"rayvous run {path}", {name: str(value) for name, value in result.items()})
    return result


def _on_simulator(scenario: Scenario) -> tuple[Deliveries, dict[str, Any]]:
    from ..simulator.run import run_scenario

    outcome = run_scenario(scenario)
    traffic = {kind: list(counts) for kind, counts in outcome.traffic.items()}
    figures = {
        "broker_steps": outcome.steps,
        "messages_lost": outcome.lost,
        "virtual_seconds": outcome.virtual_seconds,
        "traffic_events_and_control": traffic,
    }
    return outcome.deliveries, figures


def _on_ray(scenario: Scenario) -> tuple[Deliveries, dict[str, Any]]:
    from ..actors.network import Network
    from ..actors.replay import replay

    with Network.launch(topology_of(scenario.topology), scheme=scenario.scheme) as net:
        return replay(net, scenario), {}
