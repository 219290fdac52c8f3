"""Labels of plots do not overlap."""

from itertools import combinations

import hypothesis.strategies as st
from hypothesis import given

from batchstat.render.plots.labels import Box, place_labels, which_have_room, without_overlaps

places = st.lists(st.floats(0, 1), min_size=1, max_size=12)
ROOM = Box(0, 0, 600, 300)


@given(places)
def test_kept_labels_on_a_line_are_apart_and_the_first_is_kept(middles):
    kept = which_have_room(middles, 0.1)
    chosen = [middle for middle, keep in zip(middles, kept, strict=True) if keep]
    assert kept[0]
    assert all(abs(a - b) >= 0.1 for a, b in combinations(chosen, 2))
    for middle, keep in zip(middles, kept, strict=True):
        assert keep or any(abs(middle - other) < 0.1 for other in chosen)


@given(places, st.lists(st.sampled_from([0.05, 0.1]), min_size=12, max_size=12))
def test_labels_beside_lines_keep_their_order(middles, heights):
    heights = heights[: len(middles)]
    found = without_overlaps(middles, heights)
    assert all(after <= before for before, after in zip(middles, found, strict=True))
    for i, j in combinations(range(len(middles)), 2):
        assert abs(found[i] - found[j]) >= (heights[i] + heights[j]) / 2 - 1e-9
        assert middles[i] <= middles[j] or found[i] > found[j]


@given(st.lists(st.tuples(st.floats(50, 550), st.floats(50, 250)), min_size=1, max_size=7))
def test_labels_of_dots_cover_neither_each_other_nor_a_dot(dots):
    boxes = place_labels(dots, [(60, 11)] * len(dots), ROOM)
    for (x, y), box in zip(dots, boxes, strict=True):
        assert box.within(ROOM)
        assert not any(box.overlaps(other) for other in boxes if other is not box)
        # Beside its own dot, never over it.
        assert not (box.left < x < box.right and box.bottom < y < box.top)


def test_a_line_to_a_label_crosses_no_other_label_or_dot():
    """Dots as close as those of a real corpus, the longest label first."""
    dots = [(604.0, 74.4), (564.5, 79.7), (537.0, 69.6)]
    sizes = [(138.0, 11.0), (85.0, 11.0), (33.0, 11.0)]
    boxes = place_labels(dots, sizes, Box(52, 35, 642, 273))
    marks = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in dots]
    for (x, y), own, mark in zip(dots, boxes, marks, strict=True):
        middle = (own.left + own.right) / 2, (own.bottom + own.top) / 2
        for k in range(101):
            at = x + (middle[0] - x) * k / 100, y + (middle[1] - y) * k / 100
            for other in (*boxes, *marks):
                inside = other.left < at[0] < other.right and other.bottom < at[1] < other.top
                assert other in (own, mark) or not inside


def test_where_there_is_no_room_a_label_is_right_of_its_dot():
    [box] = place_labels([(5, 5)], [(60, 11)], Box(0, 0, 10, 10))
    assert box.left > 5
    assert box.bottom < 5 < box.top
