"""One workload on several routing schemes, side by side, with the fewest messages that it could take.

Rules
-----
* The schemes get the same network, clients, steps and seed, and each is judged; a scheme that does not
  deliver is not compared.
* An event that crosses a link counts one message, whatever the size of its batch (TCT, paper 1, 5.1); a
  multicast counts one. Its cost on Ray, which has no multicast, is reported separately (`multicast_calls`,
  `multicast_sent_bytes`).
* Schemes on a mesh send directly to a broker; `crossings` is the cost in the underlying tree of brokers.
* A scheme that heals is also subjected to the death of a broker, in separate networks (`recovery`); in the
  simulator only.
* Time is virtual in the simulator, where a mesh's connection takes as long as the path over the tree; on Ray
  it is real.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..faults.checker.reliability import judge
from ..faults.checker.verdict import worst
from ..protocol.batch import EventBatch
from ..protocol.effects import Deliver
from ..protocol.errors import InputError
from ..protocol.ids import BrokerId, EventId
from ..protocol.messages.pubsub import Directed, Events
from ..protocol.scenarios.scenario import Publish, Scenario, Subscribe, Unsubscribe, Workload
from ..protocol.scenarios.steps import broker_of
from ..protocol.telemetry.recorder import empty_table, merge_tables
from ..protocol.telemetry.tables import Table
from ..protocol.traces.trace import Trace
from ..routing.language.predicates import evaluate
from ..routing.language.questions import to_predicate
from ..routing.schemes.registry import scheme as scheme_of
from ..routing.topologies.cluster_trees import topology_of
from ..simulator.network import Step
from ..simulator.run import prepare, run_prepared
from ..simulator.telemetry import SimulatedTelemetry
from .bounds import MessageBounds
from .recovery import recovery_seconds

TOPOLOGY: Final[dict[str, Any]] = {
    "clusters": 12,
    "brokers_per_cluster": 3,
    "degree": 4,
    "shape": "transit-stub",
}
WORKLOAD: Final = Workload(subscribers=20, publishers=12, publications=300, matching=0.05)
BROKERS_ON_RAY_MAX: Final = 64
LINKS: Final = ("up", "down", "multicast")

Wanted = list[tuple[BrokerId, set[BrokerId]]]
"""The origin of each event, and its interested brokers."""


class _Telemetry:
    """The telemetry of one run. Transfers between brokers that carry no events may be millions: they are counted."""

    def __init__(self) -> None:
        self.control = 0
        self._chunks: list[dict[str, Table]] = []

    def add(self, chunk: dict[str, Table]) -> None:
        """Take in some rows of some tables."""
        if "transfers" in chunk:
            rows = chunk["transfers"]
            between = np.isin(rows["link_kind"].astype(str), LINKS)
            carry = between & (rows["events"] > 0)
            self.control += int((between & ~carry).sum())
            chunk = {**chunk, "transfers": {name: column[carry] for name, column in rows.items()}}
        self._chunks.append(chunk)

    def tables(self) -> dict[str, Table]:
        """Return all rows, by table: multicasts only if they were handed in."""
        empty = {name: empty_table(name) for name in ("transfers", "deliveries")}
        return empty | merge_tables(self._chunks)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The observations of one run: operations and notifications of clients, telemetry, table sizes, and hops."""

    trace: Trace
    telemetry: _Telemetry
    filters: list[int]
    hops: list[int] | None


