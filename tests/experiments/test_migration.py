"""A subscriber that moves to its publishers, small: what that saves, and what it costs. Reference: paper 2, 2.4."""

import pytest
from rayvous.experiments.migration import run
from rayvous.protocol.errors import InputError


def test_after_the_move_a_subscription_takes_nothing_elsewhere_if_local_publishers_satisfy_it():
    """Without that, all others keep an entry, and what anybody else publishes still crosses links."""
    result = run(3)
    rows = {(row["local_first"], row["phase"]): row for row in result["rows"]}
    for local_first in (False, True):
        before, during, after = (rows[local_first, phase] for phase in ("before", "during", "after"))
        assert before["entries"] == 2 and before["events"] > 0.9 and before["moves"] == 0
        assert during["moves"] == after["moves"] == 1 and during["views"] == 1
        assert during["broadcasts"] == during["echoes"] == (2 if local_first else 4)
        assert after["entries"] == (0 if local_first else 2)
        assert (after["events"] > 0) != local_first
        assert after["broadcasts"] == after["views"] == 0


def test_a_move_needs_three_brokers():
    with pytest.raises(InputError, match="brokers is 2"):
        run(2)
