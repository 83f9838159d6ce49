"""Which web pages may come: a browser says whose page opens a WebSocket, and leaves it to the server to refuse."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit


def is_welcome(origin: str | None, host: str, origins: Collection[str]) -> bool:
    """Return whether a connection may be opened.

    Parameters
    ----------
    origin
        Whose page opens it; None for what is no page.
    host
        What the client calls the gateway; its own pages may come.
    origins
        Pages of other hosts that may come; ``"*"`` lets all.
    """
    return origin is None or "*" in origins or origin in origins or urlsplit(origin).netloc == host
