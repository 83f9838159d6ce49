"""The timeline of a chaos run in virtual time, as observed on the links.

Rule: only messages are observed. A probe is a suspicion. A heartbeat of a designated broker that was not known as
such is a takeover. An accepted join is a rejoin. The clients of a paused broker wait as long as it is paused.
"""

from __future__ import annotations

from ...protocol.ids import BrokerId, ClusterId, RoundNumber
from ...protocol.messages.recovery import RENDEZVOUS, BecomeRoot, ClusterBeat, JoinAnswer, Probe
from ...protocol.messages.rounds import Round
from ...protocol.messages.views import MembershipView
from ...simulator.network import SimulatedNetwork
from ..recovery_times import RecoveryTimes


class Timeline(RecoveryTimes):
    """The timeline of a run in virtual time.

    Parameters
    ----------
    network
        The network whose messages are observed.
    """

    def __init__(self, network: SimulatedNetwork) -> None:
        super().__init__()
        self._speakers: set[tuple[ClusterId, int, BrokerId]] = set()
        self._probed: dict[tuple[BrokerId, ClusterId], float] = {}
        self._round = RoundNumber(0, 0)
        self._version = 1
        network.watchers |= {
            ClusterBeat: self._beat,
            Probe: self._probe,
            JoinAnswer: self._answer,
            BecomeRoot: self._become_root,
            Round: self._begin,
            MembershipView: self._view,
        }

    def _beat(self, now: float, source: BrokerId, to: BrokerId | None, message: ClusterBeat) -> None:
        view = message.view
        key = view.cluster, view.epoch, view.designated
        if view.designated == source and key not in self._speakers:
            self._speakers.add(key)
            if view.epoch:
                self.say(
                    now, f"takeover: broker {source} speaks for cluster {view.cluster}, epoch {view.epoch}"
                )

    def _probe(self, now: float, source: BrokerId, to: BrokerId | None, message: Probe) -> None:
        last = self._probed.get((source, message.cluster))
        self._probed[source, message.cluster] = now
        if last is None or now - last > 5.0:
            self.say(now, f"suspicion: broker {source} probes cluster {message.cluster}")

    def _answer(self, now: float, source: BrokerId, to: BrokerId | None, message: JoinAnswer) -> None:
        here = f"{to} at cluster {message.view.cluster}"
        self.say(now, f"join: {here}" if message.accepted else f"refused: {here}: {message.reason}")

    def _become_root(self, now: float, source: BrokerId, to: BrokerId | None, message: BecomeRoot) -> None:
        if source == RENDEZVOUS:
            self.say(now, f"new root: broker {to}, term {message.term}")

    def _begin(self, now: float, source: BrokerId, to: BrokerId | None, message: Round) -> None:
        if message.number > self._round:
            self._round = message.number
            self.say(now, f"round {message.number.term}.{message.number.number} begins at broker {source}")

    def _view(self, now: float, source: BrokerId, to: BrokerId | None, message: MembershipView) -> None:
        if message.version > self._version:
            self._version = message.version
            anew = [str(member.broker) for member in message.members if member.born == message.version]
            came = f", new: {' '.join(anew)}" if anew else ""
            self.say(now, f"view {message.version}: {len(message.members)} brokers{came}")
