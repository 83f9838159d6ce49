"""What the headers of a client's frame ask for. A header that asks for nothing possible is `Refused`.

Reference: STOMP 1.2, "Heart-beating"; the headers of RabbitMQ, ActiveMQ and Artemis.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ...protocol import checks
from ...protocol.errors import InputError
from ..terms import Terms
from .frames import Frame
from .runs import KEY_HEADERS

_BEATS: Final = re.compile(r"[ \t]*([0-9]{1,9})[ \t]*,[ \t]*([0-9]{1,9})[ \t]*", re.ASCII)
_PREFETCH_HEADERS: Final = ("prefetch-count", "activemq.prefetchSize")


class Refused(InputError):
    """A frame asks for something that STOMP 1.2, or this gateway, does not allow."""


def needed(frame: Frame, header: str) -> str:
    """Return a header that a frame must have."""
    value = frame.headers.get(header)
    if not value:
        raise Refused(f"{frame.command} needs a header {header}")
    return value


def beats_of(frame: Frame) -> tuple[float, float]:
    """Return the seconds between heart-beats that a client sends, and between those that it wants; 0 for none."""
    beats = _BEATS.fullmatch(frame.headers.get("heart-beat", "0,0"))
    if beats is None:
        raise Refused("heart-beat must be two numbers of milliseconds, such as heart-beat:10000,10000")
    return int(beats[1]) / 1000, int(beats[2]) / 1000


def key_of(frame: Frame) -> tuple[str | None, Frame]:
    """Return the key of a frame, if any, and the frame without it: the key is not an attribute of the event."""
    keys = [frame.headers[header] for header in KEY_HEADERS if header in frame.headers]
    if not keys:
        return None, frame
    if len(keys) > 1:
        raise Refused(f"{' and '.join(KEY_HEADERS)} mean the same: send only one of them")
    headers = {name: value for name, value in frame.headers.items() if name not in KEY_HEADERS}
    return keys[0], replace(frame, headers=headers)


def terms_of(frame: Frame) -> Terms:
    """Return what a subscription asks of admission control, and where it begins."""
    try:
        return Terms.of(*map(frame.headers.get, ("priority", "max-delay", "at", "last-per")))
    except InputError as error:
        raise Refused(str(error)) from None


def prefetch_of(frame: Frame, most: int) -> int:
    """Return how many messages of a subscription may be open."""
    for header in _PREFETCH_HEADERS:
        if (given := frame.headers.get(header)) is not None:
            if not (given.isascii() and given.isdigit() and len(given) < 10 and int(given)):
                raise Refused(f"{header} is {checks.shown(given)}: it must be a whole number above 0")
            return min(int(given), most)
    return most
