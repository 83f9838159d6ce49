"""Allowed origins of web pages: a browser names the page that opens a WebSocket; the server has to refuse it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from ..protocol import checks
from ..protocol.errors import InputError


def check_origin(headers: Mapping[str, str], origins: Collection[str]) -> None:
    """Raise InputError if a web page of this origin may not open a connection.

    Parameters
    ----------
    headers
        The headers of the request, with names in lower case: the origin of the page (``origin``; absent
        without a page), and the name by which it addresses the gateway (``host``), whose own pages are
        allowed.
    origins
        Origins of other hosts that are allowed; ``"*"`` allows all.

    Raises
    ------
    InputError
        If pages of that origin are not allowed.
    """
    origin, host = headers.get("origin"), headers.get("host")
    if origin is None or {"*", origin} & {*origins} or (host and _host_of(origin) == host):
        return
    raise InputError(f"pages of {checks.shown(origin)} are not allowed (origins)")


def _host_of(origin: str) -> str:
    """Return the host and port of an origin; empty if it is invalid."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
