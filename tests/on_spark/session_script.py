"""Run by test_session.py in a process of its own: every way to be refused, then two sessions, one after the
other."""

import json
import os
import sys
from typing import Any


def main() -> None:
    import rayvous.pipelines.spark.session as session
    from rayvous.protocol.errors import SparkUnavailable

    found: dict[str, Any] = {
        "early_imports": sorted({"pyspark", "raydp", "matplotlib", "ray"} & set(sys.modules))
    }

    def refusal(**kwargs: Any) -> str:
        try:
            with session.spark_session(**kwargs):
                return "not refused"
        except SparkUnavailable as error:
            return str(error)

    found["no_ray"] = refusal()
    import ray

    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    path = os.environ["PATH"]
    os.environ["PATH"] = os.environ["PATH_WITHOUT_JAVA"]
    ray.init(num_cpus=2, **quiet)
    found["too_few_cpus"] = refusal(executors=2)
    found["no_java"] = refusal()
    ray.shutdown()

    os.environ["PATH"] = path
    session.prepare_java()
    ray.init(num_cpus=2, **quiet)
    with session.spark_session() as spark:
        found["sum"] = spark.range(5).agg({"id": "sum"}).toPandas().iloc[0, 0].item()
        with session.spark_session() as inner:
            found["same_within"] = inner is spark
        found["open_after_inner_block"] = spark.range(3).count() == 3
        found["jvm"] = spark.conf.get("spark.executor.extraJavaOptions")
    from pyspark.sql import SparkSession

    foreign = SparkSession.builder.master("local[1]").getOrCreate()
    found["foreign"] = refusal()
    foreign.stop()
    with session.spark_session() as spark:
        found["sum_in_the_second"] = spark.range(6).agg({"id": "sum"}).toPandas().iloc[0, 0].item()
    ray.shutdown()
    print(json.dumps(found))  # noqa: T201 - the one line that may stand on standard output


if __name__ == "__main__":
    main()