def run(
    schemes: Sequence[str],
    *,
    topology: Mapping[str, object] = TOPOLOGY,
    workload: Workload = WORKLOAD,
    seed: int = 0,
    on: str = "sim",
    deaths: bool = True,
) -> dict[str, Any]:
    """Run the workload on each scheme and return the figures as plain data.

    Parameters
    ----------
    schemes
        Names of schemes; options follow a plus sign (``hybrid+quench``).
    topology, workload, seed
        As in a scenario.
    on
        ``"sim"`` or ``"ray"``, where a network is launched for each scheme.
    deaths
        Whether a scheme that heals is also subjected to the deaths; they take most of the time.

    Raises
    ------
    InputError
        If there is no such scheme or host, a scheme is named twice, or the network is too large for Ray here.
    """
    for name in schemes:
        scheme_of(name)
    if not schemes or len(set(schemes)) < len(schemes):
        raise InputError(f"schemes {', '.join(schemes) or 'none'}: name at least one, and none twice")
    hosts = {"sim": _on_simulator, "ray": _on_ray}
    if on not in hosts:
        raise InputError(f"--on {on}: it must be one of {', '.join(hosts)}")
    positions = topology_of(topology).positions()
    if on == "ray" and len(positions) > BROKERS_ON_RAY_MAX:
        raise InputError(
            f"{len(positions)} brokers on Ray, once for each scheme: up to {BROKERS_ON_RAY_MAX} are launched here; "
            "take fewer clusters, or --on sim"
        )
    scenario = Scenario("compare", dict(topology), seed=seed, workload=workload).explicit(positions)
    bounds, wanted = MessageBounds(positions), _wanted(scenario)
    if not wanted:
        raise InputError("nothing is published: give the workload at least one publication")
    lower = _lower_bounds(bounds, wanted)
    rows = []
    for name in schemes:
        seen = hosts[on](replace(scenario, scheme=name))
        healing = recovery_seconds(name, topology, seed) if deaths and on == "sim" else None
        rows.append(
            {
                "scheme": name,
                **_figures(name, seen, bounds, len(wanted), lower),
                "recovery_seconds": healing,
            }
        )
    return {
        "experiment": "compare",
        "on": on,
        "seed": seed,
        "brokers": len(positions),
        "events": len(wanted),
        "notifications": max(row["notifications"] for row in rows),
        **lower,
        "results": rows,
        "verdict": worst(row["verdict"] for row in rows),
    }


def _wanted(scenario: Scenario) -> Wanted:
    """Return the interested brokers of each event, by brute force: those with a matching subscription then."""
    active: dict[tuple[str, int], tuple[BrokerId, Any]] = {}
    out: Wanted = []
    for step in scenario.steps:
        if isinstance(step, Subscribe):
            active[step.client, step.number] = broker_of(step), to_predicate(step.selector)
        elif isinstance(step, Unsubscribe):
            del active[step.client, step.number]
        elif isinstance(step, Publish):
            for event in step.events:
                homes = {home for home, predicate in active.values() if evaluate(predicate, event) is True}
                out.append((broker_of(step), homes))
    return out


def _lower_bounds(bounds: MessageBounds, wanted: Wanted) -> dict[str, float]:
    """Return the fewest messages per event: one broker at a time, with multicast, and copies."""
    events = len(wanted)
    return {
        "bound_links": sum(bounds.links({origin, *brokers}) for origin, brokers in wanted) / events,
        "bound_multicast": sum(bounds.messages(origin, brokers) for origin, brokers in wanted) / events,
        "brokers_wanting": sum(len(brokers - {origin}) for origin, brokers in wanted) / events,
    }


def _figures(
    name: str, seen: _Seen, bounds: MessageBounds, events: int, lower: Mapping[str, float]
) -> dict[str, Any]:
    verdict = judge(seen.trace)
    tables = seen.telemetry.tables()
    transfers, delivered = tables["transfers"], tables["deliveries"]
    sender, carried = transfers["broker"], transfers["events"]
    links = list(zip(sender.tolist(), transfers["peer"].tolist(), strict=True))
    far = {link: 1 if link[1] < 0 else bounds.distance(*link) for link in dict.fromkeys(links)}
    crossed = sum(count * far[link] for link, count in zip(links, carried.tolist(), strict=True))
    load = np.zeros(len(seen.filters))
    np.add.at(load, sender, carried)
    bound = lower["bound_multicast" if scheme_of(name).claims.multicast else "bound_links"]
    count = int(delivered["notifications"].sum())
    return {
        "verdict": verdict.outcome,
        "notifications": verdict.notifications_expected,
        "messages": int(carried.sum()) / events,
        "crossings": crossed / events,
        "over_bound": crossed / events / bound if bound else None,
        "bytes": int(transfers["nbytes"].sum()) / events,
        **_carried_out(tables.get("multicasts"), events),
        "hops_mean": float(np.mean(seen.hops)) if seen.hops else None,
        "hops_max": max(seen.hops) if seen.hops else None,
        "latency_mean_seconds": float(delivered["latency_sum_seconds"].sum()) / count if count else None,
        "aed_seconds": aed_seconds(seen.trace),
        "table_entries_mean": float(np.mean(seen.filters)),
        "table_entries_max": max(seen.filters),
        "control_messages": seen.telemetry.control,
        "load_gini": gini(load),
        "load_max_over_mean": float(load.max() / load.mean()) if load.any() else None,
        "survives": "heals"
        if scheme_of(name).membership.heals
        else "deaths"
        if scheme_of(name).claims.survives_deaths
        else "-",
    }


