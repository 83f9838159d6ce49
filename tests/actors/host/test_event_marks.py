"""A field of the event message is declared once: it is split, joined, sent and stored, and so is one that is added.

Reference: docs/extending.md.
"""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import event_marks
import pytest
from event_marks import directed, marked, names
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE_SECONDS
from rayvous.protocol.batch import batch_of
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import DEFAULT_MARKS, Events, marks_of

numbers = st.integers(0, 9)
seconds = st.floats(0.1, 9.0)
MARKS: dict[str, st.SearchStrategy[Any]] = {
    "round": st.builds(RoundNumber, st.integers(1, 9), numbers), "retransmitted": st.just(True),
    "ballot": st.tuples(numbers, numbers), "age_seconds": seconds, "forgot_seconds": seconds,
    "repair_window_seconds": seconds, "entry": numbers, "number": st.integers(1, 9),
}  # fmt: skip
"""Values of each mark that differ from its default."""


def test_each_mark_is_drawn() -> None:
    assert list(MARKS) == names()


@settings(max_examples=15, deadline=None)
@given(st.fixed_dictionaries(MARKS), st.integers(2, 5))
def test_split_and_joined_sent_and_stored_it_is_the_same(marks: dict[str, Any], count: int) -> None:
    message = Events(batch_of([{"x": number} for number in range(count)]), **marks)
    assert all(one != other for one, other in zip(marks_of(message), DEFAULT_MARKS, strict=True))
    found = marked(message)
    assert found == {way: {marks_of(message)} for way in found}
    assert all(isinstance(each[0], RoundNumber) for came in found.values() for each in came)


@pytest.mark.parametrize("name", MARKS)
def test_events_that_the_origin_directs_keep_each_mark(name: str) -> None:
    values = {"round": RoundNumber(1, 2), "retransmitted": True, "ballot": (1, 2), "entry": 0}
    message = Events(batch_of([{"x": 1}, {"x": 2}]), **{name: values.get(name, 3.0)})
    reached = directed(message)
    assert [marks_of(each) for each in reached] == [marks_of(replace(message, entry=0))] * 2


def test_a_mark_that_one_line_adds_goes_everywhere() -> None:
    """Run on the source with one line more in `Events`, and no other change."""
    run = subprocess.run(
        [sys.executable, event_marks.__file__], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert run.stdout == "red\n", run.stderr
