"""``rayvous doctor``: whether this machine has what Rayvous needs, and the command to install what is missing.

Rules
-----
* A check changes nothing and starts nothing that stays. Each check has a time limit, and all run
  concurrently.
* The functions that judge (`machine`, `packages`) are given observations and return findings; the code that
  observes is short.
* *wrong* means that every network needs the thing; *missing* means that only some feature needs it, and the
  finding says which.
"""

from typing import Final

from . import machine, packages, tools
from .findings import Check, Finding, State, take

__all__ = ["CHECKS", "Finding", "State", "take"]

CHECKS: Final = (
    Check("packages", packages.look),
    Check("Ray", tools.look_at_ray),
    Check("Java", tools.look_at_java, needed=False),
    Check("memory", machine.look_at_memory),
    Check("Ray's folder", machine.look_at_disk),
    Check("ports", machine.look_at_ports, needed=False),
    Check("kernel", tools.look_at_kernel, needed=False),
    Check("match index", tools.look_at_index, needed=False),
    Check("compiler", tools.look_at_compiler, needed=False),
    Check("Chromium", tools.look_at_browser, needed=False),
)
"""All checks, in the order in which they are shown."""
