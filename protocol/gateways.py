"""Configuration of gateways (addresses, access rights and limits): the sections of the network file.

Rules
-----
* Tokens are stored as SHA-256 digests. A token is 256 random bits (``rayvous token``), so a digest reveals nothing.
* Rights are selectors, stored as text; `gateway.access` makes filters of them.
* A client without a token is accepted only where `anonymous` defines its rights.
* Every queue, request and wait of a gateway has its limit here (promise 9).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from . import checks
from .errors import InputError
from .node_places import NodePlace

Slow: TypeAlias = Literal["shed", "cut"]
SLOW: Final = ("shed", "cut")
NOBODY: Final = "FALSE"
PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
ANONYMOUS: Final = "anonymous"
HOST: Final = re.compile(r"\*|(?:\*\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?", re.ASCII)
ACTOR: Final = "rayvous.gateway.on_nodes:GatewayActor"
"""The class of the actors that serve, named as schemes and backends of users are: what starts them stands below it."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def digest_of(token: str) -> str:
    """Return the digest of a token, the form in which it is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Principal:
    """The rights and limits of one principal.

    Attributes
    ----------
    token_sha256
        The digests of its tokens. Each of them is valid, so that tokens can be rotated.
    publish, subscribe
        Selectors. It may publish the events that the first matches, and subscribe to filters that the second covers.
    watch, operate
        Whether it may see the state of the network on the live page, and whether it may kill brokers there.
    events_per_second, burst_events
        The token bucket for its publications: rate and burst. A burst of None is one second's events.
    connections_max
        Concurrent connections (and requests in progress) at each gateway.
    streams_max
        Concurrent subscriptions over all its connections to a gateway.
    durables_max
        Durable names that it may use at a gateway.
    priority_max
        The highest priority that its subscriptions may ask for: with admission control others are degraded first, and
        may be refused for it.
    max_delay
        Whether its subscriptions may ask for a `max_delay`, for which brokers refuse others.

    These limits apply at each gateway separately, unless `GatewayConfig.share_limits` divides them among the gateways
    (`shared`). Durable names are not divided: they may be used at any gateway, and are released where they end.
    """

    token_sha256: tuple[str, ...] = ()
    publish: str = NOBODY
    subscribe: str = NOBODY
    watch: bool = False
    operate: bool = False
    events_per_second: float = 1_000.0
    burst_events: int | None = None
    connections_max: int = 64
    streams_max: int = 64
    durables_max: int = 16
    priority_max: int = 0
    max_delay: bool = False

    def validate(self, name: str = "principal") -> Principal:
        """Validate the principal and return it; InputError, with its name, if a field is invalid."""
        for digest in checks.texts(f"{name} token_sha256", self.token_sha256):
            if not _DIGEST.fullmatch(digest):
                raise InputError(
                    f"{name} token_sha256 is {checks.shown(digest)}: it must be 64 hexadecimal digits; "
                    "`rayvous token` creates a token and its digest"
                )
        for right in ("publish", "subscribe"):
            if not checks.text(f"{name} {right}", getattr(self, right)).strip():
                raise InputError(
                    f"{name} {right} is empty, which as a selector is everything: write TRUE for that, "
                    f"{NOBODY} for nothing"
                )
        for right in ("watch", "operate", "max_delay"):
            checks.instance(f"{name} {right}", getattr(self, right), bool, "true or false")
        checks.whole_number(f"{name} priority_max", self.priority_max)
        skip = ("token_sha256", "publish", "subscribe", "watch", "operate", "priority_max", "max_delay")
        checks.positive_fields(self, name, skip=skip, none=("burst_events",))
        return self

    def shared(self, gateways: int) -> Principal:
        """Return the share of each of so many gateways, so that together they allow what this principal is allowed.

        Each gateway allows at least one of every counted resource, so together they may allow as many as there are
        gateways. Durable names are not divided: a name that is used at several gateways counts at each of them.
        """
        if gateways == 1:
            return self
        burst = self.events_per_second if self.burst_events is None else self.burst_events
        return replace(
            self,
            events_per_second=self.events_per_second / gateways,
            burst_events=max(1, int(burst / gateways)),
            connections_max=max(1, self.connections_max // gateways),
            streams_max=max(1, self.streams_max // gateways),
        )


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """Access to a network from outside Ray: the section ``[access]``.

    Attributes
    ----------
    principals
        The principals by name.
    anonymous
        The rights of clients without a token; None rejects them.
    """

    principals: dict[str, Principal] = field(default_factory=dict)
    anonymous: Principal | None = None

    def validate(self) -> AccessConfig:
        """Validate the section and return it.

        Raises
        ------
        InputError
            If a name, a digest or a number is invalid, or two principals share a token.
        """
        owners: dict[str, str] = {}
        checks.instance("access principals", self.principals, dict, "a mapping from name to Principal")
        checks.optional("access anonymous", self.anonymous, Principal, "a Principal")
        for name, principal in self.principals.items():
            if not isinstance(name, str) or not PRINCIPAL.fullmatch(name) or name == ANONYMOUS:
                raise InputError(
                    f"access principals {checks.shown(name)}: a name is up to 64 letters, digits, '.', '-' and '_', "
                    f"and not {ANONYMOUS!r}"
                )
            checks.instance(f"access principals {name}", principal, Principal, "a Principal").validate(
                f"access principals {name}"
            )
            if not principal.token_sha256:
                raise InputError(
                    f"access principals {name}: token_sha256 is missing, so nobody could log in as it"
                )
            for digest in principal.token_sha256:
                if owners.setdefault(digest, name) != name:
                    raise InputError(f"access principals {name}: has a token of {owners[digest]}")
        if self.anonymous is not None:
            self.anonymous.validate(f"access {ANONYMOUS}")
            if self.anonymous.token_sha256:
                raise InputError(
                    "access anonymous: it takes no token_sha256: a client without a token is anonymous"
                )
        if not self.principals and self.anonymous is None:
            raise InputError("access: it names nobody, so nobody could connect")
        return self


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Limits on what a gateway accepts and queues: the section ``[gateway.limits]``.

    Attributes
    ----------
    connections_max
        Concurrent connections of all clients; more are refused.
    header_bytes_max, body_bytes_max, bodies_bytes_max
        Size of one request's header and body; and of all bodies in progress together.
    batch_events_max
        Events in one request or message.
    selector_characters_max, selector_clauses_max
        Size of a subscription's selector, and the number of clauses of its normal form.
    queue_events_max, queue_bytes_max
        The queue of one stream. When the queue is full, a durable stream waits while its broker retains new
        events; `slow` defines what happens to any other stream.
    slow
        The policy for a full queue of a stream that is not durable: ``"shed"`` drops the oldest events and
        reports which, ``"cut"`` ends the stream.
    unacknowledged_max
        Deliveries of a durable stream that may be unacknowledged; at the limit the stream waits.
    publishing_events_max
        Events of one principal that may wait to be accepted; more are refused.
    rate_wait_seconds
        How long a client that publishes too fast is delayed; a client that would have to wait longer is refused.
    request_seconds
        How long a request may take to arrive: its header, then its body.
    stall_seconds
        How long a client may read nothing of what was sent to it.
    heartbeat_seconds
        The time between two heartbeats of an idle stream.
    stomp_heartbeat_seconds
        The shortest interval of heart-beats that a STOMP client gets if it asks for it.
    """

    connections_max: int = 1_000
    header_bytes_max: int = 16_384
    body_bytes_max: int = 4 << 20
    bodies_bytes_max: int = 64 << 20
    batch_events_max: int = 10_000
    selector_characters_max: int = 4_096
    selector_clauses_max: int = 64
    queue_events_max: int = 1_000
    queue_bytes_max: int = 1 << 20
    slow: Slow = "shed"
    unacknowledged_max: int = 1_000
    publishing_events_max: int = 100_000
    rate_wait_seconds: float = 1.0
    request_seconds: float = 10.0
    stall_seconds: float = 15.0
    heartbeat_seconds: float = 15.0
    stomp_heartbeat_seconds: float = 1.0

    def validate(self) -> GatewayLimits:
        """Validate the limits and return them; InputError if one is not a number above 0."""
        checks.one_of("gateway limits slow", self.slow, SLOW)
        checks.positive_fields(self, "gateway limits", skip=("slow",))
        return self


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The addresses and settings of a gateway: the section ``[gateway]``.

    Attributes
    ----------
    http
        Address and port for HTTP and WebSocket, ``"host:port"``; port 0 selects any free port.
    stomp
        Address and port for STOMP; None disables STOMP.
    stomp_processes
        Processes on each node that serve STOMP at that address; the first one also serves HTTP.
    certificate, private_key
        PEM files for TLS; both or none.
    origins
        Origins of web pages of other hosts that may connect, for example ``"https://app.example.org"``.
    hosts
        Names by which clients address the gateway, for example of a proxy before it: ``"events.example.org"``,
        ``"*.example.org"``, or ``"*"`` for any. Addresses, ``localhost``, the name in `http` and the name of the
        machine are allowed anyway.
    share_limits
        Whether the limits of a principal apply to the gateways of all nodes together; each gateway allows an equal
        share.
    place
        The nodes that have a gateway, and what each takes there; None for those on which brokers may run.
    limits
        Limits on what the gateway accepts and queues.
    """

    http: str = "127.0.0.1:8080"
    stomp: str | None = None
    stomp_processes: int = 1
    certificate: str | Path | None = None
    private_key: str | Path | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    share_limits: bool = False
    place: NodePlace | None = None
    limits: GatewayLimits = field(default_factory=GatewayLimits)

    def validate(self) -> GatewayConfig:
        """Validate the section and return it; InputError if an address, a file or a limit is invalid."""
        address_of("gateway http", self.http)
        if self.stomp is not None:
            address_of("gateway stomp", self.stomp)
        checks.whole_number("gateway stomp_processes", self.stomp_processes, 1)
        if self.stomp_processes > 1 and (
            self.stomp is None or address_of("gateway stomp", self.stomp)[1] == 0
        ):
            raise InputError("gateway stomp_processes: several take stomp with a port, which they share")
        for name in ("certificate", "private_key"):
            if getattr(self, name) is not None:
                checks.path(f"gateway {name}", getattr(self, name))
        if (self.certificate is None) != (self.private_key is None):
            raise InputError("gateway certificate and private_key: TLS takes both")
        checks.texts("gateway origins", self.origins)
        for name in checks.texts("gateway hosts", self.hosts):
            if not HOST.fullmatch(name):
                raise checks.wrong("gateway hosts", name, "a name without a port, *.name, or *")
        checks.flag("gateway share_limits", self.share_limits)
        if (place := checks.optional("gateway place", self.place, NodePlace, "a NodePlace()")) is not None:
            place.validate("gateway place")
        checks.instance("gateway limits", self.limits, GatewayLimits, "GatewayLimits").validate()
        return self

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.certificate is not None


def address_of(name: str, text: str) -> tuple[str, int]:
    """Parse ``host:port``; InputError if the text is invalid. An IPv6 address is in brackets."""
    host, colon, port = checks.text(name, text).rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise checks.wrong(name, text, "an address and a port, for example 127.0.0.1:8080")
    return host.removeprefix("[").removesuffix("]"), int(port)
