"""Labels of plots do not overlap."""

from itertools import combinations

import hypothesis.strategies as st
from hypothesis import given

from batchstat.render.plots.labels import Box, apart, place_labels, spread

places = st.lists(st.floats(0, 1), min_size=1, max_size=12)
ROOM = Box(0, 0, 600, 300)


@given(places)
def test_kept_labels_on_a_line_are_apart_and_the_first_is_kept(middles):
    kept = apart(middles, [0.1] * len(middles))
    chosen = [middle for middle, keep in zip(middles, kept, strict=True) if keep]
    assert kept[0]
    assert all(abs(a - b) >= 0.1 for a, b in combinations(chosen, 2))
    for middle, keep in zip(middles, kept, strict=True):
        assert keep or any(abs(middle - other) < 0.1 for other in chosen)


@given(places, st.lists(st.sampled_from([0.05, 0.1]), min_size=12, max_size=12))
def test_labels_beside_lines_keep_their_order(middles, heights):
    heights = heights[: len(middles)]
    found = spread(middles, heights)
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


def test_where_there_is_no_room_a_label_is_right_of_its_dot():
    [box] = place_labels([(5, 5)], [(60, 11)], Box(0, 0, 10, 10))
    assert box.left > 5
    assert box.bottom < 5 < box.top
