"""The audit in Spark agrees with the checker in Python on every scheme, on losses, and on violations.

Many traces are combined into one here, because an audit of one costs as much as an audit of all: what holds is audited
once, and so is what is wrong. What each part has to say for itself the checker in Python says, which costs nothing.
"""

import json
import random
import re
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rayvous.faults.checker.mutants import MUTANTS, NOT_DECIDED
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.pipelines.audit.audit import audit
from rayvous.pipelines.audit.trace_files import load_trace, save_trace
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.recovery import Recovery
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
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

BROKERS_MAX = 1_000
BATCHES_MAX = 1_000_000


def side_by_side(traces):
    """Return one trace of the given traces, one after the other and independent of each other.

    Each has its own names, brokers and batches, and its own value of an attribute that every event has and
    every selector requires. A retention limit counts until the next one.
    """
    out = []
    for place, trace in enumerate(traces):
        begun = out[-1].at_seconds if out else 0.0
        for op in trace:
            changed = {"at_seconds": begun + op.at_seconds}
            for name in ("client", "publisher"):
                if getattr(op, name, ""):
                    changed[name] = f"{place}/{getattr(op, name)}"
            if isinstance(op, Answered):
                changed["publishers"] = tuple(f"{place}/{name}" for name in op.publishers)
            if getattr(op, "broker", ITSELF) != ITSELF:
                changed["broker"] = place * BROKERS_MAX + op.broker
            if isinstance(op, Kept):
                changed["batch"] = place * BATCHES_MAX + op.batch
            if isinstance(op, Published):
                changed["event"] = {**op.event, "run": place}
            if hasattr(op, "selector"):
                changed["selector"] = f"({op.selector}) AND run = {place}"
            out.append(op._replace(**changed))
    return Trace(out)


def both(spark, trace, folder):
    in_spark, in_python = audit(spark, save_trace(trace, folder)), judge(trace)
    assert in_spark.conditions() == in_python.conditions()
    assert in_spark.counts() == in_python.counts() and in_spark.losses == in_python.losses
    for name, finding in in_spark.findings.items():
        assert len(finding.violations) == len(in_python.findings[name].violations)
    return in_spark, in_python


@cache
def chaos(seed, **options):
    report = run_chaos(seed, brokers_max=6, seconds=4.0, keep_trace=True, **options)
    assert report.holds, (options, report.problems, report.verdict)
    return report.trace


@cache
def local_first(seed):
    """Return a run in which local publishers serve subscribers, and come, leave and crash."""
    rng = random.Random(seed)
    net = Simulation(ClusterTree(8, 1).positions(), "hypercube", recovery=Recovery(), seed=seed)
    for place, name in enumerate(("alice", "bob", "carol", "dave")):
        net.advertise(f"p-{name}", place + 2, f"n > {rng.randrange(20)}")
        net.subscribe(name, place + 2, "n > 5", local_first=True)
        for turn in range(60):
            net.at(1.0 + turn, net.publish, f"p-{name}", place + 2, [{"n": turn}])
    net.at(3.0, net.move, "p-alice", 7)
    net.at(4.0, net.unadvertise, "p-bob")
    net.at(5.0, net.crash, 4)
    net.at(25.0, net.advertise, "p-bob", 3, "n > 0")
    for _ in range(10):
        net.advance(8.0)
        net.account.settled(net.now)
    return Trace(net.account)


def died_out(had_by_another):
    """Return a run in which twelve events die with their publisher, and with the broker that took half of them."""
    wants = [kind(0.0, name, 1, "TRUE") for name in "cd" for kind in (Adv, Registered)]
    wants += [Confirmed(0.0, name, 1) for name in "cd"]
    numbers = range(1, 13)
    events = [Published(1.0, "p", number, {}) for number in numbers]
    taken = [Kept(1.5, 0, "p", number, number, 10) for number in numbers if number % 2]
    notes = [Notified(2.0, "d", "p", number) for number in numbers if number % 2 or had_by_another]
    lost = [LossTold(4.0, name, "p", number) for number in numbers for name in "cd"]
    return Trace(
        [*wants, *events, *taken, *notes, Died(3.0, ITSELF, "p"), Died(3.0, 0, ""), *lost, Settled(5.0)]
    )


