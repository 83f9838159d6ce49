"""The `Datasink` of Ray Data that publishes rows, for `writing`, whose rules it has; it imports Ray Data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ray.data import Datasink

from ...actors.network.network import Network
from ...protocol.errors import InputError
from .rows import beyond, parts_of

if TYPE_CHECKING:
    from ray.data._internal.execution.interfaces import TaskContext


class EventsDatasink(Datasink):  # type: ignore[misc]  # Ray Data has no types here
    """Publishes the rows of a dataset.

    Parameters
    ----------
    network
        The name of the network.
    publisher
        What the names of the publishers begin with.
    durable
        Whether a publisher knows what an earlier try has published.
    rows
        How many rows a write task gets at least.
    """

    def __init__(self, network: str, publisher: str, durable: bool, rows: int) -> None:
        self._network, self._publisher, self._durable, self._rows = network, publisher, durable, rows
        self._begun = False

    def on_write_start(self, schema: object = None) -> None:
        """Begin the one write of this sink.

        Raises
        ------
        InputError
            If it has written a dataset before: its publishers would take the rows for those of a repeated task.
        """
        if self._begun:
            raise InputError("this rv.Sink has written a dataset: make another one for each dataset")
        self._begun = True

    @property
    def min_rows_per_write(self) -> int:
        """How many rows a write task gets at least."""
        return self._rows

    def get_name(self) -> str:
        """Return the name of the write tasks."""
        return "Rayvous"

    def write(self, blocks: Iterable[object], ctx: TaskContext) -> int:
        """Publish the rows of one write task; return how many of them were not published before."""
        net = Network.attach(self._network)
        try:
            publisher = net.publisher(f"{self._publisher}/{ctx.task_idx}", durable=self._durable)
            published = publisher.published
            for batch in beyond(published, parts_of(blocks)):
                publisher.publish_batch(batch)
            publisher.flush()
            return int(publisher.published - published)
        finally:
            net.close()
