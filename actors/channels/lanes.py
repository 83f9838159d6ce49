"""Which carrier the calls of one sender to one receiver take: the channel, or Ray.

Rule: calls of one lane begin at the receiver in the order in which they were made. Either carrier keeps the order of
its own calls, so a lane changes from one to the other only while none of its calls is unanswered.
"""

from __future__ import annotations

import asyncio
import threading


class Lane:
    """The calls of one sender to one receiver; on the event loop of the channel, or counted by other threads, too."""

    __slots__ = ("_changed", "_turn", "direct", "out")

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._changed: asyncio.Event | None = None
        self.direct = False
        self.out = 0  # calls without an answer

    def enter(self, direct: bool) -> bool:
        """Count a call that prefers this carrier; return whether it goes by the channel."""
        with self._turn:
            if not self.out:
                self.direct = direct
            self.out += 1
            return self.direct

    def enter_channel(self) -> bool:
        """Count a call that goes by the channel, if one that is made now may; return whether it does."""
        with self._turn:
            if self.out and not self.direct:
                return False
            self.direct = True
            self.out += 1
            return True

    async def enter_ray(self) -> None:
        """Count a call that has to go by Ray, once no call is under way in the channel."""
        while self.out and self.direct:
            changed = self._changed = self._changed or asyncio.Event()
            await changed.wait()
        with self._turn:
            self.direct = False
            self.out += 1

    def leave(self) -> None:
        """Note the end of a call."""
        with self._turn:
            self.out -= 1
        if self._changed is not None and not self.out:
            self._changed.set()
            self._changed = None
