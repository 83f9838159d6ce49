"""Gaps are merged by reason, reported once, and bounded however many there were."""

import json

from rayvous.gateway.queues import NAMED_MAX, Gap
from rayvous.gateway.stomp.gaps import Gaps


def test_gaps_of_one_reason_are_one_and_are_told_once():
    gaps = Gaps()
    gaps.add(Gap("slow", 2, {"a": (1, 2)}))
    gaps.add(Gap("network", 1, {"a": (9, 9)}))
    gaps.add(Gap("slow", 3, {"a": (5, 6), "b": (1, 1)}))
    slow, network = json.loads(gaps.tell())
    assert (slow["count"], slow["of"][0]) == (5, {"publisher": "a", "first": 1, "last": 6})
    assert network["reason"] == "network"
    assert gaps.tell() == ""


def test_a_count_that_is_not_known_makes_the_sum_unknown():
    gaps = Gaps()
    gaps.add(Gap("network", 2))
    gaps.add(Gap("network"))
    gaps.add(Gap("network", 2))
    assert json.loads(gaps.tell())[0]["count"] is None


def test_what_waits_to_be_told_is_bounded():
    gaps = Gaps()
    for i in range(10 * NAMED_MAX):
        gaps.add(Gap("slow", 1, {f"publisher {i}": (1, 1)}))
    (gap,) = json.loads(gaps.tell())
    assert gap["count"] == 10 * NAMED_MAX
    assert len(gap["of"]) == NAMED_MAX
