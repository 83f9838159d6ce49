"""The picture of the tree: labels are legible at the size shown, nothing overlaps, the dead are marked."""

import itertools
import random
from functools import cache

import networkx as nx
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from rayvous.actors.pictures.dead import with_dead
from rayvous.actors.pictures.graph import graph_of_places
from rayvous.actors.pictures.tree import tree_figure
from rayvous.actors.pictures.tree_size import LABEL_POINTS, NAMED_BROKERS_MAX
from rayvous.pipelines.report import plots
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree


def network(clusters: int, brokers: int, degree: int = 8, dead: tuple[int, ...] = ()) -> nx.Graph:
    positions, graph = ClusterTree(clusters, brokers, degree=degree).positions(), nx.Graph()
    for position in positions:
        if position.broker not in dead:
            graph.add_node(
                position.broker, label=position.label, role=position.role, cluster=position.cluster
            )
    for position in positions:
        if position.role != "NEB" and position.broker in graph:
            others = [(child, "tree") for child in position.children]
            others += [(member, "group") for member in position.members if member != position.broker]
            graph.add_edges_from(
                (position.broker, node, {"kind": kind}) for node, kind in others if node in graph
            )
    return with_dead(graph, positions)


def load_of(graph: nx.Graph) -> tuple[dict, dict]:
    chance = random.Random(0)
    links = {
        (min(u, v), max(u, v)): chance.randrange(20_000)
        for u, v, kind in graph.edges(data="kind")
        if kind != "group"
    }
    return links, {cluster: chance.randrange(9_000) for _, cluster in graph.nodes(data="cluster")}


def texts(figure) -> dict[str, object]:
    return {text.get_text(): text for axes in figure.axes for text in axes.texts}


def drawn(graph: nx.Graph):
    figure = tree_figure(graph, *load_of(graph))
    FigureCanvasAgg(figure).draw()
    return figure


@cache
def picture(clusters: int, brokers: int):
    """Return a network's graph and its picture, which several tests look at."""
    graph = network(clusters, brokers)
    return graph, drawn(graph)


SHAPES = [
    (1, 1),
    (2, 1),
    (4, 3),
    (12, 1),
    (10, 10),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in ((33, 3), (50, 2))),
]


@pytest.mark.parametrize(("clusters", "brokers"), SHAPES)
def test_every_label_can_be_read_at_the_size_shown(clusters, brokers):
    graph, figure = picture(clusters, brokers)
    assert figure.get_figwidth() <= plots.PAGE_INCHES * 1.06  # the page shows it unscaled
    found = texts(figure)
    for _, label in graph.nodes(data="label"):
        (text,) = [text for words, text in found.items() if words.partition("\n")[0] == label]
        assert text.get_fontsize() >= LABEL_POINTS >= 8
    assert min(text.get_fontsize() for text in found.values()) >= 8


@pytest.mark.parametrize(("clusters", "brokers"), SHAPES)
def test_brokers_do_not_cover_each_other(clusters, brokers):
    graph, figure = picture(clusters, brokers)
    boxes = [
        text.get_bbox_patch().get_window_extent()
        for text in figure.axes[0].texts
        if text.get_color() == "white"
    ]
    assert len(boxes) == len(graph)
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    width, height = figure.get_size_inches() * figure.dpi
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)


@pytest.mark.parametrize(
    ("clusters", "brokers"), [(4, 3), (12, 1), pytest.param(33, 3, marks=pytest.mark.slow)]
)
def test_numbers_of_links_cover_no_broker(clusters, brokers):
    _, figure = picture(clusters, brokers)
    brokers_ = [text for text in figure.axes[0].texts if text.get_color() == "white"]
    numbers = [text.get_window_extent() for text in figure.axes[0].texts if text.get_color() != "white"]
    assert len(numbers) == clusters - 1
    for number, broker in itertools.product(numbers, brokers_):
        assert not number.overlaps(broker.get_window_extent())
    assert not any(one.overlaps(other) for one, other in itertools.combinations(numbers, 2))


def test_the_picture_has_no_wide_margins():
    """Brokers reach to the sides; above and below them are the title, the legend and the scale."""
    figure = drawn(network(4, 3))
    boxes = [
        text.get_bbox_patch().get_window_extent()
        for text in figure.axes[0].texts
        if text.get_color() == "white"
    ]
    width, height = figure.get_size_inches() * figure.dpi
    assert (max(box.x1 for box in boxes) - min(box.x0 for box in boxes)) / width > 0.9
    assert (max(box.y1 for box in boxes) - min(box.y0 for box in boxes)) / height > 0.6


