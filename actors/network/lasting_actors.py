"""What actors do that outlive whoever started them: they find out that their network has ended, and end themselves."""

from __future__ import annotations

import ray
from ray.exceptions import RayError

from .directory import NAMESPACE, rendezvous_name


def has_ended(network: str) -> bool:
    """Return whether Ray reports that the network has no rendezvous point any more."""
    try:
        ray.get_actor(rendezvous_name(network), namespace=NAMESPACE)
    except ValueError:
        return True
    except RayError:
        return False
    return False


def end_for_good() -> None:
    """End this actor so that Ray does not restart it."""
    ray.kill(ray.get_runtime_context().current_actor, no_restart=True)
