"""``rayvous doctor``: whether this machine has what Rayvous needs, and the line to type for what it has not.

Rules
-----
* A look changes nothing and starts nothing that stays. Each has a limit of time, and all are taken at once.
* What judges (`machine`, `packages`) is given what was seen and returns findings; what looks is short.
* *wrong* is what every network needs and does not have; *missing* is what one can do without, and says for what.
"""

from .checks import CHECKS
from .findings import Finding, State, take

__all__ = ["CHECKS", "Finding", "State", "take"]
