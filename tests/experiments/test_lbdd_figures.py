"""Figures 1 to 4 and table 1 of paper 5: what is measured, and that each sentence can fail.

Reference: paper 5, sections 3.5, 4.2 and 4.3.
"""

import pytest
from legends import covered
from rayvous.actors.pictures.style import PAGE_INCHES
from rayvous.experiments.lbdd import pictures, statements, twelve
from rayvous.experiments.lbdd.plans import SIZES
from rayvous.experiments.lbdd.plans import Point as PlanPoint
from rayvous.experiments.lbdd.plans import measure as measure_plans
from rayvous.experiments.lbdd.twelve import (
    FAST_MBIT,
    FITTED_MBIT,
    GB,
    GIB,
    LINK_MBIT,
    TAKEN_MBIT,
    TARGETS,
    Point,
)


def test_eleven_copies_over_one_link_take_eleven_times_as_long_and_four_by_the_plan():
    """The payloads are small, to be quick; the first hops cost about one slice in a hundred."""
    table = twelve.measure(Point(LINK_MBIT, LINK_MBIT, 400 * twelve.SLICE_BYTES))["nodes"]
    rows = list(zip(*(table[name] for name in ("way", "subscribers", "finished", "copies")), strict=True))
    one = 400 * twelve.SLICE_BYTES * 8 / (LINK_MBIT * 1e6)
    for way, copies in (("point-to-point", 11), ("LBDD", 4)):
        mine = [row for row in rows if row[:2] == (way, 11)]
        assert max(row[2] for row in mine) == pytest.approx(copies * one, rel=0.02)
        assert max(row[3] for row in mine) == copies and sum(row[3] for row in mine) == 11
    assert set(table["order"]) == {"named"}


def test_who_takes_in_less_is_waited_for():
    """Receiving 24 Mbit/s each, four copies at once do not fill a link of 100; LBDD takes as long as one."""
    table = twelve.measure(Point(LINK_MBIT, TAKEN_MBIT, 400 * twelve.SLICE_BYTES))["nodes"]
    one = 400 * twelve.SLICE_BYTES * 8 / (TAKEN_MBIT * 1e6)
    ends = {}
    for way, count, at in zip(table["way"], table["subscribers"], table["finished"], strict=True):
        ends[way, count] = max(ends.get((way, count), 0.0), at)
    assert ends["point-to-point", 1] == pytest.approx(one, rel=0.01)
    assert ends["LBDD", 11] == pytest.approx(one, rel=0.02)


def test_the_order_is_the_papers_in_run_0_and_another_in_others():
    small = 2 * twelve.SLICE_BYTES
    first, other = (twelve.measure(Point(LINK_MBIT, LINK_MBIT, small, run))["nodes"] for run in (0, 1))
    assert first["node"][:2] == [twelve.SOURCE, TARGETS[0]] and other["node"][:2] != first["node"][:2]
    assert set(other["order"]) == {"drawn"}


def test_trees_send_a_copy_to_each_and_nobody_sends_into_its_own_bucket():
    table = measure_plans(PlanPoint("10.3.", 1))["nodes"]
    for size in SIZES:
        mine = [place for place, of in enumerate(table["subscribers"]) if of == size]
        assert len(mine) == size + 1 and sum(table["copies"][place] for place in mine) == size
        assert [table["depth"][place] for place in mine].count(0) == 1
        assert all(table["inner"][place] or not table["copies"][place] for place in mine)


def transfers(seconds, load):
    """Return rows of figures 1 to 3, with `seconds` and `load` for each way and number of subscribers."""
    return [
        {
            "way": way,
            "link_mbit": link,
            "taken_mbit": taken,
            "payload_bytes": payload,
            "order": order,
            "subscribers": n,
            "seconds": seconds(way, n),
            "rate_mbit": 24 * 3_020 / seconds(way, n),
            "publisher_load": load(way, n),
        }
        for way in twelve.WAYS
        for link, taken, payload in (
            (LINK_MBIT, LINK_MBIT, 8 * GIB),
            (LINK_MBIT, TAKEN_MBIT, 8 * GIB),
            (LINK_MBIT, FITTED_MBIT, 8 * GIB),
            (FAST_MBIT, FAST_MBIT, 8 * GIB),
            (FAST_MBIT, TAKEN_MBIT, 8 * GIB),
            (LINK_MBIT, LINK_MBIT, 8 * GB),
        )
        for order in ("named", "drawn")
        for n in range(1, 12)
    ]


