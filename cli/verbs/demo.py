"""``rayvous demo``: the whole system once, on real input, judged.

The order: read and check all input, then launch; so invalid input starts nothing. Spark starts beside the
brokers, and the results of the run are printed before Spark is asked for its figures.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...actors.clients.columns import batch_from
from ...actors.clients.event_files import read_events
from ...actors.clients.publisher import Publisher
from ...actors.clients.subscriber import Subscriber
from ...actors.network.launching import joined_ray
from ...actors.network.network import Network
from ...faults.checker.reliability import judge
from ...faults.checker.verdict import Verdict
from ...protocol.batch import EventBatch
from ...protocol.errors import InputError, ScenarioError, SelectorError
from ...protocol.traces.trace import Trace
from ...routing.language.selectors import parse_selector
from ...routing.schemes.registry import scheme as routing_scheme
from ...routing.topologies.cluster_trees import ClusterTree
from .. import console
from ..inputs import flight_alerts, flights, read_selectors, selectors_for
from ..killing import Killing, check_kind, recovery_for
from .audit import check_trace_dir, keep_trace

if TYPE_CHECKING:
    from ...pipelines.spark.warming import SparkStart

BATCH_EVENTS: Final = 512
SUBSCRIBE_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of ``rayvous demo``; `rayvous demo --help` describes each."""

    events: Path | None
    subscriptions: Path | None
    clusters: int
    brokers_per_cluster: int
    degree: int
    subscribers: int
    publishers: int
    limit: int
    brokers_per_actor: int
    scheme: str
    seed: int
    out: Path
    spark: bool
    kill: str | None = None
    trace_dir: Path | None = None
    types: Mapping[str, str] | None = None

    def validate(self) -> None:
        """Raise InputError if a number is out of range or a name is invalid."""
        for name in ("subscribers", "publishers", "limit", "brokers_per_actor"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"--{name.replace('_', '-')} {getattr(self, name)}: there must be at least 1"
                )
        if self.out.exists() and not self.out.is_dir():
            raise InputError(f"--out {self.out}: is a file, but must be a folder")
        check_trace_dir(self.trace_dir)
        routing_scheme(self.scheme)
        if self.kill is not None:
            check_kind(self.kill, self.clusters, self.brokers_per_cluster, self.degree)


@dataclass(frozen=True, slots=True)
class _Input:
    """The input of the run: events as a batch, and each subscriber's selector."""

    batch: EventBatch
    selectors: dict[str, str]


@dataclass(slots=True)
class _Seen:
    """The operations and observations of the clients."""

    trace: Trace
    latencies: npt.NDArray[np.float64]
    publish_seconds: float
    elapsed_seconds: float
    killing: Killing | None = None


def run_demo(options: DemoOptions, *, as_json: bool) -> dict[str, object]:
    """Run the demo, print the results, and return them as a mapping.

    Raises
    ------
    InputError
        If an option or a file is invalid; nothing was started then.
    """
    options.validate()
    topology = ClusterTree(options.clusters, options.brokers_per_cluster, degree=options.degree)
    given = _read(options)
    with ExitStack() as stack:
        with console.steps() as steps:
            stack.enter_context(joined_ray(steps))
            spark = _start_spark(stack) if options.spark else None
            net = stack.enter_context(_launch(options, topology, steps))
            seen = _publish_and_read(net, options, given, steps)
            verdict = judge(seen.trace, lambda done, total: steps.show("judged by brute force", done, total))
        result = {"settings": _settings(options, given)} | _summary(verdict, seen)
        result |= keep_trace(options.trace_dir, seen.trace)
        if not as_json:
            _print_run(result, verdict, options, repr(net))
        if spark is not None:
            with console.steps() as steps:
                result |= _report(net, options, result, spark, steps)
            if not as_json:
                _print_report(result)
    if as_json:
        console.print_json(result)
    return result


def _start_spark(stack: ExitStack) -> SparkStart:
    """Start Spark in the background, so that it is warm when it is needed."""
    from ...pipelines.spark.warming import starting_spark

    return stack.enter_context(starting_spark())


