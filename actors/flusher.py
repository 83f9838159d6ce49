"""The side of a publisher that asks whether all that it published is delivered.

Rule: the answer comes from the brokers (`faults.flushing`). A question that is asked at a broker that dies is asked
again at the next one, where all that is kept has been published again before.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import ray

from ..protocol import checks
from ..protocol.errors import InputError
from ..protocol.ids import BrokerId
from ..protocol.messages import Flush
from .advertiser import Advertiser


class Flusher(Advertiser):
    """What :class:`~.publisher.Publisher` does about delivery."""

    _turn: threading.Lock
    _questions: Iterator[int] = itertools.count(1)

    def flush(self, *, timeout_seconds: float | None = None) -> None:
        """Wait until all that was published so far is delivered.

        Delivered means: every subscriber in the tree whose subscription matched has it in its process; for a durable
        one its broker keeps it. While the network heals it waits for the round that makes good what was missed.

        Parameters
        ----------
        timeout_seconds
            How long to wait; None for the network's `call_seconds`.

        Raises
        ------
        InputError
            If the network does not heal.
        BrokerUnavailable
            If it is not delivered in time, which says nothing of what comes later.
        """
        self._open()
        seconds = checks.optional_seconds("timeout_seconds", timeout_seconds)
        if self._recovery is None:
            raise InputError(
                "flush: this network does not heal; launch it with recovery=Recovery(), or use settle()"
            )
        if seconds is None:
            seconds = self._directory.limits.call_seconds

        def call(host: Any, broker: BrokerId, again: bool, left: float) -> None:
            question = Flush(next(self._questions))
            ray.get(host.request.remote(broker, self.name, [question]), timeout=left)

        with self._turn:
            self._open()
            self._ask(call, seconds)

    async def flush_async(self, *, timeout_seconds: float | None = None) -> None:
        """Wait from a coroutine until all is delivered; see `flush`."""
        await asyncio.to_thread(self.flush, timeout_seconds=timeout_seconds)