def paper_seconds(way, n):
    if way == "LBDD":
        return 3_020
    return 3_000 + n if n < 6 else 7_810 - (11 - n) * 800


def paper_load(way, n):
    return 0.1 * min(n, 6) if way == "LBDD" else min(1.0, n / 6)


JUDGES = (statements.judge_delay, statements.judge_rate, statements.judge_load)


def failing(rows, judges=JUDGES):
    return [each.text for judge in judges for each in judge(rows) if not each.holds]


def test_figures_1_to_3_as_the_paper_has_them_hold():
    assert failing(transfers(paper_seconds, paper_load)) == []


@pytest.mark.parametrize(
    ("seconds", "load", "said"),
    [
        (lambda way, n: 700 * n, paper_load, "LBDD takes 3,020 s"),
        (lambda way, n: 7_810, paper_load, "LBDD's delay is significantly smaller"),
        (lambda way, n: 3_020, paper_load, "the rate falls as subscribers come"),
        (lambda way, n: 300 * n, paper_load, "LBDD: the rate remains the same"),
        (lambda way, n: 3_020 if way == "LBDD" else 700 * n + 3_020, paper_load, "with fewer than six"),
        (lambda way, n: 3_020, paper_load, "from six on its efficiency decreases rapidly"),
        (paper_seconds, lambda way, n: 1.0, "with six subscribers the publisher's load reaches 100 %"),
        (paper_seconds, lambda way, n: 0.5, "with six subscribers the publisher's load reaches 100 %"),
        (paper_seconds, lambda way, n: 0.5, "LBDD: the publisher's load rises"),
        (paper_seconds, lambda way, n: 0.08 * n, "LBDD: it is always below 70 %"),
    ],
)
def test_each_sentence_about_the_twelve_can_fail(seconds, load, said):
    texts = failing(transfers(seconds, load))
    assert any(said in text for text in texts), texts


def trees(**other):
    depths = {100: 6, 200: 7, 300: 8, 400: 8, 500: 9}
    return [
        {
            "prefix": prefix,
            "subscribers": n,
            "depth": depth,
            "depth_min": depth,
            "depth_max": depth,
            "depth_as_published": 0.9,
            "buckets_as_published": 0.3,
            "runs": 20,
            "out_degree": 2.0,
            "lowest_bucket": 24.0,
            "highest_bucket": 32.0,
            "copies": n,
            "publisher_copies": 2.0 + (n % 200) / 1_000,
            "publisher_copies_stddev": 0.7,
            "publisher_share": 2.0 / n,
            "largest_subscriber_share": 4.0 / n,
        }
        | other
        for prefix in ("", "10.3.")
        for n, depth in depths.items()
    ]


PLAN_JUDGES = (statements.judge_depth, statements.judge_contribution)


def test_table_1_and_figure_4_as_the_paper_has_them_hold():
    assert failing(trees(), PLAN_JUDGES) == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"depth_as_published": 0.5}, "the depth is 5 to 9"),
        ({"buckets_as_published": 0.04}, "buckets 24 to 32"),
        ({"publisher_copies_stddev": 0.01}, "what the publisher sends stays almost the same"),
        ({"out_degree": 3.0}, "out-degree of a node is 2"),
        ({"copies": 99}, "exactly n copies"),
        ({"publisher_share": 1.0}, "an ever smaller part"),
        ({"largest_subscriber_share": 0.6}, "none of them becomes the bottleneck"),
    ],
)
def test_each_sentence_about_trees_can_fail(other, said):
    assert any(said in text for text in failing(trees(**other), PLAN_JUDGES))


@pytest.mark.slow
def test_pictures():
    rows = transfers(paper_seconds, paper_load)
    for draw in (pictures.draw_delay, pictures.draw_rate, pictures.draw_load):
        picture = draw(rows)
        assert len(picture.axes) == len(statements.READINGS) and covered(picture) == []
        assert picture.get_figwidth() <= PAGE_INCHES
    for draw in (pictures.draw_depth, pictures.draw_contribution):
        (axes,) = draw(trees()).axes
        assert covered(axes.figure) == []
        assert len(axes.get_lines()) >= 4
