"""Sample values of a domain, which prove that it is not empty and refute "covers" cheaply.

Rule: a sample is verified before it is returned. If none is found (patterns that are hard to satisfy together), this
says nothing about the domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain, islice, permutations, product
from typing import Final

from ...protocol.values import INTEGER_MAX, INTEGER_MIN, NULL, Timestamp, Value
from .domains import Domain
from .intervals import Interval, numeric
from .networks import Network
from .strings import Strings, TextCondition

_FILLERS: Final = ("a", "0", "~")
_PATTERNS_JOINED_MAX: Final = 3
_TRIED: Final[tuple[Value | None, ...]] = (
    1,
    2,
    0,
    -1,
    1000,
    -1000,
    10**6,
    -(10**6),
    1e12,
    "a",
    "b",
    True,
    None,
)
_TRIED_MAX: Final = 256


class _Unknown:
    """The type of the marker that no sample was found."""


UNKNOWN: Final = _Unknown()


def sample(domain: Domain) -> Value | _Unknown | None:
    """Return a value in the domain, ``None`` for missing, or :data:`UNKNOWN` when none was found."""
    for value in _candidates(domain):
        if domain.contains(value):
            return value
    return None if domain.missing else UNKNOWN


def variations(event: dict[str, Value], domains: Mapping[str, Domain]) -> Iterator[dict[str, Value]]:
    """Yield variations of an event: the attributes in `domains` take common values of their domains; incomplete."""
    pools = [
        [value for value in (event.get(name), *_TRIED) if domain.contains(value)]
        for name, domain in domains.items()
    ]
    for values in islice(product(*pools), _TRIED_MAX):
        tried = {**event, **dict(zip(domains, values, strict=True))}
        yield {name: value for name, value in tried.items() if value is not None}


def _candidates(domain: Domain) -> Iterator[Value]:
    for interval in domain.numbers:
        yield from _numbers(interval)
    yield from _strings(domain.strings)
    for interval in domain.timestamps:
        yield from _moments(interval)
    yield from sorted(domain.booleans, reverse=True)
    if domain.null:
        yield NULL  # type: ignore[misc]  # events can have this value, but nothing is compared with it


def _numbers(interval: Interval) -> Iterator[int | float]:
    low, high = numeric(interval)
    found: list[int | float] = [0]
    if low is not None:
        found = [low, low + 1, math.nextafter(float(low), math.inf)]
    if high is not None:
        found += [high, high - 1, math.nextafter(float(high), -math.inf)]
    if low is not None and high is not None:
        found.append(low / 2 + high / 2)
    for value in found:
        if isinstance(value, float) or INTEGER_MIN <= value <= INTEGER_MAX:
            yield value


def _moments(interval: Interval) -> Iterator[Timestamp]:
    low, high = numeric(interval)
    near = [0] if low is None else [low, low + 1]
    near += [] if high is None else [high, high - 1]
    for nanoseconds in near:
        if INTEGER_MIN <= nanoseconds <= INTEGER_MAX:
            yield Timestamp(nanoseconds)


def _strings(strings: Strings) -> Iterator[str]:
    wanted = [like for like in strings.likes if not like.negated]
    if not wanted:
        for interval in strings.intervals:
            yield from _texts(interval)
        return
    for filler in _FILLERS:
        for between in ("", filler):
            for like in wanted:
                yield _filled(like, filler, between)
    # The concatenated texts of several patterns satisfy all patterns that begin and end with a wildcard.
    for order in permutations(wanted[:_PATTERNS_JOINED_MAX]):
        yield "".join(_filled(like, _FILLERS[0], "") for like in order)
    for interval in strings.intervals:
        for like in wanted:
            yield from (text + _filled(like, _FILLERS[0], "") for text in _texts(interval))


def _texts(interval: Interval) -> Iterator[str]:
    bounds = [bound for bound in (interval.low, interval.high) if isinstance(bound, str)]
    for base in chain(bounds, ("",)):
        yield base
        yield from (base + filler for filler in (*_FILLERS, "\0"))
    if interval.high is not None and bounds[-1:]:
        yield bounds[-1][:-1]


def _filled(like: TextCondition, wild: str, between: str) -> str:
    if isinstance(like, Network):
        return like.first
    return between.join(
        "".join(wild if element is None else element[0] for element in piece) for piece in like.pattern
    )
