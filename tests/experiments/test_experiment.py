"""The parts of experiments: points and their columns, and sentences with the known reasons of failures."""

from dataclasses import dataclass

from rayvous.experiments.experiment import Repeated, columns_of
from rayvous.experiments.statements import Sentences


@dataclass(frozen=True)
class Point:
    curve: str
    brokers: int
    share: float
    even: bool
    sizes: tuple[int, ...] = ()
    run: int = 0


def test_a_plan_repeats_its_points_and_a_point_is_columns():
    points = Repeated((Point("a", 8, 0.5, True), Point("b", 4, 0.5, False)), 2, (Point("c", 1, 0.0, True),))
    points = points.points()
    assert [(point.curve, point.run) for point in points] == [
        ("c", 0),
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
    ]
    assert columns_of(points[2]) == {"curve": "a", "brokers": 8, "share": 0.5, "even": True}, (
        "not the run, by which tables are partitioned, nor what no column can hold"
    )


def test_a_sentence_that_does_not_hold_has_a_reason_only_where_one_is_known():
    said = Sentences("paper 9, figure 1", {("the curve falls", "of all"): "it is known to rise"}, "of all")
    known, unknown = said("the curve falls fast", 1, False), said("the curve is flat", 1, False)
    assert known.known == "it is known to rise" and not known.fails and unknown.fails
    assert known.text == "the curve falls fast [of all]"
    assert said("the curve falls fast", 1, True).known == "", "a reason is no excuse for what holds"
    other = Sentences("paper 9, figure 1", said.known, "of one")
    assert other("the curve falls", 1, False).fails, "the reason is that of another reading"
