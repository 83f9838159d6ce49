"""The benchmark of the match index: every load agrees with brute force, and the results have all figures."""

import numpy as np
import pytest
from rayvous.benchmarks import matching
from rayvous.benchmarks.loads import KINDS, Shape, make
from rayvous.protocol.errors import InputError


@pytest.mark.parametrize("kind", KINDS)
def test_a_load_is_matched_as_by_brute_force(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(matching, "_ROUNDS", 1)
    monkeypatch.setattr(matching, "_CHANGES", 2)
    result = matching.run((300,), events=8, shape=Shape(kind, 10, 2, 0.6))
    (row,) = result["results"]
    assert row["kernel"] in ("native", "numpy")
    assert all(
        row[key] > 0 for key in ("microseconds_per_event", "times_brute_force", "build_seconds", "peak_bytes")
    )
    assert row["matches_per_event"] > 0 or kind == "equality"


def test_the_brute_force_finds_a_wrong_match(monkeypatch: pytest.MonkeyPatch) -> None:
    load = make(Shape(), 50, 4, 1)
    right = matching._BruteForce(load).match(load.values.T[0].tolist())
    with pytest.raises(AssertionError, match="disagree"):
        matching._compare(matching.Matches(np.zeros(1, np.intp), right[:1] + 1), [right], 50)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (Shape("heavy"), "--load"),
        (Shape(attributes=4), "--constrained 5: it must be 1 to --attributes, here 4"),
        (Shape(width=1.5), "--width 1.5: it must be a fraction of the domain"),
    ],
)
def test_a_load_that_cannot_be_is_refused(shape: Shape, said: str) -> None:
    with pytest.raises(InputError, match=said):
        matching.run((10,), shape=shape)
