"""One run of a search: a case in virtual time, and what it reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..chaos_run import ChaosRun
from ..plans.cases import Case
from ..report import ChaosReport
from ..simulated.on_simulator import OnSimulator
from .seen import Seen, Watch


class Attempt(NamedTuple):
    """The report of a run, and what it reached."""

    report: ChaosReport
    seen: Seen


class _Watched(OnSimulator):
    def __init__(self, case: Case, watch: Watch, **options: object) -> None:
        super().__init__(case, **{**options, **watch.options()})
        self._watch = watch
        self._acts = iter((0.0, *case.intermissions))
        watch.network = self.network

    def carry_out(self, until: float, every_seconds: float) -> Iterator[None]:
        """Let virtual time pass up to the healing; these are the moments at which faults may be aimed."""
        self._watch.begin(self.now - next(self._acts))
        yield from super().carry_out(until, every_seconds)
        self._watch.end()


def attempt(case: Case, **options: object) -> Attempt:
    """Run a case, judge it, and return what it reached.

    Parameters
    ----------
    case
        The case.
    options
        Passed to :class:`~rayvous.simulator.simulation.Simulation`: `broker`, `strangers`.
    """
    watch = Watch()
    report = ChaosReport("sim", case.describe(), drawn=case)
    return Attempt(ChaosRun(case, _Watched(case, watch, **options), report).run(), watch.seen())


__all__ = ["Attempt", "attempt"]
