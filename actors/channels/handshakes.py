"""The handshake of TLS on a connection that a process accepts, before its channel greets.

Rule: whatever becomes of a handshake, its channel learns the end of the connection, and can end it meanwhile. asyncio
itself tells a protocol of a connection only when the handshake has succeeded, so that connections that say nothing
could not be counted.
"""

from __future__ import annotations

import asyncio

from .channel import GREETING_SECONDS, Channel
from .config import Tls


class Handshake(asyncio.Protocol):
    """What a connection that was accepted says first.

    Parameters
    ----------
    channel
        The channel that the connection becomes.
    tls
        The settings of this process.
    """

    def __init__(self, channel: Channel, tls: Tls) -> None:
        self._channel = channel
        self._tls = tls
        self._early = _Early()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # until TLS reads
        self._channel.transport = transport
        self._task = asyncio.get_running_loop().create_task(self._shake(transport))

    async def _shake(self, plain: asyncio.Transport) -> None:
        loop, channel = asyncio.get_running_loop(), self._channel
        why = "it leaves in the handshake of TLS"
        try:
            transport = await loop.start_tls(
                plain,
                self._early,
                self._tls.context,
                server_side=True,
                ssl_handshake_timeout=GREETING_SECONDS,
            )
        except OSError as error:  # all that TLS finds wrong
            transport, why = None, f"no handshake of TLS: {error}"
        except BaseException:
            plain.abort()
            channel.fail("this process ends")
            raise
        if transport is None:  # also if it was aborted meanwhile
            plain.abort()
            channel.fail(why)
            return
        channel.certify(self._tls.certificate)
        channel.connection_made(transport)
        transport.set_protocol(channel)
        if self._early.data:
            channel.data_received(bytes(self._early.data))
        if self._early.ended:
            channel.connection_lost(None)


class _Early(asyncio.Protocol):
    """Takes what arrives between the end of the handshake and the beginning of the greeting."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = False

    def data_received(self, data: bytes) -> None:
        """Keep it."""
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep that, too."""
        self.ended = True
