"""A burden on brokers: each event that they take in costs CPU time; for experiments with overload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol import checks
from ...protocol.ids import BrokerId

if TYPE_CHECKING:
    from ...actors.host.host import BrokerHost


@dataclass(frozen=True, slots=True)
class Burden:
    """What events cost from now on, as a fault for :meth:`Network.inject`.

    Attributes
    ----------
    cpu_seconds
        The cost of an event, for each broker. Brokers that are not named keep what they have.
    share
        The share of a CPU that the actor uses for it: the actor pauses for the rest of the time.
    """

    cpu_seconds: Mapping[BrokerId, float]
    share: float = 1.0

    def __post_init__(self) -> None:
        checks.instance("cpu_seconds", self.cpu_seconds, Mapping, "a mapping from broker to CPU seconds")
        for broker, cost in self.cpu_seconds.items():
            checks.seconds(f"cpu_seconds[{broker!r}]", cost)
        if checks.number("share", self.share, above=True) > 1:
            raise checks.wrong("share", self.share, "above 0, and at most 1")

    def __call__(self, host: BrokerHost) -> None:
        """Burden those of the brokers that are in this host."""
        for broker, cost in self.cpu_seconds.items():
            if broker in host.hosted_brokers:
                host.admission.burden(cost, self.share)
