"""Sinks: what writes the events of a subscription to files; their configuration and their state.

Rule: a sink's name is part of the names of its files and of its actor, so it has few characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Final, Literal, TypeAlias

from . import checks
from .node_places import NodePlace

Format: TypeAlias = Literal["parquet", "jsonl", "delta"]
FORMATS: Final = ("parquet", "jsonl", "delta")
Partition: TypeAlias = Literal["hour", "day", "none"]
PARTITIONS: Final = ("hour", "day", "none")
Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Attributes and the kinds of their columns."""
COLUMN_KINDS: Final = ("boolean", "integer", "float", "string", "timestamp")
SinkState: TypeAlias = Literal["writing", "waiting", "silent"]

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
ACTOR: Final = "rayvous.pipelines.sink.actor:SinkActor"
"""The class of the actors that write, named as schemes and backends of users are: what starts them stands below it."""


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """What a sink writes, and where.

    Attributes
    ----------
    name
        Its name in its network. A later sink of this name goes on where it was.
    target
        A folder by its absolute path, or a URL such as ``s3://bucket/lake``.
    selector
        Which events are written.
    format
        ``"parquet"``; ``"jsonl"``: one JSON object a line, as `rayvous subscribe` prints it; or ``"delta"``: a table of
        Delta Lake.
    partition
        The folders inside, by the hour or the day of publication (UTC). A table of Delta Lake has ``"none"``.
    roll_seconds, roll_events
        A file is written when its first event has waited so long, or when there are so many events.
    columns
        The columns of attributes that each Parquet file has, by name and kind; what fits into none is in `_more`. None
        for a column for each attribute that comes.
    checkpoints
        A folder with checkpoints of Spark's queries: files that all of them have read are removed. Empty: files stay.
    place
        What its node must have, and what it takes there; None for a node of the network.
    """

    name: str
    target: str
    selector: str
    format: Format = "parquet"
    partition: Partition = "hour"
    roll_seconds: float = 60.0
    roll_events: int = 1_000_000
    columns: Columns | None = None
    checkpoints: str = ""
    place: NodePlace | None = None

    def validate(self) -> SinkConfig:
        """Validate the configuration and return it; InputError, with the name of a field, if one is invalid."""
        if not NAME.fullmatch(checks.text("name", self.name)):
            raise checks.wrong("name", self.name, "at most 64 letters, digits, dots, hyphens and underscores")
        checks.text("target", self.target)
        checks.text("selector", self.selector)
        checks.one_of("format", self.format, FORMATS)
        checks.one_of("partition", self.partition, PARTITIONS)
        checks.number("roll_seconds", checks.seconds("roll_seconds", self.roll_seconds), above=True)
        checks.whole_number("roll_events", self.roll_events, 1)
        for attribute, kind in self.columns or ():
            checks.text("columns", attribute)
            checks.one_of(f"columns[{attribute!r}]", kind, COLUMN_KINDS)
        if self.columns is not None and self.format == "jsonl":
            raise checks.wrong("columns", self.columns, "left out: lines of JSON have no columns")
        if self.format == "delta" and self.partition != "none":
            raise checks.wrong(
                "partition", self.partition, "left out: a Delta table finds times by its statistics"
            )
        if self.checkpoints and self.format != "parquet":
            raise checks.wrong("checkpoints", self.checkpoints, "left out, or format 'parquet'")
        if (place := checks.optional("place", self.place, NodePlace, "a NodePlace()")) is not None:
            place.validate()
        return self

    def beside(self, other: SinkConfig) -> str:
        """Return the fields that another configuration has otherwise, with what is here and there."""
        differing = [
            each.name for each in fields(self) if getattr(self, each.name) != getattr(other, each.name)
        ]
        return ", ".join(
            f"{name} {_said(getattr(self, name))} instead of {_said(getattr(other, name))}"
            for name in differing
        )


def shown(target: str) -> str:
    """Return a URL without what may be credentials: its user, its password and the values of its parameters."""
    if "://" not in target:
        return target
    without_user = re.sub(r"://[^/?]*@", "://***@", target)
    return re.sub(r"([?&][^=&]*=)[^&]*", r"\1***", without_user)


def _said(value: object) -> str:
    return repr(shown(value) if isinstance(value, str) else value)


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """A sink at one moment.

    Attributes
    ----------
    name, target
        Its name, and where it writes, without credentials.
    state
        ``"writing"``; ``"waiting"`` while its files cannot be written, or nothing is acknowledged; ``"silent"`` while
        it starts, or does not answer.
    problem
        What it waits for. It tries again, and loses nothing that its broker retains.
    events, files, bytes
        What this process of the sink has written.
    waiting
        Events that it has and that are in no file yet.
    conflicts
        Values whose type was not that of their column, by the column of their own that they are in.
    lost
        Ranges of events that may be lost, as earlier processes of the sink and this one were told; see
        docs/exactly-once.md.
    """

    name: str
    target: str
    state: SinkState
    problem: str = ""
    events: int = 0
    files: int = 0
    bytes: int = 0
    waiting: int = 0
    conflicts: tuple[tuple[str, int], ...] = ()
    lost: int = 0
