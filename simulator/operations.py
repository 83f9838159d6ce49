"""Operations on a running simulated network: brokers and clusters join, leave gracefully, and move nearer.

Rules
-----
* Ids are not reused. A broker that has left, or was to leave and died, is never restarted.
* Clients leave first: before a broker is told to leave, its durable subscribers go to its trustee, another broker of
  its cluster if there is one, with all that is retained for them. Then its other clients move to other brokers
  (`clients.places`). What it retains of publishers that cannot move, because they are dead, goes there, too. If
  the trustee dies or is to leave, another is named.
* The last broker that is not to leave stays.
* A tree is re-optimised one cluster after another. Where views define the membership, or every broker is a tree
  node by itself, a cluster is the set of brokers that joined together: it says near whom a broker joins, and where
  clients move first.

The counterpart on Ray is :class:`rayvous.actors.network.operations.Operations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from ..broker import newcomer
from ..protocol.effects import Received
from ..protocol.errors import InputError
from ..protocol.ids import BrokerId, ClusterId
from ..protocol.messages.handover import HandOver
from ..protocol.messages.recovery import RENDEZVOUS, LeaveNetwork, Reconsider
from ..protocol.queries import DurableHere, HasLeft
from ..routing.schemes.claims import Membership
from ..routing.schemes.registry import scheme as scheme_of
from .simulation import Simulation
from .survey import survey

LOOK_SECONDS = 0.25
NO_TREE = "scheme {scheme!r} has no tree to reoptimise: no broker is below another"
SEARCH_SECONDS_MAX = 20.0
"""How long one cluster may look for a nearer parent before it is the next one's turn."""


