"""The Ray cluster that this machine would join: ``python -m rayvous.actors.network.ray_here SECONDS`` prints JSON.

Rules
-----
* It is a separate program so that the caller can abandon it: joining a Ray that does not answer has no time
  limit.
* Joining and asking take at most the given seconds, even if the caller is gone and whatever it waits for: the kernel
  ensures this (an alarm). To load Python's modules takes a busy machine as long as it takes, and waits for nobody.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import ray
from ray._private import worker

from ...protocol.errors import RayvousError
from .launching import ensure_ray, networks, starts_ray


def seen(seconds: int = 0) -> dict[str, Any]:
    """Return `error`; or `address`, None without a Ray, `version`, `nodes`, `cpus`, `dashboard` and `networks`.

    Nothing is started. If there are `seconds`, the process is ended when joining and asking have taken that long.
    """
    try:
        if starts_ray():
            return {"address": None}
        signal.alarm(seconds)
        ensure_ray()
    except RayvousError as error:
        return {"error": str(error)}
    direct = ray.is_initialized() and worker.global_worker.connected  # false for ray://
    return {
        "address": ray.get_runtime_context().gcs_address,
        "version": ray.__version__,
        "nodes": sum(1 for node in ray.nodes() if node["Alive"]),
        "cpus": ray.cluster_resources().get("CPU", 0),
        "dashboard": worker.get_dashboard_url() if direct else None,
        "networks": sorted(networks()),
    }


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(seen(int(sys.argv[1]))) + "\n")
