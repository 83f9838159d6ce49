"""docs/reproduction.md: what it counts is what its tables have, and what the judges find in its numbers.

Rules
-----
* A table of sentences has the columns fitted, predicted, and cannot hold (or excluded by the fit). The letters at the
  beginning of a cell are the readings under which a sentence is so; each is one of the paper's sentences.
* The numbers of figures 4 and 5 on the page are judged by the code that judged the runs.
"""

import re
from pathlib import Path

import pytest
from rayvous.experiments.clusters import FITTED_SEND_SECONDS
from rayvous.experiments.clusters_statements import judge_aed, judge_tct

PAGE = (Path(__file__).parents[2] / "docs/reproduction.md").read_text(encoding="utf-8")
CURVES = {
    "hybrid": "hrm",
    "hr, members as leaves": "hr",
    "hr, every broker a node": "hr, all nodes",
}
READINGS = re.compile(r"\b(?:[LN][as]?|[AW])\b")
BRACKETS = re.compile(r"\([^()]*\)")


def part(heading):
    """Return the text below a heading, up to the next one of its level or above."""
    level = heading.index(" ")
    _, found, after = PAGE.partition(f"\n{heading}\n")
    assert found, f"the page has no {heading!r}"
    return re.split(rf"\n#{{1,{level}}} ", after)[0]


def tables(text):
    """Return the tables of a text, each a list of rows of cells, without the line below the heads."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [
        [
            [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
            for line in block.splitlines()
            if "---" not in line
        ]
        for block in blocks
    ]


def counted(text):
    """Return how many sentences stand in each column of the table of sentences of a text."""
    (table,) = (rows for rows in tables(text) if rows[0][1:3] == ["fitted", "predicted"])
    return [
        sum(len(set(READINGS.findall(BRACKETS.sub("", row[column])))) for row in table[1:])
        for column in (1, 2, 3)
    ]


def measured(text, value, scale=1.0):
    """Return the rows that a judge reads, of the table of a figure by publishers, routing and subscribers."""
    head, *lines = next(rows for rows in tables(text) if rows[0][:2] == ["publishers", "routing"])
    return [
        {
            "curve": CURVES[routing],
            "publishers": int(publishers.replace(",", "")),
            "subscribers": int(subscribers.replace(",", "")),
            "send_seconds": FITTED_SEND_SECONDS,
            value: (number := float(cell.replace(",", "")) * scale),
            f"{value}_each": [number],
            "events": number,
        }
        for publishers, routing, *cells in lines
        for subscribers, cell in zip(head[2:], cells, strict=True)
        if cell
    ]


@pytest.mark.parametrize(
    ("heading", "counts", "says"),
    [
        (
            "## Figure 4 of paper 1, calibrated",
            [6, 11, 3],
            "All 20 sentences are accounted for: 11 predicted, 6 fitted, 3 that cannot hold",
        ),
        (
            "## Figure 5 of paper 1, calibrated",
            [1, 15, 11],
            "Of 32 sentences 27 are accounted for: 15 predicted, one fitted, 11 that cannot hold",
        ),
        ("### Figures 9 and 10, calibrated", [3, 21, 1], "Of 30 sentences 24 hold: 21 predicted, 3 fitted"),
    ],
)
def test_the_page_counts_what_its_tables_have(heading, counts, says):
    text = part(heading)
    assert counted(text) == counts and says in " ".join(text.split())


@pytest.mark.parametrize(
    "heading",
    [
        "## Figure 4 of paper 1, calibrated",
        "## Figure 5 of paper 1, calibrated",
        "## Paper 2",
        "## Paper 3",
        "## Reliability",
        "## Paper 5",
    ],
)
def test_each_paper_has_its_sentences_in_three_columns(heading):
    heads = [rows[0][1:] for rows in tables(part(heading))]
    assert [head[:2] for head in heads if head[2:] in (["cannot hold"], ["excluded by the fit"])] == [
        ["fitted", "predicted"]
    ]


def test_the_numbers_of_figure_4_are_judged_as_the_page_says():
    said = judge_tct(measured(part("## Figure 4 of paper 1, calibrated"), "tct"))
    assert len(said) == 20 and [each.text for each in said if not (each.holds or each.impossible)] == []
    assert [sum(each.fitted for each in said), sum(each.impossible for each in said)] == [6, 2]
    by_chance = [each.text for each in said if each.holds and "the earlier the knee" in each.text]
    assert len(by_chance) == 1 and "leaves" in by_chance[0], "the page counts it as one that cannot hold"


def test_the_numbers_of_figure_5_are_judged_as_the_page_says():
    rows = measured(part("## Figure 5 of paper 1, calibrated"), "aed_seconds", 1e-3)
    both = [row | {"seconds_per_notification_each": row["aed_seconds_each"]} for row in rows]
    said = [each for each in judge_aed(both) if "AED of a subscriber" in each.text]
    other = {each.text.partition(";")[0] for each in said if not (each.holds or each.impossible)}
    leaves, node = "[hr: normal brokers are leaves", "[hr: every broker a node"
    assert len(said) == 16 and other == {
        f"the more publishers, the earlier the knee {leaves}",
        f"with 1000 publishers the knee is at 50 subscribers {leaves}",
        f"and the difference grows with subscribers {node}",
        f"with 100 publishers the knee is at 100 subscribers {node}",
        # Predicted, in the one run of that tree, beside which the table has the mean of ten of hybrid:
        f"with 1000 publishers the knee is at 50 subscribers {node}",
    }