def of_all_schemes():
    traces = [chaos(5, scheme=scheme) for scheme in SCHEMES]
    traces += [chaos(6, scheme=scheme, stable=True) for scheme in ("hybrid", "hypercube", "lbdd")]
    traces += [chaos(7, scheme=scheme, admission=True) for scheme in ("hybrid", "lbdd", "match-first")]
    return [*traces, chaos(10, stable=True, admission=True), chaos(9, heals=False)]


def lost():
    """Return runs with losses that their limits explain."""
    little = Recovery.for_simulator(retention_events_max=10)
    runs = [
        run_chaos(seed, brokers_max=6, seconds=10.0, recovery=little, stable=True, keep_trace=True)
        for seed in (0, 1, 3)
    ]
    return [*(run.trace for run in runs), died_out(False)]


@pytest.fixture(scope="module")
def right(spark, tmp_path_factory):
    """The verdicts of both on all that holds; what limits retention comes last, since it holds for what follows."""
    traces = [*map(local_first, range(2)), *of_all_schemes(), *lost()]
    in_spark, in_python = both(spark, side_by_side(traces), tmp_path_factory.mktemp("right"))
    assert in_spark.holds
    return in_spark, in_python


ANSWERS = ("forge answer", "leave answer out")


def answered_wrongly(name):
    wrong = [MUTANTS[name][0](local_first(seed), random.Random(0)) for seed in range(2)]
    return list(filter(None, wrong))


def mutated():
    """Return a trace for each mutant."""
    traces = []
    for place, (change, _) in enumerate(MUTANTS.values()):
        run = chaos(place % 4)
        publishers = {op.publisher for op in run if isinstance(op, Published)}
        offers = [Advertised(0.0, publisher, 1, "TRUE") for publisher in sorted(publishers)]
        run = Trace([*offers, *run])
        traces.append(change(run, random.Random(place)) or run)
    return traces


@pytest.fixture(scope="module")
def wrong(spark, tmp_path_factory):
    """The verdicts of both on what each mutant makes, and on answers that were forged and left out."""
    traces = [*mutated(), *(trace for name in ANSWERS for trace in answered_wrongly(name))]
    return both(spark, side_by_side(traces), tmp_path_factory.mktemp("wrong"))


def test_it_agrees_on_what_publishers_at_ones_own_broker_satisfy(right, wrong):
    """This includes forged and omitted answers. Reference: paper 2, 2.3(1)."""
    assert sum(isinstance(op, Answered) for op in local_first(0)) > 1
    alone = judge(side_by_side(map(local_first, range(2))))
    expected, asked = alone.notifications_expected, alone.findings["complete"].checked
    assert alone.holds and 100 < expected < asked, "not all are owed all"
    mutants = judge(side_by_side(mutated())).findings["complete"].violated
    for name in ANSWERS:
        alone = judge(side_by_side(answered_wrongly(name)))
        assert alone.violated == ["complete"]
        mutants += alone.missing
    assert wrong[0].missing == mutants, "and Spark finds each of them"


def test_it_agrees_on_every_scheme_with_stores_and_with_admission(right):
    in_spark, in_python = right
    assert in_spark.notifications_delivered > 1_000
    alone = judge(side_by_side(of_all_schemes()))
    assert alone.holds and alone.notifications_delivered > 1_000
    assert alone.findings["noticed"].checked > alone.findings["complete"].checked > 1_000
    assert in_python.findings["noticed"].checked > alone.findings["noticed"].checked


def test_it_agrees_on_what_is_lost_and_on_what_is_only_said_to_be(right, spark, tmp_path):
    assert right[0].losses["retention"] > right[0].losses["died"] == 18
    mutants = [MUTANTS["silence"][0](chaos(seed), random.Random(0)) for seed in range(3)]
    in_spark, in_python = both(spark, side_by_side([*mutants, died_out(True)]), tmp_path)
    assert in_spark.violated == ["complete"] and in_spark.unexplained > 50
    assert in_spark.losses.keys() <= {"died", "ttl"} and in_spark.losses["died"] == 6, (
        "what another one has and no broker is known to have had is not explained"
    )
    for verdict in (in_spark, in_python):  # each may choose its examples
        assert all("no limit explains that" in sentence for sentence in verdict.examples)


def test_it_agrees_on_all_that_may_be_wrong(wrong):
    """With one trace for each mutant the same conditions are violated, each equally often."""
    assert set(wrong[0].violated) == {condition for _, condition in MUTANTS.values()}
    for name in ("noticed", "within", "once", "wanted"):
        said = [{violation.sentence for violation in v.findings[name].violations} for v in wrong]
        assert said[0] == said[1]


