"""One filter against many at once: the same answers as `covers` and `intersects`, one by one."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.admission.columns import FilterColumns
from rayvous.protocol.scenarios.workload import random_selector
from rayvous.routing.filters.covering import covers, intersects
from rayvous.routing.language.questions import to_filter

BIG = 2**53
ODD = (
    "TRUE", "FALSE", f"volume > {BIG + 1}", f"volume > {BIG}", f"volume = {BIG + 1}", "volume BETWEEN 3 AND 3",
    "volume > 3", "volume >= 3", "volume < 3", "volume <= 3", "volume <> 3", "volume = 3 OR volume IS NULL",
    "volume IS NULL", "volume IS NOT NULL", "symbol LIKE '%A%'", "symbol SUFFIX 'A'", "other = 1",
    "volume < 2 OR volume > 4", "volume > 1 OR symbol = 'ACME'", "volume = TIMESTAMP '2013-01-01T00:00:00Z'",
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_the_answers_are_those_of_comparing_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    columns, kept = FilterColumns(), []
    for _ in range(40):
        text = rng.choice(ODD) if rng.random() < 0.4 else random_selector(rng)
        item = to_filter(text)
        relations = columns.relations(item)
        assert (relations.same >= 0) == (item in kept)
        for other in kept:
            slot = columns.slot(other)
            assert relations.meets[slot] == intersects(item, other), (str(item), str(other))
            if other != item:
                assert relations.above[slot] == covers(other, item), (str(item), str(other))
                assert relations.below[slot] == covers(item, other), (str(item), str(other))
        if item in kept:
            same = relations.same
            assert same == columns.slot(item) and not relations.above[same] and not relations.below[same]
        assert relations.meets.sum() == sum(intersects(item, other) for other in kept)
        if item not in kept:
            columns.insert(item)
            kept.append(item)
        if rng.random() < 0.3:
            columns.remove(kept.pop(rng.randrange(len(kept))))
        assert len(columns) == len(kept)
