"""Fault plans for the links of whole hosts, drawn from a seed: cut for a short or a long time, slow, lossy.

Rules
-----
* A plan has one fault, chosen by the seed modulo four, so four consecutive seeds cover all kinds. Short and
  long are relative to the time after which Ray itself gives a node up.
* Host 0 is never harmed: it runs the clients, the rendezvous point, and Ray's head, without which there is no
  cluster.
"""

from __future__ import annotations

import random
from typing import Final

from ...protocol.errors import ScenarioError
from .plans import FaultPlan, HostLink

HOST_AIMS: Final = ("short", "long", "slow", "lossy")
"""How the link of a host is harmed, by the seed modulo their number."""

AFTER_SECONDS: Final = 2.0
"""The time from the end of the fault until everything heals, in which Ray itself has to notice what has returned."""


def host_plan(seed: int, hosts: int, gives_up_seconds: float) -> FaultPlan:
    """Return the plan of a seed.

    Parameters
    ----------
    seed
        The seed.
    hosts
        The number of hosts, at least two.
    gives_up_seconds
        The time after which Ray gives up a node that does not answer.
    """
    rng = random.Random(f"hosts/{seed}")
    at, host, aim = (
        round(rng.uniform(0.5, 1.5), 3),
        rng.randrange(1, hosts),
        HOST_AIMS[seed % len(HOST_AIMS)],
    )
    if aim == "short":
        fault = HostLink(at, host, round(rng.uniform(0.2, 0.4) * gives_up_seconds, 3))
    elif aim == "long":
        fault = HostLink(at, host, round(rng.uniform(1.5, 2.0) * gives_up_seconds, 3))
    elif aim == "slow":
        fault = HostLink(at, host, 6.0, megabits_per_second=rng.choice((0.5, 1.0, 2.0)))
    else:
        fault = HostLink(at, host, 6.0, drop=rng.choice((0.02, 0.1, 0.25)))
    return FaultPlan(f"seed {seed}", (fault,), fault.at_seconds + fault.seconds + AFTER_SECONDS)


def check_hosts(plan: FaultPlan | None, hosts: int) -> None:
    """Check that the hosts exist whose links a plan harms.

    Raises
    ------
    ScenarioError
        If one does not, or is host 0. The message says which.
    """
    if plan is None:
        return
    for place, fault in enumerate(plan.faults):
        if not isinstance(fault, HostLink) or 0 < fault.host < hosts:
            continue
        there = f"there are {hosts}" if hosts else "there are none: give --on ray --hosts N"
        why = "the clients and Ray's head are there" if hosts and not fault.host else there
        raise ScenarioError(
            f"plan {plan.name!r}, faults[{place}]: the link of host {fault.host} cannot get faults: {why}"
        )
