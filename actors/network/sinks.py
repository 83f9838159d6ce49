"""The sinks of a network: actors that write the events of a durable subscription to files.

Rules
-----
* A sink is a detached actor with a name of its own in the network, so it outlives whoever started it, and every process
  finds it. Ray restarts it when its process or its node dies: nothing else supervises it.
* It ends with the network: it is told, and what is not told finds out by itself.
* The same sink started twice is one sink. Another one of its name is refused.
* Sinks do not count for the network's health; the status shows them.

What they do stands above, in `pipelines/sink`; this names it (`protocol.sinks.ACTOR`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import ray
from ray import ObjectRef
from ray.actor import ActorHandle, ActorMethod
from ray.exceptions import GetTimeoutError, RayError

from ...protocol import checks
from ...protocol.errors import InputError, RayvousError
from ...protocol.extras import require
from ...protocol.ids import ClientId
from ...protocol.node_places import NodePlace
from ...protocol.sinks import ACTOR, Format, Partition, SinkConfig, SinkStatus, shown
from ...routing.language.questions import to_filter
from ...routing.schemes.own import own
from ..host.errors import broker_errors
from .directory import Directory, sink_name
from .lasting_actors import actors_of, close_actors, require_same, running
from .launching import actor
from .node_options import near_network

if TYPE_CHECKING:
    from ray import ObjectRef as RayObject  # what was asked decides what it is

    from .hosts import Hosts

CALLS_AT_ONCE: Final = 8
CONTROL: Final = "control"
"""The concurrency group of calls that are answered also while others wait for a disk."""
START_SECONDS: Final = 120.0
"""How long a sink may take until it has subscribed and has looked at its folder."""
END_SECONDS: Final = 20.0
"""How long a sink may take to write what it has when it ends; what is in no file then stays at its broker."""


class FileSink:
    """A running sink, as seen by this process. Created by :meth:`Network.sink`; it goes on when this object is gone.

    Attributes
    ----------
    name, target
        Its name in its network, and where it writes, without credentials.
    """

    def __init__(self, config: SinkConfig, made: ActorHandle) -> None:
        self.name, self.target = config.name, shown(config.target)
        self._actor = made

    def status(self) -> SinkStatus:
        """Return its state now: what it has written, what waits, and what keeps it from writing.

        Raises
        ------
        BrokerUnavailable
            If it does not answer in time, or has ended.
        """
        status: SinkStatus = self._ask(lambda: _control(self._actor.status).remote(), END_SECONDS)
        return status

    def flush(self, timeout_seconds: float = 60.0) -> None:
        """Return when every event that has reached the sink is in a file and acknowledged.

        Raises
        ------
        BrokerUnavailable
            If that takes longer, for example because the disk is full; `status` says why.
        """
        wait = checks.seconds("timeout_seconds", timeout_seconds)
        self._ask(lambda: self._actor.flush.remote(wait), wait)

    def close(self) -> None:
        """End the sink after a last file. Its subscription stays in force: the next sink of the name goes on.

        Raises
        ------
        BrokerUnavailable
            If it cannot write the last file in time; it is ended all the same, and its broker retains the events.
        """
        self._finish("close")

    def end(self) -> None:
        """End the sink for good after a last file: the subscription is cancelled and its position deleted.

        Raises
        ------
        BrokerUnavailable
            If it cannot write the last file in time; then it is ended, and its subscription stays in force.
        """
        self._finish("end")

    def _finish(self, last: Literal["close", "end"]) -> None:
        try:
            self._ask(lambda: _control(self._actor.finish, max_task_retries=0).remote(last), END_SECONDS)
        finally:
            ray.kill(self._actor)

    def _ask(self, call: Callable[[], ObjectRef], seconds: float) -> RayObject:
        with broker_errors(f"sink {self.name!r}", "the sink"):
            return ray.get(call(), timeout=seconds)

    def __repr__(self) -> str:
        return f"FileSink({self.name!r}, target={self.target!r})"


class Sinks:
    """The sinks of one network, as this process starts and finds them."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    def sink(
        self,
        target: str | Path,
        selector: str,
        *,
        name: str,
        format: Format = "parquet",
        partition: Partition | None = None,
        roll_seconds: float = 60.0,
        roll_events: int = 1_000_000,
        columns: Mapping[str, str] | None = None,
        checkpoints: str | Path | None = None,
        place: NodePlace | None = None,
    ) -> FileSink:
        """Write the events of a selector to files, each exactly once, until the sink or the network ends.

        Parameters
        ----------
        target
            A folder on a disk that every node sees, or the URL of one that pyarrow or fsspec can open, for example
            ``s3://bucket/lake``.
        selector
            Which events are written.
        name
            The sink's name in the network. A sink that is started again under its name goes on where it was.
        format
            ``"parquet"``; ``"jsonl"``: one JSON object a line; or ``"delta"``: a table of Delta Lake, to which rolls
            are appended.
        partition
            The folders inside: ``"hour"`` (the default) or ``"day"`` of publication (UTC), or ``"none"``. A table of
            Delta Lake has none.
        roll_seconds, roll_events
            A file is written when its first event has waited so long, or when there are so many events; earlier if
            the broker could not retain more (half of `Recovery.durable_events_max`, a quarter of
            `durable_bytes_max`). See docs/data.md.
        columns
            The columns of attributes that each Parquet file has: their kind by their name, one of ``"boolean"``,
            ``"integer"``, ``"float"``, ``"string"``, ``"timestamp"``. What fits into none is in `_more`, as JSON. None
            for a column for each attribute that comes.
        checkpoints
            A folder with the checkpoints of Spark's queries that read the files: what all of them have read is
            removed. None keeps all files.
        place
            What its node must have, and what it takes there, for example the label of a node with a disk; None for a
            node of the network. See docs/operations.md.

        Raises
        ------
        InputError
            If a parameter is wrong, the folder cannot be used, the name belongs to another sink, no node has the
            place, or the network does not heal.
        MissingExtra
            If the format needs one that is not installed.
        BrokerUnavailable
            If the sink does not begin in time; it goes on trying, and `status` says what it waits for.
        """
        self._hosts.require_open()
        whole = place_of(target)
        folders = partition or ("none" if format == "delta" else "hour")
        config = SinkConfig(
            name, whole, selector, format, folders, roll_seconds, roll_events,
            None if columns is None else tuple(_named(columns).items()),
            "" if checkpoints is None else place_of(checkpoints), place,
        ).validate()  # fmt: skip
        to_filter(config.selector)
        if config.format == "delta":
            require("delta")
        directory = self._hosts.directory
        if not directory.features.heals:
            raise InputError("a sink is a durable subscriber: launch the network with recovery=Recovery()")
        # It outlives its starter, so it is detached. One that runs is found by its name.
        lasting = actor(
            own(ACTOR), sink_name(directory.name, config.name), True,
            groups={CONTROL: CALLS_AT_ONCE}, get_if_exists=True, max_restarts=-1, max_task_retries=-1,
            max_concurrency=CALLS_AT_ONCE, **near_network(directory, config.name, place),
        )  # fmt: skip
        made = lasting.remote(directory.name, config)
        found = FileSink(config, made)
        known: SinkConfig = found._ask(lambda: _control(made.config).remote(), START_SECONDS)
        require_same(directory.name, "sink", config, known, "Close")
        begun = made.ready.remote()
        try:
            found._ask(lambda: begun, START_SECONDS)
        except (RayvousError, RayError):
            # Only one that has said that it cannot begin: another may be one that runs, and waits for its disk.
            if ray.wait([begun], num_returns=1, timeout=0)[0]:
                ray.kill(made)
            raise
        return found


