"""Capacity limits in virtual time, and the experiment that is based on them."""

from dataclasses import replace

import pytest
from legends import covered
from rayvous.experiments import admission
from rayvous.experiments.admission import PLANS, PRESETS, AdmissionPlan, Point, measure, run_one
from rayvous.experiments.admission_graph import GraphNetwork
from rayvous.experiments.admission_plots import figure_9, figure_10
from rayvous.experiments.admission_statements import OF_THE_WAY, judge_discards, judge_utilisation
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity
from rayvous.routing.filters.covering import intersects
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.overload import Queues
from rayvous.simulator.simulation import Simulation

SMALL = AdmissionPlan(
    brokers=5, publishers=8, subscribers=(24,), cpu=(60.0, 70.0), bandwidth=(100.0, 110.0), repeats=1_000_000,
    warm_seconds=14.0, measured_seconds=4.0,
)  # fmt: skip
"""Publishers and subscribers keep to one event, so what was admitted fits until the end."""


def loaded(capacity, share=None, deadline_seconds=5.0):
    return Simulation(
        ClusterTree(2, 1).positions(),
        admission=AdmissionConfig(share, capacity=capacity),
        queues=Queues(lambda broker: capacity, deadline_seconds),
    )


@pytest.mark.parametrize(
    ("capacity", "resource", "lost"), [(Capacity(10, 1000), "cpu", 30), (Capacity(1000, 10), "bandwidth", 30)]
)
def test_what_waits_longer_than_the_deadline_is_dropped_by_name(capacity, resource, lost):
    net = loaded(capacity)
    net.advertise("p", 0, "x > 0", 100)
    net.subscribe("s", 1, "x > 0")
    net.run()
    for _ in range(9):
        net.publish("p", 0, [{"x": 1}] * 10)  # each a second's worth, all at once
    net.run()
    dropped = net.queues.dropped_events()
    assert dropped[resource] == lost and sum(dropped.values()) == lost
    assert len(net.notifications("s")) == 90 - lost


def test_within_its_limits_nothing_is_dropped_and_time_passes():
    net = loaded(Capacity(10, 10))
    net.advertise("p", 0, "x > 0", 10)
    net.subscribe("s", 1, "x > 0")
    net.run()
    started = net.now
    net.publish("p", 0, [{"x": 1}] * 20)
    net.run()
    assert not any(net.queues.dropped_events().values()) and len(net.notifications("s")) == 20
    assert net.now - started == pytest.approx(6.0, abs=0.1)  # 2 s at each broker, 2 s on the link


def test_under_the_full_guarantee_nothing_is_dropped_where_everything_else_is_overloaded():
    rows = {name: run_one(SMALL, name, 24) for name in ("none", "full")}
    assert rows["full"]["discarded_per_second"] == 0 < rows["none"]["discarded_per_second"]
    assert rows["full"]["rejected"] > rows["none"]["rejected"] == 0
    assert (
        rows["full"]["cpu"] < rows["none"]["cpu"] <= 1.0 and rows["full"]["memory"] < rows["none"]["memory"]
    )


def test_a_point_is_one_network_and_others_differ():
    tiny = AdmissionPlan(brokers=4, publishers=3, subscribers=(2,), warm_seconds=3.0, measured_seconds=2.0)
    first, again, other = (measure(Point("none", 2, tiny, draw))["figures"] for draw in (0, 0, 1))
    assert first == again != other
    assert first["cpu"] == [run_one(tiny, "none", 2, 0)["cpu"]] and 0 < first["cpu"][0] <= 1


def test_pictures_have_a_curve_for_each_criterion():
    rows = rows_of(HOLDING, REFUSED)
    curves = len({row["criterion"] for row in rows})
    for picture, panels in ((figure_9(rows), 2), (figure_10(rows), 3)):
        assert [len(axes.get_lines()) for axes in picture.axes] == [curves] * panels
        assert covered(picture) == []


def test_variants_change_one_thing_of_the_paper():
    paper, copies, links = (PLANS[name] for name in ("paper", "copies", "links"))
    assert copies == replace(paper, cpu_counts="copies")
    assert (links.cpu, links.bandwidth) == (paper.bandwidth, paper.cpu)
    assert replace(links, cpu=paper.cpu, bandwidth=paper.bandwidth) == paper
    asked = {point.criterion for point in PRESETS["quick"].points()}
    assert asked == {"none", "full", "20 %", "40 %"} < set(admission.CRITERIA)


