"""The same broker in virtual time: thousands in one process, every run the same for the same seed."""

from .network import Step, Traffic, VirtualNetwork
from .run import Outcome, run_scenario
from .simulation import Notification, Simulation

__all__ = ["Notification", "Outcome", "Simulation", "Step", "Traffic", "VirtualNetwork", "run_scenario"]
