"""Trained tokens as ranges, against lists of booleans."""

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchstat.lengths.arrays import offsets_from_sizes
from batchstat.lengths.token_ranges import TokenRanges

MASKS = st.lists(st.lists(st.booleans(), max_size=12), max_size=8)


def made(masks: list[list[bool]]) -> TokenRanges:
    offsets = offsets_from_sizes(np.array([len(mask) for mask in masks], dtype=np.int64))
    return TokenRanges.of_mask(np.array([*chain.from_iterable(masks)], dtype=bool), offsets)


@given(MASKS)
def test_ranges_are_those_of_the_masks(masks):
    found = made(masks)
    assert len(found) == len(masks)
    for i, mask in enumerate(masks):
        edges = found.edges[found.offsets[i] : found.offsets[i + 1]].tolist()
        assert edges == sorted(set(edges))
        assert len(edges) % 2 == 0
        trained = {at for a, b in zip(edges[::2], edges[1::2], strict=True) for at in range(a, b)}
        assert trained == {at for at, is_trained in enumerate(mask) if is_trained}


@given(MASKS, st.integers(0, 12), st.integers(0, 14), st.data())
def test_counts_of_parts(masks, start, stop, data):
    found = made(masks)
    assert found.counts().tolist() == [sum(mask) for mask in masks]
    assert found.counts(start, stop).tolist() == [sum(mask[start:stop]) for mask in masks]
    starts = data.draw(st.lists(st.integers(0, 12), min_size=len(masks), max_size=len(masks)))
    each = found.counts(np.array(starts, dtype=np.int64), np.array(starts, dtype=np.int64) + 3)
    assert each.tolist() == [sum(m[s : s + 3]) for m, s in zip(masks, starts, strict=True)]


@given(MASKS, st.data())
def test_what_is_left_of_samples_without_their_beginnings(masks, data):
    starts = data.draw(st.lists(st.integers(0, 14), min_size=len(masks), max_size=len(masks)))
    left = made(masks).since(np.array(starts, dtype=np.int64))
    expected = made([mask[start:] for mask, start in zip(masks, starts, strict=True)])
    assert left.edges.tolist() == expected.edges.tolist()
    assert left.offsets.tolist() == expected.offsets.tolist()


@given(MASKS, MASKS, st.data())
def test_samples_are_joined_and_taken(one, other, data):
    joined = TokenRanges.concatenate([made(one), made(other)])
    masks = one + other
    assert joined.counts(1, 5).tolist() == [sum(mask[1:5]) for mask in masks]
    places = data.draw(st.lists(st.integers(0, len(masks) - 1), max_size=9)) if masks else []
    taken = joined.take(np.array(places, dtype=np.int64))
    assert taken.counts(1, 5).tolist() == [sum(masks[i][1:5]) for i in places]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_the_last_tokens_of_a_sample(samples):
    lengths = np.array([a + b for a, b in samples], dtype=np.int64)
    found = TokenRanges.of_last(lengths, np.array([b for _, b in samples], dtype=np.int64))
    expected = made([[False] * a + [True] * b for a, b in samples])
    assert found.edges.tolist() == expected.edges.tolist()
    assert found.offsets.tolist() == expected.offsets.tolist()


def test_no_samples():
    assert len(TokenRanges.concatenate([])) == 0
    assert TokenRanges.concatenate([]).counts().tolist() == []
