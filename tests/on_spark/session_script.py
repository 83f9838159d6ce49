"""Run by test_session.py in a process of its own: every way to be refused before Spark starts."""

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

    os.environ["PATH"] = os.environ["PATH_WITHOUT_JAVA"]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    found["too_few_cpus"] = refusal(executors=2)
    found["no_java"] = refusal()
    ray.shutdown()
    print(json.dumps(found))  # noqa: T201 - the one line that may stand on standard output


if __name__ == "__main__":
    main()
