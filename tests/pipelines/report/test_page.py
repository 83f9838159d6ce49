"""The page of a report shows what there is, omits what is missing, and escapes all names."""

import re
from html.parser import HTMLParser

import networkx as nx
import pandas as pd
import pytest
from rayvous.faults.checker.conditions import RULES
from rayvous.pipelines.report.page import write_page
from rayvous.pipelines.report.page_content import CONDITIONS
from rayvous.pipelines.report.pictures import draw_pictures, marks_of, named
from rayvous.pipelines.report.report import write_report
from rayvous.protocol.printable import printable

HOSTILE = "<script>alert('x')</script>\"><img src=http://evil.example/a.png onerror=alert(1)>\u202e\x1b[2J"


def nothing(figures) -> dict[str, pd.DataFrame]:
    """Return the figures of a run in which nothing happened, without a trace of events."""
    null = float("nan")
    found = figures()
    for name in ("latency_percentiles", "latency_quantiles", "loss_and_duplicates"):
        del found[name]
    for name in ("rate_over_time", "broker_load", "link_load"):
        found[name] = found[name].iloc[:0]
    for name, kept in (("aed", "notifications"), ("throughput", "events"), ("load_balance", "brokers")):
        found[name] = pd.DataFrame({column: [0 if column == kept else null] for column in found[name]})
    found["tct"] = found["tct"].assign(tct=0, batches=0, control_messages=0, nbytes=0)
    return found


