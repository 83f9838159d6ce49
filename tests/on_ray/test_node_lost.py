"""A node is lost with its disk, and its broker continues elsewhere from PostgreSQL; in its own process."""

import pytest

PUBLISHED, MORE = 60, 5  # as in the program


@pytest.mark.slow
def test_brokers_of_a_node_that_is_gone_for_good_go_on_elsewhere(found_by, postgresql):
    """Promises 1, 2, 3 and 7; paper 4, section 3: a recovered broker has all that it had accepted."""
    came = found_by("node_lost.py", postgresql.address(), postgresql.address())
    for one in came.values():
        assert one["was"] and one["moved"]
        published = one.get("published", PUBLISHED)
        assert [number for name, number in one["heard"] if name == "pub"] == list(range(1, published + 1))
        assert [number for name, number in one["heard"] if name == "other"] == list(range(1, MORE + 1))
    assert came["heals"]["broker"] == 1, "where its queue is"
