"""Validation of the rights of a network file before anything starts: each right is a selector."""

from __future__ import annotations

from ...protocol.errors import InputError
from ...protocol.gateways import ANONYMOUS, AccessConfig
from ...routing.filters.filter import to_filter


def check_rights(access: AccessConfig) -> None:
    """Check that every right is a selector.

    Raises
    ------
    InputError
        If a right is not a selector; the message names the principal.
    """
    everybody = {f"principals {name}": principal for name, principal in access.principals.items()}
    if access.anonymous is not None:
        everybody[ANONYMOUS] = access.anonymous
    for name, principal in everybody.items():
        for right in ("publish", "subscribe"):
            try:
                to_filter(getattr(principal, right))
            except InputError as error:
                raise InputError(f"access {name}: {right}: {error}") from None
