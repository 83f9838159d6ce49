"""Fault plans: faults and their times, as data that the simulator and Ray execute alike and that a seed can draw.

Rules
-----
* A plan ends. At `heal_seconds` every link is mended, paused brokers resume, slow brokers regain their speed,
  the rendezvous point is up, and every dead broker is restarted with empty state, except those of
  `stay_dead`. A host restarts these too if otherwise none would be left.
* The last living broker is not crashed; the host reports that it was spared. A fault without a meaning at its
  time (restart of a living broker, pause of a dead one) does nothing.
* Links are connections (docs/decisions/0011-recovery.md): between two live brokers they lose and duplicate
  nothing. A dropped message is retransmitted and arrives late, and all messages behind it on its link wait
  for it. A duplicate is discarded by the transport and only counted. A cut link holds its messages until it
  is mended.
* `at_seconds` counts from the start of the phase of faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...protocol.configs import Position
from ...protocol.errors import ScenarioError
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.scenarios.files import read_json
from ...protocol.scenarios.plain import known_keys, named_kind


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, or its repair, at a given time."""

    at_seconds: float


@dataclass(frozen=True, slots=True)
class _OfBroker(Fault):
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class _OfLink(Fault):
    one: int
    other: int


class Crash(_OfBroker):
    """The broker's process is killed; its state is lost, and so are the messages in flight to and from it."""


class Restart(_OfBroker):
    """A dead broker restarts without state but with its position; its incarnation is one more."""


@dataclass(frozen=True, slots=True)
class CrashCluster(Fault):
    """All members of a cluster are killed at once."""

    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class CrashRoot(Fault):
    """The present root broker is killed; if it does not come back it stays dead after the healing."""

    comes_back: bool = True


@dataclass(frozen=True, slots=True)
class Leave(_OfBroker):
    """The broker leaves a flat network voluntarily: its clients are asked to move, then its process ends.

    If it does not come back it stays out after the healing.
    """

    comes_back: bool = True


class CrashRendezvous(Fault):
    """The rendezvous point is killed; what it has stored stays."""


class RestartRendezvous(Fault):
    """The rendezvous point restarts from what it had stored."""


class Pause(_OfBroker):
    """The broker stops and keeps its state: slow is not dead. All messages to it wait."""


class Resume(_OfBroker):
    """A paused broker resumes with the messages that have waited."""


@dataclass(frozen=True, slots=True)
class Slow(_OfBroker):
    """The broker takes `factor` times as long for everything; 1 restores its speed."""

    factor: float


class Cut(_OfLink):
    """The link between two brokers carries nothing, in either direction, until it is mended."""


class Mend(_OfLink):
    """The link between two brokers carries messages again, first those that it has held."""


class CutClusters(_OfLink):
    """Every link between two clusters is cut."""


class MendClusters(_OfLink):
    """Every link between two clusters is mended."""


@dataclass(frozen=True, slots=True)
class Partition(Fault):
    """These clusters are cut off from all others; the rendezvous point is on their side or on the other."""

    clusters: tuple[ClusterId, ...]
    rendezvous: bool = False


class Heal(Fault):
    """Every partition ends; single cuts stay."""


@dataclass(frozen=True, slots=True)
class Shake(Fault):
    """Links are bad for a while: slower, lossy, with duplicates.

    Attributes
    ----------
    seconds
        The duration.
    delay_seconds
        The maximum additional delay, drawn for each message.
    drop, duplicate
        The probabilities that a message is lost (and retransmitted by the transport), or duplicated (and the
        copy discarded by it).
    brokers
        The brokers whose links are affected; all links if empty.
    """

    seconds: float
    delay_seconds: float = 0.0
    drop: float = 0.0
    duplicate: float = 0.0
    brokers: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class Damage(_OfBroker):
    """The state of a broker is damaged, but not its behaviour (paper 4, section 2).

    Attributes
    ----------
    at_seconds, broker
        The time, and the broker.
    what
        The damaged part of its state, one of :data:`DAMAGES`.
    """

    what: str = "tables"


@dataclass(frozen=True, slots=True)
class HostLink(Fault):
    """The link of a whole host is bad for a while: it carries nothing, or little, or loses packets.

    Only on Ray, on hosts of the run's own (:mod:`rayvous.faults.machines`). The network itself does this, so
    it affects everything that runs on the host, including Ray.

    Attributes
    ----------
    host
        The number of the host, from 0. The clients and the rendezvous point are on host 0.
    seconds
        The duration.
    megabits_per_second
        The bandwidth meanwhile; 0 for none at all, unless `drop` makes it a lossy link.
    drop
        The probability that it loses a packet, in each direction.
    """

    host: int
    seconds: float
    megabits_per_second: float = 0.0
    drop: float = 0.0

    @property
    def carries(self) -> bool:
        """Whether any packet gets through."""
        return bool(self.megabits_per_second or self.drop)