def _read(options: DemoOptions) -> _Input:
    if options.events is None:
        batch = batch_from(flights(options.limit))
    else:
        batch = read_events(options.events, types=options.types, limit=options.limit)
    if options.subscriptions is not None:
        numbered = read_selectors(options.subscriptions)
    elif options.events is None:
        numbered = list(enumerate(flight_alerts(options.subscribers, options.seed), 1))
    else:
        numbered = list(enumerate(selectors_for(batch, options.subscribers, options.seed), 1))
    selectors: dict[str, str] = {}
    for number, text in numbered:
        name = f"subscriber-{number}"
        try:
            parse_selector(text)
        except SelectorError as error:
            raise ScenarioError(f"{options.subscriptions}:{number}: {error}") from None
        selectors[name] = text
    return _Input(batch, selectors)


def _launch(options: DemoOptions, topology: ClusterTree, steps: console.CommandProgress) -> Network:
    return Network.launch(
        topology,
        scheme=options.scheme,
        brokers_per_actor=options.brokers_per_actor,
        trace_events=True,
        recovery=None if options.kill is None else recovery_for(options.degree, options.limit),
        progress=steps,
    )


def _publish_and_read(
    net: Network, options: DemoOptions, given: _Input, steps: console.CommandProgress
) -> _Seen:
    subscribers = net.subscribers(given.selectors)
    trace = Trace()
    _subscribe(subscribers, given.selectors, trace, steps)
    publishers = net.publishers([f"publisher-{number}" for number in range(1, options.publishers + 1)])
    started = time.perf_counter()
    killing = None if options.kill is None else Killing(options.kill, started)
    published = _publish(net, publishers, given.batch, trace, steps, killing)
    net.settle(300)
    settled = time.perf_counter()
    latencies = _drain(subscribers, trace)
    trace.settled(time.time())
    if killing is not None:
        killing.say("everything published was delivered")
    return _Seen(trace.in_time(), latencies, published - started, settled - started, killing)


def _subscribe(
    subscribers: Sequence[Subscriber],
    selectors: Mapping[str, str],
    trace: Trace,
    steps: console.CommandProgress,
) -> None:
    for subscriber in subscribers:
        trace.subscribed(time.time(), subscriber.name, 1, selectors[subscriber.name])
    with ThreadPoolExecutor(SUBSCRIBE_AT_ONCE) as pool:
        numbers = pool.map(lambda subscriber: subscriber.subscribe(selectors[subscriber.name]), subscribers)
        for done, _ in enumerate(numbers, 1):
            trace.confirmed(time.time(), subscribers[done - 1].name, 1)
            steps.show("subscriptions installed", done, len(subscribers))


def _publish(
    net: Network,
    publishers: Sequence[Publisher],
    batch: EventBatch,
    trace: Trace,
    steps: console.CommandProgress,
    killing: Killing | None,
) -> float:
    """Deal the events out to the publishers, which publish concurrently, in batches; kill when half are published.

    Returns when all are published and the fault is healed; the result is the time when the last event was
    published.
    """
    shares = [np.arange(first, len(batch), len(publishers)) for first in range(len(publishers))]
    events = batch.events()
    done = [0] * len(publishers)
    half = Event()

    def publish(turn: int) -> float:
        for start in range(0, len(shares[turn]), BATCH_EVENTS):
            rows = shares[turn][start : start + BATCH_EVENTS]
            now, contents = time.time(), [events[row] for row in rows.tolist()]
            trace.published(now, publishers[turn].name, start + 1, contents)
            publishers[turn].publish_batch(batch.take(rows))
            done[turn] += len(rows)
            if 2 * sum(done) >= len(batch):
                half.set()
            steps.show("events published", sum(done), len(batch))
        return time.perf_counter()

    with ThreadPoolExecutor(len(publishers)) as pool:
        publishing = [pool.submit(publish, turn) for turn in range(len(publishers))]
        if killing is not None:
            while not half.wait(0.1) and not all(share.done() for share in publishing):
                pass  # also ends when publishing has failed
            killing.run(net)
        return max(share.result() for share in publishing)


def _drain(subscribers: Sequence[Subscriber], trace: Trace) -> npt.NDArray[np.float64]:
    latencies = [np.zeros(0)]
    for subscriber in subscribers:
        for arrival in subscriber.arrivals(timeout_seconds=0):
            latencies.append(arrival.received_at - arrival.batch.published_at[arrival.rows])
            for row in arrival.rows.tolist():
                trace.notified(arrival.received_at, subscriber.name, *arrival.batch.identity(row))
    return np.concatenate(latencies)


def _settings(options: DemoOptions, given: _Input) -> dict[str, object]:
    """Return the settings of the run, in the words of a report."""
    return {
        "events from": "the flights of 2013" if options.events is None else str(options.events),
        "subscribers": len(given.selectors),
        "publishers": options.publishers,
        "seed": options.seed,
        **({} if options.kill is None else {"killed half-way": options.kill}),
    }


