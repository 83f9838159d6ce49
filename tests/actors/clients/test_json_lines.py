"""Events as JSON lines."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.actors.clients.json_lines import JsonLines
from rayvous.protocol.batch import EVENT_BYTES_MAX
from rayvous.protocol.errors import InputError
from rayvous.protocol.values import NULL, Kind, timestamp_of

MOMENT = datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC)


@given(st.lists(st.integers(0, 99)), st.lists(st.integers(1, 20)), st.booleans())
def test_however_the_bytes_come_the_events_are_the_same(values, cuts, ended):
    data = "".join(f'{{"x": {value}}}\n\n' for value in values).encode().rstrip() + b"\n" * ended
    reader, events = JsonLines("-"), []
    for cut in cuts:
        events += reader.feed(data[:cut])
        data = data[cut:]
    events += [*reader.feed(data), *reader.end()]
    assert [line.event for line in events] == [{"x": value} for value in values]
    assert [line.number for line in events] == [1 + 2 * place for place in range(len(values))]


@pytest.mark.parametrize("wrong", ["{", "[1]", '"x"', "{'a': 1}", "\xff"])
def test_a_wrong_line_is_told_by_its_number_and_what_stands_before_it_is_had(wrong):
    had = []
    with pytest.raises(InputError, match=r"a\.jsonl:3: is not (a JSON object|JSON|UTF-8)"):
        for line in JsonLines("a.jsonl").feed(b'{"x": 1}\n\n' + wrong.encode("latin-1") + b"\n"):
            had.append(line.event)  # the events before the error are asserted below
    assert had == [{"x": 1}]
    with pytest.raises(InputError, match="a:1: is nested too deeply"):
        list(JsonLines("a").feed(b"[" * 100_000 + b"\n"))


def test_a_line_without_an_end_is_bounded():
    reader = JsonLines("-")
    with pytest.raises(InputError, match="is longer than"):
        list(reader.feed(b"x" * (EVENT_BYTES_MAX + 1)))


def test_moments_are_made_where_they_are_named_and_null_is_a_value():
    (line,) = JsonLines("-", ["at"]).feed(b'{"at": "2013-01-01T05:00:00Z", "to": "2013-01-01", "x": null}\n')
    assert line.event == {"at": timestamp_of(MOMENT), "to": "2013-01-01", "x": NULL}
    for wrong in (b'{"at": "soon"}\n', b'{"at": 3}\n'):
        with pytest.raises(InputError, match=r"-:1: at: .* is not a time in ISO 8601"):
            list(JsonLines("-", ["at"]).feed(wrong))


@pytest.mark.parametrize("wrong", [b'{"x": NaN}', b'{"x": -Infinity}', b'{"x": "\\ud800"}', b'{"x": 1e400}'])
def test_what_json_does_not_allow_is_refused(wrong):
    with pytest.raises(InputError, match=r"-:1: (is not JSON|has half a surrogate pair)"):
        list(JsonLines("-").feed(wrong + b"\n"))


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Kind.STRING, "7", "7"), (Kind.STRING, "true", "true"), (Kind.STRING, '"a"', "a"),
        (Kind.INTEGER, '"7"', 7), (Kind.INTEGER, "7.0", 7), (Kind.FLOAT, "7", 7.0), (Kind.FLOAT, '"1e3"', 1000.0),
        (Kind.BOOLEAN, '"TRUE"', True), (Kind.TIMESTAMP, '"2013-01-01T05:00:00Z"', timestamp_of(MOMENT)),
    ],
)  # fmt: skip
def test_an_attribute_has_the_type_that_was_asked_for(kind, given, value):
    ((_, event),) = JsonLines("-", kinds={"x": kind, "not there": kind}).feed(b'{"x": %s}\n' % given.encode())
    assert event == {"x": value} and type(event["x"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "given"), [(Kind.INTEGER, "7.5"), (Kind.FLOAT, '"a"'), (Kind.BOOLEAN, "1"), (Kind.STRING, "[1]")]
)
def test_a_value_of_another_type_is_refused(kind, given):
    with pytest.raises(InputError, match=rf"-:1: x: .* is not of type {kind.name.lower()}"):
        list(JsonLines("-", kinds={"x": kind}).feed(b'{"x": %s}\n' % given.encode()))
