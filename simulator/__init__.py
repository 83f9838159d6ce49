"""The same broker in virtual time: thousands in one process, and the same seed always gives the same run."""

from .network import Step
from .run import Outcome, run_scenario
from .simulation import ArrivedEvent, Simulation
from .transport import Traffic

__all__ = [
    "ArrivedEvent",
    "Outcome",
    "Simulation",
    "Step",
    "Traffic",
    "run_scenario",
]
