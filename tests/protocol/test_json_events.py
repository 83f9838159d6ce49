"""Parsing of JSON that clients send."""

import math

import pytest
from rayvous.protocol.errors import EventError
from rayvous.protocol.json_events import parse


@pytest.mark.parametrize(
    "text", ["1e400", "-1e400", "1e+0400", "9" * 309 + ".0", '{"a": [{"b": 1.8e308}]}', "Infinity", "NaN"]
)
def test_a_number_that_json_cannot_give_back_is_refused(text):
    """RFC 8259, 6: numbers have the range of a float, and there is no infinity."""
    with pytest.raises(EventError, match="the body: is not JSON: "):
        parse(text, "the body")


def test_numbers_keep_their_type():
    read = parse('[1, 1.0, -0.0, 1e2, 1e-400, 1.7976931348623157e308, "1e400"]', "the body")
    assert read == [1, 1.0, 0.0, 100.0, 0.0, 1.7976931348623157e308, "1e400"]
    assert list(map(type, read)) == [int, *[float] * 5, str] and math.copysign(1, read[2]) == -1
