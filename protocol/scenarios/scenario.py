"""A scenario: a network, a load and a seed, as data that every host runs identically.

Rules
-----
* Steps run in order. `Subscribe` and `Unsubscribe` are complete before the next step begins; a `Publish` is not, so
  publications may overlap. `Settle` waits until the network is quiescent.
* A client is attached to one broker: the one of its first step. Brokers are named by id or by label.
* A scenario has either steps or a workload. :meth:`Scenario.explicit` turns a workload into steps, and the steps are
  run, so that two hosts run exactly the same.
* JSON has no timestamps: a timestamp is written ``{"timestamp": "2013-01-01T05:00:00Z"}`` or as nanoseconds
  since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..checks import instance, number, optional, whole_number
from ..configs import DEFAULT_SCHEME, Position
from ..errors import ScenarioError
from ..ids import BrokerId, ClientId
from .files import read_json
from .plain import known_keys
from .steps import (
    STEPS,
    Publish,
    Settle,
    Step,
    Subscribe,
    Unsubscribe,
    checked_values,
    plain_step,
    step_from,
)
from .workload import Workload


@dataclass(frozen=True, slots=True)
class LinkModel:
    """How links behave in the simulator; the Ray host has real links and ignores this.

    Attributes
    ----------
    delay_seconds
        Delay of a link between two clusters; None leaves it to the topology.
    group_seconds
        Delay between members of a cluster; None leaves it to the topology.
    client_seconds
        Delay between a client and its broker.
    spread_seconds
        The maximum of an extra delay that is drawn once per link.
    jitter_seconds
        The maximum of an extra delay that is drawn for each message; a message never overtakes another on its link.
    loss
        The probability that a message between brokers is lost, from 0 to below 1.
    send_seconds
        How long a broker is busy sending one message over a link; a multicast counts as one message, and so does the
        notification of one client.
    """

    delay_seconds: float | None = None
    group_seconds: float | None = None
    client_seconds: float = 0.0001
    spread_seconds: float = 0.0
    jitter_seconds: float = 0.0
    loss: float = 0.0
    send_seconds: float = 0.0

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None or entry.name not in ("delay_seconds", "group_seconds"):
                number(f"links: {entry.name}", value, error=ScenarioError)
        if not self.loss < 1:
            raise ScenarioError(f"links: loss is {self.loss!r}: it must be below 1")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A network, the actions of its clients, and the seed of all randomness.

    Attributes
    ----------
    name
        A name for reports.
    topology
        The parameters of a tree of clusters, or an explicit tree: see
        :func:`rayvous.routing.topologies.cluster_trees.topology_of`.
    scheme
        The routing scheme.
    seed
        The seed of the simulator's links, and of the workload when there is one.
    links
        The behaviour of the simulator's links.
    publish_interval_seconds
        The virtual time between a `Publish` and the next step; the Ray host continues immediately.
    steps, workload
        The actions of the clients, step by step, or the parameters from which the steps are generated.
    """

    name: str
    topology: Mapping[str, Any]
    scheme: str = DEFAULT_SCHEME
    seed: int = 0
    links: LinkModel = LinkModel()
    publish_interval_seconds: float = 0.001
    steps: tuple[Step, ...] = field(default=(), repr=False)
    workload: Workload | None = None

    def __post_init__(self) -> None:
        kinds = tuple(STEPS.values())
        instance("name", self.name, str, "a string", ScenarioError)
        instance(
            "topology", self.topology, Mapping, "a mapping, as ClusterTree has parameters", ScenarioError
        )
        instance("scheme", self.scheme, str, "the name of a routing scheme", ScenarioError)
        whole_number("seed", self.seed, error=ScenarioError)
        instance("links", self.links, LinkModel, "a LinkModel()", ScenarioError)
        number("publish_interval_seconds", self.publish_interval_seconds, error=ScenarioError)
        for place, step in enumerate(instance("steps", self.steps, tuple, "a tuple of steps", ScenarioError)):
            instance(
                f"steps[{place}]", step, kinds, "a Subscribe, Unsubscribe, Publish or Settle", ScenarioError
            )
        optional("workload", self.workload, Workload, "a Workload()", ScenarioError)
        if self.steps and self.workload is not None:
            raise ScenarioError(f"scenario {self.name!r} has both steps and a workload: give one of them")

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Read a scenario from a JSON file.

        Raises
        ------
        ScenarioError
            If the file is missing, empty or not JSON, or is not a valid scenario; the message says where.
        """
        return read_json(path, cls.from_dict, object_pairs_hook=_without_twins)

    @classmethod
    def from_dict(cls, given: object) -> Scenario:
        """Return the scenario that plain data describes; see the folder ``examples`` for one.

        Raises
        ------
        ScenarioError
            If a key is unknown or missing or a value of the wrong type; the message says where.
        """
        values = checked_values(given, cls, "scenario")
        if "links" in values:
            values["links"] = LinkModel(**known_keys(values["links"], LinkModel, "links"))
        if "workload" in values:
            values["workload"] = Workload(**known_keys(values["workload"], Workload, "workload"))
        if "steps" in values:
            values["steps"] = tuple(
                step_from(step, f"steps[{place}]") for place, step in enumerate(values["steps"])
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `from_dict` takes."""
        out: dict[str, Any] = {
            "name": self.name,
            "topology": dict(self.topology),
            "scheme": self.scheme,
            "seed": self.seed,
            "links": asdict(self.links),
            "publish_interval_seconds": self.publish_interval_seconds,
        }
        if self.workload is not None:
            out["workload"] = asdict(self.workload)
        else:
            out["steps"] = [plain_step(step) for step in self.steps]
        return out

    def save(self, path: str | Path) -> None:
        """Write the scenario to a JSON file, one step per line."""
        plain = self.to_dict()
        steps = plain.pop("steps", None)
        text = json.dumps(plain, indent=1, ensure_ascii=False)
        if steps is not None:
            lines = ",\n".join("  " + json.dumps(step, ensure_ascii=False) for step in steps)
            text = text.removesuffix("\n}") + ',\n "steps": [\n' + lines + "\n ]\n}"
        Path(path).write_text(text + "\n", encoding="utf-8")

    def explicit(self, positions: Sequence[Position]) -> Scenario:
        """Return the same scenario with steps instead of a workload, and ids instead of labels.

        Raises
        ------
        ScenarioError
            If a step names a broker that is not among the positions, or contradicts an earlier one.
        """
        steps: Iterable[Step] = self.steps
        if self.workload is not None:
            plain = self.workload.steps([place.broker for place in positions], self.seed)
            steps = [STEPS[kind](**values) for kind, values in plain]
        resolver = _Resolver(positions)
        done = tuple(resolver.resolve(step, f"steps[{place}]") for place, step in enumerate(steps))
        return replace(self, steps=done, workload=None)