def test_the_calibrated_load_has_narrow_ranges_and_exact_advertisements_on_a_graph(monkeypatch):
    """3.2: an advertisement follows a tree of its publisher's broker; the model of such a network runs it."""
    wanted, advertised, calibrated = [], [], PLANS["calibrated"]
    paper = PLANS["paper"]
    assert calibrated == replace(
        paper, degree=4.0, widths=(0.2, 0.2), advertised="event", entries=1_000, warm_seconds=30.0
    )

    class Recording(GraphNetwork):
        def subscribe(self, client, home, given):
            wanted.append(given)
            return super().subscribe(client, home, given)

        def advertise(self, client, home, item, rate, number):
            advertised.append(item)
            return super().advertise(client, home, item, rate, number)

    monkeypatch.setattr(admission, "GraphNetwork", Recording)
    plan = replace(
        calibrated, brokers=9, publishers=4, subscribers=(6,), warm_seconds=4.0, measured_seconds=4.0
    )
    found = run_one(plan, "full", 6)
    assert found["discarded_in_all_per_second"] == 0.0 < found["cpu"] and 0 < found["memory"] < 0.02
    for given, width in ((wanted, 0.2), (advertised, 0.0)):
        assert len(given) > 4
        for each in given:
            for _, domain in each.clauses[0].constraints:
                (stretch,) = domain.numbers
                assert stretch.low >= 0 and stretch.high <= 1
                assert stretch.high - stretch.low == pytest.approx(width)


def test_advertisements_overlap_and_subscribers_ask_for_the_same_in_the_same_order_under_every_criterion(
    monkeypatch,
):
    asked, adverts = {}, []

    class Recording(Simulation):
        def subscribe(self, client, broker, given, *args, **kwargs):
            asked.setdefault(client, []).append(given)
            return super().subscribe(client, broker, given, *args, **kwargs)

        def advertise(self, client, broker, given, *args, **kwargs):
            adverts.append(given)
            return super().advertise(client, broker, given, *args, **kwargs)

    monkeypatch.setattr(admission, "Simulation", Recording)
    wants = {}
    for name in ("none", "full"):
        asked.clear()
        run_one(SMALL, name, 24)
        wants[name] = dict(asked)
    assert sum(map(len, wants["full"].values())) > sum(map(len, wants["none"].values())) == 24
    for client, given in wants["none"].items():
        assert wants["full"][client][: len(given)] == given
    assert any(intersects(one, other) and one != other for one in adverts for other in adverts)


def rows_of(discards, rejected):
    """Return rows with these figures at 40 to 100 subscribers, the same for both kinds of percentages."""
    rows = []
    for name, values in discards.items():
        for subscribers, value in zip((40, 60, 80, 100), values, strict=True):
            row = {
                "subscribers": subscribers, "discarded_in_all_per_second": value * 50, "discarded_per_second": value,
                "discarded_in_each_network_per_second": [value * 40, value * 60],
                "rejected": rejected[name], "cpu": 0.4 + value / 1000, "memory": 0.2 + value / 1000,
                "bandwidth": 0.1 + value / 1000,
            }  # fmt: skip
            rows += [row | {"criterion": name}, row | {"criterion": name + OF_THE_WAY}]
    return [row for row in rows if row["criterion"] in admission.TREE_CRITERIA]


def test_under_the_calibrated_preset_sentences_are_fitted_predicted_or_excluded():
    """It has a full guarantee of the way, by which its rows are known."""
    discards = {
        "none": (1, 1.2, 1.6, 3),
        "full": (0, 0, 0, 0),
        "20 %": (0, 0.2, 0.4, 1),
        "40 %": (0.3, 0.4, 0.5, 2),
    }
    rows = rows_of(discards, REFUSED)
    assert not any("calibrated" in each.text or each.fitted for each in judge_discards(rows))
    own = [row | {"criterion": "full" + OF_THE_WAY} for row in rows if row["criterion"] == "full"]
    said = judge_discards(rows + own) + judge_utilisation(rows + own)
    assert len(said) == 30 and all("; calibrated]" in each.text for each in said)
    assert [each.text for each in said if each.fitted] == [
        '20 %: about 50 discards a second ("in the system") [percentages of all brokers; calibrated]',
        "the CPU is used more than the memory (the text) [percentages of all brokers; calibrated]",
        "the CPU is used more than the memory (the text) [percentages of the way; calibrated]",
    ]
    (never,) = (each for each in said if "excluded by the fit" in each.known)
    assert "at the mean node, with" in never.text and not never.holds and "of all brokers" in never.text
    assert not any(each.impossible for each in said), "another fit would exclude the other reading"
    for row in own:
        row["discarded_per_second"] = 9.0
    near = [each.holds for each in judge_discards(rows + own) if "discards near 0" in each.text]
    assert near == [True, False], "the full guarantee of the way is another one"


