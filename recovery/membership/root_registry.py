"""The rendezvous point: it knows the root, and appoints the next one when the root is dead (paper 1, 4.2.1).

Rules
-----
* The root sends a `RootBeat` once per heartbeat. It counts as alive while one was heard in the last
  `suspect_after_seconds`.
* A cluster that asks while the root is alive is told the root. When the root is silent, the first cluster
  that asks becomes the root under the next *term*. Clusters that ask later are told the new root.
* Only the rendezvous point issues terms, and they only grow. A root of an older term is told the present
  root, so it steps down and joins. A beat with a term that this rendezvous point never issued shows that its
  own state is outdated: it accepts the beat.
* The root reports its children. A cluster that asks for the root is told them too: if it cannot reach the
  root, it continues at these.
* A root that leaves names a child as its successor. The successor becomes root under the next term, and the old root
  joins below it.
* A broker that asks for a cluster is told which other broker asked for that cluster before it. Two that both speak for
  it, and do not know each other, so find each other (`succession`).
* `state` is plain data. The host stores it before it sends the answers, and passes it to `restore` at the
  next start. A restart does not count as the death of the root: the root has one suspicion timeout, counted from the
  first known time, to be heard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...protocol.effects import Received, Send, Ticked
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.recovery import (
    AskRoot,
    BecomeRoot,
    ClusterView,
    Holds,
    JoinAnswer,
    Recovery,
    Root,
    RootBeat,
    YieldRoot,
)
from ..durability.whereabouts import Whereabouts

ASKERS_MAX: Final = 65_536
"""Of how many clusters it is known who asked last."""


class RendezvousMachine:
    """The rendezvous point as a value machine.

    Parameters
    ----------
    recovery
        `suspect_after_seconds` is the suspicion timeout with a silent root.
    root, term
        The root with which the network starts, and its term.
    """

    def __init__(self, recovery: Recovery, root: ClusterView, term: int = 1) -> None:
        self._recovery = recovery
        self._root = root
        self._term = term
        self._children: tuple[ClusterView, ...] = ()
        self._now: float | None = None
        self._heard: float | None = None
        self._durable = Whereabouts()
        self._askers: dict[ClusterId, ClusterView] = {}  # who asked last for each cluster

    @property
    def root(self) -> ClusterView:
        """The cluster that is the root now."""
        return self._root

    @property
    def term(self) -> int:
        """The root's term."""
        return self._term

    def handle(self, event: Received | Ticked) -> list[Send]:
        """Process one event and return the answers. Messages for other machines have no effect."""
        if isinstance(event, Ticked):
            self._now = event.now if self._now is None else max(self._now, event.now)
            if self._heard is None:
                self._heard = self._now
            return []
        source, message = event.source, event.message
        if not isinstance(source, int):
            return []
        if isinstance(message, RootBeat):
            return self._beat(source, message)
        if isinstance(message, AskRoot):
            return self._asked(source, message.me)
        if isinstance(message, Holds):
            return self._durable.held(source, message)
        if isinstance(message, YieldRoot):
            return self._yielded(source, message)
        return []

    def _beat(self, source: BrokerId, beat: RootBeat) -> list[Send]:
        if beat.term > self._term:
            self._take(beat.view, beat.term, beat.children)
            return []
        if beat.view.cluster != self._root.cluster or self._root.newer_than(beat.view):
            return [Send(source, self._answer())]
        self._take(beat.view, self._term, beat.children)
        # The cluster was made root and never learned of it, for example because its broker died in the
        # meantime.
        return [Send(source, BecomeRoot(self._term))] if beat.term < self._term else []

    def _asked(self, source: BrokerId, me: ClusterView) -> list[Send]:
        return self._introduced(source, me) + self._placed(source, me)

    def _introduced(self, source: BrokerId, me: ClusterView) -> list[Send]:
        """Name the broker that asked last for the same cluster, if it is another one: they may not know each other."""
        before = self._askers.pop(me.cluster, me)
        self._askers[me.cluster] = me
        if len(self._askers) > ASKERS_MAX:
            del self._askers[next(iter(self._askers))]
        if before.designated == me.designated:
            return []
        return [Send(source, JoinAnswer(False, "not designated", before, (), self._term))]

    def _placed(self, source: BrokerId, me: ClusterView) -> list[Send]:
        if me.cluster == self._root.cluster:
            # Its first answer was lost or is late: send the same again.
            self._take(self._root if self._root.newer_than(me) else me, self._term, self._children)
            return [Send(source, BecomeRoot(self._term))]
        if not self._silent():
            return [Send(source, self._answer())]
        self._take(me, self._term + 1)
        return [Send(source, BecomeRoot(self._term))]

    def _yielded(self, source: BrokerId, message: YieldRoot) -> list[Send]:
        if message.term == self._term and source == self._root.designated:
            self._take(message.successor, self._term + 1)
        successor = self._root.designated
        again = [Send(successor, BecomeRoot(self._term))] if self._root == message.successor else []
        return [*again, Send(source, self._answer())]

    def _answer(self) -> Root:
        return Root(self._root, self._term, self._children)

    def _take(self, root: ClusterView, term: int, children: tuple[ClusterView, ...] = ()) -> None:
        self._root, self._term, self._heard, self._children = root, term, self._now, children

    def _silent(self) -> bool:
        if self._now is None or self._heard is None:
            return False
        return self._now - self._heard > self._recovery.suspect_after_seconds

    def state(self) -> dict[str, object]:
        """Return the data that must outlive this machine, as plain data that JSON can represent."""
        view = self._root
        return {
            "term": self._term,
            "root": {
                "cluster": view.cluster,
                "epoch": view.epoch,
                "designated": view.designated,
                "members": list(view.members),
            },
            "durable": self._durable.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned. The recorded root has one suspicion timeout from now on to be heard.

        Raises
        ------
        InputError
            If the data was not returned by `state`.
        """
        try:
            term, root = int(state["term"]), state["root"]
            view = ClusterView(
                cluster=int(root["cluster"]),
                epoch=int(root["epoch"]),
                designated=int(root["designated"]),
                members=tuple(int(member) for member in root["members"]),
            )
            self._durable.restore(state.get("durable", {}))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"the rendezvous point's state {state!r} is not one that it has written ({error!r}): delete it, and "
                "the configured root is used"
            ) from error
        self._take(view, term)
