"""The multicast group of a cluster, on Ray: one object in the store, read by every member (paper 1: MC).

Rule: a load that is large is put into the object store once and its reference goes to the members, so a node holds one
copy however many members read it. A small one travels inside the calls, which is quicker than a trip to the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ray

from ..protocol.ids import BrokerId
from ..protocol.messages import BrokerMessage, Events

_LOG = logging.getLogger("rayvous.host")

INLINE_BYTES_MAX: Final = 65_536


@dataclass(frozen=True, slots=True)
class Peer:
    """A neighbouring broker and how to hand it messages: ``receive(to, source, messages)``."""

    broker: BrokerId
    receive: Callable[[BrokerId, BrokerId, Any], Awaitable[object]]
    local: bool


class MulticastGroup:
    """The other members of one broker's cluster and how to reach each.

    Parameters
    ----------
    broker
        Whose group it is.
    fellows
        All other members.
    """

    def __init__(self, broker: BrokerId, fellows: Sequence[Peer]) -> None:
        self.broker = broker
        self._fellows = tuple(fellows)

    async def fly(self, load: list[BrokerMessage]) -> int:
        """Take a load to every member and return how many did not get it; one that is gone does not stop the others."""
        size = sum(message.batch.nbytes for message in load if isinstance(message, Events))
        remote = sum(not fellow.local for fellow in self._fellows)
        shared: Any = ray.put(load) if size > INLINE_BYTES_MAX and remote > 1 else load
        calls = [
            fellow.receive(fellow.broker, self.broker, load if fellow.local else shared)
            for fellow in self._fellows
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        if errors:
            _LOG.warning(
                "broker %d to its group: lost for %d members: %s", self.broker, len(errors), errors[0]
            )
        return len(errors)