@pytest.mark.slow
def test_hundreds_of_brokers_have_dots_for_members():
    graph = network(100, 10)
    assert len(graph) > NAMED_BROKERS_MAX
    figure = tree_figure(graph, *load_of(graph))
    found = {words.partition("\n")[0] for words in texts(figure)}
    hubs = {label for node, label in graph.nodes(data="label") if graph.nodes[node]["role"] != "NEB"}
    assert hubs <= found
    assert not found & {
        label for node, label in graph.nodes(data="label") if graph.nodes[node]["role"] == "NEB"
    }
    assert "members: dots" in figure.texts[0].get_text()
    assert max(figure.get_size_inches()) <= 62


def test_the_dead_are_grey_with_a_dagger_and_their_links_dashed():
    graph = network(4, 3, dead=(5,))  # D1; its cluster has elected no successor here
    figure = tree_figure(graph, {(2, 5): 1490, (2, 8): 700}, {})
    text = texts(figure)["D1 †"]
    assert text.get_bbox_patch().get_facecolor() == to_rgba(plots.DEAD_COLOUR)
    assert texts(figure)["REB"].get_bbox_patch().get_facecolor() == to_rgba(plots.ROLE_COLOURS["REB"])
    assert "1.49k" in texts(figure)
    said = [label.get_text() for label in figure.legends[0].get_texts()]
    assert {"root (REB)", "† died"} <= set(said)
    former, tree = (
        lines
        for lines in figure.axes[0].collections
        if isinstance(lines, LineCollection) and lines.zorder == 2
    )
    assert len(former.get_segments()) == 1
    assert former.get_linestyle()[0][1] is not None  # dashed
    assert len(tree.get_segments()) == 2


def test_a_link_of_the_dead_over_which_nothing_went_is_left_out():
    graph = network(4, 3, dead=(5,))
    figure = tree_figure(graph, {}, {})
    former, _ = (
        lines
        for lines in figure.axes[0].collections
        if isinstance(lines, LineCollection) and lines.zorder == 2
    )
    assert len(former.get_segments()) == 0


def test_events_stand_on_links_and_clusters():
    figure = tree_figure(network(2, 2), {(1, 3): 12_345}, {0: 950, 1: 0})
    assert {"12.3k", "REB\n⇉ 950", "D1\n⇉ 0"} <= set(texts(figure))
    # One tree link, and one link within each of two clusters; the busiest is the widest.
    widths = [width for lines in figure.axes[0].collections for width in lines.get_linewidths()]
    assert max(widths) == pytest.approx(7.0)


def test_a_tree_without_traffic_shows_zero():
    assert "0" in texts(tree_figure(network(2, 1), {}, {}))


def test_long_names_are_cut_where_they_would_push_all_apart():
    graph = network(2, 2)
    graph.nodes[0]["label"] = "a" * 300
    figure = tree_figure(graph, {}, {})
    assert "a" * 9 + "…" in texts(figure)
    assert figure.get_figwidth() <= plots.PAGE_INCHES


def test_a_hypercube_has_every_link_of_its_view_with_what_went_over_it_and_its_dead():
    places = scheme("hypercube").positions(ClusterTree(4, 2).positions())
    there = [place for place in places if place.broker != 5]
    graph = with_dead(graph_of_places("cube", "hypercube", there), places)
    ends = {tuple(sorted(edge[:2])) for edge in graph.edges(data="kind") if edge[2] == "cube"}
    assert len(ends) == 12 - 3, (
        "eight corners have twelve edges, and three of them had the dead one at an end"
    )
    figure = tree_figure(graph, {pair: 1000 + place for place, pair in enumerate(sorted(ends))}, {})
    FigureCanvasAgg(figure).draw()
    lines = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)]
    assert sum(len(each.get_segments()) for each in lines if each.zorder == 2) == len(ends)
    numbers = [text.get_text() for text in figure.axes[0].texts if text.get_color() != "white"]
    assert len(numbers) == len(ends) and all(number.startswith("1") for number in numbers)
    assert sum("†" in text for text in texts(figure)) == 1
    said = [label.get_text() for label in figure.legends[0].get_texts()]
    assert said == ["broker", "† died"], "each is the root of its own broadcasts, and none is above another"
