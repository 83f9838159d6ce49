"""A space-time diagram: time runs down, each process has a lane, messages are arrows between lanes.

Rules
-----
* Pure: values in, SVG text out; no library. The same values give the same text.
* A diagram is drawn in three parts, which a page may scroll by themselves: the *head* (names of lanes), the *axis*
  (times) and the *body*. `svg_of` joins them.
* Time is stretched where something happens and pressed together where nothing does (`TimeScale`): every moment that
  matters has a row of its own, and a pause is never longer than :data:`PAUSE_PIXELS`.
* Colours are CSS variables with a value for light screens, so that a page can give others. Everything that is drawn has
  its text in a ``title``, and in ``data-kind`` and ``data-lanes`` what a page filters by.
* At most :data:`ARROWS_MAX` arrows and :data:`DOTS_MAX` dots: those on the path first, then the earliest. What is left
  out is counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Final, NamedTuple

from ...protocol.printable import printable

LANE_PIXELS: Final = 62
AXIS_PIXELS: Final = 78
HEAD_PIXELS: Final = 58
ROW_PIXELS: Final = 22.0
WEAK_PIXELS: Final = 5.0
PAUSE_PIXELS: Final = 46.0
HEIGHT_PIXELS_MAX: Final = 9_000.0
ARROWS_MAX: Final = 4_000
DOTS_MAX: Final = 2_000
TEXT_MAX: Final = 400
TIME_MAX: Final = 11
FINE_SECONDS: Final = 2.0
"""In a shorter time moments are written to a tenth of a millisecond."""

COLOURS: Final = {
    "ground": "#ffffff",
    "band": "#f1f3f6",
    "ink": "#1b2330",
    "quiet": "#5b6675",
    "line": "#c3cad3",
    "path": "#b84a00",
    "event": "#0072b2",
    "wants": "#007a5a",
    "later": "#8b3fa8",
    "other": "#9aa4b0",
    "bad": "#a4161a",
}
"""The colours, by the name of their variable."""


STYLES: Final = {"path": 12, "event": 9, "wants": 8, "later": 9, "other": 7}
"""How messages are drawn, and how large the heads of the arrows are, in pixels."""


class Lane(NamedTuple):
    """A process.

    Attributes
    ----------
    key, name, group
        Its key in arrows and dots, its name, and the group that it stands in ("" for none).
    """

    key: str
    name: str
    group: str = ""


class Arrow(NamedTuple):
    """A message. `style` is one of :data:`STYLES`; without an arrival it was lost."""

    sent_at: float
    source: str
    to: str
    arrives_at: float | None
    kind: str
    text: str
    style: str = "other"


class Dot(NamedTuple):
    """Something that happens at a process, or with "" across all. `sign` is one of :data:`SIGNS`."""

    at: float
    lane: str
    kind: str
    text: str
    sign: str = "dot"
    strong: bool = False


class Span(NamedTuple):
    """A time in which a process is dead."""

    lane: str
    begin: float
    end: float


SIGNS: Final = ("dot", "cross", "ring", "flag")


@dataclass(frozen=True, slots=True)
class Diagram:
    """Lanes, and what happens on and between them.

    Attributes
    ----------
    title
        What it shows.
    lanes
        From left to right; those of one group stand together.
    arrows, dots, spans
        Messages, happenings, and times in which a process is dead.
    left_out
        What is not drawn, in words.
    """

    title: str
    lanes: tuple[Lane, ...]
    arrows: tuple[Arrow, ...] = ()
    dots: tuple[Dot, ...] = ()
    spans: tuple[Span, ...] = ()
    left_out: tuple[str, ...] = field(default=())

    def bounded(self) -> Diagram:
        """Return it with at most as many arrows and dots as are drawn, and only those whose lanes there are."""
        keys = {lane.key for lane in self.lanes}
        arrows = [each for each in self.arrows if each.source in keys and each.to in keys]
        dots = [each for each in self.dots if not each.lane or each.lane in keys]
        most = sorted(arrows, key=lambda each: (each.style == "other", each.sent_at))[:ARROWS_MAX]
        some = sorted(dots, key=lambda each: (not each.strong, each.at))[:DOTS_MAX]
        left = [
            f"{count:,} {what}"
            for count, what in (
                (len(arrows) - len(most), "messages"),
                (len(dots) - len(some), "happenings"),
                (len(self.arrows) - len(arrows), "messages of processes without a lane"),
            )
            if count
        ]
        return replace(
            self,
            arrows=tuple(sorted(most)),
            dots=tuple(sorted(some)),
            left_out=(*self.left_out, *left),
        )

    def kinds(self) -> dict[str, int]:
        """Return how many arrows and dots of each kind there are."""
        counts: dict[str, int] = {}
        for kind in (*(each.kind for each in self.arrows), *(each.kind for each in self.dots)):
            counts[kind] = counts.get(kind, 0) + 1
        return counts


class TimeScale:
    """Where a time is drawn.

    Parameters
    ----------
    strong, weak
        The moments that have a row, and those that only have some room.
    """

    def __init__(self, strong: Iterable[float], weak: Iterable[float] = ()) -> None:
        rows = dict.fromkeys(weak, WEAK_PIXELS) | dict.fromkeys(strong, ROW_PIXELS)
        self.times = sorted(rows) or [0.0]
        self.rows = frozenset(time for time, room in rows.items() if room == ROW_PIXELS)
        total = sum(rows.values())
        shrink = min(1.0, HEIGHT_PIXELS_MAX / total) if total else 1.0
        self.places = [ROW_PIXELS]
        for before, time in zip(self.times, self.times[1:], strict=False):
            room = rows[time] * shrink
            pause = min(PAUSE_PIXELS, 40.0 * (time - before)) * shrink
            self.places.append(self.places[-1] + max(room, pause))
        self.height = self.places[-1] + ROW_PIXELS

    def place(self, time: float) -> float:
        """Return the distance from the top, in pixels; between two moments it grows evenly."""
        after = bisect_right(self.times, time)
        if after == 0:
            return self.places[0]
        if after == len(self.times):
            return self.places[-1]
        before = after - 1
        share = (time - self.times[before]) / (self.times[after] - self.times[before])
        return self.places[before] + share * (self.places[after] - self.places[before])

    def labels(self) -> list[tuple[float, float]]:
        """Return (time, place) of the moments that are written at the axis: no two overlap."""
        found: list[tuple[float, float]] = []
        for time, place in zip(self.times, self.places, strict=True):
            if time in self.rows and (not found or place - found[-1][1] >= 14):
                found.append((time, place))
        return found


@dataclass(frozen=True, slots=True)
class Drawing:
    """A diagram as SVG: three parts without their frames, and their sizes in pixels."""

    head: str
    axis: str
    body: str
    width: int
    height: int


def scale_of(diagram: Diagram) -> TimeScale:
    """Return the time scale of a diagram: what is on the path, and what is strong, has rows."""
    strong = [time for arrow in diagram.arrows if arrow.style == "path" for time in _times(arrow)]
    strong += [dot.at for dot in diagram.dots if dot.strong]
    weak = [time for arrow in diagram.arrows for time in _times(arrow)] + [dot.at for dot in diagram.dots]
    return TimeScale(strong, weak)


def _times(arrow: Arrow) -> list[float]:
    return [arrow.sent_at] if arrow.arrives_at is None else [arrow.sent_at, arrow.arrives_at]


def _cut(seconds: float, digits: int) -> str:
    """Return a time as it fits beside the lanes: of one since 1970 the digits that differ."""
    words = f"{seconds:.{digits}f} s"
    return words if len(words) <= TIME_MAX else f"…{words[1 - TIME_MAX :]}"


def draw(diagram: Diagram) -> Drawing:
    """Draw a diagram."""
    diagram = diagram.bounded()
    scale = scale_of(diagram)
    middles = {lane.key: int((place + 0.5) * LANE_PIXELS) for place, lane in enumerate(diagram.lanes)}
    digits = 4 if scale.times[-1] - scale.times[0] < FINE_SECONDS else 3
    width, height = max(1, len(diagram.lanes)) * LANE_PIXELS, int(scale.height) + 1
    body = [
        *_bands(diagram.lanes, height),
        *lanes_of(diagram, middles, scale, height),
        *(arrow_of(arrow, middles, scale) for arrow in diagram.arrows if arrow.style != "path"),
        *(arrow_of(arrow, middles, scale) for arrow in diagram.arrows if arrow.style == "path"),
        *(dot_of(dot, middles, scale, width) for dot in diagram.dots),
    ]
    axis = [
        f'<text class="time" x="{AXIS_PIXELS - 10}" y="{place + 4:.1f}" text-anchor="end">{_cut(time, digits)}</text>'
        for time, place in scale.labels()
    ]
    return Drawing("".join(head_of(diagram.lanes)), "".join(axis), "".join(body), width, height)


def head_of(lanes: Sequence[Lane]) -> Iterable[str]:
    """Return the names of lanes, and of their groups above them."""
    for begin, end, group in _groups(lanes):
        if group:
            middle, shown = (begin + end) / 2 * LANE_PIXELS, _text(group, 9 * (end - begin))
            yield f'<text class="group" x="{middle:.0f}" y="18" text-anchor="middle">{shown}</text>'
    for place, lane in enumerate(lanes):
        x = (place + 0.5) * LANE_PIXELS
        yield (
            f'<g class="lane" data-lane="{_text(lane.key)}" tabindex="0" role="button">'
            f"<title>{_text(lane.name)}</title>"
            f'<rect x="{x - LANE_PIXELS / 2 + 3:.0f}" y="26" width="{LANE_PIXELS - 6}" height="26" rx="5"/>'
            f'<text x="{x:.0f}" y="43" text-anchor="middle">{_text(lane.name, 8)}</text></g>'
        )


def _groups(lanes: Sequence[Lane]) -> list[tuple[int, int, str]]:
    """Return (first lane, lane after the last, name) of each run of lanes of one group."""
    found: list[tuple[int, int, str]] = []
    for place, lane in enumerate(lanes):
        if found and found[-1][2] == lane.group:
            found[-1] = found[-1][0], place + 1, lane.group
        else:
            found.append((place, place + 1, lane.group))
    return found


def _bands(lanes: Sequence[Lane], height: int) -> Iterable[str]:
    for begin, end, group in _groups(lanes):
        if group:
            x, width = begin * LANE_PIXELS + 3, (end - begin) * LANE_PIXELS - 6
            yield f'<rect class="band" x="{x}" y="0" width="{width}" height="{height}"/>'


def lanes_of(diagram: Diagram, middles: Mapping[str, int], scale: TimeScale, height: int) -> Iterable[str]:
    """Return the line of each lane, and over it the times in which its process is dead."""
    for lane in diagram.lanes:
        x = middles[lane.key]
        yield f'<line class="lane" x1="{x}" y1="0" x2="{x}" y2="{height}" data-lanes="{_text(lane.key)}"/>'
    for span in diagram.spans:
        if span.lane in middles:
            x, top, bottom = middles[span.lane], scale.place(span.begin), scale.place(span.end)
            yield (
                f'<rect class="dead" x="{x - 5}" y="{top:.1f}" width="10" height="{max(2.0, bottom - top):.1f}">'
                f"<title>dead from {span.begin:.3f} s to {span.end:.3f} s</title></rect>"
            )


def arrow_of(arrow: Arrow, middles: Mapping[str, int], scale: TimeScale) -> str:
    """Return one message: a line with a head where it arrives, or a cross where it was lost."""
    x1, x2, y1 = middles[arrow.source], middles[arrow.to], scale.place(arrow.sent_at)
    lost = arrow.arrives_at is None
    y2 = y1 + 12.0 if arrow.arrives_at is None else scale.place(arrow.arrives_at)
    if lost:
        x2 = round(x1 + 0.6 * (x2 - x1))
    elif x1 != x2:
        x2 -= 3 if x2 > x1 else -3
    sign = f'<path class="lost" d="M{x2 - 5} {y2 - 5:.1f}l10 10m0 -10l-10 10"/>' if lost else ""
    head = "" if lost else f' marker-end="url(#head-{arrow.style})"'
    return (
        f'<g class="arrow {arrow.style}" data-kind="{_text(arrow.kind)}" '
        f'data-lanes="{_text(arrow.source)} {_text(arrow.to)}"><title>{_text(arrow.text)}</title>'
        f'<line class="near" x1="{x1}" y1="{y1:.1f}" x2="{x2}" y2="{y2:.1f}"/>'
        f'<line x1="{x1}" y1="{y1:.1f}" x2="{x2}" y2="{y2:.1f}"{head}/>{sign}</g>'
    )


def dot_of(dot: Dot, middles: Mapping[str, int], scale: TimeScale, width: int) -> str:
    """Return one happening: a sign on its lane, or a line across all."""
    y = scale.place(dot.at)
    if not dot.lane:
        drawn = f'<line class="across" x1="0" y1="{y:.1f}" x2="{width}" y2="{y:.1f}"/>'
        drawn += f'<circle cx="7" cy="{y:.1f}" r="5"/>'
    else:
        x = middles[dot.lane]
        drawn = {
            "cross": f'<path d="M{x - 6} {y - 6:.1f}l12 12m0 -12l-12 12"/>',
            "ring": f'<circle class="ring" cx="{x}" cy="{y:.1f}" r="7"/>',
            "flag": f'<path class="flag" d="M{x} {y:.1f}v-11h9l-3 3.5l3 3.5h-9z"/>',
        }.get(dot.sign, f'<circle cx="{x}" cy="{y:.1f}" r="5"/>')
    strong = " strong" if dot.strong else ""
    return (
        f'<g class="dot {dot.sign}{strong}" data-kind="{_text(dot.kind)}" data-lanes="{_text(dot.lane)}">'
        f"<title>{_text(dot.text)}</title>{drawn}</g>"
    )


def _text(text: str, characters: int = TEXT_MAX) -> str:
    plain = str(printable(text))
    return escape(plain if len(plain) <= characters else f"{plain[: characters - 1]}…", quote=True)


def style() -> str:
    """Return the style sheet of the parts, with the colours of :data:`COLOURS` where nothing else is given."""
    of = {name: f"var(--st-{name}, {value})" for name, value in COLOURS.items()}
    arrows = "".join(f".arrow.{name} line{{stroke:{of[name]}}}" for name in STYLES)
    return (
        f"text{{font:12px system-ui,'DejaVu Sans',sans-serif;fill:{of['ink']}}}"
        f".time,.group{{fill:{of['quiet']}}}.time{{font-size:11px}}"
        f".band{{fill:{of['band']}}}line.lane{{stroke:{of['line']};stroke-width:1.5}}"
        f"g.lane rect{{fill:{of['ground']};stroke:{of['line']}}}g.lane{{cursor:pointer}}"
        f"g.lane.off{{opacity:.35}}.dead{{fill:{of['bad']};opacity:.35}}"
        f".arrow line{{stroke-width:1.2}}.arrow.event line{{stroke-width:1.6}}.arrow.path line{{stroke-width:3}}"
        f".arrow.other line{{stroke-opacity:.6}}{arrows}.arrow line.near{{stroke:transparent;stroke-width:11}}"
        f".lost{{stroke:{of['bad']};stroke-width:2.5;fill:none}}"
        f".dot circle,.dot .flag{{fill:{of['quiet']}}}.dot.strong circle{{fill:{of['path']}}}"
        f".dot circle.ring{{fill:none!important;stroke:{of['path']};stroke-width:3}}"
        f".dot.cross path{{stroke:{of['bad']};stroke-width:3;fill:none}}"
        f".across{{stroke:{of['quiet']};stroke-dasharray:2 5;stroke-width:1}}"
        f".off{{display:none}}g.lane.off{{display:inline}}"
        + "".join(f".head-{name}{{fill:{of[name]}}}" for name in STYLES)
    )


def markers() -> str:
    """Return the definitions of the heads of arrows."""
    return "<defs>{}</defs>".format(
        "".join(
            f'<marker id="head-{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size}" markerHeight="{size}" '
            f'markerUnits="userSpaceOnUse" orient="auto"><path class="head-{name}" d="M0 0L8 4L0 8z"/></marker>'
            for name, size in STYLES.items()
        )
    )


def svg_of(diagram: Diagram) -> str:
    """Return a diagram as one SVG file."""
    drawing = draw(diagram)
    width, height = AXIS_PIXELS + drawing.width, HEAD_PIXELS + drawing.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{_text(diagram.title)}</title><style>{style()}</style>{markers()}'
        f'<rect width="{width}" height="{height}" fill="{COLOURS["ground"]}"/>'
        f'<g transform="translate({AXIS_PIXELS} 0)">{drawing.head}</g>'
        f'<g transform="translate(0 {HEAD_PIXELS})">{drawing.axis}</g>'
        f'<g transform="translate({AXIS_PIXELS} {HEAD_PIXELS})">{drawing.body}</g></svg>\n'
    )


__all__ = [
    "Arrow",
    "Diagram",
    "Dot",
    "Drawing",
    "Lane",
    "Span",
    "TimeScale",
    "arrow_of",
    "dot_of",
    "draw",
    "head_of",
    "lanes_of",
    "scale_of",
    "svg_of",
]
