"""Where to write the labels of a chart, so that they do not overlap."""

from collections.abc import Sequence
from itertools import product
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
        overlaps_across = self.left < other.right and other.left < self.right
        return overlaps_across and self.bottom < other.top and other.bottom < self.top

    def within(self, other: "Box") -> bool:
        """Return whether it lies inside the other."""
        is_inside_across = self.left >= other.left and self.right <= other.right
        return is_inside_across and self.bottom >= other.bottom and self.top <= other.top


_DOT = 5.0  # half the width of a dot, in points

_THIN_LINE = {"arrowstyle": "-", "color": style.PALE_GREY, "linewidth": 0.8, "shrinkB": 4}
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""From a dot to its label: steps to the right and up, in the order in which they are tried."""
_DISTANCES = (2, 8, 18, 30, 44)  # between a dot and its label, in points
_POINTS = 16  # points of a line that are held against labels


def place_labels(
    dots: Sequence[tuple[float, float]], sizes: Sequence[tuple[float, float]], room: Box
) -> list[Box]:
    """Return the box of each dot's label: the nearest place in `room` where it covers no dot and no
    earlier label, and where its line to the dot crosses none; else the nearest free place; else, to
    the right of its dot.
    """
    dot_boxes = [Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in dots]
    placed: list[Box] = []  # the labels that have a place
    lines_drawn: list[Box] = []  # points of the lines to them

    def is_free(label: Box) -> bool:
        return label.within(room) and not any(map(label.overlaps, (*dot_boxes, *placed)))

    def is_crossed(label: Box, dot: tuple[float, float]) -> bool:
        # A line begins inside its own dot, and inside dots that lie on that: they are no obstacles.
        center = Box(*dot, *dot)
        obstacles = [*placed, *(each for each in dot_boxes if not center.overlaps(each))]
        crosses = any(point.overlaps(each) for point in _line(dot, label) for each in obstacles)
        return crosses or any(point.overlaps(label) for point in lines_drawn)

    for (x, y), (width, height) in zip(dots, sizes, strict=True):
        candidates = []
        for distance, (across, up) in product(_DISTANCES, _DIRECTIONS):
            # `distance` is from the edge of the dot to the label, in the direction of (across, up).
            left = x - width / 2 + across * (_DOT + distance + width / 2)
            bottom = y - height / 2 + up * (_DOT + distance + height / 2)
            candidates.append(Box(left, bottom, left + width, bottom + height))
        # The nearest come first. Without a free place, the first one is taken: right of the dot.
        free = list(filter(is_free, candidates)) or candidates[:1]
        uncrossed = (label for label in free if not is_crossed(label, (x, y)))
        placed.append(next(uncrossed, free[0]))
        lines_drawn += _line((x, y), placed[-1])
    return placed


def _line(dot: tuple[float, float], box: Box) -> list[Box]:
    middle = (box.left + box.right) / 2, (box.bottom + box.top) / 2
    xs, ys = np.linspace(dot, middle, _POINTS).T.tolist()
    return [Box(x, y, x, y) for x, y in zip(xs, ys, strict=True)]


def label_dots(
    figure: Figure, axes: Axes, dots: Sequence[tuple[float, float]], texts: Sequence[str]
) -> None:
    """Write a text beside each dot of a chart, far ones with a thin line, so that no text covers
    another one or a dot. The limits of the axes must be set before.
    """
    # Positions in points are final only after a drawing: the constrained layout moves the axes.
    figure.draw_without_rendering()
    points_per_pixel = 72 / figure.dpi
    pixels = axes.transData.transform(np.asarray(dots, dtype=np.float64))  # (n_dots, 2): x, y
    centers = (pixels * points_per_pixel).tolist()
    room = Box(*(float(edge) * points_per_pixel for edge in axes.get_window_extent().extents))
    # Each text is written once to measure it, and removed.
    notes = [axes.annotate(text, dot, fontsize=9) for text, dot in zip(texts, dots, strict=True)]
    sizes = []
    for note in notes:
        extent = note.get_window_extent()
        # With a free point on each side.
        sizes.append((extent.width * points_per_pixel + 2, extent.height * points_per_pixel + 2))
        note.remove()
    boxes = place_labels(centers, sizes, room)
    # `dot` is in the units of the axes; (x, y) is the same place in points.
    for text, dot, (x, y), box in zip(texts, dots, centers, boxes, strict=True):
        # From the dot to its label: `across` is 0 above or below it, `up` beside it.
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
            # More than 10 points from the edge of its dot, a text has a line.
            arrowprops=_THIN_LINE if hypot(across, up) > _DOT + 10 else None,
        )


def which_have_room(places: Sequence[float], width: float) -> list[bool]:
    """Return for each label on a line whether to keep it: not if too near to an earlier one."""
    places_kept: list[float] = []
    is_kept = []
    for place in places:
        is_kept.append(all(abs(place - earlier) >= width for earlier in places_kept))
        places_kept += [place] if is_kept[-1] else []
    return is_kept


def without_overlaps(places: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return the y of the middle of each label that belongs at one of `places` of a y axis, so that
    none overlaps: from the highest down, each is moved down as far as the one above it needs.
    """
    middles, upper_limit = list(places), float("inf")
    for i in sorted(range(len(places)), key=lambda i: -places[i]):
        middles[i] = min(places[i], upper_limit - heights[i] / 2)
        upper_limit = middles[i] - heights[i] / 2
    return middles
