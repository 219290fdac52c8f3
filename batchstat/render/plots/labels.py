"""Places for labels that do not overlap."""

from collections.abc import Sequence
from math import hypot
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchstat.render.plots import style


class Box(NamedTuple):
    """A rectangle, in points."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: "Box") -> bool:
        """Return whether the two share more than an edge."""
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top

    def within(self, other: "Box") -> bool:
        """Return whether it lies inside the other."""
        across = self.left >= other.left and self.right <= other.right
        return across and self.bottom >= other.bottom and self.top <= other.top


_DOT = 5.0
"""Half the width of a dot, in points."""

_THIN_LINE = {"arrowstyle": "-", "color": style.PALE_GREY, "linewidth": 0.8, "shrinkB": 4}
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_DISTANCES = (2, 8, 18, 30, 44)
_POINTS = 16
"""Points of a line that are held against labels."""


def place_labels(
    dots: Sequence[tuple[float, float]], sizes: Sequence[tuple[float, float]], room: Box
) -> list[Box]:
    """Return a box for the label of each dot, beside it and over no other label or dot; if there is
    one, so that no line from a dot to its label crosses another label or dot.

    Where there is none in `room`, the label stands to the right of its dot.

    Args:
        dots: positions, in points; the first ones choose first.
        sizes: width and height of each label.
        room: where labels may be.
    """
    marks = [Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in dots]
    taken: list[Box] = []
    lines: list[Box] = []

    def is_free(box: Box) -> bool:
        return box.within(room) and not any(box.overlaps(each) for each in (*marks, *taken))

    def is_crossed(box: Box, dot: tuple[float, float]) -> bool:
        point = Box(*dot, *dot)
        others = [*taken, *(mark for mark in marks if not point.overlaps(mark))]
        crosses = any(each.overlaps(other) for each in _line(dot, box) for other in others)
        return crosses or any(each.overlaps(box) for each in lines)

    for (x, y), (width, height) in zip(dots, sizes, strict=True):
        candidates = [
            _beside(x, y, width, height, direction, distance)
            for distance in _DISTANCES
            for direction in _DIRECTIONS
        ]
        free = list(filter(is_free, candidates)) or candidates[:1]
        taken.append(next((box for box in free if not is_crossed(box, (x, y))), free[0]))
        lines += _line((x, y), taken[-1])
    return taken


def _line(dot: tuple[float, float], box: Box) -> list[Box]:
    """Return points of the line from a dot to the middle of its label."""
    middle = (box.left + box.right) / 2, (box.bottom + box.top) / 2
    xs, ys = np.linspace(dot, middle, _POINTS).T.tolist()
    return [Box(x, y, x, y) for x, y in zip(xs, ys, strict=True)]


def _beside(
    x: float, y: float, width: float, height: float, direction: tuple[int, int], distance: float
) -> Box:
    across, up = direction
    left = x - width / 2 + across * (_DOT + distance + width / 2)
    bottom = y - height / 2 + up * (_DOT + distance + height / 2)
    return Box(left, bottom, left + width, bottom + height)


def label_dots(
    figure: Figure, axes: Axes, dots: Sequence[tuple[float, float]], texts: Sequence[str]
) -> None:
    """Write a text beside each dot of a chart whose limits are set; a far one has a thin line."""
    # The constrained layout moves the axes only as it draws.
    figure.draw_without_rendering()
    points = 72 / figure.dpi
    at = (axes.transData.transform(np.asarray(dots, dtype=np.float64)) * points).tolist()
    room = Box(*(float(edge) * points for edge in axes.get_window_extent().extents))
    notes = [axes.annotate(text, dot, fontsize=9) for text, dot in zip(texts, dots, strict=True)]
    extents = [note.get_window_extent() for note in notes]
    sizes = [(each.width * points + 2, each.height * points + 2) for each in extents]
    for note in notes:
        note.remove()
    boxes = place_labels(at, sizes, room)
    for text, dot, (x, y), box in zip(texts, dots, at, boxes, strict=True):
        across = max(box.left - x, x - box.right, 0)
        up = max(box.bottom - y, y - box.top, 0)
        axes.annotate(
            text,
            dot,
            xytext=((box.left + box.right) / 2 - x, (box.bottom + box.top) / 2 - y),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=9,
            arrowprops=_THIN_LINE if hypot(across, up) > _DOT + 10 else None,
        )


def apart(places: Sequence[float], width: float) -> list[bool]:
    """Return which labels on a line are kept so that none overlaps; the first ones choose first.

    Args:
        places: middle of each label.
        width: of a label, with the space to the next.
    """
    kept: list[float] = []
    chosen = []
    for place in places:
        chosen.append(all(abs(place - other) >= width for other in kept))
        kept += [place] if chosen[-1] else []
    return chosen


def spread(places: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return the middles of labels beside these places, in the same order from the highest down,
    moved down as far as the labels above need.
    """
    middles, limit = list(places), float("inf")
    for i in sorted(range(len(places)), key=lambda i: -places[i]):
        middles[i] = min(places[i], limit - heights[i] / 2)
        limit = middles[i] - heights[i] / 2
    return middles
