"""Patterns mean what they mean in EventBridge: for each documented operator, what matches and what does not.

Reference: Amazon EventBridge User Guide, "Comparison operators for use in event patterns"; Event Ruler,
README, and its section "JSON array matching".
"""

import json
from typing import Any

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import SelectorError
from rayvous.protocol.values import NULL
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.language.patterns import eventbridge, parse_pattern
from rayvous.routing.language.predicates import compile_predicate, evaluate
from rayvous.routing.matching.index import MatchIndex


def event_of(text: str) -> dict[str, Any]:
    """Return an event parsed from JSON, with NULL for each null."""

    def with_nulls(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: NULL if value is None else value for name, value in pairs}

    found: dict[str, Any] = json.loads(text, object_pairs_hook=with_nulls)
    return found


def matched(pattern: str, event: str) -> bool:
    """Return whether an event matches; five ways of evaluating the pattern must agree."""
    predicate = eventbridge(pattern)
    batch = batch_of([{"other": 1}, event_of(event)])
    filter = to_filter(predicate)
    assert to_filter(str(filter)) == filter
    index = MatchIndex()
    slot = index.insert(filter)
    rows, _ = index.match(batch)
    flat = batch.events()[1]
    answers = {
        1 in rows.tolist(),
        bool(filter.evaluate_batch(batch)[1]),
        filter.matches(flat),
        evaluate(predicate, flat) is True,
        compile_predicate(predicate)(flat) is True,
    }
    assert len(answers) == 1, (pattern, event)
    index.remove(slot)
    return answers.pop()


