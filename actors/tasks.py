"""Pure functions run as Ray tasks, as many at once as there are CPUs, locally or on a cluster.

Rules
-----
* Results arrive as they are completed, in no order. No more tasks are in flight than there are CPUs, so that
  results do not accumulate.
* An error in one task ends all: it is raised here, and tasks in flight are abandoned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import ray

from ..protocol.errors import RayvousError
from .network.launching import ensure_ray

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[Item, Result]]:
    """Yield each item with the result of `work` for it, as they are completed.

    Parameters
    ----------
    work
        A callable that workers can import, and that starts no tasks itself.
    items
        The arguments of the calls; the first ones start first.

    Raises
    ------
    RayUnavailable
        If Ray could not be started or joined.
    RayvousError
        Raised by `work`.
    """
    ensure_ray()
    task: Any = ray.remote(num_cpus=1, max_retries=1)(_work_on)
    many = max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting = list(reversed(items))
    under_way: dict[Any, Item] = {}
    try:
        while waiting or under_way:
            while waiting and len(under_way) < many:
                item = waiting.pop()
                under_way[task.remote(work, item)] = item
            (done, *_), _ = ray.wait(list(under_way))
            yield under_way.pop(done), ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, RayvousError) else error from None
    finally:
        for task_under_way in under_way:
            ray.cancel(task_under_way, force=True)


def _work_on(work: Callable[[Item], Result], item: Item) -> Result:
    return work(item)  # `work` may be any callable; Ray makes tasks only of functions
