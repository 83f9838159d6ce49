"""Notifications as lines."""

import datetime
import json
import math

import pytest
from rayvous.actors.clients.notification import Notification
from rayvous.cli.event_lines import FORMATS, TableLines, printer

MOMENT = datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC)


def note(event, sequence=7):
    return Notification(event, "faa", sequence, 1_356_998_400.5, 0.0)


def test_json_has_who_published_what_and_when():
    assert json.loads(printer("json", "flights")(note({"at": MOMENT, "x": 1}))) == {
        "publisher": "faa", "sequence": 7, "published_at": "2013-01-01T00:00:00.500Z",
        "event": {"at": "2013-01-01T05:00:00Z", "x": 1},
    }  # fmt: skip


def test_cloudevents_have_what_the_specification_requires():
    """CloudEvents 1.0, 3.1: id, source, specversion and type; source and id together name the event."""
    line = printer("cloudevents", "flights")
    event, other = json.loads(line(note({"x": 1}))), json.loads(line(note({"x": 1}, 8)))
    assert event["specversion"] == "1.0" and event["type"] == "rayvous.event" and event["data"] == {"x": 1}
    assert event["source"] == other["source"] == "/rayvous/flights/faa" and event["id"] != other["id"]
    assert datetime.datetime.fromisoformat(event["time"]).tzinfo is not None


def test_values_that_json_lacks_are_strings():
    for form in ("json", "cloudevents"):
        line = json.loads(printer(form, "flights")(note({"x": math.inf, "y": [None, -math.inf]})))
        assert line.get("event", line.get("data")) == {"x": "Infinity", "y": [None, "-Infinity"]}


def test_a_cloudevent_comes_as_it_was_published():
    """As from a gateway: its attributes are those under ce_."""
    event = {"ce_specversion": "1.0", "ce_id": "7", "ce_source": "/jfk", "ce_type": "delay", "x": 1}
    assert json.loads(printer("cloudevents", "flights")(note(event))) == {
        "specversion": "1.0", "id": "7", "source": "/jfk", "type": "delay", "data": {"x": 1},
    }  # fmt: skip


def test_a_table_has_its_heading_again_when_an_attribute_is_new():
    lines = TableLines()
    first, second, third = (
        lines(note(event)) for event in ({"x": 1}, {"x": 2}, {"y": "long " * 9, "x": None})
    )
    assert first.split() == ["publisher", "x", "faa", "7", "1"] and second.split() == ["faa", "7", "2"]
    assert third.splitlines()[0].split() == ["publisher", "x", "y"] and "…" in third and " - " in third


HOSTILE = "\x1b[2J\r\nfaa 1\u202e\ud800"


@pytest.mark.parametrize("form", FORMATS)
def test_no_event_can_write_to_the_terminal_or_end_the_printing(form):
    """The lines are encoded strictly; an event that could not be would stop its subscriber again at every start."""
    line_of = printer(form, "flights")
    for event in ({HOSTILE: HOSTILE}, {"a": {HOSTILE: [HOSTILE, math.inf]}}, {"ce_id": HOSTILE}):
        text = line_of(Notification(event, HOSTILE, 7, 0.0, 0.0))
        text.encode()
        assert text.replace("\n", "").isprintable() and text.count("\n") == (form == "table")