def _summary(verdict: Verdict, seen: _Seen) -> dict[str, object]:
    some = len(seen.latencies) > 0
    p50, p99 = np.percentile(seen.latencies, (50, 99)) if some else (None, None)
    return {
        **verdict.to_dict(),
        **({} if seen.killing is None else seen.killing.to_dict()),
        "events_per_second": verdict.events_published / seen.elapsed_seconds,
        "notifications_per_second": verdict.notifications_delivered / seen.elapsed_seconds,
        "publish_seconds": seen.publish_seconds,
        "elapsed_seconds": seen.elapsed_seconds,
        "latency_p50_seconds": None if p50 is None else float(p50),
        "latency_p99_seconds": None if p99 is None else float(p99),
    }


def _report(
    net: Network,
    options: DemoOptions,
    result: Mapping[str, object],
    spark: SparkStart,
    steps: console.CommandProgress,
) -> dict[str, object]:
    from ...actors.pictures.dead import with_dead
    from ...pipelines.run import report

    steps.show("Spark", 0, 1)
    session = spark.session()
    steps.show("Spark", 1, 1)
    steps.show("report", 0, 1)
    started = {"spark_start_seconds": spark.start_seconds}
    written = report(
        net.telemetry(),
        options.out,
        session,
        graph=with_dead(net.inspect.describe(), net.inspect.positions),
        summary={**result, **started},
    )
    steps.show("report", 1, 1)
    tct = written.figures["tct"].to_dict("records")
    carried_out = written.figures["multicast_cost"].set_index("how").to_dict("index")
    return {
        "multicasts": {
            how: {name: int(value) for name, value in row.items()} for how, row in carried_out.items()
        },
        "tct": {row["link_kind"]: int(row["tct"]) for row in tct},
        **{name: written.row("aed")[name] for name in ("aed_seconds", "seconds_per_notification")},
        "report": str(written.folder),
        **started,
        **written.took,
    }


def _carried_out(all_of_them: Mapping[str, int], events: int) -> str:
    """Return how the events were carried out that the paper counts as one message each."""
    return (
        f"{events:,} events, handed over in {all_of_them['calls']:,} calls; {all_of_them['nbytes']:,} bytes "
        f"counted once, {all_of_them['sent_bytes']:,} sent"
    )


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1000:,.1f} ms" if value >= 0.001 else f"{value * 1_000_000:,.1f} us"


def _print_run(result: Mapping[str, Any], verdict: Verdict, options: DemoOptions, network: str) -> None:
    latencies = (_seconds(result[f"latency_{name}_seconds"]) for name in ("p50", "p99"))
    rows: dict[str, object] = {
        "network": f"{network}, scheme {options.scheme}",
        "events published": result["events_published"],
        "notifications expected": result["notifications_expected"],
        "notifications delivered": result["notifications_delivered"],
        **console.conditions(verdict),
        "events per second": f"{result['events_per_second']:,.0f}",
        "notifications per second": f"{result['notifications_per_second']:,.0f}",
        "latency p50 / p99": " / ".join(latencies),
    }
    if "trace" in result:
        rows["trace"] = result["trace"]
    if "killed" in result:
        what = ", ".join(f"broker {broker}" for broker in result["killed"])
        rows["killed"] = what or "the link between clusters {} and {}".format(*result["cut"])
        rows["healed after"] = _seconds(result["recovery_seconds"])
    console.print_table("rayvous demo", rows)
    for moment in result.get("timeline", ()):
        console.out.print(f"  {moment['seconds']:8.3f} s  {moment['what']}", markup=False)
    console.print_verdict(verdict)


def _print_report(result: Mapping[str, Any]) -> None:
    rows = {
        "TCT (events over links)": ", ".join(f"{kind} {count:,}" for kind, count in result["tct"].items()),
        "multicasts on Ray": _carried_out(result["multicasts"]["all"], result["tct"]["multicast"]),
        "AED": _seconds(result["aed_seconds"]),
        "time over notifications": _seconds(result["seconds_per_notification"]),
        "Spark": f"{result['spark_jobs']} job(s), {result['spark_report_seconds']:.1f} s; "
        f"started in {result['spark_start_seconds']:.1f} s beside the run",
        "report": f"{result['report']}, {result['report_seconds']:.1f} s",
    }
    console.print_table("telemetry", rows)
