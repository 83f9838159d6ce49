"""A player shows what brokers and clients are at each moment, forward and back, and watches without a trace."""

import json
import math
import re
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from draws import of_each_kind, seeds, slow, some_of
from rayvous.faults.plans.case_files import load_case
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.faults.stepping import capture, recording
from rayvous.faults.stepping.capture import Capture
from rayvous.faults.stepping.frames import Texts
from rayvous.faults.stepping.player import step
from rayvous.faults.stepping.recording import Enough, Recording
from rayvous.faults.stepping.runs import run_of
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.scenarios.scenario import LinkModel, Scenario
from rayvous.protocol.traces.trace import Settled
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator import Simulation
from rayvous.simulator.hosts import in_memory

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
CASES = EXAMPLES / "cases"
TWO_MEGABYTES = 2_000_000


def network(scheme="hybrid", clusters=4, brokers=3, seconds=30, **options):
    options = {"recovery": Recovery.for_simulator(), **options}
    found = Simulation(ClusterTree(clusters, brokers), scheme, **options)
    for broker in range(0, clusters * brokers, 2):
        found.subscribe(f"s{broker}", broker, f"price > {broker}")
    for number in range(2 * seconds):
        found.at(1 + 0.45 * number, found.publish, "exchange", 1, [{"price": number % 20}])
    found.at(3.0, found.crash, clusters * brokers // 2)
    found.at(12.0, found.restart, clusters * brokers // 2)
    return found


def compared(run, every=7):
    """Record a run, and compare its frame after every seventh action with a look at the whole network."""
    texts = Texts()
    seen = []
    make, drive = run

    def look(actions):
        if actions % every == 0:
            assert recorded.frame == Capture(make, texts).frame(), recorded.moments[-1]
            seen.append(actions)

    recorded = Recording(make, texts, look)
    make.spectator = recorded
    with suppress(Enough):
        drive()
    return len(seen)


@pytest.mark.parametrize("scheme", of_each_kind([name for name in SCHEMES if "+" not in name]))
def test_what_is_shown_is_what_brokers_and_clients_are(scheme):
    found = network(scheme, clusters=3, brokers=2)
    assert compared((found, lambda: found.advance_to(20.0))) > 100


def test_a_broker_that_dies_of_a_message_leaves_its_clients_alone():
    found = network(clusters=2, brokers=2, seconds=3)
    found.at(1.5, found.crash_after, 2, 0)
    assert compared((found, lambda: found.advance_to(4.0)), every=1) > 100


@pytest.mark.parametrize("brokers", [1, 3, 6, 9])
@pytest.mark.parametrize("scheme", ["hybrid", "hypercube"])
def test_no_broker_is_drawn_over_another(scheme, brokers):
    frame = Capture(Simulation(ClusterTree(3, brokers), scheme), Texts()).frame()
    places = [value for key, value in frame.items() if key[0] == "p"]
    assert len(places) == 3 * brokers
    assert min(math.dist(*pair) for pair in combinations(places, 2)) > 2 * 13, "the radius in player.js"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20, quick=1, usual=1))
def test_so_it_is_in_chaos(seed):
    case = draw_sim_case(
        seed,
        brokers_max=9,
        seconds=6.0,
        operations=seed % 2 == 1,
        stable=seed % 3 == 1,
        admission=seed % 4 == 2,
    )
    run = run_of(case, 0.0)
    assert compared(run._make()) > 50


def test_a_run_that_is_watched_is_the_same_run():
    case = load_case(CASES / "hypercube.json")
    plain = run_case(case, keep_trace=True)
    player = step(case)
    watched = player.forward(10**6).simulation
    told, more = (
        plain.trace.operations[: len(watched.account)],
        plain.trace.operations[len(watched.account) :],
    )
    assert watched.account.operations == told and len(told) > 10
    assert all(type(each) is Settled for each in more), "noted at the end, when nothing happens any more"
    assert watched.steps == plain.steps