FLAT = {
    '{"s": ["a", "b"]}': (
        ['{"s": "a"}', '{"s": "b", "t": 1}'],
        ['{"s": "A"}', '{"s": 1}', "{}", '{"s": null}'],
    ),
    '{"s": [""]}': (['{"s": ""}'], ["{}", '{"s": null}', '{"s": " "}']),
    '{"s": [5]}': (['{"s": 5}', '{"s": 5.0}', '{"s": 5e0}'], ['{"s": "5"}', '{"s": 6}']),
    '{"s": [true]}': (['{"s": true}'], ['{"s": "true"}', '{"s": 1}', '{"s": false}']),
    '{"s": [null]}': (['{"s": null}'], ["{}", '{"s": ""}', '{"s": 0}', '{"s": "null"}']),
    '{"s": ["a", null]}': (['{"s": null}', '{"s": "a"}'], ["{}", '{"s": "b"}']),
    '{"s": ["a"], "t": [1]}': (['{"s": "a", "t": 1}'], ['{"s": "a"}', '{"s": "a", "t": 2}']),
    '{"s": [{"prefix": "us-"}]}': (
        ['{"s": "us-east"}', '{"s": "us-"}'],
        ['{"s": "us"}', '{"s": "US-x"}', '{"s": 1}'],
    ),
    '{"s": [{"suffix": ".png"}]}': (['{"s": "a.png"}'], ['{"s": "a.PNG"}', '{"s": "a.png "}']),
    '{"s": [{"prefix": {"equals-ignore-case": "us-"}}]}': (
        ['{"s": "US-x"}', '{"s": "us-x"}'],
        ['{"s": "xus-"}'],
    ),
    '{"s": [{"suffix": {"equals-ignore-case": ".png"}}]}': (['{"s": "a.PnG"}'], ['{"s": "a.jpg"}']),
    '{"s": [{"equals-ignore-case": "alice"}]}': (
        ['{"s": "Alice"}', '{"s": "alice"}'],
        ['{"s": "alic"}', '{"s": null}'],
    ),
    '{"s": [{"equals-ignore-case": "\\u00e9t\\u00e9"}]}': (['{"s": "\\u00c9T\\u00c9"}'], ['{"s": "ETE"}']),
    '{"s": [{"exactly": "a"}]}': (['{"s": "a"}'], ['{"s": "A"}', "{}"]),
    '{"s": [{"wildcard": "d*/*.png"}]}': (
        ['{"s": "dir/a.png"}', '{"s": "d/.png"}'],
        ['{"s": "dir/a.jpg"}', '{"s": 1}'],
    ),
    '{"s": [{"wildcard": "a\\\\*b"}]}': (['{"s": "a*b"}'], ['{"s": "axb"}']),
    '{"s": [{"exists": true}]}': (
        ['{"s": 1}', '{"s": null}', '{"s": ""}', '{"s": false}'],
        ["{}", '{"t": 1}'],
    ),
    '{"s": [{"exists": false}]}': (["{}", '{"t": null}'], ['{"s": 1}', '{"s": null}', '{"s": ""}']),
    '{"s": [{"anything-but": "a"}]}': (
        ['{"s": "b"}', '{"s": 1}', '{"s": true}', '{"s": null}', '{"s": ""}'],
        ['{"s": "a"}', "{}"],
    ),
    '{"s": [{"anything-but": ["a", "b"]}]}': (['{"s": "c"}', '{"s": 0}'], ['{"s": "a"}', '{"s": "b"}', "{}"]),
    '{"s": [{"anything-but": 5}]}': (
        ['{"s": 6}', '{"s": "5"}', '{"s": null}'],
        ['{"s": 5}', '{"s": 5.0}', "{}"],
    ),
    '{"s": [{"anything-but": [5, 6]}]}': (['{"s": 7}', '{"s": "6"}'], ['{"s": 6}', "{}"]),
    '{"s": [{"anything-but": {"prefix": "a"}}]}': (
        ['{"s": "b"}', '{"s": 1}', '{"s": null}'],
        ['{"s": "ab"}', "{}"],
    ),
    '{"s": [{"anything-but": {"prefix": ["a", "b"]}}]}': (
        ['{"s": "c"}', '{"s": 1}'],
        ['{"s": "ax"}', '{"s": "bx"}'],
    ),
    '{"s": [{"anything-but": {"suffix": "a"}}]}': (['{"s": "b"}', '{"s": true}'], ['{"s": "ba"}', "{}"]),
    '{"s": [{"anything-but": {"suffix": ["a", "b"]}}]}': (['{"s": "c"}'], ['{"s": "xa"}', '{"s": "xb"}']),
    '{"s": [{"anything-but": {"equals-ignore-case": "A"}}]}': (
        ['{"s": "b"}', '{"s": 1}'],
        ['{"s": "a"}', '{"s": "A"}'],
    ),
    '{"s": [{"anything-but": {"equals-ignore-case": ["A", "b"]}}]}': (
        ['{"s": "c"}'],
        ['{"s": "a"}', '{"s": "B"}'],
    ),
    '{"s": [{"anything-but": {"wildcard": "*/bin/*.jar"}}]}': (
        ['{"s": "x.jar"}', '{"s": 1}'],
        ['{"s": "a/bin/x.jar"}'],
    ),
    '{"s": [{"anything-but": {"wildcard": ["a*a", "b*b"]}}]}': (
        ['{"s": "ab"}'],
        ['{"s": "aa"}', '{"s": "bxb"}'],
    ),
    '{"s": [{"numeric": [">", 0, "<=", 5]}]}': (
        ['{"s": 5}', '{"s": 0.1}'],
        ['{"s": 0}', '{"s": 5.1}', '{"s": "1"}'],
    ),
    '{"s": [{"numeric": ["<", 10]}]}': (['{"s": -1e300}'], ['{"s": 10}', '{"s": null}', "{}"]),
    '{"s": [{"numeric": ["=", 301.8]}]}': (['{"s": 3.018e2}'], ['{"s": 301}']),
    '{"s": [{"cidr": "10.0.0.0/24"}]}': (
        ['{"s": "10.0.0.33"}'],
        ['{"s": "10.0.1.0"}', '{"s": "x"}', '{"s": 10}'],
    ),
    '{"s": [{"cidr": "2001:db8::/32"}]}': (
        ['{"s": "2001:db8::1"}', '{"s": "2001:0DB8:0::1"}'],
        ['{"s": "2001:db9::1"}'],
    ),
    '{"s": [{"prefix": "a"}, {"suffix": "z"}, 5]}': (
        ['{"s": "ab"}', '{"s": "yz"}', '{"s": 5}'],
        ['{"s": "b"}'],
    ),
    '{"$or": [{"s": ["a"]}, {"t": [{"numeric": ["<=", 1]}]}]}': (
        ['{"s": "a"}', '{"t": 1}'],
        ['{"s": "b", "t": 2}', "{}"],
    ),
    '{"u": [1], "$or": [{"s": ["a"]}, {"t": [1], "v": [1]}]}': (
        ['{"u": 1, "t": 1, "v": 1}'],
        ['{"s": "a"}', '{"u": 1}'],
    ),
    '{"$or": ["a"]}': (['{"$or": "a"}'], ["{}"]),
    '{"$or": {"s": ["a"]}}': (['{"$or": {"s": "a"}}'], ['{"s": "a"}']),
}

NESTED = {
    '{"detail": {"state": ["on"]}}': (
        ['{"detail": {"state": "on", "x": 1}}'],
        ['{"state": "on"}', '{"detail": "on"}', "{}"],
    ),
    '{"a": {"b": {"c": [1]}}, "d": [2]}': (
        ['{"a": {"b": {"c": 1}}, "d": 2}'],
        ['{"a": {"b": 1}, "d": 2}', '{"d": 2}'],
    ),
    '{"a": {"b": [{"exists": true}]}}': (
        ['{"a": {"b": null}}'],
        ['{"a": {"b": {"c": 1}}}', '{"a": {}}', '{"a": 1}'],
    ),
    '{"a": {"b": [{"exists": false}]}}': (['{"a": {"b": {"c": 1}}}', '{"a": {}}', "{}"], ['{"a": {"b": 1}}']),
    '{"a": {"b": [null]}}': (['{"a": {"b": null}}'], ['{"a": null}', '{"a": {}}']),
    '{"a": {"b": [{"anything-but": "x"}]}}': (
        ['{"a": {"b": 1}}', '{"a": {"b": null}}'],
        ['{"a": {"b": "x"}}', '{"a": 1}'],
    ),
    '{"$or": [{"a": {"b": [1]}}, {"c": {"d": [2]}}]}': (['{"c": {"d": 2}}'], ['{"a": {"b": 2}}']),
    '{"a": {"$or": [{"b": [1]}, {"c": [2]}]}}': (['{"a": {"c": 2}}'], ['{"c": 2}']),
}

