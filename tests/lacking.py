"""Steps through what follows a loss in virtual time, until it is repaired."""

from rayvous.faults.checker.reliability import judge
from rayvous.recovery.membership.structure import problems
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey_of

STEP_SECONDS = 0.02
UNDER_WAY_SECONDS = 0.1
"""For how long something may be missing without any survey saying so: it may be under way."""
BOUND_SECONDS = 60.0


def delivers_and_says_what_is_missing(net: Simulation, due: int) -> float:
    """Go on until so many notifications are delivered, and return the time then.

    As long as some are missing, a survey has to say what is not settled.
    """
    silent = 0
    while judge(net.account).notifications_delivered < due:
        net.advance(STEP_SECONDS)
        silent = 0 if problems(survey_of(net)) else silent + 1
        assert silent * STEP_SECONDS <= UNDER_WAY_SECONDS
        assert net.now < BOUND_SECONDS
    return net.now