@pytest.mark.parametrize(
    "kind", some_of(["simulation", "scenario", "case", "stores"], "simulation", "scenario")
)
def test_back_and_forward_again_is_the_same_to_the_byte(kind):
    given = {
        "simulation": lambda: network(clusters=2, brokers=2, seconds=6),
        "stores": lambda: network(
            recovery=None, store=in_memory, links=LinkModel(loss=0.2), clusters=2, brokers=2
        ),
        "scenario": lambda: Scenario.load(EXAMPLES / "scenarios" / "lossy.json"),
        "case": lambda: load_case(CASES / "recovery.json"),
    }[kind]()
    player = step(given, seconds=6.0)
    walked = []
    for _ in range(12):
        player.forward(len(player) // 40)
        walked.append((player.then().frame, player.then().lines, player.html()))
    for frame, lines, html in reversed(walked):
        assert (player.then().frame, player.then().lines, player.html()) == (frame, lines, html)
        again = player.simulation
        assert again.now <= player.place.at_seconds
        assert Capture(again, player._texts).frame() == frame, "the network made again is another one"
        player.back(len(player) // 40)


def test_the_simulation_is_left_as_it_is_and_one_may_go_on_from_a_moment():
    found = network(clusters=2, brokers=3, seconds=6)
    steps = found.steps
    player = step(found, seconds=10.0).to("death")
    assert (found.now, found.steps, found.living()) == (0.0, steps, list(range(6)))
    there = player.simulation
    assert there.now == 3.0 and 3 not in there.living()
    there.crash(5)
    other = step(there, seconds=10.0)
    assert other.place.at_seconds == 3.0
    assert other.then().brokers()[5]["state"] == "dead" and player.simulation.living() == [0, 1, 2, 4, 5]


def test_an_election_message_by_message():
    player = step(load_case(CASES / "election.json")).to("death")
    assert player.then().moment.text == "broker 5 dies" and player.place.at_seconds == 6.0
    assert player.then().brokers()[3]["above"] == 5, "nobody has noticed"
    player.to("election")
    then = player.then()
    assert (
        "broker 4 speaks for cluster 1" in then.moment.text and "JoinRequest to broker 2" in then.moment.text
    )
    assert then.brokers()[4]["role"] == "designated" and then.brokers()[4]["says"] == "epoch 1, term 1, waits"
    assert then.brokers()[3]["above"] == 5, "broker 3 has not heard of it"
    assert [each["message"] for each in then.under_way() if each["to"] == 2] == ["JoinRequest"]
    player.to("election")
    assert player.then().brokers()[3]["above"] == 4
    player.to("place")
    assert "cluster 1 is in its place below broker 2" in player.then().moment.text
    assert player.to("notification").then().clients()["alice"]["given"] == {"exchange": 2}, (
        "the round brings it"
    )
    with pytest.raises(InputError, match=r"there is no death after 9\.\d+ s; in all there are .* 1 death"):
        player.to("death")
    assert player.to("death", back=True).place.at_seconds == 6.0
    assert player.at(-0.0).place.at_seconds == 0.0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        slow("rejoin", ["broker 2 dies; broker 3 dies", "cluster 3 hangs below", "cluster 4 hangs below"]),
        ("hypercube", ["broker 0 sends Spread to", "Echo (1) from broker", "has view 2: 7 brokers"]),
        slow("recovery", ["broker 4 starts again", "alice moves to broker 0", "Notification (bob:3)"]),
    ],
)
def test_the_other_examples_tell_their_story(name, words):
    story = "\n".join(step(load_case(CASES / f"{name}.json")).story())
    assert all(each in story for each in words), story[:3000]


