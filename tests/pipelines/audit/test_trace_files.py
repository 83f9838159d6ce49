"""A trace in Parquet: it is read back unchanged, and other files are refused with a reason. No Spark."""

import json
import random
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rayvous.faults.checker.mutants import MUTANTS
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.pipelines.audit.trace_files import (
    TABLES,
    check_folder,
    decode_event,
    encode_event,
    load_trace,
    save_trace,
)
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import InputError
from rayvous.protocol.traces.trace import (
    ITSELF,
    Adv,
    Advertised,
    Answered,
    Bounded,
    Cancelled,
    Confirmed,
    Died,
    Kept,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Shed,
    Trace,
    UnAdv,
    Unadvertised,
)
from rayvous.protocol.values import NULL, Timestamp
from rayvous.protocol.ways import array_at
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

STORY = Trace(
    [
        Bounded(0.0, "", 2, 100, 60.0),
        Bounded(0.0, "c", 2, 100, 60.0),
        Advertised(0.0, "p", 1, "TRUE"),
        Adv(0.0, "c", 1, "x > 1"),
        Registered(0.0, "c", 1, "x > 1"),
        Answered(0.0, "c", 1, ()),
        Answered(0.0, "c", 1, ("q", "p")),
        Confirmed(0.0, "c", 1),
        Confirmed(0.5, "c", 1),
        Published(1.0, "p", 1, {"x": 2}),
        Kept(1.0, ITSELF, "p", 1, 1, 30),
        Kept(1.0, 3, "p", 1, 2, 30),
        Notified(1.0, "c", "p", 1),
        Shed(1.0, "p", 1, "queue", 5.5, 5.0),
        Died(1.2, 3, ""),
        Died(1.2, ITSELF, "p"),
        Registered(1.5, "c", 1, "x < 1"),  # replaces the first
        LossTold(1.5, "", "p", 1),
        Settled(2.0),
        Cancelled(3.0, "c", 1),
        UnAdv(3.0, "c", 1),
        Unadvertised(3.0, "p", 1),
    ]
)

values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.integers(-(2**62), 2**62).map(Timestamp),
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=3), values, max_size=4))
def test_an_event_comes_back_value_by_value(event):
    again = decode_event(encode_event(event))
    assert again == event and [type(value) for value in again.values()] == [type(v) for v in event.values()]


def test_an_event_with_arrays_comes_back_with_its_arrays():
    (event,) = batch_of([{"t": ["a", {"b": NULL}], "x": 1}]).events()
    again = decode_event(encode_event(event))
    assert (again, again.ways, again.form) == (event, event.ways, event.form)
    assert array_at(again, "t") == ("a", None)
    (whole,) = batch_of([{"": 2**70, "t": [1], "x": {"y": 3}}]).events()
    again = decode_event(encode_event(whole))
    assert again == whole and again.document() == {"": 2**70, "t": [1], "x": {"y": 3}}
    assert whole["x.y"] == 3 and to_filter("x.y = 3 AND t = 1").holds(again)
    old = decode_event(
        '{"x": 1, "": [{"x": 1, "t": 5}, {"x": 1, "t": 6}]}'
    )  # from before the form was written
    assert to_filter("t = 6 AND x = 1").matches(old) and not to_filter("t = 6 AND x = 2").matches(old)
    assert decode_event(encode_event(old)) == old


def test_a_trace_comes_back(tmp_path):
    folder = save_trace(STORY, tmp_path / "new" / "trace")
    assert load_trace(folder).operations == STORY.operations
    assert check_folder(folder) == {
        "published": 1, "notified": 1, "subscriptions": 2, "terms": 4, "notices": 1, "advertisements": 1,
        "marks": 2, "kept": 2, "limits": 5,
    }  # fmt: skip
    save_trace(Trace(), folder)
    assert load_trace(folder).operations == [], "a trace is written over, whole"


