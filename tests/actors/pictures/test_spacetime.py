"""The drawing of space-time diagrams: places, bounds, escaping, and well-formed SVG."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rayvous.actors.pictures import spacetime
from rayvous.actors.pictures.spacetime import Arrow, Diagram, Dot, Lane, Span, TimeScale, draw, svg_of
from rayvous.actors.pictures.spacetime_page import page_of

LANES = (Lane("a", "alice"), Lane("b1", "1 D1", "cluster 0"), Lane("b2", "2 N2", "cluster 0"))
DIAGRAM = Diagram(
    "one event",
    LANES,
    (
        Arrow(1.0, "a", "b1", 1.1, "the event", "alice publishes", "path"),
        Arrow(1.1, "b1", "b2", None, "the event", "lost", "event"),
        Arrow(5.0, "b2", "b1", 5.2, "other messages", "a join"),
    ),
    (
        Dot(3.0, "b2", "death", "dies", "cross"),
        Dot(4.0, "", "fault", "cut"),
        Dot(5.2, "b1", "end", "here", "ring", True),
    ),
    (Span("b2", 3.0, 4.0),),
)


@given(st.lists(st.floats(0, 1e6), max_size=40), st.lists(st.floats(0, 1e6), max_size=40), st.floats(0, 1e6))
def test_time_runs_down_and_pauses_are_short(strong, weak, between):
    scale = TimeScale(strong, weak)
    assert scale.places == sorted(scale.places)
    assert all(0 <= place <= scale.height for place in map(scale.place, [*strong, *weak, between]))
    gaps = [after - before for before, after in pairwise(scale.places)]
    assert max(gaps, default=0.0) <= spacetime.PAUSE_PIXELS + 1e-6  # places are sums of floats
    labels = [place for _, place in scale.labels()]
    assert all(after - before >= 14 for before, after in pairwise(labels))


def test_moments_that_matter_have_rows_of_their_own():
    scale = TimeScale([1.0, 1.000001, 1.000002])
    places = [scale.place(time) for time in (1.0, 1.000001, 1.000002)]
    assert [round(after - before) for before, after in pairwise(places)] == [22, 22]


def test_the_drawing_is_well_formed_and_has_everything():
    tree = ElementTree.fromstring(svg_of(DIAGRAM))
    drawn = [each for each in tree.iter() if each.get("data-kind")]
    assert len(drawn) == 6
    titles = {each.text for each in tree.iter("{http://www.w3.org/2000/svg}title")}
    assert {"alice publishes", "lost", "dies", "cut", "here", "dead from 3.000 s to 4.000 s"} <= titles
    heads = [each.get("marker-end") for each in tree.iter() if each.get("marker-end")]
    assert heads == ["url(#head-other)", "url(#head-path)"], (
        "what was lost has no head; the path is drawn last"
    )
    assert "cluster 0" in svg_of(DIAGRAM)


def test_what_has_no_lane_and_what_is_too_much_is_counted(monkeypatch):
    monkeypatch.setattr(spacetime, "ARROWS_MAX", 2)
    monkeypatch.setattr(spacetime, "DOTS_MAX", 1)
    stranger = Arrow(0.5, "x", "b1", 0.6, "other messages", "of nobody here")
    bounded = Diagram("one", LANES, (*DIAGRAM.arrows, stranger), DIAGRAM.dots).bounded()
    assert [arrow.style for arrow in bounded.arrows] == ["path", "event"]
    assert [dot.kind for dot in bounded.dots] == ["end"]
    assert bounded.left_out == ("1 messages", "2 happenings", "1 messages of processes without a lane")


def test_a_time_since_1970_is_cut_to_what_fits_beside_the_lanes():
    at = 1_795_828_448.5053
    drawn = draw(Diagram("late", LANES, (Arrow(at, "b1", "b2", at + 0.01, "the event", "sent", "path"),)))
    assert ">…448.5053 s<" in drawn.axis and "1795828448" not in drawn.axis
    assert ">1.1000 s<" in draw(Diagram("", LANES, (Arrow(1.1, "b1", "b2", 1.2, "e", "sent", "path"),))).axis


def test_an_empty_diagram_is_drawn():
    ElementTree.fromstring(svg_of(Diagram("nothing", ())))
    assert draw(Diagram("nothing", LANES)).width == 3 * spacetime.LANE_PIXELS


def test_text_of_users_is_escaped():
    evil = '</title><script>alert("1")</script>\u202e{{script}}'
    diagram = Diagram(evil, (Lane("a", evil, evil),), (), (Dot(1.0, "a", evil, evil),))
    tree = ElementTree.fromstring(svg_of(diagram))
    assert not [each for each in tree.iter() if each.tag.endswith("script")]
    page = page_of(diagram, evil, [evil], {"Why": evil})
    assert page.count("<script>") == 1 and "\u202e" not in page
    assert "&lt;script&gt;" in page and page.count("{{script}}") >= 3


def test_the_script_is_the_one_that_the_policy_allows():
    import base64
    import hashlib
    import re

    page = page_of(DIAGRAM, "one event")
    script = re.search(r"<script>(.*)</script>", page, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page and "http" not in page.replace("http-equiv", "")
