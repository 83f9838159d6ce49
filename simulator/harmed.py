"""What may be done to the brokers of a hostile network and their links, and how it ends; `chaos.harm` has the plan.

Rules
-----
* A broker that dies takes with it what was under way to it; one that is paused takes nothing in, and loses nothing.
* The last broker that stays is spared.
* A link that is cut holds what is sent over it, and carries it when the last reason for the cut is gone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from ..chaos.weather import Cuts, Weather
from ..faults.plans import Shake
from ..protocol.cube import CubeLeave
from ..protocol.effects import Received
from ..protocol.ids import BrokerId
from ..protocol.recovery import RENDEZVOUS
from ..routing.claims import claims_of
from .connections import Connection
from .hosts import Host


class Harmed:
    """The part of :class:`~.hostile.HostileNetwork` that lets things go wrong."""

    now: float
    scheme: str
    hosts: dict[BrokerId, Host]
    weather: Weather
    _cuts: Cuts
    _dice: random.Random
    _connections: dict[tuple[BrokerId, BrokerId, bool], Connection]
    _groups: dict[BrokerId, list[Connection]]
    at: Callable[..., None]
    living: Callable[[], list[BrokerId]]
    staying: Callable[[], list[BrokerId]]
    _any_host: Callable[[BrokerId], Host]
    _start_ticking: Callable[[Host], None]
    _take_in: Callable[[Host, Any], None]
    _release: Callable[[Connection], None]

    def crash(self, broker: BrokerId) -> bool:
        """Kill a broker's process; return False, and spare it, when it is dead or the last one alive that stays."""
        host = self._any_host(broker)
        if not host.alive or (host.id != RENDEZVOUS and self._last(broker)):
            return False
        host.die()
        return True

    def _last(self, broker: BrokerId) -> bool:
        return (self.staying() or self.living()) == [broker]

    def crash_after(self, broker: BrokerId, effects: int) -> None:
        """Let a broker die when it has carried out so many more effects, before the next: also within a step."""
        self._any_host(broker).fuse = effects

    def restart(self, broker: BrokerId) -> bool:
        """Start a dead broker afresh; return False when it lives."""
        host = self._any_host(broker)
        if host.alive or host.gone:
            return False
        self._groups.pop(broker, None)
        host.start()
        self._start_ticking(host)
        return True

    def pause(self, broker: BrokerId) -> bool:
        """Let a broker stand still; return False when it is dead or does already."""
        host = self.hosts[broker]
        if not host.alive or host.paused:
            return False
        host.paused, host.serving = True, False
        return True

    def resume(self, broker: BrokerId) -> bool:
        """Let a paused broker go on; return False when it was not paused."""
        host = self.hosts[broker]
        if not host.paused:
            return False
        host.paused = False
        waiting = list(host.waiting)
        host.waiting.clear()
        place = 0 if self._dice.random() < 0.5 else len(waiting)
        waiting.insert(place, None)
        for given in waiting:
            self._take_in(host, given)
        return True

    def leave(self, broker: BrokerId) -> bool:
        """Ask a broker to leave, in a network that heals by views; its process ends when it is out.

        False when it is dead or the last.
        """
        host = self.hosts[broker]
        if not claims_of(self.scheme).views or not host.alive or self._last(broker):
            return False
        self._take_in(host, Received(broker, CubeLeave()))
        self.at(self.now, self._end_when_out, host, host.life)
        return True

    def _end_when_out(self, host: Host, life: int) -> None:
        if host.alive and host.life == life and not (host.machine.healing.left and self.crash(host.id)):
            self.at(self.now + 0.25, self._end_when_out, host, life)

    def slow(self, broker: BrokerId, factor: float) -> None:
        """Let a broker take `factor` times as long; 1 makes it quick again."""
        host = self.hosts[broker]
        host.factor = factor if host.alive else 1.0

    def shake(self, fault: Shake) -> None:
        """Let the weather be bad for a while."""
        self.weather.shakes.append((self.now + fault.seconds, fault))

    def calm(self) -> None:
        """End every cut, bad spell, pause and slowness."""
        self.mend()
        self.weather.shakes.clear()
        for broker, host in self.hosts.items():
            self.resume(broker)
            if host.factor != 1.0:
                self.slow(broker, 1.0)

    def cut(self, pairs: Iterable[tuple[BrokerId, BrokerId]], reason: object) -> None:
        """Cut the links between pairs of brokers, both ways."""
        for one, other in pairs:
            self._cuts.add(one, other, reason)

    def mend(self, reason: object = None) -> bool:
        """Take a reason for cuts away, or all; return whether a link was mended."""
        mended = set(self._cuts.clear() if reason is None else self._cuts.remove(reason))
        for connection in self._connections.values():
            if connection.pair in mended and connection.held:
                self.at(self.now + connection.delay_seconds, self._release, connection)
        return bool(mended)
