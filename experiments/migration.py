"""What paper 2, section 2.4, says of a subscriber that moves to the broker of its publishers, measured.

What the paper says: after the move its subscription is answered locally and takes neither resources of the network
outside nor space in the subscription tables of other brokers (2.4, figure 5).

What is done
------------
* A cube whose brokers heal, in virtual time. A publisher advertises at one broker and publishes steadily; a subscriber
  subscribes at another one to all of it. Its broker sees whom it hears, and proposes that it moves. Of all events that
  it asks for, one in :data:`BESIDE_EVERY` comes from a publisher at a third broker, which advertises nothing.
* Counted are, in the whole cube and for each event that is published: how many brokers have an entry for the
  subscription, and what crosses links, *before* the proposal, *during* the move and the round that follows it, and
  *after* that.
* Each is the mean over all brokers at which the subscriber may stand at first; with `local_first` and without.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from ..actors.broker.nearing import REVIEW_HEARTBEATS
from ..protocol.checks import whole_number
from ..protocol.effects import Send
from ..protocol.messages.pubsub import Echo, Events, Spread
from ..protocol.messages.recovery import RENDEZVOUS, Recovery
from ..protocol.messages.views import CubeView
from ..routing.topologies.cluster_trees import ClusterTree
from ..simulator.network import Step
from ..simulator.simulation import Simulation

PHASES: Final = ("before", "during", "after")
EVENTS_A_HEARTBEAT: Final = 10
BEFORE_HEARTBEATS: Final = 4
"""Shorter than the time after which a broker first looks who had better move."""
DURING_HEARTBEATS: Final = 3 * REVIEW_HEARTBEATS
BESIDE_EVERY: Final = 10
COUNTED: Final = {Spread: "broadcasts", Echo: "echoes", Events: "events", CubeView: "views"}


def run(brokers: int = 8, *, seed: int = 0) -> dict[str, Any]:
    """Run the experiment and return its figures as plain data.

    Parameters
    ----------
    brokers
        How many there are; the publisher is at the last one, the other one at the last but one.
    seed
        Of what is left to chance.

    Returns
    -------
    dict
        ``rows``: one for each phase, without `local_first` and with it. ``entries`` counts those of other brokers at
        the end of the phase; ``broadcasts``, ``echoes`` and ``views`` the messages in it; ``events`` the messages with
        events over links for each event that is published; ``moves`` how often the subscriber has moved so far. In the
        mean over where it stands at first.

    Raises
    ------
    InputError
        If there are fewer than three brokers.
    """
    whole_number("brokers", brokers, 3)
    rows = []
    for local_first in (False, True):
        runs = [_follow(brokers, home, seed, local_first=local_first) for home in range(brokers - 1)]
        for phase in PHASES:
            totals: Counter[str] = sum((found[phase] for found in runs), Counter())
            means = {
                name: round(totals[name] / len(runs), 3) for name in (*COUNTED.values(), "entries", "moves")
            }
            rows.append({"local_first": local_first, "phase": phase, **means})
    return {"experiment": "migration", "brokers": brokers, "seed": seed, "rows": rows}


def _follow(brokers: int, home: int, seed: int, *, local_first: bool) -> dict[str, Counter[Any]]:
    """Let one subscriber stand at a broker, and move; return what was counted in each phase."""
    sent: Counter[str] = Counter()

    def watch(step: Step) -> None:
        for effect in step.effects:
            if isinstance(effect, Send) and effect.to != RENDEZVOUS and type(effect.message) in COUNTED:
                sent[COUNTED[type(effect.message)]] += 1

    heal, last = Recovery(), brokers - 1
    net = Simulation(ClusterTree(brokers, 1).positions(), "hypercube", recovery=heal, seed=seed, record=watch)
    net.advertise("publisher", last, "x >= 0")
    net.run_until_installed(
        "subscriber", net.subscribe("subscriber", home, "x >= 0", local_first=local_first)
    )

    def publish(publisher: str, broker: int, x: int) -> None:
        net.publish(publisher, broker, [{"x": x}])

    found = {}
    for phase in PHASES:
        heartbeats = DURING_HEARTBEATS if phase == "during" else BEFORE_HEARTBEATS
        sent.clear()
        views = net.broker(last).healing.version  # type: ignore[union-attr]
        published = heartbeats * EVENTS_A_HEARTBEAT
        for turn in range(published):
            at = net.now + turn * heal.heartbeat_seconds / EVENTS_A_HEARTBEAT
            net.at(at, publish, *(("publisher", last) if turn % BESIDE_EVERY else ("beside", last - 1)), turn)
        net.advance((heartbeats + 1) * heal.heartbeat_seconds)
        counted: Counter[Any] = Counter(sent)
        counted["events"] = sent["events"] / published  # type: ignore[assignment]
        counted["views"] = net.broker(last).healing.version - views  # type: ignore[union-attr]
        counted["entries"] = sum(broker.describe()["recorded"] for broker in net.brokers())
        counted["moves"] = net.clients.moves
        found[phase] = counted
    return found
