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

from .checks import CHECKS
from .findings import Finding, State, take

__all__ = ["CHECKS", "Finding", "State", "take"]
