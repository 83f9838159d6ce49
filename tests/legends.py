"""What cannot be read in a picture, in the coordinates of its pixels: below a legend, or beyond its edge."""

from __future__ import annotations

from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg


def covered(figure: Any) -> list[str]:
    """Return what legends of a figure lie on, curves, bars and texts, and the texts that its edge cuts."""
    FigureCanvasAgg(figure).draw()
    legends = [*figure.legends, *(each for axes in figure.axes if (each := axes.get_legend()) is not None)]
    width, height = figure.bbox.width, figure.bbox.height
    found = []
    for text in [*_texts(figure), *(each for legend in legends for each in legend.get_texts())]:
        box = text.get_window_extent()
        whole = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
        if text.get_text().strip() and not whole:
            found.append(f"cut {text.get_text()}")
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
