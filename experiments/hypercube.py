"""Figures 6 and 7 of paper 2: the load of each broker stays even, and grows with the messages, whoever starts them.

What is done
------------
* A complete cube of three dimensions. Each broker starts a random number of broadcasts, from 0 up to a range that goes
  from 10^2 to 10^5 (figure 6); then each sends a random number of replies, each back along the way of a subscription
  of another broker, drawn at random (figure 7).
* The load of a broker is what it receives and what it forwards for others; what it starts itself is given as its
  sources.
* The ways are measured, not computed: real brokers in virtual time spread one subscription from each broker, and
  deliver one event between each two. As a broadcast of one broker goes the same ways each time, the counts are then
  multiplied.

What the paper says: each broker's load is very even though the sources are not, it grows linearly, and a message takes
1.709 hops in the mean; formula (1) gives 12/7. Any other number of brokers may be given: the cube is incomplete then.

The paper looks at complete cubes only. What vacant positions cost is measured beside: by `evenness`, where every broker
starts as much as any other, so that in a complete cube all loads are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..pipelines.report.plots import save_png, short
from ..protocol.effects import Send
from ..protocol.errors import InputError
from ..protocol.extras import extra
from ..protocol.messages.pubsub import Events, Spread
from ..routing.topologies.cluster_trees import ClusterTree
from ..routing.topologies.cube import mean_hops
from ..simulator.network import Step
from ..simulator.simulation import Simulation
from .balance import balance_of

with extra("plots"):
    from matplotlib.figure import Figure

PAPER_RANGES: Final = (100, 1_000, 10_000, 100_000)
QUICK_RANGES: Final = (100, 1_000)
INCOMPLETE: Final = range(9, 16)
"""The cubes of four dimensions that are more than half full, and not complete."""
PAPER_HOPS: Final = 1.709
"""As measured in the paper."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MessageWays:
    """Which messages are sent, between whom, for one broadcast and for one reply.

    Attributes
    ----------
    broadcast
        ``broadcast[s, a, b]``: messages from ``a`` to ``b`` for one broadcast that ``s`` starts.
    reply
        ``reply[p, s, a, b]``: the same for one reply of ``p`` to a subscription of ``s``.
    """

    broadcast: Counts
    reply: Counts

    @property
    def brokers(self) -> int:
        """How many brokers there are."""
        return len(self.broadcast)


def measure_ways(brokers: int) -> MessageWays:
    """Let real brokers spread a subscription each, and deliver an event between each two; return who sent to whom.

    Raises
    ------
    InputError
        If there are fewer than two brokers.
    """
    if brokers < 2:
        raise InputError(f"{brokers} brokers: a message needs two")
    ways = MessageWays(
        np.zeros((brokers,) * 3, np.int64),
        np.zeros((brokers,) * 4, np.int64),
    )

    def watch(step: Step) -> None:
        source = step.broker.position.broker
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Spread):
                ways.broadcast[effect.message.origin, source, effect.to] += 1
            elif isinstance(effect, Send) and isinstance(effect.message, Events):
                (event,) = effect.message.batch.events()
                ways.reply[int(event["entry"]), int(event["to"]), source, effect.to] += 1

    simulation = Simulation(ClusterTree(brokers, 1).positions(), "hypercube", record=watch)
    for broker in range(brokers):
        simulation.subscribe(f"s{broker}", broker, f"to = {broker}")
    simulation.run()
    for entry in range(brokers):
        for to in range(brokers):
            if to != entry:
                simulation.publish(f"p{entry}", entry, [{"to": to, "entry": entry}])
    simulation.run()
    return ways


def run(
    ranges: Sequence[int] = PAPER_RANGES,
    *,
    brokers: int = 8,
    seed: int = 0,
) -> dict[str, Any]:
    """Run the experiment and return its figures as plain data.

    Parameters
    ----------
    ranges
        The most that a broker starts, for each point of the figures.
    brokers
        How many there are; 8 are the complete cube of three dimensions.
    seed
        Of what each broker starts.

    Raises
    ------
    InputError
        If there are fewer than two brokers, or a range is not positive.
    """
    if not ranges or min(ranges) < 1:
        raise InputError(f"ranges {list(ranges)}: there must be some, each at least 1")
    ways = measure_ways(brokers)
    dice = np.random.default_rng(seed)
    figure_6: list[dict[str, Any]] = []
    figure_7: list[dict[str, Any]] = []
    hops = messages = 0
    for most in ranges:
        starts = dice.integers(0, most, brokers, endpoint=True)
        spread = np.einsum("s,sab->ab", starts, ways.broadcast)
        own = starts * np.einsum("ssb->s", ways.broadcast)
        figure_6.append(_point(most, starts, spread, own))
        replies = dice.integers(0, most, brokers, endpoint=True)
        between = np.stack([_to_others(dice, count, who, brokers) for who, count in enumerate(replies)])
        sent = np.einsum("ps,psab->ab", between, ways.reply)
        figure_7.append(_point(most, replies, sent, replies))
        hops, messages = hops + int(sent.sum()), messages + int(replies.sum())
    dimensions = max(1, (brokers - 1).bit_length())
    return {
        "experiment": "hypercube",
        "brokers": brokers,
        "seed": seed,
        "messages_per_broadcast": int(ways.broadcast.sum()) / brokers,
        "hops_mean": round(hops / max(1, messages), 4),
        "hops_mean_all_pairs": round(float(ways.reply.sum()) / (brokers * (brokers - 1)), 4),
        "hops_formula_1": round(mean_hops(dimensions), 4) if brokers == 1 << dimensions else None,
        "hops_paper": PAPER_HOPS if brokers == 8 else None,
        "figure_6": figure_6,
        "figure_7": figure_7,
        "equal_sources": evenness(ways),
        "incomplete": {size: evenness(measure_ways(size)) for size in INCOMPLETE},
    }


