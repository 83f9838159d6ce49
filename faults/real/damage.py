"""Damage to the state of a broker on Ray, as `faults.damage` does it, in the process of its host."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from ...protocol.ids import BrokerId
from ..damage import damage

if TYPE_CHECKING:
    from ...actors.host.host import BrokerHost


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of the state of a broker that is damaged when this is called with its host."""

    broker: BrokerId
    what: str
    seed: str

    def __call__(self, host: BrokerHost) -> int:
        """Damage it, and return how many entries were damaged."""
        return damage(host.hosted_brokers[self.broker].broker, self.what, Random(self.seed))
