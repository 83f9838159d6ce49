"""What a legend covers in a picture, in the coordinates of its pixels."""

from __future__ import annotations

from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg


def covered(figure: Any) -> list[str]:
    """Return what legends of a figure lie on: curves, bars, texts."""
    FigureCanvasAgg(figure).draw()
    legends = [*figure.legends, *(each for axes in figure.axes if (each := axes.get_legend()) is not None)]
    found = []
    for legend in legends:
        box = legend.get_window_extent()
        for axes in figure.axes:
            for line in axes.get_lines():
                path = line.get_transform().transform_path(line.get_path())
                if len(path.vertices) and path.intersects_bbox(box, filled=False):
                    found.append(f"curve {line.get_label()}")
            found += [f"bar {patch}" for patch in axes.patches if patch.get_window_extent().overlaps(box)]
        for text in _texts(figure):
            if text.get_text().strip() and text.get_window_extent().overlaps(box):
                found.append(f"text {text.get_text()}")
    return found


def _texts(figure: Any) -> list[Any]:
    """Return the titles and the labels of the axes; tick labels may be there and not be drawn."""
    titles = [figure._suptitle] if figure._suptitle is not None else []
    for axes in figure.axes:
        titles += [axes.title, axes._left_title, axes._right_title, axes.xaxis.label, axes.yaxis.label]
    return titles
