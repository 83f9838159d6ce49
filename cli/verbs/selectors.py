"""``rayvous selector``: the meaning of a selector, and the comparison of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...routing.filters.covering import covers, intersects
from ...routing.language.questions import dialect_of, doubts_about, to_filter


def describe_selector(
    text: str, other: str | None, dialect: str = "rayvous", advertised: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a selector's normal form, size and doubts, and how it compares with another one; both in a dialect.

    Raises
    ------
    SelectorError
        If one of them is not a valid selector, or there is no such dialect.
    """
    language = dialect_of(dialect)
    item = to_filter(text, dialect=language)
    result: dict[str, Any] = {
        "selector": text,
        "normal_form": str(item),
        "clauses": len(item.clauses),
        "attributes": list(item.attributes),
        "doubts": list(doubts_about(text, dialect=language, advertised=advertised or None)),
    }
    if other is not None:
        second = to_filter(other, dialect=language)
        result |= {
            "other_normal_form": str(second),
            "covers": covers(item, second),
            "is_covered": covers(second, item),
            "intersects": intersects(item, second),
        }
    return result
