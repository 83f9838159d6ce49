"""Content-based publish/subscribe whose brokers are Ray actors.

Launch a network, subscribe with a selector, publish events and receive notifications::

    import rayvous as rv

    with rv.Network.launch(rv.ClusterTree(clusters=4, brokers_per_cluster=3)) as net:
        alice = net.subscriber("alice")
        alice.subscribe("origin = 'JFK' AND dep_delay > 60")
        net.publisher("faa").publish({"origin": "JFK", "dep_delay": 75.0})
        print(next(alice.notifications(timeout_seconds=5)))

Names that are not listed here are internal, except for the subpackages that docs/architecture.md describes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .actors.clients.event_files import read_events
    from .actors.clients.notification import Notification
    from .actors.clients.publisher import Publisher
    from .actors.clients.subscriber import Subscriber
    from .actors.network.network import Network, networks
    from .actors.telemetry.telemetry import Telemetry
    from .experiments.reproduced import experiment
    from .faults.real.game_day import game_day
    from .faults.shrinking.shrink import shrink
    from .faults.stepping.player import step
    from .pipelines.drawing import draw
    from .pipelines.ray_data.reading import read, stream
    from .pipelines.ray_data.writing import Sink
    from .pipelines.run import report
    from .pipelines.spark.events import spark_sink, spark_stream
    from .pipelines.spark.frames import spark_frames
    from .protocol.configs import Limits
    from .protocol.errors import (
        BrokerUnavailable,
        ClientError,
        EventError,
        FilterTooComplex,
        InputError,
        MissingExtra,
        NameTaken,
        NetworkExists,
        NetworkNotFound,
        NotAdvertised,
        NotARequest,
        NoTruthValue,
        RateExceeded,
        RayUnavailable,
        RayvousError,
        RequestTimeout,
        ScenarioError,
        SelectorError,
        SparkUnavailable,
        StorageFailed,
        SubscriptionRejected,
        SubscriptionTimeout,
        TopologyError,
        UnreadableFile,
    )
    from .protocol.gateways import AccessConfig, GatewayConfig, GatewayLimits, Principal
    from .protocol.messages.admission import AdmissionConfig, Capacity
    from .protocol.messages.recovery import Recovery
    from .protocol.node_places import NodePlace
    from .protocol.scenarios.scenario import Scenario
    from .protocol.stability import Stability
    from .protocol.telemetry.tables import TelemetryConfig
    from .protocol.values import NULL
    from .recovery.durability.stable import Stable
    from .routing.filters.filter import Filter
    from .routing.language.builders import attr
    from .routing.language.comparing import covers, intersects, merge
    from .routing.language.patterns import eventbridge
    from .routing.language.questions import to_filter
    from .routing.topologies.cluster_trees import ClusterTree, FixedTree
    from .simulator.simulation import Simulation

__version__ = "0.1.0"

_HOMES = {
    "AccessConfig": "protocol.gateways",
    "AdmissionConfig": "protocol.messages.admission",
    "BrokerUnavailable": "protocol.errors",
    "Capacity": "protocol.messages.admission",
    "ClientError": "protocol.errors",
    "ClusterTree": "routing.topologies.cluster_trees",
    "EventError": "protocol.errors",
    "Filter": "routing.filters.filter",
    "FilterTooComplex": "protocol.errors",
    "FixedTree": "routing.topologies.cluster_trees",
    "GatewayConfig": "protocol.gateways",
    "GatewayLimits": "protocol.gateways",
    "InputError": "protocol.errors",
    "Limits": "protocol.configs",
    "MissingExtra": "protocol.errors",
    "NULL": "protocol.values",
    "Network": "actors.network.network",
    "NameTaken": "protocol.errors",
    "NetworkExists": "protocol.errors",
    "NetworkNotFound": "protocol.errors",
    "NoTruthValue": "protocol.errors",
    "NotARequest": "protocol.errors",
    "NodePlace": "protocol.node_places",
    "NotAdvertised": "protocol.errors",
    "Notification": "actors.clients.notification",
    "Principal": "protocol.gateways",
    "Publisher": "actors.clients.publisher",
    "RateExceeded": "protocol.errors",
    "RayUnavailable": "protocol.errors",
    "RayvousError": "protocol.errors",
    "Recovery": "protocol.messages.recovery",
    "RequestTimeout": "protocol.errors",
    "Stability": "protocol.stability",
    "Stable": "recovery.durability.stable",
    "Scenario": "protocol.scenarios.scenario",
    "ScenarioError": "protocol.errors",
    "SelectorError": "protocol.errors",
    "Sink": "pipelines.ray_data.writing",
    "Simulation": "simulator.simulation",
    "SparkUnavailable": "protocol.errors",
    "StorageFailed": "protocol.errors",
    "Subscriber": "actors.clients.subscriber",
    "SubscriptionRejected": "protocol.errors",
    "SubscriptionTimeout": "protocol.errors",
    "Telemetry": "actors.telemetry.telemetry",
    "TelemetryConfig": "protocol.telemetry.tables",
    "TopologyError": "protocol.errors",
    "UnreadableFile": "protocol.errors",
    "attr": "routing.language.builders",
    "covers": "routing.language.comparing",
    "draw": "pipelines.drawing",
    "eventbridge": "routing.language.patterns",
    "experiment": "experiments.reproduced",
    "game_day": "faults.real.game_day",
    "intersects": "routing.language.comparing",
    "merge": "routing.language.comparing",
    "networks": "actors.network.network",
    "read": "pipelines.ray_data.reading",
    "read_events": "actors.clients.event_files",
    "report": "pipelines.run",
    "stream": "pipelines.ray_data.reading",
    "spark_frames": "pipelines.spark.frames",
    "spark_sink": "pipelines.spark.events",
    "spark_stream": "pipelines.spark.events",
    "shrink": "faults.shrinking.shrink",
    "step": "faults.stepping.player",
    "to_filter": "routing.language.questions",
}

__all__ = [
    "NULL",
    "AccessConfig",
    "AdmissionConfig",
    "BrokerUnavailable",
    "Capacity",
    "ClientError",
    "ClusterTree",
    "EventError",
    "Filter",
    "FilterTooComplex",
    "FixedTree",
    "GatewayConfig",
    "GatewayLimits",
    "InputError",
    "Limits",
    "MissingExtra",
    "NameTaken",
    "Network",
    "NetworkExists",
    "NetworkNotFound",
    "NoTruthValue",
    "NodePlace",
    "NotARequest",
    "NotAdvertised",
    "Notification",
    "Principal",
    "Publisher",
    "RateExceeded",
    "RayUnavailable",
    "RayvousError",
    "Recovery",
    "RequestTimeout",
    "Scenario",
    "ScenarioError",
    "SelectorError",
    "Simulation",
    "Sink",
    "SparkUnavailable",
    "Stability",
    "Stable",
    "StorageFailed",
    "Subscriber",
    "SubscriptionRejected",
    "SubscriptionTimeout",
    "Telemetry",
    "TelemetryConfig",
    "TopologyError",
    "UnreadableFile",
    "attr",
    "covers",
    "draw",
    "eventbridge",
    "experiment",
    "game_day",
    "intersects",
    "merge",
    "networks",
    "read",
    "read_events",
    "report",
    "shrink",
    "spark_frames",
    "spark_sink",
    "spark_stream",
    "step",
    "stream",
    "to_filter",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the simulator and selectors do not import Ray."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*__all__, "__version__"])
