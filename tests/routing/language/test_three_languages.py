"""The same filter in text, in JSON and in Python is one filter: it prints, parses and matches alike."""

from typing import Any

import rayvous as rv
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of
from rayvous.routing.language.predicates import evaluate
from rayvous.routing.matching.index import MatchIndex
from three_languages import RAW, SAID, Said


@settings(max_examples=150)
@given(SAID, st.lists(RAW, min_size=1, max_size=4))
def test_the_three_languages_say_the_same(said: Said, raw: list[dict[str, Any]]) -> None:
    made = rv.to_filter(said.text)
    assert rv.to_filter(said.json) == made
    assert rv.to_filter(said.python) == made
    assert rv.to_filter(str(made)) == made
    batch = batch_of(raw)
    expected = [evaluate(said.python, event) is True for event in batch.events()]
    assert made.evaluate_batch(batch).tolist() == expected
    index = MatchIndex()
    index.insert(made)
    assert index.match(batch).rows.tolist() == [row for row, holds in enumerate(expected) if holds]
    assert batch.documents() == raw