def _carried_out(multicasts: Mapping[str, Any] | None, events: int) -> dict[str, float | None]:
    """Return the cost of multicasts on Ray per event: calls, and bytes in them and in object stores; None elsewhere."""
    if multicasts is None:
        return {"multicast_calls": None, "multicast_sent_bytes": None}
    carry = multicasts["events"] > 0
    return {
        "multicast_calls": int(multicasts["calls"][carry].sum()) / events,
        "multicast_sent_bytes": int(multicasts["sent_bytes"][carry].sum()) / events,
    }


def aed_seconds(trace: Trace) -> float | None:
    """Return the average event delay (paper 1, 5.1): each subscriber's time over its events, the mean of subscribers.

    A subscriber's time runs from the publication of the first event that it is notified of to its last
    notification.
    """
    published = trace.publications()
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    count: Counter[str] = Counter()
    for note in trace.notifications():
        at = published[note.publisher, note.sequence].at_seconds
        first[note.client] = min(first.get(note.client, at), at)
        last[note.client] = max(last.get(note.client, at), note.at_seconds)
        count[note.client] += 1
    each = [(last[client] - first[client]) / received for client, received in count.items()]
    return float(np.mean(each)) if each else None


def gini(load: npt.NDArray[np.float64]) -> float:
    """Return the Gini coefficient of loads: 0 if all are equal, near 1 if one broker carries all."""
    ordered = np.sort(load)
    total = float(ordered.sum())
    if not total:
        return 0.0
    places = np.arange(1, len(ordered) + 1)
    return float((2 * places - len(ordered) - 1) @ ordered / (len(ordered) * total))


class _Hops:
    """Follows each event from broker to broker, and records the number of hops of each notification."""

    def __init__(self) -> None:
        self.hops: list[int] = []
        self._reached: dict[tuple[BrokerId, EventId], int] = {}

    def __call__(self, step: Step) -> None:
        here = step.broker.position.broker
        message = step.received.message  # type: ignore[union-attr]
        if isinstance(message, Events | Directed):
            source = step.received.source  # type: ignore[union-attr]
            for event in _identities(message.batch):
                before = -1 if isinstance(source, str) else self._reached[source, event]
                self._reached.setdefault((here, event), before + 1)
        for effect in step.effects:
            if isinstance(effect, Deliver):
                events = _identities(effect.batch)
                self.hops += [self._reached[here, events[row]] for row in effect.rows.tolist()]


def _identities(batch: EventBatch) -> list[EventId]:
    return [batch.identity(row) for row in range(len(batch))]


def _on_simulator(scenario: Scenario) -> _Seen:
    telemetry, hops = _Telemetry(), _Hops()
    simulation, explicit = prepare(scenario, telemetry=SimulatedTelemetry(telemetry.add), record=hops)
    outcome = run_prepared(simulation, explicit)
    filters = [_entries(broker.describe()) for broker in simulation.brokers()]
    return _Seen(outcome.trace, telemetry, filters, hops.hops)


def _on_ray(scenario: Scenario) -> _Seen:
    from ..actors.network.network import Network
    from ..faults.real.scenarios import replay, telemetry_of

    topology = topology_of(scenario.topology)
    each = max(1, len(topology.positions()) // 4)
    with Network.launch(topology, scheme=scenario.scheme, brokers_per_actor=each, progress=False) as net:
        trace = replay(net, scenario)
        filters = [_entries(data) for _, data in net.inspect.describe().nodes(data=True)]
        telemetry = _Telemetry()
        telemetry.add(telemetry_of(net, ("transfers", "deliveries", "multicasts")))
        return _Seen(trace, telemetry, filters, None)


def _entries(sizes: Mapping[str, int]) -> int:
    """Return the number of filters in a broker's tables; a hypercube broker counts those of others separately."""
    return sizes["filters"] + sizes.get("recorded", 0)
