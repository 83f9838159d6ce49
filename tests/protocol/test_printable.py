"""Text that may be printed anywhere."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.protocol import checks
from rayvous.protocol.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本 😀 [red]", "plain é 日本 😀 [red]"),
        ("\x1b]0;title\x07\x1b[2J", r"\x1b]0;title\x07\x1b[2J"),
        ("a\nb\r\tc\x00\x7f\x9b", r"a\nb\r\tc\x00\x7f\x9b"),
        ("abc\u202edef\u2066\u200f", r"abc\u202edef\u2066\u200f"),
        ("a\u2028b\u2029\x85", r"a\u2028b\u2029\x85"),
        ("\ud800\ufeff\u200b", r"\ud800\ufeff\u200b"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_not_printable_is_an_escape(text, shown):
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_every_text_is_one_line_that_can_be_encoded(text):
    shown = printable(text)
    assert shown.isprintable() and printable(shown) == shown
    shown.encode()
    assert printable(text, keep="\n").replace("\n", "").isprintable()
    assert json.loads(json.dumps(shown)) == shown


def test_arguments_that_show_themselves_are_printable_in_errors():
    class Hostile:
        def __repr__(self):
            return "\x1b[2J\u202e"

    assert checks.shown(Hostile()) == r"\x1b[2J\u202e"
