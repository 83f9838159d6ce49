"""Tables of the command line fit the terminal: nothing is cut off, however narrow it is."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.cli import console
from rayvous.cli.console import GAP, fitting
from rayvous.cli.verbs import compare
from rich.console import Console


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that makes the console print to a terminal of a given width, and returns its text."""

    def make(columns: int) -> io.StringIO:
        paper = io.StringIO()
        monkeypatch.setattr(console, "out", Console(file=paper, width=columns, highlight=False))
        return paper

    return make


tables = st.integers(1, 9).flatmap(
    lambda columns: st.tuples(
        st.lists(st.text("abc", min_size=1, max_size=12), min_size=columns, max_size=columns),
        st.lists(st.lists(st.text("xyz", max_size=15), min_size=columns, max_size=columns), max_size=4),
        st.integers(1, 100),
    )
)


@given(tables)
def test_parts_have_every_column_once_and_fit(table):
    names, rows, width = table
    parts = list(fitting(names, rows, width))
    assert [name for first, _ in parts for name in first[1:]] == names[1:]
    for first, last in parts:
        assert first[0] == names[0]
        widths = [max(map(len, column)) for column in zip(first, *last, strict=True)]
        assert sum(widths) + GAP * len(widths) <= width or len(widths) <= 2
    for place, row in enumerate(rows):
        assert [cell for _, last in parts for cell in last[place][1:]] == row[1:]


def scheme(name: str) -> dict:
    return {
        "scheme": name, "messages": 1234.56, "crossings": 1234.56, "over_bound": 112.65, "bytes": 1_234_567,
        "hops_mean": 13.86, "latency_mean_seconds": 1.2345, "aed_seconds": 1.2345, "table_entries_mean": 1234.5,
        "control_messages": 1_234_567, "load_gini": 0.71, "load_max_over_mean": 123.4, "recovery_seconds": 123.4,
        "verdict": "holds",
    }  # fmt: skip


@pytest.mark.parametrize("columns", [120, 80, 60, 40])
def test_a_comparison_has_all_its_headings_and_numbers(terminal, columns):
    paper = terminal(columns)
    rows = [scheme("hybrid+quench+merge"), scheme("point-to-point")]
    result = {
        "brokers": 1000, "events": 100_000, "notifications": 100_000, "on": "sim", "results": rows,
        "bound_links": 2.77, "bound_multicast": 2.72,
    }  # fmt: skip
    compare._print(result)
    text = paper.getvalue()
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= columns
    words = text.split()
    for name, cell in compare.COLUMNS.items():
        assert name in words
        assert words.count(cell(rows[0])) >= (1 if name == "scheme" else 2)


@pytest.mark.parametrize(("width", "lines"), [(10, 2), (9, 4)])
def test_a_table_that_just_fits_is_one_table(terminal, width, lines):
    paper = terminal(width)
    console.print_columns("", ["a", "bb", "c"], [["aa", "1", "222"]])  # 2 + 2 + 3, and a space after each
    printed = [line.split() for line in paper.getvalue().splitlines()]
    assert len(printed) == lines
    assert printed[1][:2] == ["aa", "1"]
    assert printed[-1][-1] == "222"


def test_a_path_is_wrapped_not_cut(terminal):
    paper = terminal(40)
    path = "/" + "deep/" * 20 + "report"
    console.print_table("Written", {"report": path, "summary": "short"})
    text = paper.getvalue()
    assert "…" not in text
    assert path in "".join(text.replace("report ", "", 1).split()).replace("Written", "")
