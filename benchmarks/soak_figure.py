"""The picture of ``bench soak``: memory, queues and deliveries, over the time of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..actors.pictures.picture import Picture, chart

_BLUE, _ORANGE = "#0072B2", "#D55E00"


def figure(result: Mapping[str, Any]) -> Picture:
    """Draw the result of :func:`rayvous.benchmarks.soak.run`: a line for each process with a broker, and two counts."""
    samples = result["samples"]
    minutes = [sample["seconds"] / 60 for sample in samples]
    picture = chart(12.0, 3.6)
    memory, queues, owed = picture.subplots(1, 3)
    for name in dict.fromkeys(name for sample in samples for name in sample["own_bytes"]):
        told = [
            (at, sample["own_bytes"][name] / 2**20)
            for at, sample in zip(minutes, samples, strict=True)
            if name in sample["own_bytes"]
        ]
        memory.plot([at for at, _ in told], [size for _, size in told], color=_BLUE, alpha=0.5, linewidth=1)
    memory.set_title("Own memory of each process, MB", fontsize=10, loc="left")
    queues.plot(minutes, [sample["queued_events"] for sample in samples], color=_ORANGE)
    queues.set_title("Events that wait in queues", fontsize=10, loc="left")
    owed.plot(minutes, [sample["owed"] for sample in samples], color=_BLUE, label="owed")
    owed.plot(minutes, [sample["wrong"] for sample in samples], color=_ORANGE, label="missing or wrong")
    owed.set_title("Notifications", fontsize=10, loc="left")
    owed.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.35), ncols=2)
    for axes in (memory, queues, owed):
        axes.set_xlabel("minutes")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    return picture
