"""Faults of the brokers of a network and of their links, and their ends.

Rules
-----
* A broker that dies loses the messages in flight to it. A paused broker takes in nothing, and loses nothing.
* The last broker that stays is spared.
* A cut link holds what is sent over it, and carries it when the last reason for the cut is gone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial

from ..protocol import checks
from ..protocol.effects import Died, Received, Ticked
from ..protocol.ids import BrokerId
from ..protocol.messages.recovery import RENDEZVOUS, LeaveNetwork
from ..protocol.queries import HasLeft
from ..routing.schemes.claims import Membership
from ..routing.schemes.registry import scheme as scheme_of
from .hosts import Host
from .link_faults import BadPeriod, pair_of
from .parts import Whole


class Faults:
    """Causes faults in one network.

    Parameters
    ----------
    network
        The network.
    dead_after_seconds
        After how long those that have links to a process know that it is dead; None for never.

    Attributes
    ----------
    mourners
        Called with the process that a crash has ended, and whether the process was paused.
    """

    def __init__(self, network: Whole, dead_after_seconds: float | None = None) -> None:
        self._network = network
        self.mourners: list[Callable[[Host, bool], None]] = []
        self._news_rng = random.Random(f"news/{network.seed}")
        if dead_after_seconds is not None:
            self.tell_of_deaths(dead_after_seconds)

    def crash(self, broker: BrokerId) -> bool:
        """Kill a broker's process; return False, and spare it, if it is dead or the last living one that stays."""
        host = self._network.host(broker)
        if not host.alive or (host.id != RENDEZVOUS and self._last(broker)):
            return False
        self.end(host)
        return True

    def end(self, host: Host) -> None:
        """End a process, whichever others are left."""
        paused = host.paused
        host.die()
        for mourn in self.mourners:
            mourn(host, paused)

    def tell_of_deaths(self, after_seconds: float, share: float = 1.0) -> None:
        """From now on tell those that have links to a process that it is dead.

        Parameters
        ----------
        after_seconds
            How long after its death.
        share
            The fraction of deaths that become known.
        """
        seconds = checks.seconds("dead_after_seconds", after_seconds)
        self.mourners.append(partial(self._tell_neighbours, seconds, share))

    def _tell_neighbours(self, after_seconds: float, share: float, dead: Host, paused: bool) -> None:
        """Tell the processes with links to a dead one that it is dead, except over a cut link."""
        net = self._network
        if self._news_rng.random() < share:
            for other in self._connected(dead):
                if pair_of(other.id, dead.id) not in net.cuts.reasons:
                    net.at(net.now + after_seconds, self._tell_dead, other, other.incarnation, dead.id)

    def _connected(self, host: Host) -> list[Host]:
        """Return the processes of brokers that have sent something to a process, in order of their ids."""
        near = {link.source.id: link.source for link in host.links if link.target is host}
        return [near[broker] for broker in sorted(near) if broker != RENDEZVOUS]

    def rumour(self, pick: float, share: float) -> BrokerId | None:
        """Tell a fraction of those connected with a living broker that it is dead; return which one, if there is one.

        `pick`, from 0 up to 1, selects it among the living; among those that are paused or slow, if there are any.
        """
        net = self._network
        living = [host for host in net.hosts.values() if host.alive]
        accused = [host for host in living if host.paused or host.factor > 1.0] or living
        if not accused:
            return None
        host = accused[int(pick * len(accused))]
        for other in self._connected(host):
            if self._news_rng.random() < share:
                self._tell_dead(other, other.incarnation, host.id)
        return host.id

    def _tell_dead(self, other: Host, incarnation: int, dead: BrokerId) -> None:
        if other.alive and not other.paused and other.incarnation == incarnation:
            now = Ticked(self._network.now)
            for event in (now, Died(dead), now):  # as a host does it
                if other.alive and other.incarnation == incarnation:
                    self._network.step(other, event)

    def _last(self, broker: BrokerId) -> bool:
        return (self._network.staying() or self._network.living()) == [broker]

    def crash_after(self, broker: BrokerId, effects: int) -> None:
        """Let a broker die after it has carried out this many more effects, even within a step."""
        host = self._network.host(broker)
        host.fuse, host.plain = effects, False

    def restart(self, broker: BrokerId) -> bool:
        """Restart a dead broker; return False if it lives or has left for good."""
        host = self._network.host(broker)
        if host.alive or host.gone:
            return False
        host.group = None
        host.start()
        self._network.start_ticking(host)
        return True

    def pause(self, broker: BrokerId) -> bool:
        """Pause a broker; return False if it is dead or already paused."""
        host = self._network.hosts[broker]
        if not host.alive or host.paused:
            return False
        host.paused, host.serving, host.plain = True, False, False
        return True

    def resume(self, broker: BrokerId) -> bool:
        """Resume a paused broker; return False if it was not paused."""
        host = self._network.hosts[broker]
        if not host.paused:
            return False
        host.paused = False
        waiting = list(host.waiting)
        host.waiting.clear()
        place = 0 if self._network.rng.random() < 0.5 else len(waiting)
        waiting.insert(place, None)
        for given in waiting:
            self._network.take_in(host, given)
        return True

    def leave(self, broker: BrokerId) -> bool:
        """Ask a broker to leave, in a network that heals by views; its process ends once it has left.

        Returns False if it is dead or the last one, or the network does not heal by views.
        """
        host = self._network.hosts[broker]
        if (
            scheme_of(self._network.scheme).membership is not Membership.VIEWS
            or not host.alive
            or self._last(broker)
        ):
            return False
        host.leaving = True
        self._network.take_in(host, Received(RENDEZVOUS, LeaveNetwork()))
        self._network.at(self._network.now, self._end_when_out, host, host.incarnation)
        return True

    def _end_when_out(self, host: Host, incarnation: int) -> None:
        if (
            host.alive
            and host.incarnation == incarnation
            and not (host.machine.ask(HasLeft()) and self.crash(host.id))
        ):
            self._network.at(self._network.now + 0.25, self._end_when_out, host, incarnation)

    def slow(self, broker: BrokerId, factor: float) -> None:
        """Slow a broker down by `factor`; 1 restores its speed."""
        host = self._network.hosts[broker]
        host.factor, host.plain = factor if host.alive else 1.0, False

    def shake(self, period: BadPeriod) -> None:
        """Degrade links for a while."""
        self._network.link_faults.shakes.append((self._network.now + period.seconds, period))

    def calm(self) -> None:
        """End every cut, bad period, pause and slowness."""
        self.mend()
        self._network.link_faults.shakes.clear()
        for broker, host in self._network.hosts.items():
            self.resume(broker)
            if host.factor != 1.0:
                self.slow(broker, 1.0)

    def cut(self, pairs: Iterable[tuple[BrokerId, BrokerId]], reason: object) -> None:
        """Cut the links between pairs of brokers, in both directions."""
        for one, other in pairs:
            self._network.cuts.add(one, other, reason)

    def mend(self, reason: object = None) -> bool:
        """Remove a reason for cuts, or all reasons; return whether a link was mended."""
        net = self._network
        mended = set(net.cuts.clear() if reason is None else net.cuts.remove(reason))
        for connection in net.transport.connections():
            if connection.pair in mended and connection.held:
                net.at(net.now + connection.delay_seconds, net.transport.release, connection)
        return bool(mended)
