"""Schemes compared, and as networks grow, small: what is measured, and that each sentence can fail."""

from math import isnan

import pytest
from legends import covered
from rayvous.actors.pictures.style import PAGE_INCHES
from rayvous.experiments.schemes import pictures, runs
from rayvous.experiments.schemes.runs import GLOBAL, SCHEMES, Point, measure
from rayvous.experiments.schemes.statements import judge_compare, judge_scale


def test_a_point_is_what_compare_measures(monkeypatch):
    """Flooding sends a copy to every other broker; a scheme that does not heal has no recovery time."""
    monkeypatch.setattr(runs, "recovery_seconds", lambda scheme, topology, seed: None)
    table = measure(Point("flooding", 2, 2, 4, 2, 10, True))["figures"]
    assert table["brokers"] == [6] and table["messages"] == [5.0] and table["holds"] == [True]
    assert isnan(table["recovery_seconds"][0]) and table["events_per_second"][0] > 0


def test_deaths_are_for_networks_that_are_not_too_large(monkeypatch):
    monkeypatch.setattr(runs, "recovery_seconds", lambda scheme, topology, seed: 3.0)
    assert measure(Point("hybrid", 2, 2, 4, 2, 10, True))["figures"]["recovery_seconds"] == [3.0]
    assert isnan(measure(Point("hybrid", 2, 2, 4, 2, 10, False))["figures"]["recovery_seconds"][0])
    points = {point.clusters: point.deaths for point in runs.SCALE["quick"].points()}
    assert points == {33: False, 10: True, 3: True}


def rows(*sizes, **other):
    found = []
    for brokers in sizes:
        for scheme in SCHEMES:
            row = {
                "scheme": scheme,
                "brokers": brokers,
                "holds": 1.0,
                "messages": {"flooding": brokers - 1.0, "hierarchical": brokers / 3}.get(scheme, brokers / 4),
                "over_bound": 1.0,
                "load_gini": 0.1 if scheme == "hypercube" else 0.5,
                "load_max_over_mean": 9.0 if scheme == "point-to-point" else 4.0,
                "table_entries_mean": brokers / 2 if scheme in GLOBAL else 3.0,
                "events_per_second": 1e5 / brokers,
                "messages_per_second": 2e4,
                "recovery_seconds": None if scheme == "flooding" else 4.0,
                "control_messages": 10.0,
                "crossings": 3.0,
                "brokers_wanting": brokers / 4,
                "bound_links": 2.0,
                "bound_multicast": 2.0,
            }
            found.append(row | {name: of(scheme, brokers) for name, of in other.items()})
    return found


def failing(judge, *sizes, **other):
    return [each.text for each in judge(rows(*sizes, **other)) if not each.holds]


def test_schemes_as_they_are_said_to_be_hold():
    assert failing(judge_compare, 36) == failing(judge_scale, 10, 100) == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"holds": lambda scheme, n: 0.5}, "keeps its promises"),
        ({"messages": lambda scheme, n: 9.0}, "hybrid routing takes fewer"),
        ({"messages": lambda scheme, n: 9.0}, "flooding takes"),
        ({"over_bound": lambda scheme, n: 1.5}, "the fewest links"),
        ({"brokers_wanting": lambda scheme, n: 8.0}, "exactly n copies"),
        ({"load_max_over_mean": lambda scheme, n: 4.0}, "LBDD shares out"),
        ({"load_gini": lambda scheme, n: 0.5 - 0.1 * (scheme == "lbdd")}, "a hypercube balances"),
    ],
)
def test_each_sentence_of_the_comparison_can_fail(other, said):
    assert any(said in text for text in failing(judge_compare, 36, **other))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"messages": lambda scheme, n: n**2}, "messages for an event grow no faster"),
        ({"messages_per_second": lambda scheme, n: 1e9 / n}, "simulating a message hardly costs more"),
        ({"recovery_seconds": lambda scheme, n: n / 9}, "a death is felt hardly longer"),
        ({"table_entries_mean": lambda scheme, n: n**2}, "what all others want, no more"),
        ({"table_entries_mean": lambda scheme, n: n / 2}, "no knowledge of all others"),
    ],
)
def test_each_sentence_about_growth_can_fail(other, said):
    assert any(said in text for text in failing(judge_scale, 10, 100, **other))


@pytest.mark.slow
def test_pictures():
    compared = pictures.draw_compare(rows(36))
    assert len(compared.axes) == 5 and compared.get_figwidth() <= PAGE_INCHES
    scale = pictures.draw_scale(rows(10, 100))
    assert covered(scale) == covered(compared) == []
    assert {axes.get_subplotspec().get_geometry()[:2] for axes in scale.axes} == {(2, 2)}
    for axes in scale.axes:
        assert len(axes.get_lines()) == len(SCHEMES)
