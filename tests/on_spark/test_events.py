"""Events as streams of Spark, through RayDP: each event counts once, whatever dies, and files that were read go."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import rayvous as rv
from kills import kills, rng
from patience import PATIENCE_SECONDS, until
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rayvous.actors.network.directory import NAMESPACE, sink_name
from rayvous.actors.network.sinks import mark_of
from rayvous.protocol.errors import InputError

KILLS, DRIVERS = kills(3), kills(1)
COLUMNS = {"origin": "string", "x": "integer"}


@pytest.fixture(scope="module")
def net(spark_on_ray: SparkSession) -> Iterator[rv.Network]:
    """A network that heals, and that suspects nobody who is only slow."""
    patient = rv.Recovery.for_tests(suspect_after_seconds=4.0, client_patience_seconds=6.0)
    with rv.Network.launch(
        rv.ClusterTree(1, 2), name="streamed", brokers_per_actor=2, recovery=patient
    ) as made:
        yield made


def begun(rows: DataFrame, folder: Path, name: str, take: Callable[[DataFrame, int], None]) -> Any:
    """Begin a query, with its checkpoint in the folder of the stream."""
    writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / name))
    return writer.trigger(processingTime="0 seconds").start()


def written_to(out: Path) -> Callable[[DataFrame, int], None]:
    """Return what writes each micro-batch into a file of its number, which a repeated one replaces."""

    def take(rows: DataFrame, batch: int) -> None:
        found = [(row["_publisher"], row["_sequence"]) for row in rows.collect()]
        (out / f"{batch}.part").write_text(json.dumps(found))
        (out / f"{batch}.part").replace(out / f"{batch}.json")

    out.mkdir()
    return take


def identities_in(out: Path) -> list[tuple[str, int]]:
    return sorted(tuple(each) for path in out.glob("*.json") for each in json.loads(path.read_text()))


def test_live_counts_with_a_watermark_go_back_into_the_network_once(
    net: rv.Network, spark_on_ray: SparkSession, tmp_path: Path
) -> None:
    faa = net.publisher("faa")
    alice = net.subscriber("alice")
    alice.subscribe("kind = 'count'")
    rows = rv.spark_stream(net, "x >= 0", spark_on_ray, columns=COLUMNS, folder=tmp_path, name="counts")
    assert rows.isStreaming
    assert rows.columns == ["_publisher", "_sequence", "_published_at", "origin", "x", "_form", "_more"]
    assert "EventTimeWatermark" in rows._jdf.queryExecution().logical().toString()
    counts = rows.groupBy("origin").agg(F.count("*").alias("flights"), F.sum("x").alias("x"))
    publish = rv.spark_sink(net, "counted", tmp_path)
    query = counts.withColumn("kind", F.lit("count")).writeStream.outputMode("update")
    query = query.foreachBatch(publish).option("checkpointLocation", str(tmp_path / "counts")).start()
    faa.publish_batch([{"origin": "JFK", "x": 1}, {"origin": "LGA", "x": 2}, {"origin": "JFK", "x": "?"}])
    faa.publish_batch([{"origin": "JFK", "x": 3}, {"origin": "JFK", "x": -1}])
    found: dict[str, tuple[int, int]] = {}

    def arrived() -> bool:
        for note in alice.notifications(0.2):
            found[note.event["origin"]] = note.event["flights"], note.event["x"]
        return found == {"JFK": (2, 4), "LGA": (1, 2)}

    until(arrived)
    query.stop()
    # A micro-batch that Spark repeats after a restart, with its rows in another order, of which one was published.
    batch = json.loads((tmp_path / "counted.json").read_text())["batch"] + 1
    frame = spark_on_ray.createDataFrame(
        [("JFK", 2, "count"), ("LGA", 1, "count")], "origin string, x int, kind string"
    )
    publish(frame.where("origin = 'JFK'"), batch)
    again = rv.spark_sink(net, "counted", tmp_path)
    again(frame.orderBy(F.desc("origin")), batch)
    again(frame, batch)
    with pytest.raises(InputError, match="has another checkpoint than before"):
        again(frame, 0)
    net.settle(PATIENCE_SECONDS)
    assert [(note.event["origin"], note.event["x"]) for note in alice.notifications(0)] == [
        ("JFK", 2),
        ("LGA", 1),
    ]
    for client in (alice, faa):
        client.close()


def test_each_event_counts_once_though_query_and_sink_are_killed_at_random_moments(
    net: rv.Network, spark_on_ray: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, name, folder, out = rng(), "killed", tmp_path / "stream", tmp_path / "out"
    take = written_to(out)
    bob = net.publisher("bob")

    def stream() -> DataFrame:
        return rv.spark_stream(
            net,
            "odd = TRUE",
            spark_on_ray,
            columns={"odd": "boolean"},
            folder=folder,
            name=name,
            roll_seconds=0.05,
        )

    query = begun(stream(), folder, "query", take)
    x = 0
    for kill in range(KILLS):
        for _ in range(5):
            bob.publish_batch([{"odd": (x + i) % 2 == 1} for i in range(20)])
            x += 20
            time.sleep(draw.uniform(0.0, 0.1))  # a random moment
        if kill % 2:
            query.stop()  # interrupts whatever it does
            query = begun(stream(), folder, "query", take)
        else:
            made = ray.get_actor(sink_name(net.name, name), namespace=NAMESPACE)
            os.kill(ray.get(made.pid.remote(), timeout=PATIENCE_SECONDS), signal.SIGKILL)
    wanted = [("bob", n) for n in range(2, x + 1, 2)]
    until(lambda: identities_in(out)[-1:] == wanted[-1:] and len(identities_in(out)) >= len(wanted))
    assert identities_in(out) == wanted
    query.stop()
    bob.close()


def test_each_event_counts_once_though_the_driver_is_killed_and_begins_anew_from_its_checkpoint(
    net: rv.Network, spark_on_ray: SparkSession, tmp_path: Path
) -> None:
    draw, folder, out = rng(), tmp_path / "stream", tmp_path / "out"
    out.mkdir()
    script = Path(__file__).with_name("stream_driver.py")
    line = [sys.executable, str(script), net.name, str(folder), str(out)]
    address = ray.get_runtime_context().gcs_address
    bob, sent = net.publisher("lots"), 0

    def publish() -> None:
        nonlocal sent
        bob.publish_batch([{"lot": 1}] * 20)
        sent += 20

    for kill in range(DRIVERS + 1):
        (out / "begun").unlink(missing_ok=True)
        before = len([*out.glob("*.json")])
        with (tmp_path / "driver.log").open("w") as log:
            driver = subprocess.Popen(
                line,
                env=os.environ | {"RAY_ADDRESS": address},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        def goes_on(driver: subprocess.Popen[bytes] = driver) -> None:
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3_000:]

        try:
            until(lambda: goes_on() or (out / "begun").exists())
            publish()
            if kill == DRIVERS:
                until(lambda: goes_on() or len(identities_in(out)) >= sent)
            elif kill % 4:  # while it takes micro-batches; at each fourth kill, maybe before the first
                until(lambda before=before: goes_on() or len([*out.glob("*.json")]) > before)
            for _ in range(3 if kill < DRIVERS else 0):
                publish()
                time.sleep(draw.uniform(0.0, 0.3))  # a random moment
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # its JVM, too
            driver.wait(PATIENCE_SECONDS)
    assert identities_in(out) == [("lots", n) for n in range(1, sent + 1)]
    bob.close()


def test_files_that_all_queries_have_read_are_removed(
    net: rv.Network, spark_on_ray: SparkSession, tmp_path: Path
) -> None:
    bob = net.publisher("removed")
    rows = rv.spark_stream(
        net,
        "lot = 1",
        spark_on_ray,
        columns={"lot": "integer"},
        folder=tmp_path,
        name="removed",
        roll_seconds=0.05,
    )
    out = tmp_path.with_name("out")
    out.mkdir()
    one = begun(rows, tmp_path, "once", written_to(out / "once"))
    two = begun(rows.union(rows), tmp_path, "twice", written_to(out / "twice"))
    events = tmp_path / "events"

    def sent(n: int) -> None:
        bob.publish_batch([{"lot": 1}] * n)

    sent(3)
    until(lambda: len(identities_in(out / "once")) == 3)
    until(lambda: len(identities_in(out / "twice")) == 6)
    two.processAllAvailable()  # otherwise it has read them, and not committed that
    two.stop()
    first = {path.name for path in events.glob("*.parquet")}
    assert first

    def after_another() -> set[str]:
        sent(1)
        time.sleep(0.2)
        return {path.name for path in events.glob("*.parquet")}

    until(lambda: not first & after_another())
    assert after_another(), "the other query has not read what came since"
    one.stop()
    bob.close()


def test_columns_are_those_of_the_first_events_and_the_stream_is_for_one_query(
    net: rv.Network, spark_on_ray: SparkSession
) -> None:
    with pytest.raises(InputError, match="no event came within 0 s that would tell the columns"):
        rv.spark_stream(net, "y > 0", spark_on_ray, wait_seconds=0.0)
    bob = net.publisher("first")
    stop = threading.Event()

    def publish() -> None:
        while not stop.wait(0.1):
            bob.publish_batch([{"y": 1, "to": "JFK"}, {"y": 2, "To": "LGA", "gate": "B7"}])

    feed = threading.Thread(target=publish)
    feed.start()
    rows = rv.spark_stream(net, "y > 0", roll_seconds=0.05)  # in the open session
    assert rows.columns[3:-2] == ["y", "to", "gate"]
    query = (
        rows.groupBy("to")
        .count()
        .writeStream.format("memory")
        .queryName("live")
        .outputMode("complete")
        .start()
    )
    until(lambda: {row["to"]: row["count"] for row in spark_on_ray.table("live").collect()}.get("JFK", 0) > 3)
    stop.set()
    feed.join()
    query.stop()
    bob.close()


def test_what_does_not_belong_together_is_refused_by_name(
    net: rv.Network, spark_on_ray: SparkSession, tmp_path: Path
) -> None:
    def stream(selector: str = "x > 0", network: rv.Network = net, **how: Any) -> DataFrame:
        return rv.spark_stream(
            network, selector, spark_on_ray, **{"columns": COLUMNS, "folder": tmp_path / "s", **how}
        )

    stream()
    assert stream(columns=None).columns[3:5] == ["origin", "x"], "the folder knows them"
    with pytest.raises(InputError, match=r"has a stream with the selector 'x > 0', not 'x > 1'"):
        stream("x > 1")
    with pytest.raises(InputError, match=r"has a stream with the columns .* not \[\['x', 'float'\]\]"):
        stream(columns={"x": "float"})
    with pytest.raises(InputError, match=r"has a stream with the name 'spark', not 'other'"):
        stream(name="other")
    checkpoint = tmp_path / "c" / "offsets"
    checkpoint.mkdir(parents=True)
    with pytest.raises(InputError, match="is the checkpoint of a query: give the folder that it is in"):
        stream(folder=tmp_path / "c")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match=r"folder '.*file/s' cannot be used"):
        stream(folder=tmp_path / "file" / "s")
    with pytest.raises(InputError, match=r"columns\['x'\] is 'int'"):
        stream(columns={"x": "int"})
    with pytest.raises(InputError, match="differ by more than their case"):
        stream(columns={"x": "float", "X": "float"})
    with pytest.raises(InputError, match="session"):
        rv.spark_stream(net, "x > 0", "spark")
    # Another network of the same name, launched later, has another mark.
    rv.spark_sink(net, "published", tmp_path)
    for path in (tmp_path / "s" / "stream.json", tmp_path / "published.json"):
        path.write_text(path.read_text().replace(mark_of(net.inspect.directory), "00000000"))
    with pytest.raises(InputError, match=r"the network 'streamed \(0{8}\)', not 'streamed \("):
        stream()
    with pytest.raises(InputError, match=r"published\.json is of another network"):
        rv.spark_sink(net, "published", tmp_path)