class SimulatedOperations:
    """Operations on one network.

    Parameters
    ----------
    network
        The network; its brokers heal.
    say
        Called with a sentence for what has happened.

    Attributes
    ----------
    left
        The brokers that have left in good order: what they retained is with their trustees.
    """

    def __init__(self, network: Simulation, say: Callable[[str], None] | None = None) -> None:
        if not network.heals:
            raise InputError("a network that does not heal cannot be operated: give it recovery")
        self._network = network
        self._say = say or (lambda what: None)
        membership = scheme_of(network.scheme).membership
        self._views, self._flat = membership is Membership.VIEWS, membership is Membership.NODES
        self._searches = 0
        self.left: set[BrokerId] = set()

    # Growing.

    def add_broker(self, cluster: ClusterId) -> BrokerId:
        """Let a broker join a cluster; return its id.

        Raises
        ------
        InputError
            If the cluster does not exist, or all of it is leaving.
        """
        network = self._network
        if not self._staying(cluster):
            raise InputError(f"cluster {cluster} does not exist, or is leaving")
        broker = max(network.hosts) + 1
        members = (*network.members[cluster], broker)
        speaks = next((member for member in members if self._speaks(member)), members[-2])
        place = newcomer(network.scheme, broker, cluster, members, speaks)
        self._regroup(cluster, members)
        network.start_ticking(network.add_host(place, founds=self._flat))
        return broker

    def add_cluster(self, size: int) -> tuple[ClusterId, list[BrokerId]]:
        """Let a cluster of `size` brokers join; return its id and theirs."""
        if size < 1:
            raise InputError(f"a cluster of {size} brokers: it must have at least one")
        network = self._network
        cluster, first = max(network.members) + 1, max(network.hosts) + 1
        members = tuple(range(first, first + size))
        network.members[cluster] = members
        hosts = []
        for broker in members:
            place = newcomer(network.scheme, broker, cluster, members, members[-1])
            hosts.append(network.add_host(place, founds=True))
        for host in hosts:
            network.start_ticking(host)
        return cluster, list(members)

    def _regroup(self, cluster: ClusterId, members: tuple[BrokerId, ...]) -> None:
        """Record the members of a cluster, for brokers that start from now on."""
        network = self._network
        network.members[cluster] = members
        for member in () if self._flat else members:
            place = network.positions.get(member)
            if place is not None:
                speaks = place.designated if place.designated in members else members[-1]
                network.positions[member] = replace(place, members=members, designated=speaks)

    # Shrinking.

    def remove_broker(self, broker: BrokerId) -> bool:
        """Let a broker leave; return False, and do nothing, if it is dead, already leaving, or the last one."""
        return self._remove([broker])

    def remove_cluster(self, cluster: ClusterId) -> bool:
        """Let a cluster leave; return False, and do nothing, if none of it lives and stays, or it is the last one."""
        return self._remove(self._staying(cluster))

    def _remove(self, brokers: Iterable[BrokerId]) -> bool:
        network = self._network
        leaving = [broker for broker in brokers if network.hosts[broker].alive and not self._retires(broker)]
        rest = {*network.staying()}.difference(leaving)
        if not leaving or all(network.hosts[broker].leaving for broker in rest):
            return False
        for broker in leaving:
            network.hosts[broker].retiring = True
        for broker in leaving:
            self._hand_over(broker)
        return True

    def _hand_over(self, broker: BrokerId) -> None:
        """Let a broker hand over its durable subscribers; then let its other clients move, and the broker leave."""
        network, host, trustee = self._network, self._network.hosts[broker], self._trustee_of(broker)
        if host.alive and trustee is not None and host.machine.ask(DurableHere()):
            network.take_in(host, Received(RENDEZVOUS, HandOver(trustee)))
            network.at(network.now + LOOK_SECONDS, self._hand_over, broker)
            return
        if trustee is not None and host.alive:
            network.clients.inherit_subscribers(host, network.hosts[trustee])
        for session in list(network.sessions.values()):
            if (
                session.home.id == broker
                and session.incarnation == session.home.incarnation
                and not session.left
            ):
                target = network.clients.elsewhere(session)
                if target is not None:
                    network.clients.move(session, target)
        # This arrives after the last messages of its clients.
        network.at(network.now + 2 * network.links.client_seconds, self._order, broker)

    def _order(self, broker: BrokerId) -> None:
        host, trustee = self._network.hosts[broker], self._trustee_of(broker)
        if host.alive:
            self._network.take_in(host, Received(RENDEZVOUS, LeaveNetwork(trustee)))
        self._watch(broker, trustee)

    def _trustee_of(self, broker: BrokerId) -> BrokerId | None:
        """Return who takes over what a leaving broker retains: one of its cluster if it can; None if nobody stays."""
        hosts = self._network.hosts
        cluster = hosts[broker].cluster
        staying = self._network.staying()
        return min(
            staying, key=lambda each: (hosts[each].paused, hosts[each].cluster != cluster, each), default=None
        )

    def _watch(self, broker: BrokerId, trustee: BrokerId | None) -> None:
        """End the process of a broker once it has left."""
        network, host = self._network, self._network.hosts[broker]
        if host.alive and not host.machine.ask(HasLeft()):
            again = self._watch if trustee in network.staying() else self._order_again
            network.at(network.now + LOOK_SECONDS, again, broker, trustee)
            return
        self._say(f"broker {broker} has left" if host.alive else f"broker {broker} died before it had left")
        if host.alive:
            host.die()
            self.left.add(broker)
            if trustee is not None:
                network.clients.inherit(host, network.hosts[trustee])
            for session in network.sessions.values():  # clients that had nowhere else to go
                if session.home is host and not session.left:
                    when = network.now + network.clients.detect_seconds
                    network.at(when, network.clients.learn, session, session.connection)
        self._regroup(host.cluster, tuple(m for m in network.members[host.cluster] if m != broker))

    def _order_again(self, broker: BrokerId, trustee: BrokerId | None) -> None:
        self._order(broker)

    def leaving(self) -> list[BrokerId]:
        """Return the brokers that are leaving and have not left yet."""
        hosts = self._network.hosts
        return [broker for broker, host in hosts.items() if host.retiring and not host.gone]

    # Nearer parents.

    def reoptimise(self) -> None:
        """Let one cluster after another look for a clearly nearer parent.

        Raises
        ------
        InputError
            If the network heals by views: then there is no tree.
        """
        network = self._network
        if self._views:
            raise InputError(NO_TREE.format(scheme=network.scheme))
        speakers = [broker for broker in network.living() if self._speaks(broker)]
        self._searches += 1
        self._reconsider(speakers)

    @property
    def searching(self) -> bool:
        """Whether the re-optimisation still goes on."""
        return self._searches > 0

    def _reconsider(self, speakers: list[BrokerId]) -> None:
        network = self._network
        while speakers:
            host = network.hosts[speakers[0]]
            if host.alive and not host.paused and self._speaks(host.id):
                before = survey(network, host.id)["parent"]
                network.take_in(host, None)  # a broker is told the time before such an order
                network.take_in(host, Received(RENDEZVOUS, Reconsider()))
                after = partial(
                    self._searched, speakers, None if before is None else before.cluster, network.now
                )
                network.at(network.now + LOOK_SECONDS, after)
                return
            speakers.pop(0)
        self._searches -= 1

    def _searched(self, speakers: list[BrokerId], before: ClusterId | None, since: float) -> None:
        network = self._network
        host = network.hosts[speakers[0]]
        late = network.now - since > SEARCH_SECONDS_MAX
        if host.alive and survey(network, host.id)["searching"] and not late:
            network.at(network.now + LOOK_SECONDS, partial(self._searched, speakers, before, since))
            return
        parent = survey(network, host.id)["parent"] if host.alive else None
        if parent is not None and parent.cluster != before:
            self._say(f"cluster {host.cluster} moved from below {before} to below {parent.cluster}")
        self._reconsider(speakers[1:])

    # Drawn operations.

    def do(self, what: str, pick: float, size: int) -> str:
        """Do a drawn operation, on one of the brokers or clusters that are there; return a description.

        One client in four moves to brokers that have joined.
        """
        network = self._network
        staying = network.staying()
        if not staying:
            return "nobody is there"
        clusters = sorted({network.hosts[broker].cluster for broker in staying})
        cluster = clusters[int(pick * len(clusters))]
        if what == "add_broker":
            return f"broker {self._fill([self.add_broker(cluster)])} to cluster {cluster}"
        if what == "add_cluster":
            made, brokers = self.add_cluster(size)
            return f"cluster {made} with brokers {self._fill(brokers)}"
        if what == "reoptimise":
            self.reoptimise()
            return "one cluster after another"
        if what in ("remove_cluster", "remove_root_cluster"):
            if what == "remove_root_cluster":
                cluster = next(
                    (network.hosts[b].cluster for b in staying if survey(network, b)["root"]),
                    cluster,
                )
            return f"cluster {cluster}" + ("" if self.remove_cluster(cluster) else ", which is kept")
        among = [
            broker for broker in staying if self._speaks(broker) == (what == "remove_designated")
        ] or staying
        broker = among[int(pick * len(among))]
        return f"broker {broker}" + ("" if self.remove_broker(broker) else ", which is kept")

    def _fill(self, brokers: list[BrokerId]) -> str:
        for place, name in enumerate(sorted(self._network.sessions)):
            if place % 4 == 0:
                self._network.move(name, brokers[place // 4 % len(brokers)])
        return " ".join(map(str, brokers))

    # Queries.

    def _staying(self, cluster: ClusterId) -> list[BrokerId]:
        hosts = self._network.hosts
        members = self._network.members.get(cluster, ())
        return [m for m in members if hosts[m].alive and not hosts[m].retiring]

    def _retires(self, broker: BrokerId) -> bool:
        return self._network.hosts[broker].retiring

    def _speaks(self, broker: BrokerId) -> bool:
        host = self._network.hosts.get(broker)
        return host is not None and host.alive and survey(self._network, broker)["designated"]
