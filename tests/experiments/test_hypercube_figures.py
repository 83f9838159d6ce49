"""The experiments of paper 2, small: the counts match what was sent, and each sentence can fail.

Reference: paper 2, abstract, 2.2, 2.4 and 2.5.
"""

import numpy as np
import pytest
from draws import slow
from legends import covered
from rayvous.experiments.hypercube import hops, load, migration, pictures, saving, statements
from rayvous.experiments.hypercube.load import BROADCASTS, REPLIES, Point
from rayvous.experiments.hypercube.traffic import CUBE, GRAPH, NETS
from rayvous.routing.topologies.cube import mean_hops


def test_loads_of_broadcasts_add_up():
    """Each takes 7 messages; the 3 that its own broker sends are not forwarded. Reference: paper 2, 2.2."""
    table = load.measure(Point(BROADCASTS, CUBE, 8, 10))["brokers"]
    started = table["started"]
    assert (table["received"] == started.sum() - started).all(), (
        "each broker receives each of the others' once"
    )
    assert table["forwarded"].sum() == (7 - 3) * started.sum() and len(set(started.tolist())) > 1


def test_loads_of_replies_add_up():
    """Each is received once a hop, and forwarded one time less. Reference: paper 2, 2.3."""
    table = load.measure(Point(REPLIES, CUBE, 8, 200))["brokers"]
    sent, crossed = table["started"].sum(), table["received"].sum()
    assert table["forwarded"].sum() == crossed - sent
    assert crossed / sent == pytest.approx(mean_hops(3), rel=0.1)


def test_what_brokers_start_is_the_same_part_of_every_range_and_on_every_network():
    few, many, star = (
        load.measure(Point(REPLIES, curve, 8, most))["brokers"]["started"].tolist()
        for curve, most in ((CUBE, 100), (CUBE, 200), ("star", 100))
    )
    assert few == star and many == pytest.approx([2 * one for one in few], abs=1)


def test_a_star_has_its_hub_forward_everything():
    table = load.measure(Point(BROADCASTS, "star", 8, 10))["brokers"]
    assert table["forwarded"][0] > 0 and not table["forwarded"][1:].any()


def test_equal_sources_load_a_complete_cube_equally_and_one_with_vacancies_not():
    for what in (BROADCASTS, REPLIES):
        even, vacant = (load.measure(Point(what, CUBE, size, 0))["brokers"] for size in (8, 9))
        assert len(set((even["received"] + even["forwarded"]).tolist())) == 1
        assert len(set((vacant["received"] + vacant["forwarded"]).tolist())) > 1
        if what == BROADCASTS:
            sends = vacant["own"] + vacant["forwarded"]
            assert sends.max() / sends.mean() == 1.5, "docs/hypercube.md: what vacant positions cost"


def test_a_cube_of_eight_has_the_hops_of_formula_1():
    table = hops.measure(hops.Point(3, 0))["ways"]
    assert sum(table["crossed"]) / sum(table["replies"]) == mean_hops(3) == 12 / 7
    assert set(table["messages"]) == {7} and set(table["farthest"]) == {3} and set(table["most"]) == {1}
    drawn = hops.measure(hops.Point(2, 30))["ways"]
    assert drawn["replies"] == [30] * 4 and 30 <= min(drawn["crossed"]) <= max(drawn["crossed"]) <= 60


def test_an_event_that_one_of_eight_wants_takes_its_hops():
    """Seven other brokers publish, over 12 links in all; in the star each event passes the hub."""
    table = {curve: saving.measure(saving.Point(curve, 8, 0.0))["brokers"] for curve in NETS}
    assert table[GRAPH]["events"].sum() == 8 * 17 and not table[GRAPH]["told"].any()
    assert table[CUBE]["events"].sum() == 12 and table["star"]["events"].sum() in (7, 13)
    assert table[CUBE]["told"].sum() == 2 * 7, "the subscription and its end"
    assert table["hierarchy to the root"]["told"].sum() < table["hierarchy"]["told"].sum() == 2 * 7
    assert {curve: int(each["subscribers"][0]) for curve, each in table.items()} == dict.fromkeys(NETS, 1)
    all_want = saving.measure(saving.Point(CUBE, 8, 1.0))["brokers"]
    assert all_want["events"].tolist() == [7] * 8


@pytest.mark.parametrize("local_first", [False, True])
def test_after_the_move_a_subscription_takes_nothing_elsewhere_if_local_publishers_satisfy_it(local_first):
    """Otherwise all others keep an entry, and events of other publishers still cross links. Paper 2, 2.4."""
    table = migration.measure(migration.Point(local_first, 0, size=3))["phases"]
    before, during, after = ({name: column[place] for name, column in table.items()} for place in range(3))
    assert before["entries"] == 2 and before["events"] > 0.9 and before["moves"] == 0
    assert during["moves"] == after["moves"] == 1 and during["views"] == 1
    assert during["broadcasts"] == during["echoes"] == (2 if local_first else 4)
    assert after["entries"] == (0 if local_first else 2)
    assert (after["events"] > 0) != local_first
    assert after["broadcasts"] == after["views"] == 0