class ResetConnections(_OfBroker):
    """Every connection of the broker's process is reset in the middle of a frame; what is in flight there is lost.

    This and the next two faults are only on Ray, in a network whose links are connections of their own.
    """


@dataclass(frozen=True, slots=True)
class StopReading(_OfBroker):
    """The broker's process reads nothing from its present connections for so many seconds; it still writes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RefuseConnections(_OfBroker):
    """The port of the broker's process refuses connections for so many seconds; those that exist are reset first."""

    seconds: float


OfConnections: TypeAlias = ResetConnections | StopReading | RefuseConnections

DAMAGES: Final = "tables", "numbers", "membership", "deduplicator", "positions", "books", "store"
"""The parts of a broker's state that may be damaged; positions are those of durable subscribers."""

_ALL: Final[tuple[type[Fault], ...]] = (
    Crash, Restart, CrashCluster, CrashRoot, Leave, CrashRendezvous, RestartRendezvous, Pause, Resume, Slow,
    Cut, Mend, CutClusters, MendClusters, Partition, Heal, Shake, Damage, HostLink,
    ResetConnections, StopReading, RefuseConnections,
)  # fmt: skip

FAULTS: Final = {re.sub("(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in _ALL}
"""The faults by their names in JSON, such as ``crash_cluster``."""

WORDS: Final[dict[type[Fault], str]] = {kind: word for word, kind in FAULTS.items()}


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of a run and their times.

    Attributes
    ----------
    name
        A name for reports.
    faults
        The faults in the order of their times.
    heal_seconds
        When everything is healed. No fault comes later.
    stay_dead
        The brokers that are not restarted then if they are dead.
    """

    name: str
    faults: tuple[Fault, ...] = field(default=())
    heal_seconds: float = 0.0
    stay_dead: tuple[BrokerId, ...] = ()

    def __post_init__(self) -> None:
        last = 0.0
        for place, fault in enumerate(self.faults):
            where = f"plan {self.name!r}, faults[{place}]"
            if fault.at_seconds < last:
                raise ScenarioError(f"{where}: is at {fault.at_seconds:g} s, before the preceding fault")
            if fault.at_seconds > self.heal_seconds:
                raise ScenarioError(
                    f"{where}: is at {fault.at_seconds:g} s, after the healing at {self.heal_seconds:g} s"
                )
            last = fault.at_seconds

    @classmethod
    def load(cls, path: str | Path) -> FaultPlan:
        """Read a plan from a JSON file.

        Raises
        ------
        ScenarioError
            If the file is missing, empty, not JSON, or contains something that a plan does not have. The
            message says where.
        """
        return read_json(path, cls.from_dict)

    @classmethod
    def from_dict(cls, given: object) -> FaultPlan:
        """Return the plan that plain data describes, as `to_dict` gives it.

        Raises
        ------
        ScenarioError
            If a key is unknown or missing, or a value is of the wrong type or out of range; the message says where.
        """
        values = _checked(given, cls, "plan")
        values["faults"] = tuple(
            fault_from(fault, f"faults[{place}]") for place, fault in enumerate(values.get("faults", ()))
        )
        return cls(**values)

    def check(self, positions: Sequence[Position]) -> None:
        """Check that the plan is valid for a network with these positions.

        Raises
        ------
        ScenarioError
            If it names a broker or cluster that does not exist. The message says where.
        """
        brokers = sorted(place.broker for place in positions)
        clusters = sorted({place.cluster for place in positions})
        for place, fault in enumerate(self.faults):
            where = f"plan {self.name!r}, faults[{place}]"
            ends = getattr(fault, "one", None), getattr(fault, "other", None)
            whole = isinstance(fault, CutClusters | MendClusters)
            for end in ends:
                _there(end, clusters if whole else brokers, where, "cluster" if whole else "broker")
            _there(getattr(fault, "broker", None), brokers, where)
            for broker in getattr(fault, "brokers", ()):
                _there(broker, brokers, where)
            for cluster in (getattr(fault, "cluster", None), *getattr(fault, "clusters", ())):
                _there(cluster, clusters, where, "cluster")
        for broker in self.stay_dead:
            _there(broker, brokers, f"plan {self.name!r}, stay_dead")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `from_dict` accepts."""
        return {
            "name": self.name,
            "faults": [plain_fault(fault) for fault in self.faults],
            "heal_seconds": self.heal_seconds,
            "stay_dead": list(self.stay_dead),
        }

    def save(self, path: str | Path) -> None:
        """Write the plan to a JSON file, one fault per line."""
        plain = self.to_dict()
        lines = ",\n".join("  " + json.dumps(fault) for fault in plain.pop("faults"))
        text = json.dumps(plain, indent=1).removesuffix("\n}")
        faults = f"[\n{lines}\n ]" if lines else "[]"
        Path(path).write_text(f'{text},\n "faults": {faults}\n}}\n', encoding="utf-8")


def _there(number: int | None, known: Sequence[int], where: str, what: str = "broker") -> None:
    if number is not None and number not in known:
        raise ScenarioError(
            f"{where}: there is no {what} {number}: there are {len(known)}, from {known[0]} to {known[-1]}"
        )


def fault_from(given: object, where: str) -> Fault:
    """Return the fault that plain data describes. Error messages use `where` as its location."""
    kind, values = named_kind(given, "fault", FAULTS, where)
    return kind(**_checked(values, kind, where))


def plain_fault(fault: Fault) -> dict[str, object]:
    """Return plain data that `fault_from` accepts."""
    values = {entry.name: getattr(fault, entry.name) for entry in fields(fault)}
    return {"fault": WORDS[type(fault)]} | {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }


def describe(fault: Fault) -> str:
    """Return a readable form of a fault for timelines: ``crash broker 3``."""
    word = WORDS[type(fault)].replace("_", " ")
    match fault:
        case Cut() | Mend() | CutClusters() | MendClusters():
            return f"{word} {fault.one} - {fault.other}"
        case CrashRoot():
            return word if fault.comes_back else f"{word} for good"
        case Leave():
            return f"{word} {fault.broker}" if fault.comes_back else f"{word} {fault.broker} for good"
        case Partition():
            side = " with the rendezvous" if fault.rendezvous else ""
            return f"{word} clusters {' '.join(map(str, fault.clusters))}{side}"
        case Damage():
            return f"{word} broker {fault.broker} {fault.what}"
        case _:
            return " ".join([word, *_details(fault)])


def _details(fault: Fault) -> Iterator[str]:
    for entry in fields(fault):
        value = getattr(fault, entry.name)
        if entry.name in ("broker", "cluster") or (entry.name != "at_seconds" and value):
            shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
            yield f"{entry.name.removesuffix('_seconds')} {shown}"


# Plain data is checked by the kind of each key.

_KINDS: Final[dict[str, str]] = {
    "name": "text",
    "faults": "list",
    "heal_seconds": "seconds",
    "at_seconds": "seconds",
    "host": "id",
    "megabits_per_second": "seconds",
    "seconds": "seconds",
    "delay_seconds": "seconds",
    "stay_dead": "ids",
    "clusters": "ids",
    "brokers": "ids",
    "broker": "id",
    "cluster": "id",
    "one": "id",
    "other": "id",
    "comes_back": "truth",
    "rendezvous": "truth",
    "factor": "factor",
    "drop": "chance",
    "what": "damage",
    "duplicate": "chance",
}


def _checked(given: object, kind: type, where: str) -> dict[str, Any]:
    return {key: _value(key, value, where) for key, value in known_keys(given, kind, where).items()}


def _value(key: str, value: Any, where: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    good, wanted = {
        "text": (isinstance(value, str), "text"),
        "list": (isinstance(value, list), "a list"),
        "truth": (isinstance(value, bool), "true or false"),
        "id": (_is_id(value), "a whole number, 0 or more"),
        "ids": (
            isinstance(value, list | tuple) and all(map(_is_id, value)),
            "a list of whole numbers, 0 or more",
        ),
        "damage": (value in DAMAGES, f"one of {', '.join(DAMAGES)}"),
        "seconds": (number and 0 <= value < float("inf"), "a number, 0 or more"),
        "factor": (number and 1 <= value < float("inf"), "a number, 1 or more"),
        "chance": (number and 0 <= value < 1, "a number from 0, below 1"),
    }[_KINDS[key]]
    if not good:
        raise ScenarioError(f"{where}: {key} is {value!r}: it must be {wanted}")
    return tuple(value) if _KINDS[key] == "ids" else value


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
