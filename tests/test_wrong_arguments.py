"""A public name called with wrong arguments gives a result or a named error, never another exception."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import rayvous as rv
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.errors import RayvousError

NUMBERS = (0, -1, 1, 3, 10**6, 10**30, -(10**30), 0.5, -0.5, float("nan"), float("inf"), float("-inf"), 1e300)
TEXTS = ("", "a", "2", "a > 1", "hybrid", "\ud800", "x" * 5000, "two\nlines", "\0", b"bytes")
OTHERS = (
    None,
    True,
    False,
    (),
    [],
    {},
    {"a": 1},
    [1],
    ["a"],
    {1},
    object(),
    int,
    len,
    np.float64("nan"),
    np.int8(-3),
)
THINGS = (
    rv.Limits(),
    rv.Recovery(),
    rv.attr("a"),
    rv.attr("a") > 1,
    rv.to_filter("a > 1"),
    rv.Capacity(),
    1j,
)

wrong = st.sampled_from((*NUMBERS, *TEXTS, *OTHERS, *THINGS))
"""What people pass by mistake, and what they would have to be out of their minds to pass."""

FILTER = rv.to_filter("price > 1 AND sym = 'A'")
TREE = rv.ClusterTree(2, 2)
ATTRIBUTE = rv.attr("price")


def simulation() -> rv.Simulation:
    made = rv.Simulation(TREE.positions())
    made.subscribe("alice", 0, "price > 1")
    return made


def validated(kind: type) -> Callable[..., Any]:
    return lambda *args, **options: kind(*args, **options).validate()


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "attr": (rv.attr, rv.attr),
    "to_filter": (rv.to_filter, rv.to_filter),
    "covers": (rv.covers, rv.covers),
    "eventbridge": (rv.eventbridge, rv.eventbridge),
    "intersects": (rv.intersects, rv.intersects),
    "merge": (rv.merge, rv.merge),
    "Filter": (rv.Filter, rv.Filter),
    "ClusterTree": (rv.ClusterTree, rv.ClusterTree),
    "FixedTree": (rv.FixedTree, rv.FixedTree),
    "Limits": (validated(rv.Limits), rv.Limits),
    "Recovery": (validated(rv.Recovery), rv.Recovery),
    "Stability": (validated(rv.Stability), rv.Stability),
    "Stable": (validated(rv.Stable), rv.Stable),
    "Capacity": (validated(rv.Capacity), rv.Capacity),
    "AdmissionConfig": (validated(rv.AdmissionConfig), rv.AdmissionConfig),
    "Principal": (validated(rv.Principal), rv.Principal),
    "AccessConfig": (validated(rv.AccessConfig), rv.AccessConfig),
    "GatewayLimits": (validated(rv.GatewayLimits), rv.GatewayLimits),
    "GatewayConfig": (validated(rv.GatewayConfig), rv.GatewayConfig),
    "NodePlace": (validated(rv.NodePlace), rv.NodePlace),
    "TelemetryConfig": (validated(rv.TelemetryConfig), rv.TelemetryConfig),
    "Telemetry.from_folder": (rv.Telemetry.from_folder, rv.Telemetry.from_folder),
    "read_events": (rv.read_events, rv.read_events),
    "read": (rv.read, rv.read),
    "stream": (rv.stream, rv.stream),
    "Sink": (rv.Sink, rv.Sink),
    "report": (rv.report, rv.report),
    "spark_frames": (rv.spark_frames, rv.spark_frames),
    "spark_sink": (rv.spark_sink, rv.spark_sink),
    "spark_stream": (rv.spark_stream, rv.spark_stream),
    "draw": (rv.draw, rv.draw),
    "shrink": (rv.shrink, rv.shrink),
    "step": (rv.step, rv.step),
    "experiment": (rv.experiment, rv.experiment),
    "Scenario": (rv.Scenario, rv.Scenario),
    "Scenario.load": (rv.Scenario.load, rv.Scenario.load),
    "Scenario.from_dict": (rv.Scenario.from_dict, rv.Scenario.from_dict),
    "Simulation": (rv.Simulation, rv.Simulation.__mro__[1]),
}
"""Each public name: how it is called, and whose parameters it has."""

BOUND = {
    **{f"Filter.{name}": getattr(FILTER, name) for name in ("matches", "evaluate_batch")},
    **{f"ClusterTree.{name}": getattr(TREE, name) for name in ("broker", "delay_seconds", "path_seconds")},
    **{
        f"Attribute.{name}": getattr(ATTRIBUTE, name)
        for name in (
            "between",
            "isin",
            "like",
            "ilike",
            "cidr",
            "prefix",
            "suffix",
            "contains",
            "__eq__",
            "__lt__",
            "__ge__",
            "__add__",
            "__rsub__",
            "__mul__",
            "__truediv__",
        )
    },
}
BOUND |= {f"Condition.{name}": getattr(ATTRIBUTE > 1, name) for name in ("__and__", "__or__")}
FUNCTIONS |= {name: (method, method) for name, method in BOUND.items()}

NOT_CALLED = {
    "NULL",
    "Network",
    "Publisher",
    "Subscriber",
    "Notification",
    "Telemetry",
    "game_day",
    "networks",
}
"""They need Ray (tests/on_ray/test_wrong_arguments.py, and `launch` below), are made by a network, or are a value."""


def test_every_public_name_is_covered() -> None:
    assert dir(rv) == sorted([*rv.__all__, "__version__"])
    public = {name: getattr(rv, name) for name in rv.__all__}
    errors = {name for name, it in public.items() if inspect.isclass(it) and issubclass(it, Exception)}
    assert set(rv.__all__) == errors | NOT_CALLED | {name for name in FUNCTIONS if "." not in name}


def parameters(of: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [each for each in inspect.signature(of).parameters.values() if each.kind not in kinds]


def drawn(data: st.DataObject, of: Callable[..., Any]) -> dict[str, Any]:
    """Draw wrong arguments for all required parameters, and for some of the optional ones."""
    chosen = {}
    for parameter in parameters(of):
        if parameter.default is inspect.Parameter.empty or data.draw(
            st.booleans(), label=f"give {parameter.name}"
        ):
            chosen[parameter.name] = data.draw(wrong, label=parameter.name)
    return chosen


def called(function: Callable[..., Any], of: Callable[..., Any], given: dict[str, Any]) -> None:
    """Call the function with keyword arguments, and positional ones where it requires them."""
    first = [
        given.pop(each.name) for each in parameters(of) if each.kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    try:
        answer = function(*first, **given)
        if inspect.isgenerator(answer):
            next(answer, None)
    except RayvousError as error:
        assert str(error).strip()


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_wrong_arguments_give_a_named_error(name: str, data: st.DataObject) -> None:
    function, of = FUNCTIONS[name]
    called(function, of, drawn(data, of))


OF_PARTS = {"add_host", "serve", "start_ticking", "step", "tell_time"}
"""What the parts of a simulated network ask of it: they take processes of it, which only parts have in hand."""

SIMULATION = [
    name
    for name, _ in inspect.getmembers(rv.Simulation, inspect.isfunction)
    if not name.startswith("_") and name not in OF_PARTS
]


@pytest.mark.parametrize("name", SIMULATION)
@settings(max_examples=40)
@given(data=st.data())
def test_wrong_arguments_of_a_simulation_give_a_named_error(name: str, data: st.DataObject) -> None:
    method = getattr(simulation(), name)
    chosen = drawn(data, method)
    # Some of the arguments are valid, so that the checks of later ones are reached.
    right: dict[str, Any] = {"client": "alice", "broker": 0, "given": "price > 2", "number": 1}
    right |= {"events": [{"price": 1}], "max_rate": 1.0}
    for key in chosen:
        if key in right and data.draw(st.booleans(), label=f"right {key}"):
            chosen[key] = right[key]
    called(method, method, chosen)


@pytest.mark.parametrize("name", [each.name for each in parameters(rv.Network.launch)])
@settings(max_examples=20)
@given(data=st.data())
def test_launch_checks_everything_before_ray_starts(name: str, data: st.DataObject) -> None:
    """A wrong argument gives a named error; a valid one leads to `ray.init`, which the fence blocks."""
    value = data.draw(wrong)
    try:
        rv.Network.launch(**{"topology": TREE, name: value})
    except RayvousError as error:
        assert str(error).strip()
    except pytest.fail.Exception as error:
        assert "called init" in str(error)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topology": 3}, "topology is 3: it must be a topology, for example ClusterTree"),
        ({"name": 3}, "name is 3: it must be a string"),
        ({"name": ""}, "name is ''"),
        ({"scheme": 3}, "scheme is 3: it must be the name of a routing scheme"),
        ({"limits": {"call_seconds": 3}}, "it must be a Limits"),
        ({"recovery": True}, "recovery is True: it must be a Recovery"),
        ({"stable": "folder"}, "stable is 'folder': it must be a Stable"),
        ({"admission": 0.4}, "admission is 0.4: it must be an AdmissionConfig"),
        ({"trace_events": 1}, "trace_events is 1: it must be True or False"),
        ({"detached": "yes"}, "detached is 'yes': it must be True or False"),
        ({"progress": "yes"}, "progress is 'yes': it must be a function"),
        ({"nodes": "a1b2"}, "nodes is 'a1b2': it must be a list of strings"),
        ({"nodes": [3]}, "nodes is 3: it must be a string"),
        ({"brokers_per_actor": 1.5}, "brokers_per_actor is 1.5: it must be a whole number, 1 or more"),
    ],
)
def test_launch_says_what_is_wrong(options: dict[str, Any], said: str) -> None:
    with pytest.raises(rv.InputError) as error:
        rv.Network.launch(**{"topology": TREE, **options})
    assert said in str(error.value)


@pytest.mark.parametrize("name", [3, None, "", b"flights", ["flights"], "\ud800"])
def test_attach_takes_a_name(name: Any) -> None:
    with pytest.raises(rv.InputError, match=r"^name is .*: it must be a string"):
        rv.Network.attach(name)


@pytest.mark.parametrize("condition", [ATTRIBUTE, ATTRIBUTE > 1])
def test_a_condition_as_a_truth_value_is_named(condition: Any) -> None:
    """Writing `and` between conditions raises an error that is both a SelectorError and a TypeError."""
    for kind in (rv.SelectorError, TypeError):
        with pytest.raises(kind):
            bool(condition)
