"""What is left of a network that cannot be attached to: it is half launched, or its rendezvous point is gone.

Rules
-----
* The parts of a network are the actors that bear its name (`directory`). They are found by it alone, so that a network
  can always be ended.
* A detached network that is not open yet ends by itself when its launcher gives no sign of life any more. The
  rendezvous point watches for that: it is the first actor of a launch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from shlex import quote
from typing import Any, Final

import ray
from ray.exceptions import RayError

from .directory import KINDS, NAMESPACE, kind_of, network_of_actor, rendezvous_name

BEATS_A_LIFE: Final = 10
"""How often a launcher gives a sign of life within the time after which it counts as gone."""
GONE_SECONDS: Final = 10.0
"""How long killed actors may take to be gone."""
LOOK_SECONDS: Final = 0.05


def all_parts() -> list[str]:
    """Return the names of the actors of all networks on this Ray cluster."""
    listed = ray.util.list_named_actors(all_namespaces=True)
    names = [str(entry["name"]) for entry in listed if entry["namespace"] == NAMESPACE]
    return [name for name in names if network_of_actor(name) is not None]


def parts_of(name: str) -> list[str]:
    """Return the names of the actors of a network, in the order in which they are ended."""
    found = [part for part in all_parts() if network_of_actor(part) == name]
    return sorted(found, key=lambda part: (KINDS.index(kind_of(part)), part))


def described(parts: list[str]) -> str:
    """Return what these actors are, in words: "the rendezvous point, 12 actors of brokers, the collector"."""
    words = {"rendezvous": "the rendezvous point", "collector": "the collector"}
    counts = {kind: sum(kind_of(part) == kind for part in parts) for kind in KINDS}
    told = [
        words.get(kind) or f"{count} {'actor' if count == 1 else 'actors'} of {kind}s"
        for kind, count in counts.items()
        if count
    ]
    return ", ".join(told)


def how_to_end(name: str) -> str:
    """Return the command that ends whatever bears this name."""
    return f"rayvous down {quote(name)}"


def end_remains(name: str, *, last: str = "") -> list[str]:
    """Kill all actors that bear a network's name, this one the last; return which there were, once they are gone."""
    parts = sorted(parts_of(name), key=lambda part: part == last)
    for part in parts:
        with suppress(ValueError, RayError):  # it has ended meanwhile
            ray.kill(ray.get_actor(part, namespace=NAMESPACE))
    deadline = time.monotonic() + GONE_SECONDS
    while parts_of(name) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return parts


def end_with_this(name: str) -> None:
    """End a network from its rendezvous point, which ends with it."""
    end_remains(name, last=rendezvous_name(name))


class LaunchWatch:
    """Waits at the rendezvous point for the end of a launch.

    Parameters
    ----------
    name
        The network's name.
    seconds
        How long its launcher may give no sign of life.
    end
        Ends the network of this name.
    """

    def __init__(self, name: str, seconds: float, end: Callable[[str], object] = end_with_this) -> None:
        self._name, self._seconds, self._end = name, seconds, end
        self._heard = threading.Event()
        self._over = False
        threading.Thread(target=self._watch, name="launch", daemon=True).start()

    def beat(self) -> None:
        """Note a sign of life of the launcher."""
        self._heard.set()

    def done(self) -> None:
        """Note that the network is open: from now on it does not need its launcher."""
        self._over = True
        self._heard.set()

    def _watch(self) -> None:
        while self._heard.wait(self._seconds):
            if self._over:
                return
            self._heard.clear()
        self._end(self._name)


@contextmanager
def signs_of_life(beat: Callable[[], Any], seconds: float) -> Iterator[None]:
    """Call `beat` from a thread while the block runs, often enough for a watch of this many seconds."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds / BEATS_A_LIFE):
            beat()

    thread = threading.Thread(target=run, name="launcher", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
