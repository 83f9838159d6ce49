"""The additional draws of a case, in their order: each has randomness of its own and changes nothing drawn before."""

from __future__ import annotations

from .admission_cases import with_admission
from .cases import Case
from .connection_cases import with_connection_faults
from .damage_cases import that_compares, with_damage
from .expiry_cases import with_ttls
from .known_cases import with_known
from .late_cases import with_late
from .lossless_cases import without_limits
from .replay_cases import with_history
from .stable_cases import with_stores


def extended(
    case: Case,
    *,
    stable: bool = False,
    admission: bool = False,
    damage: bool = False,
    lossless: bool = False,
    known: bool = False,
    connected: bool = False,
    late: bool = False,
    expiring: bool = False,
    histories: bool = False,
) -> Case:
    """Extend a case.

    Parameters
    ----------
    case
        What its seed draws first.
    stable
        Whether brokers have stores, and clients die too.
    admission
        Whether brokers admit only what they can carry.
    damage
        Whether state is damaged too.
    lossless
        Whether so much is retained that no loss is excused.
    known
        Whether deaths become known, and some news is wrong.
    connected
        Whether connections between processes get faults.
    late
        Whether subscribers come late, unless state is damaged.
    expiring
        Whether some events have a time to live.
    histories
        Whether some networks with stores keep a history.
    """
    case = with_admission(case) if admission else case
    case = with_stores(case) if stable else case
    case = without_limits(case) if lossless else case
    case = with_connection_faults(case) if connected else case
    case = with_damage(case) if damage else that_compares(case)
    case = with_known(case) if known else case
    case = with_ttls(case) if expiring else case
    case = with_history(case) if histories else case
    return with_late(case) if late and not damage else case
