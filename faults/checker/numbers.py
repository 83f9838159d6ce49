"""The numbers of a publisher's events, which must rise in the order of publication.

Rule: numbers name events, and stand for the order of publication. A trace in which they do not rise is refused,
because nobody can say in which order its events had to come (docs/decisions/0111-numbers-rise.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.errors import InputError
from ...protocol.traces.trace import Operation, Published


def check_trace(operations: Iterable[Operation], source: str = "") -> None:
    """Raise InputError if a publisher's numbers do not rise from publication to publication.

    Parameters
    ----------
    operations
        The operations, in order.
    source
        Where they were read, for the error.
    """
    check_placed(enumerate(operations), source)


def check_placed(placed: Iterable[tuple[int, Operation]], source: str = "") -> None:
    """Check the same for some of a trace's operations, each with its position there."""
    last: dict[str, int] = {}
    for position, op in placed:
        if type(op) is Published:
            before = last.get(op.publisher)
            if before is not None and op.sequence <= before:
                raise InputError(number_error(position, op.publisher, op.sequence, before, source))
            last[op.publisher] = op.sequence


def number_error(position: int, publisher: str, sequence: int, before: int, source: str = "") -> str:
    """Return the sentence for a publication whose number does not exceed the one before it."""
    where = f"{source}, operation {position}" if source else f"operation {position}"
    if sequence == before:
        return f"{where}: {publisher} #{sequence} is published twice: a number names one event"
    return (
        f"{where}: {publisher} #{sequence} is published after #{before}: the numbers of a publisher must rise in "
        "the order of publication"
    )
