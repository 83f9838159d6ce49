"""Fault plans: what goes wrong when, as data that the simulator and Ray carry out alike, and that a seed can draw.

Rules
-----
* A plan ends: at `heal_seconds` every link is mended, who was paused goes on, who was slow is quick again, the
  rendezvous point is up, and every dead broker is started afresh, but for those of `stay_dead`. A host starts all of
  them when that would leave none.
* The last living broker is not crashed; a host says that it was spared. What makes no sense when its time comes (to
  restart who lives, to pause the dead) does nothing.
* Links are connections (docs/decisions/0011-recovery.md): they lose nothing and double nothing between two live
  brokers. So a dropped message comes late, after being sent again, and all behind it on its link wait for it; a
  duplicate is discarded by the transport and only counted; a cut link holds what it was given until it is mended.
* `at_seconds` counts from the start of the phase of faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from ...protocol.configs import Position
from ...protocol.errors import ScenarioError
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.scenarios.files import read_json
from ...protocol.scenarios.plain import known_keys, named_kind


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, or is put right, at a moment."""

    at_seconds: float


@dataclass(frozen=True, slots=True)
class _OfBroker(Fault):
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class _OfLink(Fault):
    one: int
    other: int


class Crash(_OfBroker):
    """The broker's process is killed; its state is lost, and so is what was under way to and from it."""


class Restart(_OfBroker):
    """A dead broker starts afresh, knowing nothing but its place; its incarnation is one more."""


@dataclass(frozen=True, slots=True)
class CrashCluster(Fault):
    """Every member of a cluster is killed at once."""

    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class CrashRoot(Fault):
    """Whoever is the root broker by then is killed; if it does not come back it stays dead after the healing."""

    comes_back: bool = True


@dataclass(frozen=True, slots=True)
class Leave(_OfBroker):
    """The broker leaves a flat network of its own will: its clients are asked to move, then its process ends.

    If it does not come back it stays out after the healing.
    """

    comes_back: bool = True


class CrashRendezvous(Fault):
    """The rendezvous point is killed; what it has written down stays."""


class RestartRendezvous(Fault):
    """The rendezvous point starts again with what it had written down."""


class Pause(_OfBroker):
    """The broker stands still and keeps its state: slow is not dead. All that is sent to it waits."""


class Resume(_OfBroker):
    """A paused broker goes on with what has waited."""


@dataclass(frozen=True, slots=True)
class Slow(_OfBroker):
    """The broker takes `factor` times as long for everything; 1 makes it quick again."""

    factor: float


class Cut(_OfLink):
    """The link between two brokers carries nothing, either way, until it is mended."""


class Mend(_OfLink):
    """The link between two brokers carries again, first of all what it has held."""


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
    """Links are bad for a while: slower, with losses and duplicates.

    Attributes
    ----------
    seconds
        How long.
    delay_seconds
        Each message takes up to this much longer, drawn for each.
    drop, duplicate
        Chances that a message is lost on its way (and sent again by the transport), or comes twice (and is discarded
        once by it).
    brokers
        The links to and from these; all links when there are none.
    """

    seconds: float
    delay_seconds: float = 0.0
    drop: float = 0.0
    duplicate: float = 0.0
    brokers: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class Damage(_OfBroker):
    """The state of a broker is damaged and not its behaviour (paper 4, section 2).

    Attributes
    ----------
    at_seconds, broker
        When, and whose.
    what
        Which part of it, of :data:`DAMAGES`.
    """

    what: str = "tables"


@dataclass(frozen=True, slots=True)
class HostLink(Fault):
    """The link of a whole host is bad for a while: it carries nothing, or little, or loses packets.

    Only on Ray, on hosts of one's own (:mod:`rayvous.actors.machines`): what the network itself does, for all that runs
    on the host, Ray included.

    Attributes
    ----------
    host
        Its number, from 0; the clients and the rendezvous point are on host 0.
    seconds
        How long.
    megabits_per_second
        What it carries meanwhile; 0 for nothing at all, unless `drop` says that it is a link that loses.
    drop
        The chance that it loses a packet, in each direction.
    """

    host: int
    seconds: float
    megabits_per_second: float = 0.0
    drop: float = 0.0

    @property
    def carries(self) -> bool:
        """Whether anything gets through."""
        return bool(self.megabits_per_second or self.drop)


DAMAGES: Final = "tables", "numbers", "membership", "deduplicator", "positions", "books", "store"
"""What of a broker's state may be damaged: positions of durable subscribers, books of admission control, its store."""

_ALL: Final[tuple[type[Fault], ...]] = (
    Crash, Restart, CrashCluster, CrashRoot, Leave, CrashRendezvous, RestartRendezvous, Pause, Resume, Slow,
    Cut, Mend, CutClusters, MendClusters, Partition, Heal, Shake, Damage, HostLink,
)  # fmt: skip

FAULTS: Final = {re.sub("(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in _ALL}
"""The faults by the word that names them in JSON: ``crash_cluster``."""

WORDS: Final[dict[type[Fault], str]] = {kind: word for word, kind in FAULTS.items()}


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What goes wrong when.

    Attributes
    ----------
    name
        For reports.
    faults
        In the order of their times.
    heal_seconds
        When all is put right; no fault comes later.
    stay_dead
        The brokers that are not started again then, should they be dead.
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
                raise ScenarioError(f"{where}: comes at {fault.at_seconds:g} s, before the one ahead of it")
            if fault.at_seconds > self.heal_seconds:
                raise ScenarioError(
                    f"{where}: comes at {fault.at_seconds:g} s, after the healing at {self.heal_seconds:g} s"
                )
            last = fault.at_seconds

    @classmethod
    def load(cls, path: str | Path) -> FaultPlan:
        """Read a plan from a JSON file.

        Raises
        ------
        ScenarioError
            If the file is missing, empty, not JSON, or says something that a plan does not have; the message says
            where.
        """
        return read_json(path, cls.from_dict)

    @classmethod
    def from_dict(cls, given: Any) -> FaultPlan:
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
        """Check that the plan is for a network that stands as `positions` say.

        Raises
        ------
        ScenarioError
            If it names a broker or cluster that is not there; the message says where.
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
        """Return plain data that `from_dict` takes."""
        return {
            "name": self.name,
            "faults": [plain_fault(fault) for fault in self.faults],
            "heal_seconds": self.heal_seconds,
            "stay_dead": list(self.stay_dead),
        }

    def save(self, path: str | Path) -> None:
        """Write the plan to a JSON file, one fault a line."""
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


def fault_from(given: Any, where: str) -> Fault:
    """Return the fault that plain data describes; `where` is its place, for the message of the error."""
    kind, values = named_kind(given, "fault", FAULTS, where)
    return kind(**_checked(values, kind, where))


def plain_fault(fault: Fault) -> dict[str, Any]:
    """Return plain data that `fault_from` takes."""
    values = {entry.name: getattr(fault, entry.name) for entry in fields(fault)}
    return {"fault": WORDS[type(fault)]} | {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }


def describe(fault: Fault) -> str:
    """Return a fault as words, for timelines: ``crash broker 3``."""
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


def _checked(given: Any, kind: type, where: str) -> dict[str, Any]:
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


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