def evenness(ways: MessageWays) -> dict[str, float]:
    """Return how even the work of brokers is when all start equally much: the largest over the mean.

    In a complete cube all are 1; what is above that is what vacant positions cost.

    Parameters
    ----------
    ways
        Of the cube.

    Returns
    -------
    dict
        ``broadcast_sends`` and ``broadcast_load`` where each starts one broadcast, ``reply_sends`` and ``reply_load``
        where each sends one reply to each other one. Sends are what a broker sends, of its own too; load is what it
        receives and what it forwards for others.
    """
    broadcasts, replies = ways.broadcast.sum(axis=0), ways.reply.sum(axis=(0, 1))
    started = np.einsum("ssb->s", ways.broadcast), np.einsum("pspb->p", ways.reply)
    figures = {}
    for name, sent, own in (("broadcast", broadcasts, started[0]), ("reply", replies, started[1])):
        sends = sent.sum(axis=1)
        for what, work in (("sends", sends), ("load", sent.sum(axis=0) + sends - own)):
            figures[f"{name}_{what}"] = round(balance_of(work.tolist()).max_over_mean, 3)
    return figures


def _to_others(dice: np.random.Generator, count: int, who: int, brokers: int) -> Counts:
    """Return how many of one broker's replies go to whom: each to any of the others alike."""
    chances = np.full(brokers, 1.0 / (brokers - 1))
    chances[who] = 0.0
    return dice.multinomial(count, chances).astype(np.int64)


def _point(most: int, started: Counts, sent: Counts, own: Counts) -> dict[str, Any]:
    """Return one point of a figure: what each broker started, and what it had to carry of the others' messages.

    `sent` is who sent how many messages to whom; `own` how many of those each broker sent of what it had started.
    """
    load = sent.sum(axis=0) + sent.sum(axis=1) - own
    return {
        "range": most,
        "started": started.tolist(),
        "load": load.tolist(),
        "sources": asdict(balance_of(started.tolist())),
        "balance": asdict(balance_of(load.tolist())),
    }


def growth(points: Sequence[dict[str, Any]]) -> float:
    """Return the slope of the mean load over the mean number of messages started, both as logarithms; 1 is linear.

    Raises
    ------
    InputError
        If there are fewer than two points.
    """
    if len(points) < 2:
        raise InputError(f"{len(points)} points: growth needs two")
    started = np.log([point["sources"]["mean"] for point in points])
    load = np.log([point["balance"]["mean"] for point in points])
    return float(np.polyfit(started, load, 1)[0])


def picture(result: dict[str, Any]) -> Figure:
    """Draw figures 6 and 7: the load of each broker against the range of what brokers start."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for place, (name, what) in enumerate((("figure_6", "broadcasts"), ("figure_7", "replies")), start=1):
        axes = figure.add_subplot(1, 2, place)
        points = result[name]
        ranges = [point["range"] for point in points]
        for broker in range(result["brokers"]):
            axes.plot(
                ranges, [point["load"][broker] for point in points], color="#0072B2", marker="o", alpha=0.5
            )
            started = [point["started"][broker] for point in points]
            axes.plot(ranges, started, color="#D55E00", marker="x", linestyle="none", alpha=0.6)
        axes.plot([], [], color="#0072B2", marker="o", label="received and forwarded, each broker")
        axes.plot([], [], color="#D55E00", marker="x", linestyle="none", label="started, each broker")
        worst = max(point["balance"]["max_over_mean"] for point in points)
        axes.set(xscale="log", yscale="log", xlabel=f"{what} a broker starts, at most", ylabel="messages")
        axes.set_title(
            f"{what}: max/mean of the load at most {worst:.2f}, {short(max(ranges))} at most", fontsize=10
        )
        axes.legend(fontsize=8)
    return figure


def save(result: dict[str, Any], folder: Path) -> Path:
    """Write the picture; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    return save_png(picture(result), folder / "hypercube.png")