def loads(**other):
    found = [
        {
            "what": "any",
            "curve": curve,
            "size": 8,
            "most": most,
            "load": 5.0 * most,
            "started": most / 2,
            "load_max_over_mean": 1.1 if curve == CUBE else 4.0,
            "load_gini": (0.05 - most / 1e5) if curve == CUBE else 0.4,
            "started_gini": 0.25,
            "hops": 1.71,
            "line": 0.99 if curve == CUBE else 0.5,
        }
        | (other if curve == other.get("curve", CUBE) else {})
        for curve in (CUBE, "star", "hierarchy", GRAPH)
        for most in (100, 1_000)
    ]
    equal = [{**found[0], "size": size, "most": 0, "load_max_over_mean": 1.0} for size in range(8, 17)]
    return found + equal


VALUES = ("events", "told", "load_max_over_mean", "load_gini", "busiest")


def failing(judge, rows):
    return [each.text for each in judge(rows) if not each.holds]


def test_figures_6_and_7_as_the_paper_has_them_hold():
    assert failing(statements.judge_load, loads()) == failing(statements.judge_replies, loads()) == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"load_gini": 0.2}, "loads are very even"),
        ({"load_gini": 0.04}, "the evenness rises with the scale"),
        ({"line": 0.9}, "one line: r"),
        ({"load": 70.0}, "slope of the logarithms"),
        ({"hops": 2.0}, "an event goes 1.709 hops"),
        ({"hops": 2.0}, "which satisfies formula (1)"),
        (
            {"curve": "star", "load_gini": 0.05},
            "neither a star, nor a hierarchy, nor",
        ),
        ({"curve": "star", "line": 0.99}, "nor do all their brokers lie on one line"),
    ],
)
def test_each_sentence_about_loads_can_fail(other, said):
    assert any(said in text for text in failing(statements.judge_replies, loads(**other)))


def test_each_sentence_about_hops_can_fail():
    rows = [
        {
            "dimensions": many,
            "sources": hops.PAIRS,
            "hops": mean_hops(many),
            "messages": 2**many - 1,
            "farthest": many,
            "most": 1,
        }
        for many in range(5, 7)
    ]
    rows += [{**rows[0], "dimensions": 3, "hops": 12 / 7, "messages": 7, "farthest": 3}]
    rows += [{**rows[-1], "sources": hops.DRAWN, "hops": 1.709}]
    assert [text[:30] for text in failing(statements.judge_hops, rows)] == ["which is about 0.5 log2 N (hop"]
    wrong = [{**row, "hops": 9.0, "messages": 9, "farthest": 9, "most": 2} for row in rows]
    assert len(failing(statements.judge_hops, wrong)) == 7


def test_each_sentence_about_savings_can_fail():
    def rows(cube):
        return [
            {
                "curve": curve,
                "size": 8,
                "wanting": 0.5,
                **dict.fromkeys(VALUES, cube if curve == CUBE else 2.0),
            }
            for curve in NETS
        ]

    assert failing(statements.judge_saving, rows(1.0)) == []
    assert len(failing(statements.judge_saving, rows(4.1))) == 4 * 3 + 4, (
        "of four hierarchies each, and of flooding"
    )
    assert len(failing(statements.judge_saving, rows(1.98))) == 4 * 3 + 3, (
        "the same within 5 %; a broadcast is half"
    )
    saving = pictures.draw_saving(rows(1.0))
    assert len(saving.axes) == 4 and covered(saving) == []


def saved(point):
    """Return the row of a point as `savings_by_network` has it, of one run."""
    table = saving.measure(point)["brokers"]
    load, many = table["load"], int(table["subscribers"][0])
    return {
        "curve": point.curve,
        "size": point.size,
        "wanting": point.wanting,
        "events": table["events"].mean(),
        "told": table["told"].sum() / many,
        "busiest": load.max() / point.size,
        "load_max_over_mean": load.max() / load.mean(),
        "load_gini": np.abs(np.subtract.outer(load, load)).sum() / (2 * point.size**2 * load.mean()),
    }


@pytest.mark.parametrize("size", [8, slow(64)])
def test_against_flooding_the_abstract_holds_as_measured(size):
    """The sizes of the preset `quick`. Reference: paper 2, abstract, 2.3 and 3."""
    points = [each for each in saving.PRESETS["quick"].each if each.size == size]
    said = statements.judge_saving([saved(each) for each in points])
    flooding = [each for each in said if "against flooding" in each.text]
    assert len(flooding) == 10 and [each.text for each in flooding if not each.holds] == []
    assert not any(each.fails for each in said)


def test_each_sentence_about_migration_can_fail():
    def rows(entries, events, moves):
        return [
            {
                "local_first": local_first,
                "phase": phase,
                "entries": 7 if phase == "before" else entries,
                "events": 1.7 if phase == "before" else events,
                "moves": 0 if phase == "before" else moves,
            }
            for local_first in (False, True)
            for phase in migration.PHASES
        ]

    assert failing(statements.judge_migration, rows(0, 0, 1)) == []
    assert len(failing(statements.judge_migration, rows(7, 1, 0))) == 2 * 4
    moved = pictures.draw_migration(rows(0, 0, 1))
    assert len(moved.axes) == 2 and covered(moved) == []


@pytest.mark.slow
def test_pictures_of_loads_and_hops():
    both = pictures.draw_loads(loads())
    assert len(both.axes) == 2 and covered(both) == []
    (axes,) = pictures.draw_hops(
        [{"dimensions": many, "hops": mean_hops(many), "sources": hops.PAIRS} for many in (1, 2)]
    ).axes
    assert len(axes.get_lines()) == 3 and covered(axes.figure) == []
