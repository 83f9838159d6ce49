"""Kill brokers, or cut a link, in the middle of a demo run, and watch the network heal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import product
from typing import Final, TypeAlias

from ..actors.network.network import Network
from ..faults.real.link_faults import LinkFaultTable
from ..protocol.errors import BrokerUnavailable, InputError
from ..protocol.ids import BrokerId, ClusterId
from ..protocol.messages.recovery import Recovery
from ..recovery.membership.structure import Survey
from ..simulator.link_faults import pair_of

KINDS: Final = ("deb", "neb", "cluster", "root", "link")
HEALED_WITHIN_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.05


def recovery_for(degree: int, events: int) -> Recovery:
    """Return the recovery settings of a demo network, which retains all of its `events` for retransmission."""
    return Recovery(
        heartbeat_seconds=0.5,
        suspect_after_seconds=2.0,
        answer_seconds=1.0,
        root_wait_seconds=0.5,
        degree=degree,
        retention_events_max=max(events, 1),
        retention_seconds=600.0,
    ).validate()


def check_kind(kind: str, clusters: int, brokers_per_cluster: int, degree: int) -> None:
    """Raise InputError unless a network of this size has a target for this kind of fault, and survivors."""
    if kind not in KINDS:
        raise InputError(f"--kill {kind}: it must be {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if kind != "neb" and clusters < 2:
        raise InputError(f"--kill {kind} takes at least 2 clusters, there are {clusters}")
    if kind == "link" and (clusters < 3 or degree < 2):
        raise InputError(
            f"--kill link takes at least 3 clusters and degree 2, so that the cut-off cluster finds another parent; "
            f"there are {clusters}, and degree {degree}"
        )
    if kind == "neb" and brokers_per_cluster < 2:
        raise InputError(f"--kill neb takes at least 2 brokers in a cluster, there are {brokers_per_cluster}")


def victims(survey: Survey, kind: str) -> list[BrokerId]:
    """Return the brokers to kill.

    Parameters
    ----------
    survey
        The state of every broker.
    kind
        "deb" is the designated broker of a cluster below the root, "neb" a normal broker, "cluster" all of a
        cluster below the root, "root" the root broker.

    Raises
    ------
    InputError
        If there is no such broker in the network.
    """
    speakers = [one for one in survey.values() if one["designated"] and not one["root"]]
    normal = [broker for broker, one in survey.items() if not one["designated"]]
    if kind == "root":
        return [broker for broker, one in survey.items() if one["root"]]
    if kind == "neb" and normal:
        return [min(normal)]
    if kind in ("deb", "cluster") and speakers:
        # The broker with the most children: its death has the largest effect.
        chosen = max(speakers, key=lambda one: (len(one["children"]), -one["broker"]))
        return [chosen["broker"]] if kind == "deb" else list(chosen["view"].members)
    raise InputError(f"--kill {kind}: this network has no such broker")


def link_to_cut(survey: Survey) -> tuple[ClusterId, ClusterId]:
    """Return a cluster without children, which can find another parent, and its present parent."""
    leaves = [
        (one["broker"], one["cluster"], parent.cluster)
        for one in survey.values()
        if one["designated"] and (parent := one["parent"]) is not None and not one["children"]
    ]
    if not leaves:
        raise InputError("--kill link: no cluster has a parent now")
    _, cluster, above = max(leaves)
    return cluster, above


_Speakers: TypeAlias = dict[ClusterId, tuple[BrokerId, ClusterId | str | None]]
"""Each cluster's designated broker, and its parent cluster: "root" at the root, None while there is none."""


@dataclass(slots=True)
class Killing:
    """One fault and its consequences.

    Attributes
    ----------
    started
        When the run started, on the clock of `time.perf_counter`.
    started_at
        The same moment in seconds since 1970, as used by telemetry, to align the timeline with it.
    killed
        The brokers that were killed.
    cut
        The two clusters whose link was cut until the network had healed.
    recovery_seconds
        From the fault until the living brokers formed one settled tree again.
    timeline
        (seconds since the run started, what happened).
    """

    kind: str
    started: float
    killed: list[BrokerId] = field(default_factory=list)
    cut: tuple[ClusterId, ClusterId] | None = None
    recovery_seconds: float | None = None
    timeline: list[tuple[float, str]] = field(default_factory=list)
    started_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.started_at = time.time() - (time.perf_counter() - self.started)

    def say(self, what: str) -> None:
        """Add an entry to the timeline."""
        self.timeline.append((round(time.perf_counter() - self.started, 3), what))

    def run(self, net: Network) -> None:
        """Kill, or cut, and watch until the network has healed.

        Raises
        ------
        BrokerUnavailable
            If the network does not heal.
        """
        survey = net.inspect.survey()
        speakers = _speakers(survey)
        if self.kind == "link":
            self._cut(net, survey)
        else:
            for broker in victims(survey, self.kind):
                if broker not in self.killed:
                    self.killed += net.kill_broker(broker)
            self.say(f"killed {_brokers(self.killed)}")
        at = time.perf_counter()
        felt = self.kind != "link"  # a cut is noticed only after a while
        while (found := net.inspect.problems()) or not felt:
            felt = felt or bool(found)
            speakers = self._watch(speakers, _speakers(net.inspect.survey()))
            if time.perf_counter() - at > HEALED_WITHIN_SECONDS:
                raise BrokerUnavailable(
                    f"the network has not healed: {'; '.join(found[:5]) or 'nothing was felt'}"
                )
            time.sleep(LOOK_SECONDS)
        self._watch(speakers, _speakers(net.inspect.survey()))
        self.recovery_seconds = time.perf_counter() - at
        self.say("healed: one tree, every subscription installed, every client at a broker that lives")

        if self.cut is not None:
            net.inject(LinkFaultTable())
            self.say("the link is mended")

    def _cut(self, net: Network, survey: Survey) -> None:
        self.cut = link_to_cut(survey)
        ends = [[broker for broker, one in survey.items() if one["cluster"] == end] for end in self.cut]
        net.inject(LinkFaultTable(frozenset(pair_of(*pair) for pair in product(*ends))))
        self.say(f"cut the link between clusters {self.cut[0]} and {self.cut[1]}")

    def _watch(self, before: _Speakers, now: _Speakers) -> _Speakers:
        for cluster, (broker, parent) in now.items():
            known = before.get(cluster, (None, None))
            if known[0] != broker:
                self.say(f"broker {broker} speaks for cluster {cluster}")
            if known[1] != parent:
                self.say(f"cluster {cluster} " + _place(parent))
        return {**before, **now}

    def to_dict(self) -> dict[str, object]:
        """Return the results for output."""
        return {
            "killed": self.killed,
            **({} if self.cut is None else {"cut": list(self.cut)}),
            "recovery_seconds": self.recovery_seconds,
            "started_at": self.started_at,
            "timeline": [{"seconds": at, "what": what} for at, what in self.timeline],
        }


def _speakers(survey: Survey) -> _Speakers:
    """Return each cluster's designated broker, and its parent cluster ("root" at the root)."""
    return {
        one["cluster"]: (
            one["broker"],
            "root" if one["root"] else None if one["parent"] is None else one["parent"].cluster,
        )
        for one in survey.values()
        if one["designated"]
    }


def _place(parent: ClusterId | str | None) -> str:
    if parent == "root":
        return "is the root"
    return "looks for a parent" if parent is None else f"hangs below cluster {parent}"


def _brokers(killed: list[BrokerId]) -> str:
    return ("broker " if len(killed) == 1 else "brokers ") + ", ".join(map(str, killed))
