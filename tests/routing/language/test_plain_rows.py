"""Plain rows of comparisons: read as the parser reads them, or left to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.protocol.errors import FilterTooComplex, SelectorError
from rayvous.routing.language import selectors
from rayvous.routing.language.plain_rows import row_of
from rayvous.routing.language.predicates import And, Compare
from rayvous.routing.language.selectors import _RESERVED, Dialect, _grammatical, parse_selector

ODD = (
    "",
    "a",
    "'",
    "''",
    "--",
    "5.",
    ".5",
    "052",
    "0x1F",
    "1e3",
    "5L",
    "TRUE",
    "null",
    "not",
    "é",
    "\u00a0",
    "(",
    ")",
)
NAMES = st.sampled_from(["a", "price", "$x.y", "_1", "Ands", "in_", "size", "and", "Null", "\u0131n"])
OPS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">=", "= =", "==", "LIKE"])
LITERALS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(-(10**6), 10**6, places=3).map(str),
    st.text("ab'é \n", max_size=4).map(lambda text: f"'{text}'"),
    st.sampled_from(ODD),
)
BLANKS = st.sampled_from(["", " ", "  ", "\t", "\n"])
TERMS = st.tuples(BLANKS, NAMES, BLANKS, OPS, BLANKS, LITERALS, BLANKS).map("".join)
ROWS = st.tuples(st.lists(TERMS, min_size=1, max_size=4), st.sampled_from(["AND", "and", "OR", ""])).map(
    lambda drawn: drawn[1].join(drawn[0])
)


def read(text: str, dialect: Dialect) -> object:
    try:
        return _grammatical(text, dialect)
    except (SelectorError, FilterTooComplex):
        return None


@pytest.mark.parametrize("dialect", ["rayvous", "jms"])
@given(text=ROWS)
def test_a_row_is_read_as_the_parser_reads_it(dialect: Dialect, text: str) -> None:
    found = row_of(text, _RESERVED)
    if found is not None:
        assert repr(found) == repr(read(text, dialect))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=1", Compare("a", "=", 1)),
        ("  a != -2.50 ", Compare("a", "<>", -2.5)),
        (
            "a = 'it' AND b >= 0\nand c < 7",
            And((Compare("a", "=", "it"), Compare("b", ">=", 0), Compare("c", "<", 7))),
        ),
    ],
    ids=["equal", "blanks", "row"],
)
def test_what_most_subscribers_write_needs_no_parser(
    text: str, says: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "_grammatical", None)
    parse_selector.__globals__["_kept"].cache_clear()
    assert parse_selector(text) == says


LEFT = ("", "a", "a = 5L", "a = 052", "a = 'it''s'", "a = b", "not = 1", "a = 1 OR b = 2", "a = 1 AND")


@pytest.mark.parametrize("text", [*LEFT, "a = 1 ANDb = 2", "a = 'x'AND b = 1"])
def test_anything_else_is_left_to_the_parser(text: str) -> None:
    assert row_of(text, _RESERVED) is None
