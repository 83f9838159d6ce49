"""The full guarantee on Ray: what comes to brokers and links, with samples, over their capacities; without Ray.

`tests/on_ray/test_full_guarantee.py` runs it.
"""

import random
from collections import Counter

import pytest
from rayvous.admission.sampling import Sampler
from rayvous.benchmarks.caution import Drawn, draw
from rayvous.benchmarks.caution_on_ray import Seen, loads, sampled, told, worst
from rayvous.protocol.batch import batch_of
from rayvous.protocol.messages.admission import Capacity
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import fixed

ROW = fixed({"B0": None, "B1": "B0", "B2": "B1"})
CAPACITIES = {broker: Capacity(100.0, 50.0) for broker in range(3)}


def seen(at, **came):
    places = {"one": 1, "link": (0, 1)}
    return Seen(at, Counter({places[name]: events for name, events in came.items()}), 0, 0)


def test_as_many_events_of_samples_are_counted_as_a_sampler_tells():
    sampler, events, published = Sampler(to_filter("x > 0")), 0, 0
    for many in (5, 3, 600, 40, 1_900, 6_349, 1, 6_350, 12_700):
        for _ in range(many):
            published += 1
            if sampler.saw(batch_of(({"x": 1},))):
                events += len(sampler.sample)
        assert told(published) == events


def test_samples_go_over_every_link_away_from_their_publisher():
    drawn = Drawn(ROW, CAPACITIES, [2, 1], random.Random(0))
    assert sampled(drawn, [8, 640]) == {(2, 1): 8, (1, 0): 8 + 40, (1, 2): 40, 0: 48, 1: 8, 2: 40}


def test_a_load_is_what_came_in_a_time_over_the_capacity():
    assert loads(seen(1.0, one=10), seen(3.0, one=110, link=20), CAPACITIES) == {1: 0.5, (0, 1): 0.2}


def test_the_worst_seconds_are_those_of_any_two_looks_that_far_apart():
    looks = [seen(at, one=came) for at, came in ((0, 0), (2, 0), (4, 400), (6, 700), (8, 750), (10, 760))]
    assert worst(looks, CAPACITIES, 4.0) == pytest.approx((700 - 0) / 4 / 100), "from 2 to 6, not from 0"
    assert worst(looks, CAPACITIES, 5.0) == pytest.approx((750 - 0) / 6 / 100)
    assert worst(looks[:2], CAPACITIES, 5.0) == 0.0


def test_a_network_is_the_same_for_every_row():
    one, other = draw(3, 20), draw(3, 20)
    assert one.tree.positions() == other.tree.positions() and one[1:3] == other[1:3]
    assert one.rng.random() == other.rng.random() and one[1] != draw(4, 20)[1]
