"""A node dies under load: every cluster survives, and nothing is lost; run in its own process."""

from collections import Counter

import pytest


@pytest.mark.slow
def test_a_node_that_dies_under_load_takes_no_cluster_and_no_event_with_it(found_by):
    """Promises 1, 2, 3 and 6; paper 1, 4.1.1: the remaining members elect."""
    came = found_by("node_under_load.py")
    clusters = {int(broker): cluster for broker, cluster in came["clusters"].items()}
    assert Counter(clusters[broker] for broker in came["victims"]) == {0: 2, 1: 1, 2: 1}
    assert Counter(came["left"].values()) == {0: 2, 1: 3, 2: 3}
    assert 3 in came["victims"], "with the root broker, and the rendezvous point"
    for heard in came["heard"].values():
        for name, last in came["published"].items():
            assert last >= 100
            assert [number for publisher, number in heard if publisher == name] == list(range(1, last + 1))
