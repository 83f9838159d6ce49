"""The witness store agrees with a dict of witnesses, and does not grow with removed entries."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.matching import witness_store
from rayvous.routing.matching.witness_store import WitnessStore

events = st.dictionaries(st.sampled_from("xs"), st.integers(0, 3) | st.sampled_from(("a", "b")), max_size=2)
SELECTORS = (
    "x > 1",
    "x = 'a'",
    "x = 'a' AND s = 'b'",
    "x = 'b' OR s = 'a' AND x > 0",
    "s = 'b' OR x <= 0",
    "x IS NULL",
    "TRUE",
    "FALSE",
    "s PREFIX 'a' AND x >= 0",
)


class Churn(RuleBasedStateMachine):
    @initialize(
        tail=st.sampled_from((1, 2, 5)), batches=st.sampled_from((0, 1, 3)), few=st.sampled_from((-1, 1, 64))
    )
    def start(self, tail: int, batches: int, few: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(witness_store, "TAIL_MAX", tail)
        self.patch.setattr(witness_store, "BATCHES_MAX", batches)
        self.patch.setattr(witness_store, "FEW", few)
        self.exact = few < 0
        self.store = WitnessStore()
        self.held: dict[int, dict[str, Any] | None] = {}

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    @rule(slot=st.integers(0, 12), event=events | st.none())
    def add(self, slot: int, event: dict[str, Any] | None) -> None:
        if slot not in self.held:
            self.held[slot] = event
            self.store.add(slot, [] if event is None else [event])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def discard(self, data: Any) -> None:
        slot = data.draw(st.sampled_from(sorted(self.held)))
        event = self.held.pop(slot)
        self.store.discard(slot, [] if event is None else [event])

    @rule(selector=st.sampled_from(SELECTORS))
    def matched_by(self, selector: str) -> None:
        item = to_filter(selector)
        expected = [slot for slot, event in self.held.items() if event is None or item.matches(event)]
        found = self.store.matched_by(item)
        assert found == sorted(found) and set(found) >= set(expected)
        assert found == sorted(expected) or not self.exact

    @invariant()
    def length(self) -> None:
        assert len(self.store) == len(self.held)


TestChurn = Churn.TestCase
TestChurn.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_it_does_not_grow_with_what_has_gone() -> None:
    store = WitnessStore()
    for number in range(5_000):
        store.add(number, [{"tail": f"N{number}", "x": number}])
        if (number - 200) % 500:  # a few stay, so that there is always a batch to carry over
            gone = number - 200
            store.discard(gone, [{"tail": f"N{gone}", "x": gone}] if gone >= 0 else [])
    assert len(store) == 210
    rows = sum(len(slots) for _, slots in store._packed)
    words = sum(len(column.words) for batch, _ in store._packed for column in batch.columns.values())
    assert rows <= 1_500 and len(store._with) == 210
    assert words <= 2 * rows
    assert store.matched_by(to_filter("tail = 'N4900'")) == [4900]
    assert store.matched_by(to_filter("tail = 'N4700'")) == []


def test_a_slot_that_is_used_again_stands_for_its_new_filter() -> None:
    store = WitnessStore()
    for slot in range(witness_store.TAIL_MAX):
        store.add(slot, [{"x": 1}])
    store.discard(3, [{"x": 1}])
    store.add(3, [{"x": 2}])
    assert store.matched_by(to_filter("x = 2")) == [3]
    assert 3 not in store.matched_by(to_filter("x = 1"))


def test_a_filter_that_asks_for_one_string_is_compared_with_few_without_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = WitnessStore()
    for slot in range(1_000):
        store.add(slot, [{"place": "here", "s": f"S{slot % 500}", "x": slot}])
    store.add(1_000, [])
    item = to_filter("place = 'here' AND s = 'S7' AND x > 600")
    assert store.matched_by(item) == [7, 507, 1_000]
    monkeypatch.setattr(witness_store, "FEW", 1)
    assert store.matched_by(item) == [1_000]
