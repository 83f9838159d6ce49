"""The polls of a client process."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from packed_calls import PackedCalls
from rayvous.actors.clients.inbox import Inbox
from rayvous.actors.clients.process import ClientProcess


class Host(PackedCalls):
    """The actor of a broker, which has nothing to tell; it counts how often it is compared with another."""

    def __init__(self, polls: int) -> None:
        self.compared, self.polls, self.left = 0, polls, polls
        self.done = threading.Event()
        self.poll = SimpleNamespace(remote=self._poll)
        self.end_session = SimpleNamespace(remote=lambda *_: None)

    def __eq__(self, other: object) -> bool:
        self.compared += 1
        return self is other

    def __hash__(self) -> int:
        return id(self)

    async def _poll(self, *_: Any) -> list[Any]:
        self.left -= 1
        if self.left < 0:
            self.done.set()
            await asyncio.Event().wait()
        return []


def test_a_poll_compares_no_more_handles_when_there_are_more_subscribers() -> None:
    """A gateway has thousands in one process, and a comparison of handles takes a third of a microsecond."""
    for patience in (None, 60.0):
        process, host = ClientProcess("test", patience), Host(polls=20)
        try:
            for number in range(50):
                process.watch(host, f"subscriber {number}", Inbox(host, 10, None), 0)
            assert host.done.wait(20)
            assert host.compared < host.polls
        finally:
            process.close()