def place_of(target: str | Path) -> str:
    """Return the absolute path of a folder, or the URL as it was given.

    Raises
    ------
    InputError
        If it is neither, such as a URL that was made a path and has lost a slash.
    """
    if "://" in str(target):
        return str(target)
    path = checks.path("target", target)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):
        raise checks.wrong("target", str(path), "a folder, or a URL as a string, with two slashes")
    return str(path.expanduser().absolute())


def _named(columns: Mapping[str, str]) -> Mapping[str, str]:
    return checks.instance("columns", columns, Mapping, "a mapping of names to kinds")


def _control(method: ActorMethod, **how: int) -> ActorMethod:
    """Return a method whose calls do not wait for calls of others, such as `flush`, that wait for a disk."""
    return method.options(concurrency_group=CONTROL, **how)


def subscriber_of(sink: str) -> ClientId:
    """Return the name of the durable subscriber that a sink is."""
    return f"sink:{sink}"


def mark_of(directory: Directory) -> str:
    """Return what no other network has, short enough for names of files."""
    return hashlib.sha256(directory.seal.encode()).hexdigest()[:8]


def running_sink(network: str, sink: str) -> FileSink:
    """Return a sink that runs, by its name.

    Raises
    ------
    InputError
        If there is none.
    """
    found = running(network, "sink", sink_name(network, sink))
    if found is None:
        raise InputError(f"network {network!r} has no sink {sink!r}")
    with broker_errors(f"sink {sink!r}", "the sink"):
        config: SinkConfig = ray.get(_control(found.config).remote(), timeout=END_SECONDS)
    return FileSink(config, found)


def asked_sinks(directory: Directory) -> dict[str, ObjectRef]:
    """Ask each sink for its status, and return the calls by its name; the argument for `sinks_said`."""
    if not directory.features.heals:
        return {}
    before = sink_name(directory.name, "")
    with suppress(RayError):
        return {
            name.removeprefix(before): _control(made.status, max_task_retries=0).remote()
            for name, made in actors_of(directory.name, "sink").items()
        }
    return {}


def sinks_said(asked: dict[str, ObjectRef], seconds: float) -> tuple[SinkStatus, ...]:
    """Return the status of each sink; one that does not answer in time is silent."""
    if asked:
        ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds)
    return tuple(_said(name, call) for name, call in sorted(asked.items()))


def _said(name: str, call: ObjectRef) -> SinkStatus:
    try:
        status: SinkStatus = ray.get(call, timeout=0)
    except (RayError, GetTimeoutError):
        return SinkStatus(name, "", "silent")
    return status


def end_sinks(directory: Directory) -> None:
    """End the sinks of a network: each writes and acknowledges what it has, if it can."""
    close_actors(
        directory, "sink", lambda each: _control(each.finish, max_task_retries=0).remote("close"), END_SECONDS
    )