ARRAYS = {
    '{"t": ["x"]}': (['{"t": ["y", "x"]}', '{"t": [["x"]]}'], ['{"t": ["y"]}', '{"t": []}', '{"t": [null]}']),
    '{"t": [{"prefix": "ad"}]}': (['{"t": ["b", "admin"]}'], ['{"t": ["b"]}', '{"t": [1]}']),
    '{"t": [{"anything-but": "x"}]}': (
        ['{"t": ["x", "y"]}', '{"t": [1]}', '{"t": [null]}'],
        ['{"t": ["x"]}', '{"t": []}'],
    ),
    '{"t": [{"numeric": [">", 0, "<", 10]}]}': (['{"t": [100, 5]}'], ['{"t": [100, -5]}', '{"t": ["5"]}']),
    '{"t": [{"exists": true}]}': (['{"t": ["a", "b"]}', '{"t": [null]}'], ['{"t": []}', '{"t": [{"u": 1}]}']),
    '{"t": [{"exists": false}]}': (['{"t": []}', '{"t": [{"u": 1}]}', "{}"], ['{"t": [1]}']),
    '{"t": [null]}': (['{"t": [1, null]}'], ['{"t": [1]}', '{"t": []}']),
    '{"t": ["a"], "u": [2]}': (
        ['{"t": ["a", "b"], "u": [1, 2]}', '{"t": ["a"], "u": 2}'],
        ['{"t": ["a"], "u": [1]}'],
    ),
    '{"d": {"a": [1], "b": [2]}}': (
        ['{"d": [{"a": 0}, {"a": 1, "b": 2}]}', '{"d": {"a": [1, 3], "b": 2}}'],
        ['{"d": [{"a": 1, "b": 3}, {"a": 3, "b": 2}]}', '{"d": [{"a": 1}, {"b": 2}]}', '{"d": []}'],
    ),
    '{"d": {"a": [{"exists": true}], "b": [{"exists": true}]}}': (
        ['{"d": [{"a": 1}, {"b": 2}, {"a": 3, "b": 4}]}'],
        ['{"d": [{"a": 1}, {"b": 2}]}', "{}"],
    ),
    '{"d": {"a": [{"exists": true}], "b": [{"exists": false}]}}': (
        ['{"d": [{"a": 1}]}'],
        ['{"d": [{"a": 1, "b": 2}]}'],
    ),
    '{"u": {"t": {"k": ["c"], "v": ["b"]}}}': (
        ['{"u": [{"t": [{"k": "x"}, {"k": "c", "v": "b"}]}]}'],
        ['{"u": [{"t": [{"k": "c"}, {"v": "b"}]}]}', '{"u": [{"t": {"k": "c"}}, {"t": {"v": "b"}}]}'],
    ),
    '{"u": {"n": ["a"]}, "t": ["x"], "v": ["1"]}': (
        ['{"u": [{"n": "b"}, {"n": "a"}], "t": ["x", "y"], "v": "1"}'],
        ['{"u": [{"n": "b"}], "t": ["x"], "v": "1"}', '{"u": [{"n": "a"}], "t": ["x"], "v": "2"}'],
    ),
    '{"d": ["x"], "d.a": [1]}': (
        ['{"d": ["x", {"a": 1}]}'],
        ['{"d": ["x", {"a": 2}]}', '{"d": ["y", {"a": 1}]}'],
    ),
}


@pytest.mark.parametrize("cases", [FLAT, NESTED, ARRAYS], ids=["flat", "nested", "arrays"])
def test_a_pattern_matches_what_it_matches_there(cases: dict[str, tuple[list[str], list[str]]]) -> None:
    for pattern, (matching, others) in cases.items():
        for event in matching:
            assert matched(pattern, event), f"{pattern} has to match {event}"
        for event in others:
            assert not matched(pattern, event), f"{pattern} must not match {event}"


def test_patterns_of_ours_mean_what_selectors_mean() -> None:
    ours, its = (
        to_filter(parse_pattern({"s": [{"anything-but": "a"}]})),
        to_filter(eventbridge({"s": [{"anything-but": "a"}]})),
    )
    assert ours == to_filter("s <> 'a'")
    assert not ours.matches({"s": 1}) and its.matches({"s": 1})
    assert to_filter({"s": [None]}).matches({}) and not to_filter(eventbridge({"s": [None]})).matches({})


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{", "the pattern is not JSON"),
        ("[1]", "pattern: expected an object, found a list"),
        ('{"a": 1}', "a: expected a list"),
        ('{"a": {"b": [{"prefx": "x"}]}}', r"a.b\[0\]: no matcher is called 'prefx'"),
        ("[" * 100_000, "the pattern is not JSON|found a list"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        eventbridge(pattern)