def nonsense(seed):
    rng = random.Random(seed)
    selectors = ("x > 0", "TRUE", "NOT x = 1", "x IS NULL")

    def event():
        return rng.choice("pq"), rng.randint(1, 40)

    def broker():
        return rng.choice((0, 1, ITSELF))

    last = dict.fromkeys("pq", 0)

    def published(at):
        publisher = rng.choice("pq")
        last[publisher] += rng.choice((1, 1, 1, 2, 3))
        event = {"x": rng.randrange(3)} if rng.random() < 0.5 else {}
        return Published(at, publisher, last[publisher], event)

    makers = (
        lambda at: Notified(at, rng.choice("ab"), *event()),
        lambda at: Notified(at, rng.choice("ab"), *event()),
        published,
        published,
        lambda at: Bounded(at, rng.choice(("a", "")), rng.randint(1, 5), 10_000, rng.choice((20.0, 60.0))),
        lambda at: Registered(at, rng.choice("ab"), rng.randint(1, 2), rng.choice(selectors)),
        lambda at: Confirmed(at, rng.choice("ab"), rng.randint(1, 2)),
        lambda at: Answered(at, rng.choice("ab"), rng.randint(1, 2), rng.choice(((), ("p",), ("p", "q")))),
        lambda at: Cancelled(at, rng.choice("ab"), rng.randint(1, 2)),
        lambda at: Adv(at, rng.choice("ab"), 1, rng.choice(selectors)),
        lambda at: UnAdv(at, rng.choice("ab"), 1),
        lambda at: Advertised(at, rng.choice("pq"), 1, rng.choice(selectors)),
        lambda at: Unadvertised(at, rng.choice("pq"), 1),
        lambda at: LossTold(at, rng.choice(("a", "")), *event()),
        lambda at: LossTold(at, rng.choice(("a", "")), *event()),
        lambda at: Kept(at, broker(), *event(), int(at), 10),
        lambda at: Kept(at, broker(), *event(), int(at), 10),
        lambda at: Died(at, *rng.choice(((0, ""), (ITSELF, "p")))),
        lambda at: Shed(at, *event(), "queue", rng.choice((4.0, 6.0)), 5.0),
        Settled,
    )
    bounds = [Bounded(0.0, "a", 3, 10_000, 200.0), Bounded(0.0, "", 3, 10_000, 60.0)]
    return Trace([*bounds, *(rng.choice(makers)(float(at)) for at in range(300))])


def test_it_agrees_on_what_makes_no_sense(spark_on_ray, tmp_path):
    """On Ray, where what is wrong crosses processes."""
    in_spark, in_python = both(spark_on_ray, side_by_side(map(nonsense, range(12))), tmp_path)
    assert set(in_spark.violated) == in_spark.findings.keys()
    sentences = {violation.sentence for violation in in_spark.findings["within"].violations}
    assert sentences == {violation.sentence for violation in in_python.findings["within"].violations}


def test_it_refuses_numbers_that_do_not_rise(spark, tmp_path):
    """As the checker in Python does, with the same words."""
    folder = save_trace(nonsense(0), tmp_path)
    file = folder / "published.parquet"
    table = pq.read_table(file)
    rows = table.to_pylist()
    first, second = [row for row in rows if row["publisher"] == "p"][3:5]
    first["sequence"], second["sequence"] = second["sequence"], first["sequence"]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    head = json.loads((folder / "trace.json").read_text())
    del head["crc32"]  # as others write a trace
    (folder / "trace.json").write_text(json.dumps(head))
    said = (
        f"{folder}, operation {second['position']}: p #{second['sequence']} is published after "
        f"#{first['sequence']}: the numbers of a publisher must rise"
    )
    for refuse in (lambda: audit(spark, folder), lambda: load_trace(folder)):
        with pytest.raises(InputError, match=re.escape(said)):
            refuse()


def test_of_nothing_it_decides_nothing(spark, tmp_path):
    unobserved = NOT_DECIDED["unobserved"](chaos(1), random.Random(0))
    nothing = Trace([LossTold(0.0, "", "p", 1)]), unobserved
    assert {judge(trace).outcome for trace in nothing} == {"undecided"}
    for place, trace in enumerate((Trace(), side_by_side(nothing))):
        in_spark, _ = both(spark, trace, tmp_path / str(place))
        assert in_spark.outcome == "undecided" and not in_spark.holds
