"""The hidden errors of docs/chaos.md: each shows only where its circumstances are met, and if it is switched on."""

import pytest
from hidden_brokers import Errors, Together, blind, draw, never_together
from rayvous.faults.checker.verdict import VIOLATED

WHERE = Together("Events", "a link is cut", "one of another cluster is dead")


@pytest.mark.slow
def test_an_error_shows_only_where_its_circumstances_meet():
    errors, met = Errors([WHERE]), []
    for seed in range(12):
        assert errors.run(draw(seed)).outcome != VIOLATED, "it is switched off"
        if errors.chances:
            assert WHERE in errors.met
            met.append(errors.run(draw(seed), active=str(WHERE)).outcome)
    assert 0 < len(met) < 12 and VIOLATED in met


def test_what_never_came_together_is_told_from_what_hardly_came():
    some = {Together("Events", "a", ""): 30, Together("Events", "b", ""): 25, Together("", "a", "b"): 20}
    assert never_together(counted(some)) == [Together("Events", "a", "b")]
    assert never_together(counted(some | {Together("Events", "a", "b"): 1})) == []
    assert never_together(counted(some | {Together("", "a", "b"): 19})) == []
    assert blind(Errors(()), []).met == {}


def counted(counts):
    found = blind(Errors(()), []).met
    found.update(counts)
    return found
