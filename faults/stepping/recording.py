"""Records a run in virtual time: at each moment what was done, and in what the network then differs from before.

Rules
-----
* A moment is one action of the network, or what its driver did between two actions. Its frame is what brokers and
  clients are then (`capture`); kept are the differences from the frame before. Only what an action can touch is
  looked at again: the process that it concerns; everything, if it is none of the usual actions.
* It watches and changes nothing, so a run that is recorded is the run itself.
* It is bounded: at most :data:`WORK_MAX` of work (a measure of what is looked at, which is the same on every
  machine), then the recording ends and says so; at most :data:`MOMENTS_MAX` moments, then heartbeats and ticks
  without a consequence are joined with the moment after them, and then every second moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Never

from ...protocol.effects import Received
from ...protocol.messages.beats import is_beat
from ...protocol.printable import printable
from ...simulator.hosts import Connection
from ...simulator.pending import (
    ANSWER,
    LOST,
    OTHER,
    OWN,
    REQUEST,
    TICK,
    UNDER_WAY,
    Pending,
    Process,
    pending_of,
)
from ...simulator.simulation import Simulation
from .capture import Capture
from .consequences import consequences
from .frames import ALL, Frame, Texts, apply, brokers_in, clients_in
from .words import action_words, cut, message_words, who

KINDS: Final = (
    "message", "notification", "client", "tick", "heartbeat", "death", "restart", "election", "place", "view", "loss",
    "other",
    "idle",
)  # fmt: skip
"""What a moment may be; it may be several of them. A message leaves or arrives that is no heartbeat."""

WORK_MAX: Final = 1_500_000
WORK_OF_AN_ACTION: Final = 40
WORK_OF_A_KEY: Final = 1
MOMENTS_MAX: Final = 8_000
TEXT_MAX: Final = 400

_QUIET: Final = frozenset({"tick", "heartbeat", "idle"})
_RARE: Final = frozenset({"death", "restart", "election", "place", "view"})


class Enough(BaseException):
    """Ends a run that has been driven as far as it is wanted; no run takes it for an error of its own."""


class Moment(NamedTuple):
    """One moment of a run.

    Attributes
    ----------
    at_seconds
        The time.
    kinds
        What it is, of :data:`KINDS`.
    text
        What was done, and what came of it.
    way
        From whom to whom, if it is a message.
    changes
        In what the frame differs from the one before; None for what is no more.
    reached
        How many actions, and how many looks of the driver between actions, lie behind it.
    """

    at_seconds: float
    kinds: tuple[str, ...]
    text: str
    way: tuple[Process | None, Process] | None
    changes: Frame
    reached: tuple[int, int]

    @property
    def quiet(self) -> bool:
        """Whether it is a heartbeat, a tick or another action of which nothing came."""
        return _QUIET.issuperset(self.kinds)

    @property
    def rare(self) -> bool:
        """Whether it is kept where others are left out."""
        return not _RARE.isdisjoint(self.kinds)


class Recording:
    """A spectator of one network that keeps what it sees.

    Parameters
    ----------
    network
        The network.
    texts
        Where texts get their numbers.
    each
        Called after each action with how many there were; for snapshots.

    Attributes
    ----------
    moments
        What was seen; the first one is the network as it was at the start.
    ended
        Why it ended before the run did; "" if it did not.
    stride
        How many moments with a consequence are one moment here; 0 if all are kept, heartbeats and ticks too.
    """

    def __init__(
        self, network: Simulation, texts: Texts, each: Callable[[int], None] = lambda actions: None
    ) -> None:
        self._network, self._texts, self._each = network, texts, each
        self._capture = Capture(network, texts)
        self._frame = self._capture.frame()
        self._pending: Pending | None = None
        self._losses: list[str] = []
        self._cut = False
        self._waiting: Frame = {}
        self._actions = self._looks = self._work = self._since = 0
        self.ended, self.stride = "", 0
        self.moments = [Moment(network.now, ("other",), "the beginning", None, dict(self._frame), (0, 0))]

    @property
    def frame(self) -> Frame:
        """The network as it is now."""
        return self._frame

    # What a network tells its spectator.

    def aside(self) -> None:
        """Note what the driver has done since the last action."""
        self._looks += 1
        self._note([(ALL, self._capture.frame())], (), "", None)

    def before(self, action: Callable[[Never], None], value: object) -> None:
        """Note what is to be done."""
        self._pending = pending_of(action, value)

    def after(self) -> None:
        """Note what was done, and what came of it."""
        pending = self._pending
        assert pending is not None
        self._actions += 1
        self._note(self._touched(pending), _kinds_of(pending), action_words(pending), _way_of(pending))
        self._each(self._actions)
        self._work += len(self._network.heap) // 8 + WORK_OF_AN_ACTION
        if self._work > WORK_MAX:
            self.ended = f"so much has happened until {self._network.now:.3f} s that the recording ends there"
            raise Enough

    def lost(self, connection: Connection, received: Received, why: str) -> None:
        """Note a message that was lost as it left."""
        if not is_beat(received.message):
            ends = f"from {who(connection.source.id)} to {who(connection.target.id)}"
            self._losses.append(f"{message_words(received.message)} {ends} is lost: {why}")

    # What has changed.

    def _touched(self, pending: Pending) -> list[tuple[str, Frame]]:
        """Return what the action can have changed: parts of the frame, each with the letters of which it has all."""
        capture, target = self._capture, pending.targets[0] if pending.targets else None
        if pending.kind == OTHER:
            return [(ALL, capture.frame())]
        parts = [("f", capture.flights())]
        if pending.kind in (ANSWER, OWN):
            for name in pending.targets:
                assert isinstance(name, str)
                client = capture.client(name)
                if client.keys() <= self._frame.keys():  # else it is one of those that are only counted
                    parts.append(("", client))
        elif isinstance(target, int):
            broker = capture.broker(target)
            parts.append(("", broker))
            if broker[f"b{target}"] != self._frame.get(f"b{target}"):
                parts += [("p", capture.places({**self._frame, **broker})), ("cm", capture.clients())]
        if self._network.cuts.reasons or self._cut:
            parts.append(("xh", capture.links()))
            self._cut = bool(parts[-1][1])
        return parts

    def _note(
        self,
        parts: list[tuple[str, Frame]],
        kinds: tuple[str, ...],
        text: str,
        way: tuple[Process | None, Process] | None,
    ) -> None:
        """Add a moment: what was done, and in what these parts of the network differ from before."""
        changes: Frame = {}
        for letters, part in parts:
            changes.update((key, value) for key, value in part.items() if self._frame.get(key) != value)
            if letters:
                changes.update((key, None) for key in self._frame if key[0] in letters and key not in part)
            self._work += WORK_OF_A_KEY * len(part)
        found = consequences(self._frame, changes, self._texts.all)
        apply(self._frame, changes)
        found += [("loss", words) for words in self._losses]
        self._losses.clear()
        if kinds == ("other",):
            if any(said for _, said in found):
                text = ""  # what came of it says more
            elif not found:
                kinds = ("idle",)
        if not text and not found:
            self._waiting.update(changes)
            return
        those = dict.fromkeys([*kinds, *(kind for kind, _ in found)])
        if len(those) > 1:
            those.pop("other", None)
        if way is None:
            touched: list[Process] = [broker for broker, _ in brokers_in(changes)]
            touched = touched or [client for client, _ in clients_in(changes)]
            way = (None, touched[0]) if len(touched) == 1 else None
        words = "; ".join([text] * bool(text) + [said for _, said in found if said])
        self._add(
            Moment(
                self._network.now,
                tuple(those) or ("other",),
                cut(printable(words), TEXT_MAX),
                way,
                changes,
                self.reached,
            )
        )

    @property
    def reached(self) -> tuple[int, int]:
        """How many actions, and how many looks of the driver between actions, there were."""
        return self._actions, self._looks

    # Bounds.

    def _add(self, moment: Moment) -> None:
        if self._waiting:
            moment = moment._replace(changes={**self._waiting, **moment.changes})
            self._waiting = {}
        if self.stride:
            self._since += not moment.quiet
            if moment.quiet or (self._since % self.stride and not moment.rare):
                self._waiting = moment.changes
                return
        self.moments.append(moment)
        if len(self.moments) > MOMENTS_MAX:
            self._thin()

    def _thin(self) -> None:
        """Join moments with the one after them: those without a consequence at first, then every second one."""
        self.stride, self._since = 2 * self.stride or 1, 0
        kept = [self.moments[0]]
        waiting: Frame = {}
        few = sum(moment.rare for moment in self.moments) < MOMENTS_MAX // 2
        for moment in self.moments[1:]:
            self._since += not moment.quiet
            if moment.quiet or (self._since % min(self.stride, 2) and not (few and moment.rare)):
                waiting.update(moment.changes)
                continue
            kept.append(moment._replace(changes={**waiting, **moment.changes}))
            waiting = {}
        self.moments, self._waiting = kept, waiting


def _kinds_of(pending: Pending) -> tuple[str, ...]:
    if pending.kind == OTHER:
        return ("other",)
    if pending.kind in (TICK, OWN):
        return ("tick",)
    if is_beat(pending.what):
        return ("heartbeat",)
    if pending.kind in (REQUEST, ANSWER):
        return ("client",)
    return ("loss",) if pending.kind == LOST else ("message",)


def _way_of(pending: Pending) -> tuple[Process | None, Process] | None:
    if pending.kind not in UNDER_WAY or not pending.targets:
        return (None, pending.targets[0]) if pending.targets else None
    return pending.source, pending.targets[0]


__all__ = ["KINDS", "Enough", "Moment", "Recording"]
