"""Run by test_session.py in its own process: every refusal before Spark starts."""

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

    # Workers without Java: this process's workers get another PATH.
    bare = {"env_vars": {"PATH": os.environ["PATH_WITHOUT_JAVA"]}}
    ray.init(address=sys.argv[1], runtime_env=bare, log_to_driver=False, logging_level="ERROR")
    found["cpus"] = int(ray.cluster_resources()["CPU"])
    found["too_few_cpus"] = refusal(executors=found["cpus"])
    found["no_java"] = refusal()
    ray.shutdown()
    print(json.dumps(found))  # noqa: T201 - the one line that may stand on standard output


if __name__ == "__main__":
    main()