def test_two_runs_share_the_time():
    scenario = Scenario.load(EXAMPLES / "scenarios" / "small.json")
    player = step(scenario, replace(scenario, scheme="hierarchical"), names=["with clusters", "without"])
    player.at(1.0)
    moments = [player.then(run).moment.at_seconds for run in (0, 1)]
    assert max(moments) <= 1.0 and player.place.at_seconds == max(moments)
    assert {player.then(run).name for run in (0, 1)} == {"with clusters", "without"}
    assert [player.simulation_of(run).scheme for run in (0, 1)] == ["hybrid", "hierarchical"]
    times = [float(line.split()[0]) for line in player.story()]
    assert times == sorted(times)


@pytest.mark.slow
def test_thirty_seconds_of_twelve_brokers_are_one_small_file(tmp_path):
    player = step(network(), seconds=30.0)
    path = player.save(tmp_path / "player.html")
    assert len(player) > 3000 and player.notes() == [""], "no moment is left out"
    assert path.stat().st_size < TWO_MEGABYTES / 4
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org)", path.read_text().split("<script type")[0])


def test_a_long_run_is_thinned_and_says_so(monkeypatch):
    monkeypatch.setattr(recording, "MOMENTS_MAX", 300)
    player = step(network(clusters=3, brokers=2), seconds=20.0)
    assert len(player) <= 300 and "is shown" in player.notes()[0]
    assert player.to("death").place.at_seconds == 3.0 and player.to("restart").place.at_seconds == 12.0
    player.at(0.0)
    for _ in range(5):
        player.forward(len(player) // 6)
        assert Capture(player.simulation, player._texts).frame() == player.then().frame


def test_a_huge_run_ends_early_and_says_so(monkeypatch):
    monkeypatch.setattr(recording, "WORK_MAX", 20_000)
    player = step(network(), seconds=1e9)
    assert re.match(r"so much has happened until \d+\.\d+ s that the recording ends there", player.notes()[0])
    player.forward(10**6)
    assert Capture(player.simulation, player._texts).frame() == player.then().frame


def test_names_cannot_end_the_page():
    found = Simulation(ClusterTree(1, 2))
    name = "</script><img src=x onerror=alert(1)>\u202e"
    found.subscribe(name, 0, "price > 1 AND text = '<b>&</script>'")
    player = step(found)
    page = player.html()
    assert page.count("</script>") == 2 and "<img" not in page and "\u202e" not in page
    data = re.search(r'id="data">(.*?)</script>', page).group(1)
    assert any(name[:-1] in text for text in json.loads(data)["texts"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: step(Simulation(ClusterTree(1, capture.BROKERS_MAX + 1))), "a player shows at most 150"),
        (lambda: step("case.json"), "run is 'case.json': it must be a Simulation, a Scenario or a Case"),
        (lambda: step(Simulation(ClusterTree(1, 1)), seconds=-1), "seconds is -1"),
        (lambda: step(Simulation(ClusterTree(1, 1)), names="ab"), "names is 'ab'"),
        (
            lambda: step(Simulation(ClusterTree(1, 1))).to("lunch"),
            "kind is 'lunch': it must be one of message",
        ),
        (lambda: step(Simulation(ClusterTree(1, 1))).forward(-1), "steps is -1"),
        (lambda: step(Simulation(ClusterTree(1, 1))).save("a.svg"), r"must end in \.html"),
        (lambda: step(Simulation(ClusterTree(1, 1))).save("/nowhere/a.html"), "cannot be written"),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_a_simulation_at_its_end_has_one_moment():
    player = step(Simulation(ClusterTree(1, 1)))
    assert len(player) == 1 and player.forward(3).back(2).then().moment.text == "the beginning"
    assert "broker 0: alive" in repr(player) and "<iframe" in player._repr_html_()


@pytest.mark.slow
def test_the_page_of_the_docs_says_what_is_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", (EXAMPLES.parent / "docs" / "step.md").read_text(), re.DOTALL)
    assert len(code) == 2
    names: dict[str, object] = {}
    exec("\n".join(code).replace("player.then()", "assert 5 == player.then()", 1), names)
    assert names["player"].then().moment.kinds == ("tick", "election", "message", "loss")
    assert (tmp_path / "election.html").exists()
