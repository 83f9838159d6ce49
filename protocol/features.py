"""What follows from the features that a network was launched with: whether it heals, has stores, controls admission.

Rules
-----
* Each question about an absent feature is answered here, once. Who takes part in a network asks `Features`, and does
  not look whether a configuration is None.
* An answer is a value that also works where the feature is absent (a wait without a limit, a limit of nothing), so
  that most parts need not ask whether it is there.
* `times` is for code that runs in networks that heal only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from .messages.admission import AdmissionConfig
from .messages.recovery import Recovery

_NO_ADMISSION: Final = AdmissionConfig()


class Retention(NamedTuple):
    """The most that is retained, and for how long."""

    events_max: int
    seconds: float
    bytes_max: int


@dataclass(frozen=True)
class Features:
    """The features of a network, and what follows from them; what is asked for every event is found once.

    Parameters
    ----------
    recovery
        How the network detects and repairs failures; None where it does not heal.
    stores
        Whether its brokers have stores.
    admission
        Its admission control; None for a network without it.
    """

    recovery: Recovery | None = None
    stores: bool = False
    admission: AdmissionConfig | None = None

    # What kind of network it is.

    @cached_property
    def heals(self) -> bool:
        """Whether failures are detected and repaired: brokers take over from each other, and clients move."""
        return self.recovery is not None

    @property
    def numbers(self) -> bool:
        """Whether brokers number what they send: they have stores, and do not heal."""
        return self.stores and not self.heals

    @property
    def admits(self) -> bool:
        """Whether there is admission control."""
        return self.admission is not None

    @property
    def measures(self) -> bool:
        """Whether hosts measure their capacity for admission control."""
        return self.admission is not None and self.admission.measure

    @property
    def _admission(self) -> AdmissionConfig:
        """The configuration whose defaults are also right without admission control."""
        return self.admission or _NO_ADMISSION

    @property
    def deadline_seconds(self) -> float | None:
        """How long an event may wait at one place; None for no limit."""
        return self._admission.deadline_seconds

    @property
    def delay_window_seconds(self) -> float | None:
        """Over which time brokers measure how long events wait; None if they do not."""
        return self._admission.delay_window_seconds

    @property
    def compares(self) -> bool:
        """Whether brokers compare their state with each other, to detect damage."""
        return self.compare_seconds is not None

    @property
    def keeps_history(self) -> bool:
        """Whether brokers retain what was published at them, for subscribers that begin in the past."""
        return self.stores and self.heals and self.times.history_seconds > 0

    @cached_property
    def outlives_processes(self) -> bool:
        """Whether something outlives the process in which it was: a process that ends is followed by another."""
        return self.heals or self.stores

    @property
    def quotas_only(self) -> bool:
        """Whether brokers need the time for the quotas of their publishers alone."""
        return self.admits and not self.outlives_processes

    # Times and limits.

    @property
    def times(self) -> Recovery:
        """The times and limits of a network that heals."""
        assert self.recovery is not None, "the network does not heal"
        return self.recovery

    @property
    def usual_times(self) -> Recovery:
        """The times of a network that heals, and the defaults elsewhere: units of what a run may take."""
        return self.recovery or Recovery()

    @property
    def late_seconds(self) -> float:
        """How long after it was last told the time a broker is late: a heartbeat, or never."""
        return self.times.heartbeat_seconds if self.heals else math.inf

    @property
    def member_patience_seconds(self) -> float | None:
        """How long a call to a cluster waits for a member that does not answer; None for no limit."""
        return self.times.heartbeat_seconds if self.heals else None

    @property
    def client_patience_seconds(self) -> float | None:
        """How long a client waits for a sign of life of its broker; None where it cannot move to another one."""
        return self.times.client_patience_seconds if self.heals else None

    @property
    def compare_seconds(self) -> float | None:
        """The time between two comparisons; None where nothing is compared."""
        return self.times.compare_seconds if self.heals else None

    @property
    def retention(self) -> Retention:
        """What is retained of accepted events, for retransmission; nothing where nothing is repaired."""
        if not self.heals:
            return Retention(0, 0.0, 0)
        times = self.times
        return Retention(times.retention_events_max, times.retention_seconds, times.retention_bytes_max)


NONE: Final = Features()
"""Those of a network without any."""
