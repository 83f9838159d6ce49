"""From where web pages may come, and under which names the gateway may be addressed.

Rules
-----
* A browser names the page that opens a WebSocket; the server has to refuse pages of other hosts.
* A page of another host can make its own name lead to the gateway's address (DNS rebinding), and is then a page of
  the same host for the browser. So a request has to address the gateway by one of its names. An address is always
  one: a name has to be resolved to be rebound.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from ..protocol import checks
from ..protocol.errors import InputError

LOCALHOST: Final = "localhost"


class OtherHost(InputError):
    """A request addresses a host that is not a name of this gateway."""


def check_host(host: str, hosts: Collection[str]) -> None:
    """Raise OtherHost if a request may not address the gateway by this name.

    Parameters
    ----------
    host
        The header ``Host`` of the request: a name or an address, perhaps with a port.
    hosts
        The names of the gateway, beside addresses and ``localhost``. ``"*.example.org"`` stands for all names below
        ``example.org``, and ``"*"`` for all names.
    """
    name = _name_of(host)
    if name == LOCALHOST or _is_address(name):
        return
    for each in hosts:
        allowed = each.lower().rstrip(".")
        if allowed in ("*", name) or (allowed.startswith("*.") and name.endswith(allowed[1:])):
            return
    raise OtherHost(
        f"Host {checks.shown(name)} is not a name of this gateway: list it in hosts of [gateway], or give --allow-host"
    )


def _name_of(host: str) -> str:
    """Return a host without its port and the brackets of an address, in lower case."""
    name, colon, port = host.strip().lower().rpartition(":")
    if not colon or not (port.isdigit() or not port) or (":" in name and not name.startswith("[")):
        name = host.strip().lower()
    return name.removeprefix("[").removesuffix("]").rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


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
