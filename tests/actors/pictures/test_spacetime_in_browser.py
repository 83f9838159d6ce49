"""The page of a space-time diagram in a real browser, headless Chromium; nothing is fetched."""

import pytest
from rayvous.actors.pictures.spacetime import Arrow, Diagram, Dot, Lane
from rayvous.actors.pictures.spacetime_page import page_of

pytestmark = pytest.mark.slow

LANES = tuple(Lane(f"b{number}", f"{number} N{number}", f"cluster {number // 3}") for number in range(24))
ARROWS = tuple(
    Arrow(float(number), f"b{number}", f"b{number + 1}", number + 0.5, "the event", f"hop {number}", "path")
    for number in range(23)
)
OTHERS = tuple(
    Arrow(number + 0.2, "b0", "b5", number + 0.4, "other messages", "a beat") for number in range(9)
)
DIAGRAM = Diagram("a long way", LANES, ARROWS + OTHERS, (Dot(3.0, "b3", "death", "broker 3 dies", "cross"),))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = tmp_path_factory.mktemp("why") / "why.html"
    words = ["12.000 s  a line that is so long that it has to be broken on a telephone " * 3]
    found.write_text(
        page_of(DIAGRAM, "faa:17 and alice: missing", words, {"Why": "a rule"}), encoding="utf-8"
    )
    return found


def shown(kind):
    all_of = f"[...document.querySelectorAll('#body g[data-kind=\"{kind}\"]')]"
    return f"{all_of}.filter(g => !g.classList.contains('off')).length"


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole_and_scrolls_in_its_box(browser, path, width, scheme):
    browser.open(path.as_uri(), width, scheme)
    assert browser.evaluate("document.title") == "faa:17 and alice: missing – Rayvous"
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.querySelectorAll('#head g.lane').length") == 24
    assert browser.evaluate(shown("the event")) == 23
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(18, 22, 28)") == (scheme == "dark")
    stroke = "getComputedStyle(document.querySelector('.arrow.path line:not(.near)')).stroke"
    assert browser.evaluate(stroke) == ("rgb(255, 165, 102)" if scheme == "dark" else "rgb(184, 74, 0)")
    assert browser.said() == []
    assert browser.requested() == [path.as_uri()]


def test_kinds_and_processes_can_be_hidden(browser, path):
    browser.open(path.as_uri(), 1280)
    browser.evaluate("document.querySelector('#kinds input[data-kind=\"other messages\"]').click() || 1")
    assert browser.evaluate(shown("other messages")) == 0 and browser.evaluate(shown("the event")) == 23
    browser.evaluate("document.querySelector('#kinds input[data-kind=\"other messages\"]').click() || 1")
    browser.evaluate("document.querySelectorAll('#head g.lane')[5].dispatchEvent(new MouseEvent('click'))")
    assert browser.evaluate(shown("other messages")) == 0, "they all go to broker 5"
    assert browser.evaluate(shown("the event")) == 21
    assert browser.evaluate("document.querySelectorAll('#head g.lane.off').length") == 1


def test_it_zooms(browser, path):
    browser.open(path.as_uri(), 1280)
    before = browser.evaluate("document.getElementById('body').clientWidth")
    browser.evaluate("document.getElementById('in').click() || 1")
    assert browser.evaluate("document.getElementById('body').clientWidth") == pytest.approx(
        1.25 * before, rel=0.02
    )
    browser.evaluate("document.getElementById('fit').click() || 1")
    inside = "document.getElementById('body').clientWidth + document.getElementById('axis').clientWidth"
    assert browser.evaluate(inside) <= browser.evaluate("document.getElementById('diagram').clientWidth")


def test_a_message_is_told_where_it_is_pointed_at(browser, path):
    browser.open(path.as_uri(), 1280)
    assert browser.evaluate("document.getElementById('tip').hidden")
    over = "document.querySelectorAll('#body .arrow.path')[2].querySelector('.near')"
    browser.evaluate(
        f"{over}.dispatchEvent(new PointerEvent('pointermove', {{bubbles: true, clientX: 9, clientY: 9}}))"
    )
    assert browser.evaluate("document.getElementById('tip').textContent") == "hop 2"
    assert not browser.evaluate("document.getElementById('tip').hidden")
