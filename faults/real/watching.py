"""The timeline of a run on Ray, from periodic surveys of every broker's place.

Rule: what happens between two surveys is not seen. A cluster that has lost its parent is a confirmed suspicion,
another designated broker is a takeover, another parent is a rejoin. In networks with membership views, each new
latest view is reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.ids import BrokerId, ClusterId, RoundNumber
from ...protocol.messages.views import ViewMember
from ...protocol.queries import Said
from ...recovery.membership.structure import Survey, structure_problems
from ..plans.plans import Crash, Fault
from ..recovery_times import RecoveryTimes


class Watch(RecoveryTimes):
    """The timeline of a run on Ray.

    Parameters
    ----------
    degree
        The maximum number of children of a cluster.
    """

    def __init__(self, degree: int) -> None:
        super().__init__()
        self._degree = degree
        self._speakers: dict[ClusterId, tuple[int, BrokerId]] = {}
        self._parents: dict[ClusterId, ClusterId | None] = {}
        self._members: dict[ClusterId, set[BrokerId]] = {}
        self._roles: dict[BrokerId, str] = {}
        self._root: tuple[BrokerId, int] | None = None
        self._round: RoundNumber | None = None

    def kind_of(self, fault: Fault) -> str:
        """Return the kind of a fault; for a crash it includes the role that the broker had in the last survey."""
        word = super().kind_of(fault)
        return f"{word}_{self._roles.get(fault.broker, 'unseen')}" if isinstance(fault, Crash) else word

    def look(self, now: float, survey: Survey) -> list[str]:
        """Process a survey: report what is new, and return what is wrong with the structure."""
        for broker, one in survey.items():
            role = "root" if one["root"] else "designated" if one["designated"] else "normal"
            self._roles[broker] = role
            if one["designated"]:
                self._cluster(now, one)
        rounds = [one["round"] for one in survey.values()]
        newest = max(rounds, default=self._round)
        if newest is not None and self._round is not None and newest > self._round:
            self.say(now, f"round {newest.term}.{newest.number} has begun")
        self._round = newest
        problems = structure_problems(survey, self._degree)
        self.sound.append((now, not problems))
        return problems

    def _cluster(self, now: float, one: Said) -> None:
        cluster, broker, epoch = one["cluster"], one["broker"], one["view"].epoch
        known = self._speakers.get(cluster)
        if known is None or (epoch, broker) > known:
            self._speakers[cluster] = epoch, broker
            if known is not None:
                self.say(now, f"takeover: broker {broker} speaks for cluster {cluster}, epoch {epoch}")
        members = set(one["view"].members)
        before = self._members.get(cluster, members)
        for gone in sorted(before - members):
            self.say(now, f"suspicion: broker {gone} is no member of cluster {cluster} any more")
        for new in sorted(members - before):
            self.say(now, f"join: broker {new} is a member of cluster {cluster}")
        self._members[cluster] = members
        if one["root"]:
            root = broker, one["term"]
            if self._root is not None and root != self._root:
                self.say(now, f"new root: broker {broker}, term {one['term']}")
            self._root = root
        parent = None if one["parent"] is None else one["parent"].cluster
        if cluster in self._parents and parent != self._parents[cluster] and not one["root"]:
            self.say(
                now,
                f"suspicion: cluster {cluster} has given up its parent, cluster {self._parents[cluster]}"
                if parent is None
                else f"join: cluster {cluster} below cluster {parent}",
            )
        self._parents[cluster] = parent


class ViewWatch(RecoveryTimes):
    """The timeline of a run on Ray of a network that heals by views: its successive views."""

    def __init__(self) -> None:
        super().__init__()
        self._version = 0

    def look(self, now: float, survey: Survey) -> list[str]:
        """Process a survey: report a new view, and return which living brokers have another one."""
        latest = max(survey.values(), key=lambda one: one["version"], default=None)
        if latest is not None and latest["version"] > self._version:
            if self._version:
                self.say(now, f"view {latest['version']}: {_names(latest['view_members'], self._version)}")
            self._version = latest["version"]
        problems = structure_problems(survey)
        self.sound.append((now, not problems))
        return problems


def _names(members: Sequence[ViewMember], since: int) -> str:
    anew = [str(member.broker) for member in members if member.born > since]
    return f"brokers {' '.join(str(member.broker) for member in members)}" + (
        f", new: {' '.join(anew)}" if anew else ""
    )
