import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.errors import ScenarioError
from rayvous.protocol.scenarios.scenario import (
    LinkModel,
    Publish,
    Scenario,
    Settle,
    Subscribe,
    Unsubscribe,
    Workload,
)
from rayvous.protocol.scenarios.workload import random_event, random_selector
from rayvous.protocol.values import Timestamp
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import figure_1

TOPOLOGY = {"clusters": 2, "brokers_per_cluster": 2}
EVENT = {
    "a": True,
    "b": 2,
    "c": 2.5,
    "d": "it's\n§",
    "e": Timestamp(1_357_016_400_000_000_000),
    "f": Timestamp(7),
}
SCENARIO = Scenario(
    "all of it",
    TOPOLOGY,
    scheme="hierarchical",
    seed=3,
    links=LinkModel(jitter_seconds=0.5, loss=0.25),
    publish_interval_seconds=0.25,
    steps=(
        Subscribe("s", 1, 1, "a = 1"),
        Publish("p", "REB", (EVENT, {})),
        Settle(),
        Unsubscribe("s", 1),
    ),
)


@pytest.mark.parametrize("scenario", [SCENARIO, Scenario("made", TOPOLOGY, workload=Workload(3, 2, 4))])
def test_what_is_saved_is_loaded(scenario, tmp_path):
    scenario.save(tmp_path / "scenario.json")
    loaded = Scenario.load(tmp_path / "scenario.json")
    assert loaded == scenario
    for step, again in zip(scenario.steps, loaded.steps, strict=True):
        if isinstance(step, Publish):
            for event, other in zip(step.events, again.events, strict=True):
                assert [type(value) for value in event.values()] == [type(value) for value in other.values()]


def test_a_missing_value_is_left_out():
    given = {"name": "x", "topology": TOPOLOGY, "steps": [
        {"do": "publish", "client": "p", "broker": 0, "events": [{"a": None, "b": float("nan"), "c": 0}]},
    ]}  # fmt: skip
    assert Scenario.from_dict(given).steps == (Publish("p", 0, ({"c": 0},)),)


def step(**changes):
    whole = {"do": "subscribe", "client": "s", "broker": 0, "number": 1, "selector": "a = 1"} | changes
    return {"steps": [{key: value for key, value in whole.items() if value is not ...}]}


def workload(**changes):
    return {"workload": {"subscribers": 1, "publishers": 1, "publications": 1} | changes}


def publish(events):
    return {"steps": [{"do": "publish", "client": "p", "broker": 0, "events": events}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nmae": "x"}, "scenario: unknown key 'nmae': there are name, topology"),
        ({"name": 3}, "scenario: name is 3: it must be of type str"),
        ({"topology": []}, r"scenario: topology is \[\]: it must be of type object"),
        ({"seed": True}, "scenario: seed is True: it must be of type int"),
        ({"seed": "1"}, "scenario: seed is '1'"),
        ({"steps": {}}, "scenario: steps is {}: it must be of type list"),
        ({"publish_interval_seconds": -1}, "publish_interval_seconds is -1"),
        ({"links": {"loss": 1}}, "links: loss is 1: it must be below 1"),
        ({"links": {"loss": "much"}}, "links: loss is 'much'"),
        ({"links": {"delay_seconds": -0.1}}, "links: delay_seconds is -0.1"),
        ({"links": {"jitter": 1}}, "links: unknown key 'jitter'"),
        ({"workload": {"subscribers": 1, "publishers": 1}}, "workload: 'publications' is missing"),
        (workload(subscribers=1.5, publishers=1), "workload: subscribers is 1.5"),
        (workload(subscribers=1, publishers=0), "publishers is 0.*1 or more"),
        (workload(subscribers=1, publishers=1, churn=2), "churn is 2.*0 to 1"),
        (workload(subscribers=1, publishers=1, leave=1), "leave is 1"),
        ({"steps": [3]}, r"steps\[0\] is a int: it must be an object"),
        (step(do="fly"), r"'do' is 'fly': it must be one of subscribe, unsubscribe, publish, settle"),
        (step(do=...), r"steps\[0\]: 'do' is None"),
        (step(do=[]), r"steps\[0\]: 'do' is \[\]"),
        (step(selector=...), r"steps\[0\]: 'selector' is missing"),
        (step(selector=5), r"steps\[0\]: selector is 5"),
        (step(number="1"), r"steps\[0\]: number is '1': it must be of type int"),
        (step(broker=1.0), r"steps\[0\]: broker is 1.0: it must be of type int or str"),
        (step(when=1), r"steps\[0\]: unknown key 'when'"),
        (publish({"a": 1}), r"steps\[0\]: events is .* it must be of type list"),
        (publish([{}, 4]), r"steps\[0\].events\[1\] is a int"),
        (publish([{"a": [1]}]), r"steps\[0\].events\[0\]: a: .*list"),
        (publish([{"a": 2**70}]), r"steps\[0\].events\[0\]: a: integer"),
        (publish([{"a": {"time": 1}}]), r"events\[0\]: a: an object stands for a timestamp"),
        (publish([{"a": {"timestamp": "noon"}}]), r"events\[0\]: a: 'noon' is not a time in ISO 8601"),
        (publish([{"a": {"timestamp": 1.5}}]), r"events\[0\]: a: timestamp 1.5"),
        (step() | workload(), "both steps and a workload"),
    ],
)  # fmt: skip
def test_a_broken_scenario_says_what_and_where(changes, message, tmp_path):
    given = {"name": "x", "topology": TOPOLOGY} | changes
    with pytest.raises(ScenarioError, match=message):
        Scenario.from_dict(given)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(given))
    with pytest.raises(ScenarioError, match=r"broken\.json: "):
        Scenario.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b" \n ", "the file is empty"),
        (b'{"name": "x",\n "topology": }', "line 2, column 14: not JSON"),
        (b"[]", "scenario is a list: it must be an object"),
        (b'{"name": "x"}', "scenario: 'topology' is missing"),
        (b'{"name": "x", "name": "y"}', "key 'name' occurs twice"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_broken_file_says_what_and_where(content, message, tmp_path):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=f"broken.json: .*{message}"):
        Scenario.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ScenarioError, match=r"none\.json: no such file"):
        Scenario.load(tmp_path / "none.json")
    with pytest.raises(ScenarioError, match="cannot be read"):
        Scenario.load(tmp_path)


