"""Join a running network, for verbs that work on one by its name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from ..actors.network.network import Network

ADDRESS_VARIABLE: Final = "RAY_ADDRESS"

NetworkName = Annotated[
    str, typer.Argument(metavar="NETWORK", help="Name of the network; see rayvous networks.")
]
Address = Annotated[
    str | None,
    typer.Option(
        envvar=ADDRESS_VARIABLE,
        help="Ray cluster: host:port or ray://host:port \\[the one on this machine].",
    ),
]


def use_ray(address: str | None) -> None:
    """Set the address of Ray from now on; None leaves it unchanged."""
    if address is not None and address != "auto":
        os.environ[ADDRESS_VARIABLE] = address


@contextmanager
def joined(name: str, address: str | None) -> Iterator[Network]:
    """Join the network of that name while the block runs.

    Raises
    ------
    NetworkNotFound
        If there is no such network.
    """
    from ..actors.network.network import Network

    use_ray(address)
    net = Network.attach(name)
    try:
        yield net
    finally:
        net.close()
