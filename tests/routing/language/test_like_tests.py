"""Matching strings against LIKE patterns is correct, and fast for any pattern and any text."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.routing.filters.likes import LikePattern, canonical_pattern
from rayvous.routing.language import like_tests, piece_finder
from rayvous.routing.language.piece_finder import PieceFinder

LETTERS = st.sampled_from("aabAü\n")
PIECES = st.lists(st.one_of(LETTERS, st.none(), st.just("Aa"), st.just("ab")), max_size=5).map(tuple)


def regex_of(piece):
    return "".join("." if element is None else f"[{re.escape(element)}]" for element in piece)


@pytest.mark.parametrize("steps", [0, like_tests.SHORT_STEPS])
@given(
    pieces=st.lists(PIECES, min_size=1, max_size=4), text=st.text(LETTERS, max_size=14), negated=st.booleans()
)
def test_a_pattern_matches_what_a_regular_expression_matches(steps, pieces, text, negated):
    expected = re.fullmatch(".*".join(map(regex_of, pieces)), text, re.DOTALL) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(like_tests, "SHORT_STEPS", steps)
        like_tests._test_kept.cache_clear()
        like = LikePattern(canonical_pattern(pieces), negated)
        assert like.matches(text) is like.test()(text) is (expected != negated)


@pytest.mark.parametrize("tries", [0, 1, 32])
@pytest.mark.parametrize("masks", [0, 1, 64])
@given(piece=PIECES, text=st.text(LETTERS, max_size=14), start=st.integers(0, 5), cut=st.integers(0, 5))
def test_the_first_place_is_found_by_either_search(tries, masks, piece, text, start, cut):
    end = max(len(text) - cut, start)
    found = re.compile(f"(?={regex_of(piece)})", re.DOTALL)
    places = [m.start() for m in found.finditer(text[:end]) if m.start() >= start]
    expected = next((place for place in places if place + len(piece) <= end), -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piece_finder, "TRIES", tries)
        patch.setattr(piece_finder, "MASKS_MAX", masks)
        if start <= len(text) and end <= len(text):
            assert PieceFinder(piece).find(text, start, end) == expected


TEXT = "a" * 300_000


@pytest.mark.parametrize(
    "pieces",
    [
        [(), (*"a" * 3_000, "b"), ()],
        [(), (*"a" * 3_000, None, "b"), ()],
        [(), ("b", None, *"a" * 3_000), ()],
        [(), (*("a", None) * 1_500, "b"), ()],
        [(), *[(*"a" * 100, None, "a")] * 60, ("b",), ()],
        [(), (*"a" * 1_500, None, *map(chr, range(1_000, 2_500))), ()],
        [(), *[("a", None, "b")] * 900, ()],
        [(), ("a", None, "b")],
    ],
)
def test_no_pattern_and_no_text_take_long(pieces):
    """A value of 300,000 characters is matched quickly; trying every position took up to a minute."""
    like = LikePattern(canonical_pattern(pieces))
    began = time.process_time()
    assert like.matches(TEXT) is False
    assert time.process_time() - began < 1.5
