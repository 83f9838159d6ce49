"""The algebra of domains agrees with plain membership, on values at and next to the bounds."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.values import NULL, Timestamp
from rayvous.routing.filters.domains import (
    BOTH,
    EVERYTHING,
    NO_STRINGS,
    NOTHING,
    Domain,
    Interval,
    LikePattern,
    Strings,
    like_strings,
)
from rayvous.routing.filters.intervals import (
    complement,
    contains,
    covers,
    intersect,
    membership,
    prefix_interval,
    prefix_of,
    settle_strings,
    unite,
)
from rayvous.routing.filters.likes import canonical_pattern, pattern_implies, patterns_disjoint
from rayvous.routing.filters.networks import Network
from rayvous.routing.filters.strings import settle, strings_of

PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)

NUMBERS = [-1, 0, 0.5, 1, 1.5, 2, 2**53, 2**53 + 1, 1e300]
ALPHABET = ["a", "b", "\n", "%"]
TEXTS = ["".join(letters) for size in range(4) for letters in itertools.product("ab", repeat=size)] + [
    "\n",
    "a%b",
    "10.1.0.1",
    "10.129.0.1",
    "11.0.0.1",
    "::2",
]
VALUES: list[Any] = [None, False, True, *NUMBERS, *TEXTS, Timestamp(0), Timestamp(1), Timestamp(2), NULL]


def _interval(bounds: list[Any]) -> st.SearchStrategy[Interval]:
    def make(low: Any, high: Any, low_open: bool, high_open: bool) -> Interval:
        if low is not None and high is not None and low >= high:
            return Interval(high, low) if low == high else Interval(high, low, low_open, high_open)
        return Interval(low, high, low_open and low is not None, high_open and high is not None)

    bound = st.sampled_from([None, *bounds])
    return st.builds(make, bound, bound, st.booleans(), st.booleans())


number_sets = st.lists(_interval(NUMBERS[:6]), max_size=4).map(unite)
text_intervals = st.lists(_interval(["", "a", "ab", "b", "bb"]), max_size=3).map(
    lambda found: settle_strings(unite(found))
)
pieces = st.lists(st.sampled_from(["a", "b", None, "ab"]), max_size=3).map(tuple)
patterns = st.lists(pieces, min_size=1, max_size=4)
likes = st.builds(lambda pattern, negated: like_strings(pattern, negated=negated), patterns, st.booleans())
blocks = st.sampled_from([(4, 0, 0), (4, 10, 8), (4, 20, 9), (4, 21, 9), (6, 0, 0)])
networks = st.builds(lambda block, negated: strings_of(Network(*block, negated)), blocks, st.booleans())


@st.composite
def string_sets(draw: Any) -> Strings:
    found = Strings(draw(text_intervals))
    for like in draw(st.lists(likes | networks, max_size=3)):
        found = found.intersect(like)
    return found


domains = st.builds(
    Domain,
    st.booleans(),
    st.sampled_from([frozenset(), frozenset([True]), BOTH]),
    number_sets,
    string_sets(),
    st.lists(_interval([0, 1, 2]), max_size=2).map(unite),
    st.booleans(),
)


def holds(domain: Domain) -> list[bool]:
    return [domain.contains(value) for value in VALUES]


@PROPERTY
@given(domains, domains)
def test_domains_are_sets(left: Domain, right: Domain) -> None:
    in_left, in_right = holds(left), holds(right)
    pairs = list(zip(in_left, in_right, strict=True))
    assert holds(left.intersect(right)) == [a and b for a, b in pairs]
    both = left.union(right)
    if both is not None:
        assert holds(both) == [a or b for a, b in pairs]
    inverse = [holds(piece) for piece in left.complement()]
    assert [sum(column) for column in zip(*inverse, strict=True)] == (
        [not a for a in in_left] if inverse else []
    )
    rest = [holds(piece) for piece in left.subtract(right)]
    if rest:
        assert [sum(column) for column in zip(*rest, strict=True)] == [a and not b for a, b in pairs]
    else:
        assert all(b for a, b in pairs if a)
    if left.covers(right):
        assert all(a for a, b in pairs if b)
    if left.is_empty:
        assert not any(in_left)
    test = left.test()
    assert [test(value) for value in VALUES] == in_left
    assert left.covers(left)
    assert left.covers(left.intersect(right))
    assert left.intersect(left) == left


@PROPERTY
@given(number_sets, number_sets)
def test_intervals_keep_their_form(left: tuple[Interval, ...], right: tuple[Interval, ...]) -> None:
    for made in (left, intersect(left, right), unite(left + right), complement(left)):
        assert unite(made) == made
        for interval in made:
            assert not (interval.low is None and interval.low_open)
            assert not (interval.high is None and interval.high_open)
    assert complement(complement(left)) == left
    assert covers(left, right) == (intersect(left, right) == right)
    assert intersect(left, complement(left)) == NOTHING
    assert unite(left + complement(left)) == EVERYTHING
    fast = membership(left) if left else None
    for value in NUMBERS:
        assert fast is None or bool(fast(value)) == contains(left, value)


@PROPERTY
@given(patterns, patterns)
def test_pattern_decisions_are_sound(left: list[Any], right: list[Any]) -> None:
    narrow, wide = canonical_pattern(left), canonical_pattern(right)
    one, two = LikePattern(narrow), LikePattern(wide)
    for text in TEXTS:
        assert one.matches(text) == _matches(text, left)
        if one.matches(text) and pattern_implies(narrow, wide):
            assert two.matches(text)
        if patterns_disjoint(narrow, wide):
            assert not (one.matches(text) and two.matches(text))
        assert like_strings(left).contains(text) == one.matches(text)
        assert like_strings(left, negated=True).contains(text) != one.matches(text)


def _matches(text: str, pattern: list[Any]) -> bool:
    """Return whether a text matches, by trying every length for every %."""
    head, *rest = pattern
    if len(text) < len(head) or any(
        want is not None and got not in want for want, got in zip(head, text, strict=False)
    ):
        return False
    tail = text[len(head) :]
    if not rest:
        return not tail
    return any(_matches(tail[skip:], rest) for skip in range(len(tail) + 1))


@PROPERTY
@given(string_sets())
def test_settling_twice_changes_nothing(strings: Strings) -> None:
    assert settle(strings.intervals, strings.likes) == strings


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("abc", Interval("abc", "abd", False, True)),
        ("", Interval()),
        ("a\U0010ffff", Interval("a\U0010ffff", "b", False, True)),
        ("\U0010ffff\U0010ffff", Interval("\U0010ffff\U0010ffff")),
    ],
)
def test_a_prefix_is_an_interval(prefix: str, expected: Interval) -> None:
    assert prefix_interval(prefix) == expected
    assert prefix_of(expected) == prefix
    assert expected.contains(prefix)
    assert expected.contains(prefix + "\U0010ffff\U0010ffff")


def test_patterns_that_are_intervals_become_intervals() -> None:
    assert like_strings([("a", "b")]) == Strings((Interval("ab", "ab"),))
    assert like_strings([("a", "b"), ()]) == Strings((prefix_interval("ab"),))
    assert like_strings([(), ()]) == Strings()
    assert like_strings([(), (), ("a",)]).likes == (LikePattern(((), ("a",))),)
    assert like_strings([(), (None,), ("a",)]) == like_strings([(None,), (), (), ("a",)])
    narrowed = like_strings([("a",), ("b",)])
    assert narrowed.intervals == (prefix_interval("a"),)


def test_contradictions_and_repetitions_among_patterns_are_seen() -> None:
    ends_b, ends_ab, ends_c = (like_strings([(), tuple(text)]) for text in ("b", "ab", "c"))
    assert ends_b.intersect(ends_ab) == ends_ab
    assert ends_b.intersect(ends_c) == NO_STRINGS
    assert ends_b.intersect(like_strings([(), ("b",)], negated=True)) == NO_STRINGS
    assert ends_b.intersect(Strings((Interval("ab", "ab"), Interval("ac", "ac")))) == Strings(
        (Interval("ab", "ab"),)
    )


def test_constructors() -> None:
    assert Domain.interval(1, 5).numbers == (Interval(1, 5),)
    assert Domain.interval(5, 1) == Domain.EMPTY
    assert Domain.interval(1, 1, low_open=True).is_empty
    assert Domain.interval(high="") == Domain.values([""])
    assert Domain.interval(high="", high_open=True).is_empty
    assert Domain.interval(Timestamp(5)).timestamps == (Interval(5),)
    assert type(Domain.interval(Timestamp(5)).timestamps[0].low) is int
    mixed = Domain.values([True, 1, 1.0, "a", Timestamp(1)])
    assert mixed == Domain(
        False, frozenset([True]), (Interval(1, 1),), Strings((Interval("a", "a"),)), (Interval(1, 1),)
    )
    assert Domain.ANYTHING.is_anything
    assert not Domain.PRESENT.is_anything


def test_no_group_converts_to_another() -> None:
    one = Domain.values([1])
    assert one.contains(1.0)
    assert not any(one.contains(value) for value in (True, "1", Timestamp(1), None))
    assert not Domain.values([Timestamp(1)]).contains(1)


def test_the_complement_in_the_group_leaves_the_rest_out() -> None:
    inside = Domain.interval(high="", high_open=True).complement_in_group("")
    assert inside == Domain.matching(Strings())
    assert Domain.values([1]).complement_in_group(1).contains(2)
    assert not Domain.values([1]).complement_in_group(1).contains("a")
    assert not Domain.values([True]).complement_in_group(True).contains(None)
    with pytest.raises(ValueError, match="pattern"):
        Domain.matching(like_strings([(), ("b",)])).complement_in_group("")


def test_a_union_that_is_no_domain_is_none() -> None:
    assert Domain.matching(like_strings([(), ("b",)])).union(Domain.values(["c"])) is None
    assert Domain.matching(like_strings([(), ("b",)])).union(Domain.values(["ab", 1])) is not None


def test_many_intervals_are_searched() -> None:
    many = unite(Interval(i, i + 1, False, True) for i in range(0, 100, 2))
    fast = membership(many)
    assert [bool(fast(value / 2)) for value in range(-3, 220)] == [
        contains(many, value / 2) for value in range(-3, 220)
    ]
    ends = (Interval(None, 0), *many[1:], Interval(200, None, True))
    fast = membership(ends)
    assert [bool(fast(value)) for value in range(-3, 220)] == [
        contains(ends, value) for value in range(-3, 220)
    ]