class _Resolver:
    """Turns labels into ids, and checks that the actions of each client are consistent."""

    def __init__(self, positions: Sequence[Position]) -> None:
        self._brokers = {place.broker for place in positions}
        self._labels = {place.label: place.broker for place in positions}
        self._homes: dict[ClientId, BrokerId] = {}
        self._active: set[tuple[ClientId, int]] = set()

    def resolve(self, step: Step, where: str) -> Step:
        if isinstance(step, Subscribe):
            self._active.add((step.client, step.number))
        elif isinstance(step, Unsubscribe):
            if (step.client, step.number) not in self._active:
                raise ScenarioError(f"{where}: {step.client!r} has no subscription {step.number}")
            self._active.remove((step.client, step.number))
        if isinstance(step, Subscribe | Publish):
            broker = self._broker(step.broker, where)
            home = self._homes.setdefault(step.client, broker)
            if home != broker:
                raise ScenarioError(f"{where}: {step.client!r} is attached to broker {home}, not {broker}")
            return replace(step, broker=broker)
        return step

    def _broker(self, name: BrokerId | str, where: str) -> BrokerId:
        if isinstance(name, str):
            if name in self._labels:
                return self._labels[name]
        elif name in self._brokers:
            return name
        raise ScenarioError(f"{where}: no broker {name!r} in the network")


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    out: dict[str, object] = {}
    for key, value in pairs:
        if key in out:
            raise ScenarioError(f"key {key!r} occurs twice in one object")
        out[key] = value
    return out


__all__ = ["LinkModel", "Publish", "Scenario", "Settle", "Step", "Subscribe", "Unsubscribe", "Workload"]
