"""Letters change case in pairs, so that converting back and forth loses nothing."""

import sys
from functools import cache

from rayvous.routing.language.cases import either_case, in_lower_case, in_upper_case


@cache
def letters() -> list[str]:
    """Return the characters of Unicode that have another case, which takes long."""
    return [c for c in map(chr, range(sys.maxunicode + 1)) if c.lower() != c or c.upper() != c]


def test_a_character_is_in_one_pair_at_most() -> None:
    pairs = [either_case(letter) for letter in letters()]
    assert len(pairs) > 2_000
    for letter, pair in zip(letters(), pairs, strict=True):
        assert letter in pair and len(pair) <= 2 and all(either_case(each) == pair for each in pair)
        assert in_upper_case(letter) == pair[0] and in_lower_case(letter) == pair[-1]


def test_texts_keep_their_length_and_are_equal_in_both_cases_or_in_none() -> None:
    for one, other, alike in (
        ("Straße", "sTRAßE", True),
        ("ſ", "s", False),
        ("É", "é", True),
        ("İ", "i", False),
    ):
        assert len(in_upper_case(one)) == len(in_lower_case(one)) == len(one)
        assert (in_upper_case(one) == in_upper_case(other)) is alike
        assert (in_lower_case(one) == in_lower_case(other)) is alike


def test_only_a_few_characters_have_no_pair_though_they_have_another_case() -> None:
    single = [
        letter
        for letter in letters()
        if len(either_case(letter)) == 1 and len(letter.upper()) == len(letter.lower()) == 1
    ]
    assert {"µ", "ſ"} <= set(single) and len(single) < 100
