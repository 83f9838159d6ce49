"""The same broker in virtual time: thousands in one process, every run the same for the same seed."""

from .chaos import ChaosReport, run_chaos, run_seeds
from .clients import HostileSimulation
from .network import Step, Traffic, VirtualNetwork
from .run import Outcome, run_scenario
from .simulation import Notification, Simulation

__all__ = [
    "ChaosReport",
    "HostileSimulation",
    "Notification",
    "Outcome",
    "Simulation",
    "Step",
    "Traffic",
    "VirtualNetwork",
    "run_chaos",
    "run_scenario",
    "run_seeds",
]