def test_labels_become_ids():
    positions = figure_1().positions()
    steps = (Subscribe("s", "N2", 1, "a = 1"), Publish("p", "N1", ({},)), Unsubscribe("s", 1))
    explicit = Scenario("x", {}, steps=steps).explicit(positions)
    assert [step.broker for step in explicit.steps[:2]] == [4, 3]
    assert explicit.explicit(positions) == explicit


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Subscribe("s", "N9", 1, "a"),), r"steps\[0\]: no broker 'N9'"),
        ((Subscribe("s", 99, 1, "a"),), r"steps\[0\]: no broker 99"),
        ((Settle(), Unsubscribe("s", 1)), r"steps\[1\]: 's' has no subscription 1"),
        ((Subscribe("s", 0, 1, "a"), Publish("s", 1, ())), r"steps\[1\]: 's' is attached to broker 0, not 1"),
    ],
)
def test_steps_that_contradict_the_network_or_each_other(steps, message):
    with pytest.raises(ScenarioError, match=message):
        Scenario("x", {}, steps=steps).explicit(figure_1().positions())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 20), st.integers(1, 4), st.floats(0, 1), st.booleans(), st.integers(0, 9))
def test_a_workload_is_what_its_parameters_say(subscribers, rounds, churn, leave, seed):
    workload = Workload(subscribers, 2, 5, rounds=rounds, churn=churn, leave=leave, events_per_publication=3)
    positions = figure_1().positions()
    scenario = Scenario("x", {}, seed=seed, workload=workload)
    explicit = scenario.explicit(positions)
    assert explicit == scenario.explicit(positions) and explicit.workload is None
    published = [step for step in explicit.steps if isinstance(step, Publish)]
    assert len(published) == 5 * rounds and all(len(step.events) == 3 for step in published)
    came = sum(isinstance(step, Subscribe) for step in explicit.steps)
    went = sum(isinstance(step, Unsubscribe) for step in explicit.steps)
    assert came - went == (0 if leave else subscribers)
    assert came == subscribers + (rounds - 1) * round(subscribers * churn)
    assert Scenario.from_dict(json.loads(json.dumps(explicit.to_dict()))) == explicit


def test_random_selectors_can_be_read_and_random_events_lack_values():
    rng = random.Random(1)
    filters = {to_filter(random_selector(rng)) for _ in range(300)}
    assert len(filters) > 200
    events = [random_event(rng, missing=0.5) for _ in range(300)]
    assert {len(event) for event in events} == {0, 1, 2, 3, 4}
    shares = [sum(item.matches(event) for event in events) / len(events) for item in filters]
    assert 0 < sum(shares) / len(shares) < 0.5
