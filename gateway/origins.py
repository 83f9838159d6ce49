"""Which web pages may come: a browser says whose page opens a WebSocket, and leaves it to the server to refuse."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from ..protocol import checks
from ..protocol.errors import InputError


def check_origin(headers: Mapping[str, str], origins: Collection[str]) -> None:
    """Return if a connection may be opened.

    Parameters
    ----------
    headers
        Those with which it is opened, by names in small letters: whose page does so (``origin``; none if no page does),
        and what it calls the gateway (``host``), whose own pages may come.
    origins
        Pages of other hosts that may come; ``"*"`` lets all.

    Raises
    ------
    InputError
        If pages of that host may not come.
    """
    origin, host = headers.get("origin"), headers.get("host")
    if origin is None or {"*", origin} & {*origins} or (host and _host_of(origin) == host):
        return
    raise InputError(f"pages of {checks.shown(origin)} are not let in (origins)")


def _host_of(origin: str) -> str:
    """Return the host and port of an origin; empty when it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
