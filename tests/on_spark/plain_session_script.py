"""Run by test_frames.py in its own process: a network's telemetry in a Spark session without Ray."""

import json
import sys
from pathlib import Path
from typing import Any


def counts(frames: dict[str, Any]) -> dict[str, int]:
    return {name: frame.count() for name, frame in frames.items()}


def main() -> None:
    import rayvous as rv
    from pyspark.sql import SparkSession
    from rayvous.actors.network.java import prepare_java
    from rayvous.pipelines.spark.jvm import LIGHT_JVM
    from rayvous.pipelines.spark.session import spark_session
    from rayvous.protocol.errors import SparkUnavailable
    from rayvous.protocol.telemetry.tables import SCHEMAS

    prepare_java()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    light = {"spark.driver.extraJavaOptions": LIGHT_JVM, "spark.sql.shuffle.partitions": "2"}
    spark = builder.config(map=light).getOrCreate()
    found: dict[str, Any] = {}
    out = Path(sys.argv[1])
    shape = rv.ClusterTree(1, 2)
    with rv.Network.launch(shape, trace_events=True) as net:
        net.subscriber("s").subscribe("x >= 10")
        publisher = net.publisher("p")
        publisher.publish_batch({"x": range(100)})
        net.settle()
        first = net.telemetry()
        frames = rv.spark_frames(first, spark)
        found["rows"], found["counts"] = first.rows, counts(frames)
        found["columns"] = {name: frames[name].columns == list(SCHEMAS[name]) for name in SCHEMAS}
        found["events"] = frames["transfers"].where("link_kind = 'publish'").agg({"events": "sum"}).first()[0]
        found["sequences"] = sorted(row.sequence for row in frames["notified"].collect())
        publisher.publish({"x": 50})
        net.settle()
        found["since"] = counts(rv.spark_frames(net.telemetry(since=first)))  # in the open session
        written = rv.report(net, out / "report", spark, summary={"why": "a test"})
        found["figures"] = written.row("throughput")
        try:
            with spark_session():
                found["foreign"] = "replaced"
        except SparkUnavailable as error:
            found["foreign"] = str(error)
    found["after"] = counts(frames)  # the rows belong to the session, and outlive the network
    found["summary"] = json.loads((out / "report" / "summary.json").read_text())["summary"]
    found["open"] = spark.range(3).count()
    spark.stop()
    print(json.dumps(found))  # noqa: T201 - the one line that may stand on standard output


if __name__ == "__main__":
    main()
