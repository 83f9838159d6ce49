"""What a game day would do: the same machine, on a network that heals at once."""

from __future__ import annotations

from dataclasses import replace

from .machine import End, GameDay, Lift, Restart, Strike, View
from .terms import ENDING, Terms

STEP_SECONDS = 0.5


def rehearse(terms: Terms, view: View) -> list[tuple[float, Strike]]:
    """Return the faults that a game day would cause from now on, each with its time.

    The real ones come later: each waits until the network is whole. They hit others if others live then.

    Parameters
    ----------
    terms
        Those of the game day.
    view
        The network now.
    """
    day, found = GameDay(terms), list[tuple[float, Strike]]()
    now, checked, dead = 0.0, 0, tuple[int, ...]()
    while True:
        seen = replace(view, now=now, dead=dead, problems=(), checked=checked, void=day.strikes)
        for step in day.look(seen):
            match step:
                case Strike():
                    found.append((now, step))
                    dead = step.brokers if step.kind in ENDING else ()
                case Restart() | Lift():
                    dead = ()
                case End():
                    return found
        checked += 1
        now = max(now + STEP_SECONDS, day.due)


__all__ = ["rehearse"]
