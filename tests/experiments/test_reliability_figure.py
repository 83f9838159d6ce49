"""Reliability as an experiment, small: what crashes and damage cost, and that each sentence can fail.

Reference: paper 4, abstract, section 2 and theorem 1.
"""

import pytest
from legends import covered
from rayvous.experiments.reliability import runs
from rayvous.experiments.reliability.pictures import draw_reliability
from rayvous.experiments.reliability.runs import CRASHES, DAMAGE, Point, measure
from rayvous.experiments.reliability.statements import judge_reliability


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(runs, "SECONDS", 8.0)
    monkeypatch.setattr(runs, "SETTLE_SECONDS", 12.0)


def totals(*point):
    return {name: values[0] for name, values in measure(Point(*point))["totals"].items()}


def test_a_crash_delays_what_comes_and_loses_nothing():
    """Reference: paper 4, theorem 1."""
    calm, crashed = (totals(CRASHES, 7, rate) for rate in (0.0, 1.0))
    assert calm["faults"] == 0 < crashed["faults"] and calm["events"] == crashed["events"] == 64
    assert calm["consistent"] < 0.5 < crashed["consistent"] < 12.0
    assert calm["holds"] and crashed["holds"]
    assert min(calm["commits"], crashed["commits"]) > 64


@pytest.mark.slow
def test_damaged_tables_are_sound_again_after_a_while():
    """Reference: paper 4, section 2; decision 0028."""
    calm, hit = (totals(DAMAGE, 7, rate) for rate in (0.0, 2.0))
    assert calm["consistent"] == 0.0 and calm["faults"] == 0
    assert hit["faults"] > 0 and 0 < hit["consistent"] < 50 and hit["holds"]


def rows(**other):
    return [
        {
            "mode": mode,
            "size": size,
            "rate": rate,
            "messages": 10.0 + rate,
            "commits": 9.0,
            "extra": 5.0 if rate else None,
            "consistent": 8.0,
            "faults": rate,
            "holds": 1.0,
        }
        | {name: of(size, rate) for name, of in other.items()}
        for mode in (CRASHES, DAMAGE)
        for size in (15, 31)
        for rate in (0.0, 4.0)
    ]


def failing(**other):
    return [each.text for each in judge_reliability(rows(**other)) if not each.holds]


def test_reliability_as_the_paper_says_holds():
    assert failing() == []


def test_the_legend_covers_no_curve():
    figure = draw_reliability(rows())
    assert len(figure.axes) == 4 and len(figure.legends) == 1
    assert not any(axes.get_legend() for axes in figure.axes)
    assert covered(figure) == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"holds": lambda size, rate: 0.9}, "fulfils the condition"),
        ({"messages": lambda size, rate: 1 + rate}, "efficiently"),
        ({"extra": lambda size, rate: size}, "locally"),
        ({"commits": lambda size, rate: 1 + rate}, "stable writes"),
        ({"consistent": lambda size, rate: 59.0}, "from any state"),
    ],
)
def test_each_sentence_can_fail(other, said):
    assert any(said in text for text in failing(**other))
