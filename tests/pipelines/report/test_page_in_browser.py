"""The page in a real browser, headless Chromium; nothing is fetched.

Without Chromium these tests are skipped; a failure of Chromium itself is a failure.
"""

import pytest
from rayvous.pipelines.report.page import write_page
from rayvous.pipelines.report.report import write_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def path(tmp_path_factory, figures, network, told):
    return write_report(tmp_path_factory.mktemp("report"), figures(), network(), told()).paths["page"]


@pytest.mark.parametrize("width", [1100, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_shown_whole(browser, path, width, scheme):
    browser.open(path.as_uri(), width, scheme)
    assert browser.evaluate("document.title") == "flights – Rayvous"
    assert browser.evaluate("document.querySelector('#verdict .word').textContent") == "holds"
    rows = "[...document.querySelectorAll('section')].map(s => [s.id, s.querySelectorAll('tbody tr').length])"
    counted = dict(browser.evaluate(rows))
    assert counted["verdict"] == 2
    assert counted["tree"] == 3
    assert counted["load"] == 6
    assert counted["costs"] == 7
    sizes = browser.evaluate(
        "[...document.images].map(i => [i.complete, i.naturalWidth, i.naturalHeight, i.clientWidth, i.clientHeight])"
    )
    assert len(sizes) == 4
    for complete, natural_width, natural_height, shown_width, shown_height in sizes:
        assert complete
        assert natural_width > 500
        assert natural_height > 300
        assert shown_width > 250
        assert shown_height / shown_width == pytest.approx(natural_height / natural_width, rel=0.02)
    # No table squeezes a column until its words break.
    narrowest = (
        "Math.min(...[...document.querySelectorAll('.scroll td:first-child')].map(td => td.clientWidth))"
    )
    assert browser.evaluate(narrowest) > 95
    # Nothing is wider than the window: tables and pictures scroll in their own boxes.
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.said() == []
    assert browser.requested() == [path.as_uri()]


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser, path, scheme):
    """WCAG 2, level AA: a contrast of 4.5 to 1."""
    browser.open(path.as_uri(), scheme=scheme)
    ground = browser.evaluate("getComputedStyle(document.querySelector('.sheet')).backgroundColor")
    assert (luminance(ground) > 0.5) == (scheme == "light")
    selectors = ("h2", "td", "th", ".note", "figcaption", "a", ".timeline .mark", ".facts dt")
    for selector in selectors:
        ink = browser.evaluate(f"getComputedStyle(document.querySelector('.sheet {selector}')).color")
        high, low = sorted((luminance(ink), luminance(ground)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, selector


def test_a_page_prints_on_paper(browser, path):
    browser.open(path.as_uri(), scheme="dark")
    browser.ask("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("getComputedStyle(document.querySelector('h2')).color") == "rgb(0, 0, 0)"
    browser.ask("Emulation.setEmulatedMedia", media="")
    printed = browser.ask("Page.printToPDF", preferCSSPageSize=False)["data"]
    assert len(printed) > 50_000


def test_hostile_names_run_nothing_and_fetch_nothing(browser, tmp_path, figures, network, told):
    hostile = (
        "<script>window.owned = 1</script><img src=http://evil.example/a.png onerror='window.owned = 2'>"
    )
    graph = network(hostile)
    graph.nodes[0]["label"] = hostile
    summary = told() | {"settings": {hostile: hostile}, "timeline": [{"seconds": 1.0, "what": hostile}]}
    path = write_page(tmp_path, figures(), graph, summary, {})
    browser.open(path.as_uri())
    assert browser.evaluate("document.querySelector('h1').textContent") == hostile
    assert browser.evaluate("typeof window.owned") == "undefined"
    assert browser.evaluate("document.scripts.length") == 0
    assert browser.requested() == [path.as_uri()]
    assert browser.said() == []


def test_the_policy_of_the_page_stops_what_escaping_would_miss(browser, tmp_path, figures, network, told):
    """The second line of defence: an injected script is not run, and an injected picture is not fetched."""
    path = write_page(tmp_path, figures(), network(), told(), {})
    evil = "<script>window.owned = 1</script><img src=http://evil.example/a.png>"
    path.write_text(path.read_text(encoding="utf-8").replace("<main>", f"<main>{evil}"), encoding="utf-8")
    browser.open(path.as_uri())
    assert browser.evaluate("typeof window.owned") == "undefined"
    assert any("Content Security Policy" in text for text in browser.said())
    assert browser.requested() == [path.as_uri(), "http://evil.example/a.png"]
    (failed,) = [
        event["params"] for event in browser.events if event.get("method") == "Network.loadingFailed"
    ]
    assert failed["blockedReason"] == "csp"  # before it left this machine
