"""The clients of a run on Ray: each does what the case says in a thread of its own, and everything is written down.

Rules
-----
* A client does one thing after the other, each not before its time; what takes long delays what comes after it.
* A subscription counts as confirmed when `subscribe` has returned, an event as published when `publish` was called.
* An error of a call is a finding: in a network that heals in time no call fails.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..chaos.cases import Action
from ..faults.trace import Trace
from ..protocol.errors import RayvousError
from .clients import Publisher, Subscriber
from .network import Network

LISTEN_SECONDS: Final = 0.05


class Players:
    """All clients of a run.

    Parameters
    ----------
    net
        The network.
    clock
        Returns the seconds of the run.
    zero
        When the clock was 0, in seconds since 1970.
    finding
        Called with a sentence for each call that failed.

    Attributes
    ----------
    account
        What clients did and heard.
    """

    def __init__(
        self, net: Network, clock: Callable[[], float], zero: float, finding: Callable[[str], None]
    ) -> None:
        self.account = Trace()
        self._net = net
        self._clock = clock
        self._zero = zero
        self._finding = finding
        self._clients: dict[str, Publisher | Subscriber] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def moves(self) -> int:
        """How often a client has changed its broker."""
        return sum(client.moves for client in self._clients.values())

    def play(self, actions: Sequence[Action], start: float) -> list[threading.Thread]:
        """Begin to do these things, counted from `start`; return the threads that do, one a client."""
        by_client: dict[str, list[Action]] = {}
        for action in actions:
            by_client.setdefault(action.client, []).append(action)
            if action.client not in self._clients:
                attach = self._net.publisher if action.do == "publish" else self._net.subscriber
                self._clients[action.client] = attach(action.client, broker=action.broker)
        threads = [
            threading.Thread(target=self._do_all, args=(mine, start), daemon=True, name=client)
            for client, mine in by_client.items()
        ]
        for thread in threads:
            thread.start()
        return threads

    def await_end(self, threads: Iterable[threading.Thread], seconds: float) -> None:
        """Wait until all is done; what is not by then is a finding."""
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._finding(f"{thread.name} hangs in a call")

    def close(self) -> None:
        """Write down what is there to be heard, and listen no more."""
        self._ended.set()
        self._listener.join()
        self._hear_all()

    def _do_all(self, actions: Sequence[Action], start: float) -> None:
        for action in actions:
            time.sleep(max(0.0, start + action.at_seconds - self._clock()))
            try:
                self._do(action, self._clients[action.client])
            except RayvousError as error:
                self._finding(
                    f"{self._clock():.3f} s: {action.client} cannot {action.do}: "
                    f"{type(error).__name__}: {error}"
                )

    def _do(self, action: Action, client: Publisher | Subscriber) -> None:
        if action.do == "move":
            client.move_to(action.broker)
        elif isinstance(client, Publisher):
            with self._turn:
                self.account.published(
                    self._clock(), action.client, client.published + 1, list(action.events)
                )
            client.publish_batch(list(action.events))
        elif action.do == "subscribe":
            with self._turn:
                self.account.subscribed(self._clock(), action.client, action.number, action.selector)
            self._numbers[action.client, action.number] = client.subscribe(action.selector)
            with self._turn:
                self.account.confirmed(self._clock(), action.client, action.number)
        elif (number := self._numbers.get((action.client, action.number))) is not None:
            with self._turn:
                self.account.cancelled(self._clock(), action.client, action.number)
            client.unsubscribe(number)

    def _listen(self) -> None:
        while not self._ended.wait(LISTEN_SECONDS):
            self._hear_all()

    def _hear_all(self) -> None:
        for name, client in list(self._clients.items()):
            if isinstance(client, Subscriber):
                try:
                    self._hear(name, client)
                except RayvousError as error:
                    self._finding(f"{name} cannot listen: {error}")

    def _hear(self, name: str, client: Subscriber) -> None:
        for arrival in client.batches(timeout_seconds=0):
            with self._turn:
                for row in arrival.rows.tolist():
                    publisher, sequence = arrival.batch.identity(row)
                    self.account.notified(arrival.received_at - self._zero, name, publisher, sequence)
