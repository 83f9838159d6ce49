"""What a process needs to open channels in a network, and where a host can be reached."""

from __future__ import annotations

import os
import re
import secrets
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from ...protocol.errors import InputError
from .connection import NAME_BYTES, SECRET_BYTES

Links: TypeAlias = Literal["direct", "ray"]
LINKS: Final[tuple[Links, ...]] = ("direct", "ray")
LINKS_DEFAULT: Final[Links] = "direct"

_RANGE: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """How the processes of a network know each other. Only Ray hands it out.

    Attributes
    ----------
    network
        Random bytes that stand for the network.
    secret
        What each end of a channel proves to have.
    ports
        The ports at which hosts listen, first and last; None for any that is free.
    """

    network: bytes
    secret: bytes = field(repr=False)
    ports: tuple[int, int] | None = None


class Door(NamedTuple):
    """Where the channels of a host are opened.

    Attributes
    ----------
    node
        The Ray node of the host.
    name
        The name of the process in greetings.
    address, port
        Where it listens.
    pid
        The process, on its node.
    """

    node: str
    name: bytes
    address: str
    port: int
    pid: int


def channels_of(links: Links, ports: str | None) -> ChannelConfig | None:
    """Return the configuration of a new network; None if its links use calls of Ray only."""
    if links == "ray":
        return None
    return ChannelConfig(secrets.token_bytes(NAME_BYTES), secrets.token_bytes(SECRET_BYTES), ports_of(ports))


def ports_of(text: str | None) -> tuple[int, int] | None:
    """Return the range that a text such as ``"20000-20100"`` names.

    Raises
    ------
    InputError
        If it names none.
    """
    if text is None:
        return None
    found = _RANGE.fullmatch(text) if isinstance(text, str) else None
    first = int(found[1]) if found else 0
    last = int(found[2] or first) if found else 0
    if not 0 < first <= last <= PORT_MAX:
        raise InputError(f"ports: is {text!r}: it must be a range of ports such as '20000-20100'")
    return first, last


class Tls(NamedTuple):
    """The TLS settings of one end.

    Attributes
    ----------
    context
        For the handshake.
    certificate
        The certificate of this end, in binary form.
    """

    context: ssl.SSLContext
    certificate: bytes


def tls_of_ray(*, server: bool) -> Tls | None:
    """Return the TLS settings that Ray uses in this process; None if Ray runs without TLS.

    Both ends show a certificate of Ray's authority. The names in it are not checked: that of the end that has accepted
    is part of what both ends prove (`Connection.certificate`), so nobody else can stand between them.
    """
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(os.environ["RAY_TLS_CA_CERT"])
    chain = os.environ["RAY_TLS_SERVER_CERT"]
    context.load_cert_chain(chain, os.environ["RAY_TLS_SERVER_KEY"])
    text = Path(chain).read_text("ascii", errors="replace")
    first = text[text.index(ssl.PEM_HEADER) : text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]
    return Tls(context, ssl.PEM_cert_to_DER_cert(first))
