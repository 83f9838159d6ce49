"""A network drawn from its own telemetry."""

import networkx as nx
import pyarrow as pa
import pytest
from rayvous.actors.pictures.drawing import draw, events_over
from rayvous.protocol.errors import InputError
from rayvous.routing.topologies.cluster_trees import ClusterTree

PLACES = ClusterTree(2, 2).positions()
TRANSFERS = pa.table(
    {
        "broker": [1, 3, 1, 1, 0, 1],
        "peer": [3, 1, -1, -2, -1, 3],
        "cluster": [0, 1, 0, 0, 0, 0],
        "link_kind": ["down", "up", "multicast", "up", "publish", "deliver"],
        "events": [5, 7, 11, 13, 17, 19],
    }
)


def living(brokers):
    graph = nx.Graph(name="flights")
    for place in PLACES:
        if place.broker in brokers:
            graph.add_node(place.broker, label=place.label, role=place.role, cluster=place.cluster)
    graph.add_edges_from([(0, 1, {"kind": "group"})] if 0 in brokers else [])
    graph.add_edges_from([(1, 3, {"kind": "tree"})] if 3 in brokers else [])
    return graph


def test_links_have_what_went_both_ways_and_groups_what_was_multicast():
    """What is sent to the rendezvous point, or handed over at a broker, crosses no link."""
    assert events_over(TRANSFERS) == ({(1, 3): 12}, {0: 11})
    assert events_over(TRANSFERS.slice(0, 0)) == ({}, {})


def test_it_has_every_broker_and_marks_the_dead(tmp_path):
    picture = draw(living({0, 1, 2}), PLACES, TRANSFERS)
    texts = [text.get_text() for axes in picture.figure.axes for text in axes.texts]
    assert sum("†" in text for text in texts) == 1 and any("D1" in text and "†" in text for text in texts)
    assert any("flights" in text.get_text() for text in picture.figure.texts)
    assert picture.save(tmp_path / "tree.png").stat().st_size > 0 and picture._repr_png_()[:4] == b"\x89PNG"
    for wrong in ("tree.nonsense", "none/tree.png"):
        with pytest.raises(InputError, match="tree"):
            picture.save(tmp_path / wrong)
