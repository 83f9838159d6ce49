"""The Ray that would be joined from here: ``python -m rayvous.actors.network.ray_here SECONDS`` prints JSON.

Rules
-----
* It is a separate program, so that its caller can abandon it: joining an unresponsive Ray has no time limit.
* It ends within the given seconds, even if its caller is gone, and whatever it waits for: the kernel ensures that.
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


def seen() -> dict[str, Any]:
    """Return `error`; or `address`, which is None if there is no Ray, `version`, `nodes`, `cpus` and `networks`.

    Nothing is started.
    """
    try:
        if starts_ray():
            return {"address": None}
        ensure_ray()
    except RayvousError as error:
        return {"error": str(error)}
    direct = ray.is_initialized() and worker.global_worker.connected  # not so through ray://
    return {
        "address": ray.get_runtime_context().gcs_address,
        "version": ray.__version__,
        "nodes": sum(1 for node in ray.nodes() if node["Alive"]),
        "cpus": ray.cluster_resources().get("CPU", 0),
        "dashboard": worker.get_dashboard_url() if direct else None,
        "networks": sorted(networks()),
    }


if __name__ == "__main__":
    signal.alarm(int(sys.argv[1]))
    sys.stdout.write("\n" + json.dumps(seen()) + "\n")
