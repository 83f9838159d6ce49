"""The canary of a game day: publishers and subscribers of its own in a running network, judged while it is broken.

Rules
-----
* Its events have the attribute ``game_day`` with a word of their own, and its subscriptions ask for that word: it gets
  nothing of other clients. Other clients get its events only if their filters match what has none of their attributes.
* It is judged in parts. At a check it publishes nothing until everything has arrived, and the part since the last
  check is judged as settled. Between checks what has come is judged as it is: nothing is missing yet.
* A part that does not settle within its patience is judged all the same: what is missing then is missing.
* The clients of others fill what brokers retain, so no limit is known to explain a loss: a named loss of an event of
  the canary is reported as a problem.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...actors.clients.publisher import Publisher
from ...actors.clients.subscriber import Subscriber
from ...actors.network.network import Network
from ...protocol.errors import RayvousError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.traces.account import Account
from ...protocol.traces.trace import Bounded, Kept, Settled, Trace
from ..checker.conditions import Rule
from ..checker.reliability import judge, judge_by_formulas
from ..checker.verdict import Verdict, total
from ..game_day.latencies import Latencies
from .killable_clients import arrived

ATTRIBUTE: Final = "game_day"
PUBLISHERS: Final = 2
SUBSCRIBERS: Final = 4
PACE_SECONDS: Final = 0.5
"""The time between two events of a publisher."""
LISTEN_SECONDS: Final = 0.1
AGAIN_SECONDS: Final = 1.0
"""How long everything must have arrived before a part is settled: what comes twice comes soon after."""


class Canary:
    """The clients of one game day.

    Parameters
    ----------
    net
        The network.
    word
        Names the game day; the clients' names begin with it, and it is in every event.
    brokers
        The brokers over which the clients are spread.
    clock
        Returns the seconds of the game day.
    zero
        When the clock was 0, in seconds since 1970.
    patience_seconds
        How long everything may take to arrive in a whole network.
    rules
        Conditions of the user, judged beside all others.
    problem
        Called with a sentence for each call that failed, and for losses.

    Attributes
    ----------
    checked
        The number of the last check that has ended.
    latencies
        How long notifications took.

    Raises
    ------
    SubscriptionRejected
        If the network has admission control and cannot carry it.
    """

    def __init__(
        self,
        net: Network,
        word: str,
        brokers: Sequence[BrokerId],
        clock: Callable[[], float],
        zero: float,
        *,
        patience_seconds: float,
        rules: Iterable[Rule] = (),
        problem: Callable[[str], None],
    ) -> None:
        self.checked = 0
        self.latencies = Latencies()
        self._net, self._clock, self._zero = net, clock, zero
        self._patience = patience_seconds
        self._rules, self._problem = tuple(rules), problem
        self._word = word
        self._judged: list[Verdict] = []
        self._turn = threading.Lock()
        self._resting = threading.Event()  # while it is set nobody begins to publish
        self._busy = 0  # publishers in a call
        self._ended = threading.Event()
        self._losses: dict[ClientId, int] = {}
        wanted = f"{ATTRIBUTE} = '{word}'"
        selectors = (wanted, f"{wanted} AND part = 0", f"{wanted} AND part = 1")
        self._selectors: dict[ClientId, tuple[int, str]] = {}
        self._subscribers: dict[ClientId, Subscriber] = {}
        self._publishers: dict[ClientId, Publisher] = {}
        try:
            for place in range(PUBLISHERS):
                name = f"{word}:p{place}"
                self._publishers[name] = net.publisher(name, broker=_spread(brokers, place, PUBLISHERS))
                if net.inspect.directory.features.admits:
                    self._publishers[name].advertise(wanted, max_rate=2.0 / PACE_SECONDS)
            for place in range(SUBSCRIBERS):
                name = f"{word}:s{place}"
                subscriber = net.subscriber(name, broker=_spread(brokers, place, SUBSCRIBERS))
                self._subscribers[name] = subscriber
                selector = selectors[place % len(selectors)]
                self._selectors[name] = subscriber.subscribe(selector), selector
        except BaseException:
            self.close()
            raise
        self._account = self._new_part()
        self._threads = [
            threading.Thread(target=self._publish_all, args=(name,), daemon=True, name=name)
            for name in self._publishers
        ]
        self._threads.append(threading.Thread(target=self._listen, daemon=True, name=f"{word}:listen"))
        for thread in self._threads:
            thread.start()

    @property
    def verdict(self) -> Verdict:
        """The verdict on all parts so far, and on what has come since the last check."""
        return total([*self._judged, judge(self._part())])

    def broken(self) -> str:
        """Return a violation of what has come so far, in words; "" if there is none."""
        for verdict in (*self._judged[-1:], judge(self._part())):
            if verdict.violated:
                found = verdict.violations[0]
                return f"{found.condition}: {found.sentence}"
        return ""

    def check(self, number: int) -> None:
        """Begin a check, in a thread of its own; `checked` says when it has ended."""
        thread = threading.Thread(target=self._check, args=(number,), daemon=True, name=f"{self._word}:check")
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

    def close(self) -> None:
        """End all that the clients do, and release their names; the second time does nothing."""
        if self._ended.is_set():
            return
        self._ended.set()
        for thread in getattr(self, "_threads", ()):
            thread.join(self._patience)
        clients: list[Publisher | Subscriber] = [*self._publishers.values(), *self._subscribers.values()]
        for client in clients:
            try:
                self._net.release(client)
            except RayvousError as error:
                self._problem(f"the canary could not leave: {error}")

    # Judging.

    def _new_part(self) -> Account:
        account, now = Account(self._net.inspect.directory.features), self._clock()
        for name, (number, selector) in self._selectors.items():
            account.subscribed(now, name, number, selector)
            account.confirmed(now, name, number)
        return account

    def _part(self, *ends: Settled) -> Trace:
        with self._turn:
            return Trace([*self._account.in_time(), *ends])

    def _check(self, number: int) -> None:
        try:
            self._resting.set()
            self._settle(self._clock() + self._patience)
            self._judge()
        except Exception as error:  # a thread that it ended would let the game day wait forever
            self._problem(f"the canary could not be judged: {type(error).__name__}: {error}")
        finally:
            self._resting.clear()
            self.checked = number

    def _settle(self, deadline: float) -> None:
        """Wait until nobody publishes and everything has arrived."""
        arrived_at = float("inf")
        while self._clock() < deadline and not self._ended.is_set():
            now = self._clock()
            whole = not self._busy and not judge(self._part(Settled(now))).missing
            arrived_at = min(arrived_at, now) if whole else float("inf")
            if now - arrived_at >= AGAIN_SECONDS:
                return
            self._ended.wait(LISTEN_SECONDS)

    def _judge(self) -> None:
        """Judge the part since the last check, and begin another."""
        with self._turn:
            former, self._account = self._account, self._new_part()
        part = Trace([*former.in_time(), Settled(self._clock())])
        verdict = judge(part)
        if self._rules:
            seen = Trace(op for op in part if not isinstance(op, Kept | Bounded))
            verdict.findings |= judge_by_formulas(seen, self._rules).findings
        lost = verdict.lost + verdict.unexplained
        if lost:
            self._problem(
                f"{lost} notifications of the canary were lost, as the network said by name: what brokers retain, of "
                "all clients, did not last until it was whole again (retention_seconds, retention_events_max)"
            )
        self._judged = [total(self._judged), verdict]

    # Clients.

    def _publish_all(self, name: ClientId) -> None:
        publisher, place = self._publishers[name], int(name[-1])
        while not self._ended.wait(PACE_SECONDS):
            with self._turn:
                if self._resting.is_set():
                    continue
                number = publisher.published + 1
                event = {ATTRIBUTE: self._word, "part": (number + place) % 2, "n": number}
                now = self._clock()
                self._account.published(now, name, number, [event])
                self.latencies.published(now, (name, number))
                self._busy += 1
            try:
                publisher.publish(event)
            except Exception as error:  # a thread that it ended would publish nothing more
                self._problem(
                    f"{self._clock():.1f} s: the canary cannot publish: {type(error).__name__}: {error}"
                )
            finally:
                with self._turn:
                    self._busy -= 1

    def _listen(self) -> None:
        while not self._ended.wait(LISTEN_SECONDS):
            for name, subscriber in self._subscribers.items():
                try:
                    self._hear(name, subscriber)
                except Exception as error:
                    self._problem(
                        f"{self._clock():.1f} s: the canary cannot read: {type(error).__name__}: {error}"
                    )

    def _hear(self, name: ClientId, subscriber: Subscriber) -> None:
        heard = arrived(subscriber)
        losses = subscriber.losses_after(self._losses.get(name, 0))
        self._losses[name] = self._losses.get(name, 0) + len(losses)
        with self._turn:
            for received_at, publisher, sequence in heard:
                self._account.notified(received_at - self._zero, name, publisher, sequence)
                self.latencies.notified(received_at - self._zero, (publisher, sequence))
            if losses:
                self._account.told(self._clock(), name, losses)


def _spread(brokers: Sequence[BrokerId], place: int, places: int) -> BrokerId:
    return brokers[place * len(brokers) // places]


__all__ = ["ATTRIBUTE", "Canary"]
