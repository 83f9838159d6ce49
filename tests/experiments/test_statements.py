"""Terms of the papers as numbers, and the judges of figures 4 and 5 of paper 1 on made-up rows."""

from math import isnan

import pytest
from legends import covered
from rayvous.experiments import clusters
from rayvous.experiments.clusters import Plan, Point, curves, measure
from rayvous.experiments.clusters_figures import draw_aed, draw_tct
from rayvous.experiments.clusters_statements import judge_aed, judge_tct
from rayvous.experiments.statements import (
    Sentences,
    Statement,
    correlation,
    differences,
    exponent,
    falls,
    grows,
    is_flat,
    is_same,
    knee,
    peaks,
    rises,
    slopes,
)
from rayvous.routing.topologies.cluster_trees import ClusterTree


def test_words():
    assert is_same(100, 105) and not is_same(100, 106) and is_same(0, 0)
    assert differences({1: 2, 3: 4, 5: 6}, {1: 3, 3: 3}) == {1: 1, 3: -1}
    assert knee({1: 10, 2: 20, 3: 30}, {1: 10, 2: 21, 3: 40}) == 2 and knee({1: 1}, {1: 2}) is None
    assert is_flat({1: 1, 10: 100, 20: 103}, 10) and not is_flat({1: 1, 10: 100, 20: 110}, 10)
    assert not is_flat({10: 100}, 10), "one point is no curve"
    assert (
        correlation({0: 0, 1: 1, 2: 2, 9: 0}, 2) == pytest.approx(1.0) and correlation({1: 1, 2: 2}, 9) == 0.0
    )
    assert slopes({1: 1, 3: 5, 4: 5}) == [2.0, 0.0]
    assert exponent({1: 3, 10: 300, 0: 0}) == pytest.approx(2.0) and isnan(exponent({1: 1, 2: 0}))
    assert rises([1, 1, 2]) and not rises([2, 1])
    failing, known = Statement("here", "so", 1, False), Statement("here", "so", 1, False, "because")
    assert failing.fails and not known.fails and failing.row("x")["experiment"] == "x"


FLAT = [24.0, 23.9999561, 23.9999121]
RISING = [1.0, 2.0, 4.0]
NOISY = [10.0, 14.0, 11.0, 18.0]
RIPPLED = [10.0, 14.0, 13.9, 18.0]


def test_a_curve_rises_falls_and_peaks_by_more_than_rounding():
    """Two values of a flat curve differ in the seventh digit: that is no fall, and no rise read backwards."""
    assert grows(RISING) and grows(RIPPLED) and not grows(NOISY) and not grows(FLAT) and not grows(FLAT[::-1])
    assert falls(RISING[::-1]) and falls(RIPPLED[::-1]) and not falls(NOISY[::-1]) and not falls(FLAT)
    assert peaks([1, 3, 2]) and not peaks(RISING) and not peaks(FLAT[::-1]) and not peaks([24, 24.0001, 24])


def test_the_sentence_that_chose_a_parameter_is_marked_and_no_other():
    said = Sentences("here", {}, "calibrated", "LBDD takes 3,020 s")
    assert said("LBDD takes 3,020 s", 1, True).fitted and not said("LBDD is fast", 1, True).fitted


AXIS = (10, 50, 100, 1_000, 10_000)


def rows(value, of):
    """Return the rows of a figure; `of` gives the value at (curve, publishers, subscribers)."""
    return [
        {
            "curve": curve,
            "publishers": p,
            "subscribers": s,
            "send_seconds": clusters.SEND_SECONDS,
            value: of(curve, p, s),
        }
        for curve in clusters.SCHEMES
        for p in (100, 1_000)
        for s in AXIS
    ]


def as_the_paper_says(curve, publishers, subscribers):
    part = min(subscribers, 1_000)
    if curve == "hrm":
        part = min(part, 100) + (part - min(part, 100)) * (0.5 if publishers == 100 else 0.3)
        part = part if subscribers <= 50 or publishers == 100 else part * 0.9
    return publishers * part


def test_figure_4_as_the_paper_has_it_holds():
    """So a sentence that fails on our figures is not the judge's fault. Reference: paper 1, 5.2 (1)."""
    statements = judge_tct(rows("tct", as_the_paper_says))
    assert [each.text for each in statements if not each.holds] == []
    assert len(statements) == 2 * 10 and all(
        each.source == "paper 1, 5.2 (1), figure 4" for each in statements
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda c, p, s: p * min(s, 1_000), "beyond the critical point hybrid's TCT is smaller"),
        (lambda c, p, s: p * s * (1 if c == "hrm" else 2), "TCT tends to a constant: hr"),
        (lambda c, p, s: as_the_paper_says(c, 100, s), "the more publishers, the larger the difference"),
        (lambda c, p, s: p * s * (1 if c == "hrm" else 2), "there is a knee up to which the cost"),
    ],
)
def test_each_sentence_can_fail(wrong, said):
    failing = [each.text for each in judge_tct(rows("tct", wrong)) if not each.holds]
    assert any(said in text for text in failing), failing


def delay(curve, publishers, subscribers):
    at = 50 if publishers == 1_000 else 100
    if subscribers <= at:
        return 1.0 + subscribers / 1_000
    if curve != "hrm":
        return 1.0 + subscribers / 1_000 + (subscribers / 100) ** 2
    return 1.1 + subscribers / 1_000 if subscribers < 10_000 else 1.2


def test_figure_5_as_the_paper_has_it_holds():
    """Reference: paper 1, 5.2 (2)."""
    both = [{**row, "seconds_per_notification": row["aed_seconds"]} for row in rows("aed_seconds", delay)]
    statements = judge_aed(both)
    assert [each.text for each in statements if not each.holds] == []
    assert len(statements) == 2 * 2 * 8
    flat = [{**row, "aed_seconds": 1.0, "seconds_per_notification": 1.0} for row in both]
    failing = " ".join(each.text for each in judge_aed(flat) if not each.holds)
    assert "ever steeper" in failing and "then falls" in failing and "knee is at 100" in failing


SMALL = ClusterTree(6, 4, degree=3)


def test_a_point_is_measured_link_by_link_and_subscriber_by_subscriber():
    """Each event goes up to the root, and to all clusters with subscribers. Reference: paper 1, figure 2."""
    found = {curve: measure(Point(curve, 5, 200, 0, 0.001, SMALL)) for curve in clusters.SCHEMES}
    events = {curve: int(tables["links"]["events"].sum()) for curve, tables in found.items()}
    assert events == {"hrm": 5 * (5 + 6), "hr": 5 * 23, "hr, all nodes": 5 * 23}, (
        "200 subscribers leave no broker out"
    )
    for tables in found.values():
        heard = tables["heard"]
        assert len(heard["subscriber"]) == 200 and set(heard["notifications"].tolist()) == {5}
        assert (heard["last"] > heard["first"]).all()


@pytest.mark.slow
def test_plans_and_pictures():
    plan = Plan(SMALL, {2: (1, 4), 3: (4,)}, 2, (0.001, 0.01))
    assert len(plan.points()) == 3 * (2 + 1) * 3 and plan.points()[0].publishers == 3
    data = rows("tct", as_the_paper_says)
    assert curves(data, "tct")["hr", 100][50] == 5_000
    assert len(draw_tct(data).axes) == 2 and covered(draw_tct(data)) == []
    both = [{**row, "seconds_per_notification": 1.0} for row in rows("aed_seconds", delay)]
    assert len(draw_aed(both).axes) == 4 and covered(draw_aed(both)) == []