@pytest.mark.slow
def test_of_any_run_the_verdict_is_the_same_when_it_comes_back(tmp_path):
    trace = run_chaos(3, brokers_max=4, seconds=4.0, keep_trace=True).trace
    for name in (None, "drop", "swap", "duplicate"):
        given = trace if name is None else MUTANTS[name][0](trace, random.Random(name))
        again = load_trace(save_trace(given, tmp_path))
        assert again.operations == given.operations
        assert judge(again).to_dict() == judge(given).to_dict()


def test_of_a_run_with_local_answers_too(tmp_path):
    """Reference: paper 2, 2.3(1)."""
    net = Simulation(ClusterTree(4, 1).positions(), "hypercube")
    net.advertise("bob", 1, "n > 0")
    net.subscribe("alice", 1, "n > 0", local_first=True)
    net.run()
    for turn, change in enumerate((lambda: None, lambda: net.unadvertise("bob"))):
        change()
        net.run()
        for publisher, broker in (("bob", 1), ("carol", 2)):
            net.publish(publisher, broker, [{"n": turn + 1}])
        net.run()
        net.account.settled(net.now)
    again = load_trace(save_trace(net.account, tmp_path))
    assert again.operations == net.account.operations
    verdict = judge(again)
    assert verdict.holds and verdict.notifications_expected == verdict.notifications_delivered == 3
    forged = MUTANTS["forge answer"][0](again, random.Random(1))
    assert judge(load_trace(save_trace(forged, tmp_path))).violated == ["complete"]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_what_has_no_effect_is_left_out_and_nothing_else(tmp_path, nonsense, seed):
    trace = nonsense(random.Random(seed), 30)
    assert judge(load_trace(save_trace(trace, tmp_path))).conditions() == judge(trace).conditions()


@pytest.fixture(scope="module")
def nonsense():
    def make(rng, steps):
        makers = (
            lambda at: Notified(at, rng.choice("ab"), "p", rng.randint(1, 9)),
            lambda at: Published(at, "p", int(at) + 1, {"x": rng.randrange(3)}),
            lambda at: Registered(at, rng.choice("ab"), rng.randint(1, 2), rng.choice(("x > 0", "TRUE"))),
            lambda at: Confirmed(at, rng.choice("ab"), rng.randint(1, 2)),
            lambda at: Answered(at, rng.choice("ab"), rng.randint(1, 2), rng.choice(((), ("p",)))),
            lambda at: Cancelled(at, rng.choice("ab"), rng.randint(1, 2)),
            Settled,
        )
        return Trace(rng.choice(makers)(float(at)) for at in range(steps))

    return make


def test_what_is_no_trace_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        load_trace(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"has no trace\.json; write one with --trace-dir"):
        load_trace(tmp_path)
    (tmp_path / "trace.json").write_text("[]")
    with pytest.raises(InputError, match="is not the header of a trace"):
        load_trace(tmp_path)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        save_trace(STORY, file)
    with pytest.raises(InputError, match="published twice"):
        save_trace(Trace([Published(0.0, "p", 1, {}), Published(0.0, "p", 1, {})]), tmp_path)


def test_half_a_trace_is_refused(tmp_path):
    def broken(change):
        folder = tmp_path / "trace"
        shutil.rmtree(folder, ignore_errors=True)
        save_trace(STORY, folder)
        change(folder)
        with pytest.raises(InputError) as caught:
            load_trace(folder)
        return str(caught.value)

    assert "notified.parquet: is missing" in broken(lambda at: (at / "notified.parquet").unlink())
    assert "not as it was written" in broken(lambda at: (at / "marks.parquet").write_bytes(b"PAR1"))
    assert "not as it was written" in broken(
        lambda at: shutil.copy(at / "marks.parquet", at / "published.parquet")
    )
    head = {"format": "rayvous trace", "version": 9, "rows": {}}
    assert "version 9" in broken(lambda at: (at / "trace.json").write_text(json.dumps(head)))
    head = {"format": "rayvous trace", "version": 3, "rows": dict.fromkeys(TABLES, 7)}
    assert "has 1 rows, and trace.json says 7" in broken(
        lambda at: (at / "trace.json").write_text(json.dumps(head))
    )
