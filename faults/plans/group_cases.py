"""Consumer groups in chaos: some durable subscribers of a case share their events among workers.

Rule: this has a source of randomness of its own, and changes nothing of what the seed draws otherwise. Where state is
damaged there are none: brokers are judged from a later time on then, and groups from their beginning.
"""

from __future__ import annotations

import random
from typing import Final

from ...protocol.groups import PUBLISHER_KEY
from ...protocol.ids import ClientId
from .cases import Case
from .damage_cases import is_damaged

KEY: Final = "symbol"
"""The attribute whose values have to be processed in order, of groups that have one: most events of a case have it."""


def groups_of(case: Case) -> dict[ClientId, str | None]:
    """Return the durable subscribers of a case that are groups, each with its `group_key`."""
    if not (case.stable and case.features.heals) or is_damaged(case):
        return {}
    rng = random.Random(f"chaos/groups/{case.seed}")
    # This one came later, and changes nothing of what the former draws.
    others = random.Random(f"chaos/keys of groups/{case.seed}")
    drawn = ((name, rng.random(), rng.choice((None, PUBLISHER_KEY))) for name in case.durable)
    keys = ((name, share, key or others.choice((None, KEY))) for name, share, key in drawn)
    return {name: key for name, share, key in keys if share < 0.5}
