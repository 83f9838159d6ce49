"""The rows of a dataset of Ray Data as events.

Rules
-----
* Each write task publishes its rows in their order, under a publisher of its own: tasks run beside each other.
* In a network that heals, a task that Ray repeats goes on after the last event that the first try had published, since
  its publisher is durable. So each row is published once. Elsewhere a repeated task publishes its rows again.
* A sink writes one dataset. A second one would begin at the same publishers, and its rows would be taken for repeated
  ones, so it is refused.
* `_publisher`, `_sequence` and the other columns that are no attributes (`actors.clients.record_batches`) are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from ...actors.network.network import Network
from ...protocol import checks
from ...protocol.extras import require

if TYPE_CHECKING:
    from .datasink import EventsDatasink

ROWS_PER_WRITE: Final = 100_000
"""How many rows a write task gets at least: it takes a second or two to join the network."""


def Sink(  # noqa: N802  # it makes one, and Ray Data is not imported before
    net: Network, name: str, *, rows_per_write: int = ROWS_PER_WRITE
) -> EventsDatasink:
    """Return what publishes the rows of one dataset: ``dataset.write_datasink(rv.Sink(net, "faa"))``.

    Parameters
    ----------
    net
        A network that other processes can attach to by its name.
    name
        The publishers are called ``name/run/task``; `run` is drawn for each sink.
    rows_per_write
        How many rows a write task gets at least.

    Raises
    ------
    InputError
        If an argument is wrong.
    MissingExtra
        If Ray Data is not installed.
    """
    checks.instance("net", net, Network, "a Network")
    publisher = f"{checks.text('name', name)}/{uuid4().hex[:8]}"
    rows = checks.whole_number("rows_per_write", rows_per_write, 1)
    require("data")
    from .datasink import EventsDatasink

    return EventsDatasink(net.name, publisher, net.inspect.heals, rows)
