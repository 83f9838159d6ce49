"""What paper 2 says of hypercubes, sentence by sentence.

Rules
-----
* "Very even, although what brokers start differs greatly": the Gini coefficient of the loads is less than
  half that of the originated messages. "Linear": all brokers of all runs lie nearly on one line of load over
  the mean number of originated messages (`statements.LINEAR`), and the slope of the logarithms is 1
  (`statements.SAME`).
* A sentence that every network fulfils says nothing about a cube; so it is also judged for a star and a
  hierarchy.

Source: paper 2, abstract, 2.2, 2.4 and 2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import log
from typing import Final, TypeAlias

from ...routing.topologies.cube import mean_hops
from ..rows import Row, Rows
from ..statements import LINEAR, Sentences, Statement, falls, is_less, is_same
from .hops import DRAWN, PAIRS
from .migration import BESIDE_EVERY
from .traffic import CUBE, GRAPH, NETS

Both: TypeAlias = Callable[[str, str, float], dict[int, tuple[float, float]]]
"""Returns a value of the cube and of another network, by the number of brokers, where a share of them want events."""

EVEN: Final = 0.5
PAPER_HOPS: Final = 1.709
CONTROLS: Final = ("star", "hierarchy", GRAPH)
WANTS: Final = {0.0: "one wants", 0.125: "an eighth want", 0.5: "half want", 1.0: "all want"}

KNOWN: Final = {
    ("which is about 0.5 log2 N", ""): (
        "formula (1) is N / (N - 1) times that: 14 % more in three dimensions, within 5 % from 32 brokers on"
    ),
    ("takes no space in the tables of other brokers", "every publisher"): (
        "who asks for every publisher is owed what others publish, so that all others have to know of it"
    ),
    ("nor resources of the network outside", "every publisher"): (
        "what the other publisher sends, one event in ten, still has to come"
    ),
    ("messages for an event", "8 children; one wants it"): (
        "a tree with eight children is flatter than a cube"
    ),
    (
        "messages for an event",
        "; all want it",
    ): "whoever wants it, N - 1 messages are the fewest, and both take these",
    ("messages for an event", "8 children"): (
        "brokers that want an event share more of its way in a flat tree than on the ways of a cube"
    ),
    ("messages for an event", "half want it"): (
        "where half of 64 brokers want an event, two ways of a cube share less than those of a tree; with 8 it is less"
    ),
    ("messages for a subscription", ""): (
        "each broker of a cube tells all others what it wants; in a tree nobody is told again of what a neighbour "
        "wants already, and where only the root is told, a subscription goes no further than up"
    ),
    ("the load is better balanced", ""): (
        "where one broker wants all events, they come together near it in a cube as in a tree; from an eighth of 64 "
        "brokers on the cube is the more even one"
    ),
}
"""Why a sentence does not hold, by words of it, and of its source or reading."""


def judge_load(rows: Rows) -> list[Statement]:
    """Return the statements about broadcasts; `rows` from `pipelines.figures.cubes.loads_by_point`."""
    return _loads(rows, Sentences("paper 2, 2.5, figure 6", KNOWN), "broadcasts")


def judge_replies(rows: Rows) -> list[Statement]:
    """Return the statements about replies, on such rows."""
    said = Sentences("paper 2, 2.5, figure 7", KNOWN)
    mine = _uneven(rows, CUBE)
    gini = {row["most"]: round(row["load_gini"], 4) for row in mine}
    hops = {row["most"]: round(row["hops"], 4) for row in mine}
    return [
        *_loads(rows, said, "replies"),
        said(
            "the evenness rises with the scale (Gini of the loads, falling)",
            gini,
            falls([gini[most] for most in sorted(gini)]),
        ),
        said(
            f"an event goes {PAPER_HOPS} hops", hops, all(is_same(far, PAPER_HOPS) for far in hops.values())
        ),
        said("which satisfies formula (1)", hops, all(is_same(far, mean_hops(3)) for far in hops.values())),
    ]


def _loads(rows: Rows, said: Sentences, what: str) -> list[Statement]:
    mine = _uneven(rows, CUBE)
    even = {row["most"]: _pair(row["load_gini"], row["started_gini"]) for row in mine}
    steep = {
        f"{one['most']} to {two['most']}": round(
            log(two["load"] / one["load"]) / log(two["started"] / one["started"]), 3
        )
        for one, two in pairwise(mine)
    }
    others = {curve: found for curve in CONTROLS if (found := _uneven(rows, curve))}
    ours = Sentences("for comparison", KNOWN, said.source)
    equal = {
        row["size"]: round(row["load_max_over_mean"], 3)
        for row in sorted(rows, key=lambda row: row["size"])
        if not row["most"]
    }
    line = mine[-1]["line"]
    return [
        said(
            f"although brokers start very different numbers of {what}, loads are very even (Gini: load, started)",
            even,
            all(load < EVEN * started for load, started in even.values()),
        ),
        said(
            f"the load grows linearly with what brokers start (one line: r; at least {LINEAR})",
            round(line, 4),
            line >= LINEAR,
        ),
        said(
            "the load grows linearly with what brokers start (slope of the logarithms; 1)",
            steep,
            bool(steep) and all(is_same(slope, 1.0) for slope in steep.values()),
        ),
        ours(
            f"neither {', nor '.join(map(_a, others))} is that even (Gini: load, started)",
            {
                curve: {row["most"]: _pair(row["load_gini"], row["started_gini"]) for row in found}
                for curve, found in others.items()
            },
            all(row["load_gini"] >= EVEN * row["started_gini"] for found in others.values() for row in found),
        ),
        ours(
            f"nor do all their brokers lie on one line (r below {LINEAR})",
            {curve: round(found[-1]["line"], 4) for curve, found in others.items()},
            all(found[-1]["line"] < LINEAR for found in others.values()),
        ),
        ours(
            "equal sources load a complete cube equally (largest load over the mean, by brokers; 1 for 8 and 16)",
            equal,
            equal[8] == equal[16] == 1.0,
        ),
    ]


def judge_hops(rows: Rows) -> list[Statement]:
    """Return the statements about hops; `rows` from `pipelines.figures.cubes.hops_by_cube`."""
    cubes = {row["dimensions"]: row for row in rows if row["sources"] == PAIRS}
    drawn = next(row for row in rows if row["sources"] == DRAWN)
    said = Sentences("paper 2, 2.2, figure 3", KNOWN)
    hops = {1 << many: round(row["hops"], 4) for many, row in sorted(cubes.items())}
    formula = {1 << many: round(mean_hops(many), 4) for many in sorted(cubes)}
    halves = {1 << many: (round(row["hops"], 4), many / 2) for many, row in sorted(cubes.items())}
    return [
        said(
            "a broadcast takes N - 1 messages",
            {1 << many: row["messages"] for many, row in sorted(cubes.items())},
            all(row["messages"] == (1 << many) - 1 for many, row in cubes.items()),
        ),
        said(
            "each broker receives it once",
            {1 << many: row["most"] for many, row in sorted(cubes.items())},
            all(row["most"] == 1 for row in cubes.values()),
        ),
        said(
            "it reaches the last one over log2 N hops",
            {1 << many: row["farthest"] for many, row in sorted(cubes.items())},
            all(row["farthest"] == many for many, row in cubes.items()),
        ),
        said("in three dimensions an event goes 1.714 hops", hops[8], is_same(hops[8], 1.714)),
        said("the hops are those of formula (1)", {"measured": hops, "formula": formula}, hops == formula),
        said(
            "which is about 0.5 log2 N (hops, half the dimensions)",
            halves,
            all(is_same(*pair) for pair in halves.values()),
        ),
        Sentences("paper 2, 2.5", KNOWN)(
            f"drawn replies go {PAPER_HOPS} hops", round(drawn["hops"], 4), is_same(drawn["hops"], PAPER_HOPS)
        ),
    ]


def judge_saving(rows: Rows) -> list[Statement]:
    """Return the claims of the abstract; `rows` from `pipelines.figures.cubes.savings_by_network`.

    The claim is made against flooding (2.3, 3); hierarchies, which the paper only names, are judged beside it.
    """
    by_point = {(row["curve"], row["size"], row["wanting"]): row for row in rows}
    sizes, parts = (sorted({row[name] for row in rows}) for name in ("size", "wanting"))

    def both(curve: str, value: str, part: float) -> dict[int, tuple[float, float]]:
        return {
            size: _pair(by_point[CUBE, size, part][value], by_point[curve, size, part][value])
            for size in sizes
        }

    found = []
    for curve in NETS:
        if curve in (CUBE, GRAPH, "star"):
            continue
        against = f"against a {curve}"
        for part in parts:
            said = Sentences("paper 2, abstract", KNOWN, f"{against}; {WANTS[part]} it")
            pairs = both(curve, "events", part)
            found.append(
                said(
                    "a hypercube saves bandwidth (messages for an event, by brokers: cube, hierarchy)",
                    pairs,
                    _all_less(pairs),
                )
            )
        said = Sentences("paper 2, abstract", KNOWN, against)
        for value, text in (
            (
                "told",
                "a hypercube saves bandwidth (messages for a subscription and its end: cube, hierarchy)",
            ),
            ("load_max_over_mean", "the load is better balanced (largest over mean: cube, hierarchy)"),
        ):
            table = {WANTS[part]: both(curve, value, part) for part in parts}
            found.append(said(text, table, all(map(_all_less, table.values()))))
    return [*_against_flooding(both, sizes, parts), *found]


def _against_flooding(both: Both, sizes: Sequence[int], parts: Sequence[float]) -> list[Statement]:
    """Return the claims against a graph that is flooded.

    A broadcast is what goes to all: on the cube a subscription, on the graph an event. The row of the cube counts a
    subscription and its end.
    """
    said = Sentences("paper 2, abstract", KNOWN, "against flooding of a graph with as many links")
    told, flooded = both(GRAPH, "told", parts[-1]), both(GRAPH, "events", parts[-1])
    broadcast = {size: (told[size][0] / 2, flooded[size][1]) for size in sizes}
    even = both(GRAPH, "load_gini", parts[-1])
    found = [
        said(
            "a hypercube saves bandwidth (messages for a broadcast, by brokers: cube, graph)",
            broadcast,
            _all_less(broadcast),
        ),
        said("the load is well balanced (Gini if all want all: cube, graph)", even, _all_less(even)),
    ]
    for part in parts:
        for value, text in (
            ("events", "a hypercube saves bandwidth (messages for an event, by brokers: cube, graph)"),
            ("busiest", "the load is lower (messages of the busiest broker for an event: cube, graph)"),
        ):
            pairs = both(GRAPH, value, part)
            at = replace(said, reading=f"{said.reading}; {WANTS[part]} it")
            found.append(at(text, pairs, _all_less(pairs)))
    return found


def judge_migration(rows: Rows) -> list[Statement]:
    """Return the statements about a move; `rows` from `pipelines.figures.cubes.migrations_by_phase`."""
    by_phase = {(row["local_first"], row["phase"]): row for row in rows}
    found = []
    for local_first, reading in ((True, "local publishers first"), (False, "every publisher")):
        said = Sentences("paper 2, 2.4, figure 5", KNOWN, f"the subscriber asks for {reading}")
        before, after = by_phase[local_first, "before"], by_phase[local_first, "after"]
        moves = [by_phase[local_first, phase]["moves"] for phase in ("before", "during", "after")]
        found += [
            said("the broker has the subscriber move (moves so far)", moves, moves == [0, 1, 1]),
            said(
                "after that the subscription takes no space in the tables of other brokers (before, after)",
                _pair(before["entries"], after["entries"]),
                before["entries"] > 0 and after["entries"] == 0,
            ),
            said(
                "nor resources of the network outside (messages with events for each published: before, after)",
                _pair(before["events"], after["events"]),
                before["events"] > 0 and after["events"] == 0,
            ),
            said(
                f"what its publisher sends crosses no link any more (only what others send does, 1 in {BESIDE_EVERY})",
                _pair(before["events"], after["events"]),
                after["events"] <= before["events"] / BESIDE_EVERY,
            ),
        ]
    return found


def _uneven(rows: Rows, curve: str) -> list[Row]:
    """Return the points of a network by their ranges, without those of equal sources."""
    return sorted((row for row in rows if row["curve"] == curve and row["most"]), key=lambda row: row["most"])


def _a(curve: str) -> str:
    return curve if curve == GRAPH else f"a {curve}"


def _pair(one: float, other: float) -> tuple[float, float]:
    return round(one, 4), round(other, 4)


def _all_less(pairs: Mapping[int, tuple[float, float]]) -> bool:
    return all(is_less(one, other) for one, other in pairs.values())