HOLDING = {
    "none": (60, 70, 120, 200),
    "full": (0, 0, 0.5, 1),
    "20 %": (30, 40, 45, 52),
    "40 %": (40, 50, 60, 150),
}
REFUSED = {"none": 0.0, "full": 0.5, "20 %": 0.3, "40 %": 0.2}


def compare(rows, of=""):
    """Return the statements for one reading of the percentages."""
    reading = f"[percentages{of or ' of all brokers'}]"
    return [
        each for judge in (judge_discards, judge_utilisation) for each in judge(rows) if reading in each.text
    ]


def judged(discards, rejected, of=""):
    said = compare(rows_of(HOLDING | discards, REFUSED | rejected), of)
    assert len(said) == 15
    return [each.text for each in said if not each.holds]


def test_all_statements_hold_where_the_figures_say_what_the_text_says():
    """Except the second reading of "about 50", which is then 2,600 in the system, and constant rejections."""
    for of in ("", OF_THE_WAY):
        missing = judged({}, {}, of)
        assert len(missing) == 2 and "in the system" in missing[0] and "soon rise above" in missing[1], (
            missing
        )
        assert all(of.strip() in text for text in missing)


@pytest.mark.parametrize(
    ("discards", "rejected", "words"),
    [
        ({"none": (60, 56, 120, 200)}, {}, "ever more events"),
        ({"40 %": (40, 50, 60, 200)}, {}, "clearly fewer"),
        ({"full": (0, 0, 0.5, 1.1)}, {}, "near 0"),
        ({"20 %": (30, 40, 42, 44)}, {}, "at the mean node, with"),
        ({"20 %": (30, 40, 50, 55)}, {}, "at the mean node, with"),
        ({"20 %": (0, 0, 1, 1)}, {}, "at the mean node, with"),
        ({"40 %": (40, 80, 120, 160)}, {}, "rise faster"),
        ({"20 %": (30, 40, 45, 53), "40 %": (30, 31, 32, 50)}, {}, "full <= 20 %"),
        ({}, {"20 %": 0.41}, "still rather low"),
        ({}, {"40 %": 0.31}, "full > 20 % > 40 %"),
        ({"40 %": (40, 50, 60, 230)}, {}, "memory utilisation"),
        ({}, {"40 %": 0.29}, "full > 20 % > 40 %"),
    ],
)
def test_each_statement_fails_by_its_own_figures(discards, rejected, words):
    assert any(words in text for text in judged(discards, rejected)), judged(discards, rejected)
    assert not any(words in text for text in judged({}, {}))


def test_a_knee_that_networks_do_not_agree_on_is_not_seen():
    """In the mean 1.4 a second more for each subscriber above 80 and 1.2 below; of two networks one has no knee."""
    texts = {}
    for name, last in (("agree", [128, 128]), ("differ", [108, 148])):
        rows = rows_of(HOLDING, REFUSED)
        networks = {40: [52] * 2, 60: [76] * 2, 80: [100] * 2, 100: last}
        for row in rows:
            if row["criterion"] == "40 %":
                row["discarded_in_each_network_per_second"] = networks[row["subscribers"]]
        texts[name] = [each.text for each in compare(rows) if not each.holds and "rise faster" in each.text]
    assert not texts["agree"] and texts["differ"]


def test_an_order_is_not_decided_by_the_third_digit():
    """40 % refuses hardly anybody, and so comes a little above none."""
    missing = judged({"40 %": (40, 50, 60, 201)}, {})
    assert not any("utilisation" in text or "full <= 20 %" in text for text in missing), missing
    assert any("clearly fewer" in text for text in missing), "what is the same is not clearly fewer"


@pytest.mark.parametrize(
    ("refused", "soon"),
    [((0.1, 0.3, 0.5, 0.6), True), ((0.5, 0.5, 0.5, 0.5), False), ((0.1, 0.15, 0.3, 0.41), True),
     ((0.3, 0.35, 0.5, 0.5), False), ((0.1, 0.3, 0.35, 0.41), False), ((0.1, 0.5, 0.6, 0.39), False)],
)  # fmt: skip
def test_refusals_rise_soon_or_late_or_not_for_good_or_were_high_before(refused, soon):
    """Without a smaller number of subscribers there is nothing that the refusals could rise from."""
    rows = rows_of(HOLDING, REFUSED)
    for row, share in zip([row for row in rows if row["criterion"] == "full"], refused, strict=True):
        row["rejected"] = share
    [said] = [each for each in compare(rows) if "soon rise above" in each.text]
    assert said.holds == soon