class Reader(HTMLParser):
    """Collects from a page the text of each section by its id, the tags, and attributes that could fetch."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.sections: dict[str, str] = {"": ""}
        self.tags: list[str] = []
        self.fetches: list[str] = []
        self._section, self._open = "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        if tag == "section":
            self._section = given["id"]
            self.sections[self._section] = ""
        if tag not in ("img", "meta", "br", "link"):
            self._open.append(tag)
        self.fetches += [
            value for name, value in attrs if name in ("src", "srcset", "data", "action", "poster")
        ]
        assert not [name for name in given if name.startswith("on")], given

    def handle_endtag(self, tag):
        assert self._open.pop() == tag
        if tag in ("td", "th", "dt", "time"):
            self.sections[self._section] += " "
        if tag == "section":
            self._section = ""

    def handle_data(self, data):
        if "style" not in self._open:
            self.sections[self._section] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.sections.values()).split())


def page(folder, figures_, graph, summary) -> tuple[str, Reader]:
    """Write only the page, without the pictures, which take longer than everything else."""
    html = write_page(folder, figures_, graph, summary, {}).read_text(encoding="utf-8")
    return html, Reader(html)


def report(folder, figures_, graph, summary) -> tuple[str, Reader]:
    html = write_report(folder, figures_, graph, summary).paths["page"].read_text(encoding="utf-8")
    return html, Reader(html)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, figures, network, told):
    return report(tmp_path_factory.mktemp("whole"), figures(), network(), told())


def test_every_part_is_there_in_order(whole):
    _, read = whole
    assert list(read.sections) == [
        "", "verdict", "run", "rate", "timeline", "latency", "tree", "load", "costs", "losses", "spark", "files",
    ]  # fmt: skip
    assert read.tags.count("img") == 4
    assert not read._open


def test_the_verdict_has_its_conditions_and_counts(whole):
    words = " ".join(whole[1].sections["verdict"].split())
    assert words.startswith("Verdict: holds")
    assert "once No subscriber is notified of an event twice. 1,000 0 0" in words
    assert (
        "complete Every event reaches every subscriber that wants it, or is reported as lost. 1,000 0 3"
        in words
    )


def test_every_condition_has_a_sentence():
    assert list(CONDITIONS) == list(RULES)


def test_the_headline_has_units(whole):
    words = " ".join(whole[1].sections[""].split())
    for figure in ("7,447 /s", "23,574 /s", "500 ms", "2.53 s", "1.83 s", "1,006", "42 µs"):
        assert figure in words
    assert "500 events led to 1,000 notifications in 2.7 s. B5 died; the network healed in 1.83 s." in words
    assert "Nothing was lost, nothing came twice." in words


def test_what_was_run_is_told(whole):
    words = " ".join(whole[1].sections["run"].split())
    for fact in (
        "network flights", "scheme hybrid", "brokers 6 brokers in 2 clusters", "died B5 (broker 5)", "subscribers 200",
        "seed 20130", "events published 500", "began 2023-11-14 22:13:20 UTC",
    ):  # fmt: skip
        assert fact in words


def test_the_timeline_names_brokers_and_marks_the_failure(whole):
    html, read = whole
    assert " ".join(read.sections["timeline"].split()) == (
        "Killing and healing 0.60 s killed broker 5 (B5) 2.10 s broker 4 (B4) speaks for cluster 1 "
        "2.43 s healed: one tree, every subscription installed"
    )
    assert html.count('<li class="mark">') == 2


def test_tables_have_their_rows(whole):
    read = whole[1]
    links = " ".join(read.sections["tree"].split())
    assert "B2 – B4 500 500 0 1 9 multicast in cluster 0 500 – – 1 9 B2 – B5 † 321 321 0 1 9" in links
    assert "1 link carried control messages only" in links
    loads = " ".join(read.sections["load"].split())
    assert "B0 (NEB) 0 0 1,500 1,500 0 0 7 100" in loads
    assert "B5 † (DEB) 5 – 1,234" in loads
    assert "tree: up, down and multicast (TCT) 1,006 3 4 50,000" in " ".join(read.sections["costs"].split())
    losses = " ".join(read.sections["losses"].split())
    assert "pairs whose event was never published 0" in losses
    assert "never came" not in losses  # nobody said what was expected
    spark = " ".join(read.sections["spark"].split())
    assert "starting Spark 17.2 s" in spark
    assert "Spark jobs 6" in spark


def test_the_page_is_one_file_and_may_fetch_nothing(whole):
    html, read = whole
    assert read.fetches
    assert all(source.startswith("data:image/png;base64,") for source in read.fetches)
    assert not {"script", "link", "iframe", "object", "base", "form"} & set(read.tags)
    assert "default-src 'none'" in html
    assert "url(" not in html
    assert "@import" not in html
    assert not re.search(r"https?://", html)
    links = re.findall(r'href="([^"]*)"', html)
    assert links == ["summary.json", "aggregates/", "rate.png", "tree.png", "load.png", "latency.png"]


def test_telemetry_that_stands_beside_it_is_linked(tmp_path, figures, network):
    (tmp_path / "tables").mkdir()
    html, _ = page(tmp_path, figures(), network(), {})
    assert '<a href="tables/">' in html


@pytest.mark.parametrize(
    "summary", [{}, {"verdict": None, "timeline": [], "conditions": {}, "killed": [], "settings": {}}]
)
@pytest.mark.parametrize("known", [True, False], ids=["network", "no network"])
def test_what_is_missing_leaves_no_hole(tmp_path, known, summary, figures, network):
    graph = network() if known else nx.Graph()
    _, read = report(tmp_path, nothing(figures), graph, summary)
    assert not {"verdict", "rate", "timeline", "latency", "losses", "spark"} & set(read.sections)
    assert "files" in read.sections
    assert not re.search(r"\b(None|nan|NaN|null|undefined)\b", read.text)
    assert all(words.strip() for name, words in read.sections.items())
    assert not re.search(r"<(dl|tbody|ol)[^>]*>\s*</", (tmp_path / "report.html").read_text())


def test_a_run_without_a_failure_has_no_word_of_one(tmp_path, figures, network, told):
    summary = {
        name: value
        for name, value in told().items()
        if name not in ("killed", "recovery_seconds", "timeline")
    }
    _, read = page(tmp_path, figures(), network(), summary)
    assert "timeline" not in read.sections
    assert "healed in" not in read.sections[""]


def test_violations_are_explained(tmp_path, figures, network, told):
    summary = told() | {
        "verdict": "violated",
        "missing": 1,
        "violations": [
            {"condition": "complete", "sentence": "c was never told", "piece": ["0.0 s Publish(p, 2)"]}
        ],
    }
    html, read = page(tmp_path, figures(), network(), summary)
    assert "c was never told 0.0 s Publish(p, 2)" in " ".join(read.sections["verdict"].split())
    assert 'class="sheet verdict violated"' in html
    assert "Nothing was lost" not in read.text


def test_a_verdict_that_is_undecided_says_why(tmp_path, figures, network, told):
    html, read = page(tmp_path, figures(), network(), told() | {"verdict": "undecided"})
    assert 'class="sheet verdict undecided"' in html
    assert "Nothing had to come for certain" in " ".join(read.sections["verdict"].split())
    html, read = page(tmp_path, figures(), network(), told())
    assert "Nothing had to come" not in read.text


def test_what_telemetry_lacks_is_said(tmp_path, figures, network, told):
    lost = pd.DataFrame({"table": ["notified"], "reason": ["buffer full"], "rows": [12_345]})
    _, read = page(tmp_path, figures() | {"telemetry_lost": lost}, network(), told())
    assert "notified: buffer full 12,345" in " ".join(read.sections["lost"].split())


def test_names_are_hostile_input(tmp_path, figures, network, told):
    graph = network(HOSTILE)
    graph.graph["scheme"] = HOSTILE
    graph.nodes[0]["label"] = HOSTILE
    summary = told() | {
        "verdict": HOSTILE,
        "settings": {HOSTILE: HOSTILE},
        "conditions": {HOSTILE: {"checked": 1, "violated": 1, "indeterminate": 0}},
        "violations": [{"condition": HOSTILE, "sentence": HOSTILE, "piece": [HOSTILE]}],
        "timeline": [{"seconds": 1.0, "what": HOSTILE}],
    }
    lost = pd.DataFrame({"table": [HOSTILE], "reason": [HOSTILE], "rows": [1]})
    html, read = report(tmp_path, figures() | {"telemetry_lost": lost}, graph, summary)
    assert not {"script"} & set(read.tags)
    assert "<script" not in html
    assert "<img src=http" not in html
    assert all(source.startswith("data:image/png;base64,") for source in read.fetches)
    assert read.text.count(printable(HOSTILE)) >= 12  # it is there, as text
    assert not {"\u202e", "\x1b"} & set(html)


def test_a_table_of_many_rows_is_folded(tmp_path, figures, network):
    many = figures()
    many["broker_load"] = pd.concat([many["broker_load"]] * 10).assign(broker=range(60))
    html, _ = page(tmp_path, many, network(), {})
    assert html.count("<details>") == 1
    assert "Show 60 rows" in html


def test_what_the_pictures_mark_is_what_killing_says(network):
    """The marked moments are those that `rayvous demo --kill` reports for a failure and for its end."""
    graph = network()
    moments = [
        {"seconds": 1, "what": "killed brokers 3, 4, 5"},
        {"seconds": 2, "what": "cut the link between clusters 1 and 2"},
        {"seconds": 3, "what": "broker 4 speaks for cluster 1"},
        {"seconds": 4, "what": "healed: one tree, every client at a broker that lives"},
        {"seconds": 5, "what": "everything published was delivered"},
    ]
    assert marks_of(moments, graph) == [
        (1.0, "killed brokers 3 (B3), 4 (B4), 5 (B5)"),
        (2.0, "cut the link between clusters 1 and 2"),
        (4.0, "healed"),
    ]
    assert named("broker 99 speaks for cluster 3", graph) == "broker 99 speaks for cluster 3"


@pytest.mark.slow
def test_moments_lie_on_the_axis_of_the_rates(tmp_path, monkeypatch, figures, told):
    seen = {}

    def rate_figure(starts, width, events, notifications, marks):
        seen.update(starts=starts, marks=marks)

    monkeypatch.setattr("rayvous.pipelines.report.plots.rate_figure", rate_figure)
    late = told() | {"started_at": 1_699_999_999.5}
    draw_pictures(tmp_path, figures(), nx.Graph(), late)
    assert seen["starts"][:2] == pytest.approx([0.5, 1.0])
    assert [at for at, _ in seen["marks"]] == [0.597, 2.427]
    del late["started_at"]
    draw_pictures(tmp_path, figures(), nx.Graph(), late)
    assert (seen["starts"][0], seen["marks"]) == (0.0, [])
