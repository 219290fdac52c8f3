import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from batchstat import OptionError
from batchstat.planning.epoch import make_epoch
from batchstat.planning.rules import ORDERS
from batchstat.planning.shares import BLOCK_SIZE, make_order


@pytest.mark.parametrize("order", ORDERS)
@given(n=st.integers(0, 5000), seed=st.integers(0, 5), epoch=st.integers(0, 5))
def test_an_order_visits_every_sample_once_and_repeats_itself(order, n, seed, epoch):
    made = make_order(n, order, seed=seed, epoch=epoch)
    assert sorted(made.tolist()) == list(range(n))
    assert (made == make_order(n, order, seed=seed, epoch=epoch)).all()


def test_file_order_is_the_corpus_order():
    assert make_order(5, "file", seed=3, epoch=1).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("order", ["shuffled", "blocks"])
def test_seed_and_epoch_each_change_the_order_and_are_not_added_up(order):
    orders = {
        (seed, epoch): tuple(make_order(5000, order, seed=seed, epoch=epoch))
        for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1)]
    }
    assert len(set(orders.values())) == 4


def test_blocks_keep_consecutive_samples_together_and_move_both():
    n = 10 * BLOCK_SIZE + 300
    made = make_order(n, "blocks", seed=0, epoch=0)
    changes = np.count_nonzero(np.diff(made // BLOCK_SIZE))
    assert changes == 10
    assert not (made[:BLOCK_SIZE] == np.sort(made[:BLOCK_SIZE])).all()
    assert (made // BLOCK_SIZE)[::BLOCK_SIZE].tolist() != list(range(11))


def test_the_order_does_not_share_its_random_numbers_with_a_window():
    rng = np.random.default_rng((3, 4, 0))
    assert make_order(50, "shuffled", seed=3, epoch=4).tolist() != rng.permutation(50).tolist()


def test_an_unknown_order_is_named():
    with pytest.raises(OptionError, match=r"unknown order 'shufled': did you mean 'shuffled'\?"):
        make_order(3, "shufled", seed=0, epoch=0)


LENGTHS = st.lists(st.integers(0, 50), min_size=1, max_size=60)


def visit(lengths: list[int], max_length: int, overflow: str):
    records = np.arange(len(lengths)) * 10
    return make_epoch(records, np.array(lengths), max_length, overflow)


@given(lengths=LENGTHS, max_length=st.integers(1, 60))
def test_truncate_cuts_ends_and_counts_them(lengths, max_length):
    made = visit(lengths, max_length, "truncate")
    assert made.lengths.tolist() == [min(length, max_length) for length in lengths]
    assert made.lost.truncated_samples == sum(length > max_length for length in lengths)
    assert made.lost.truncated_tokens + int(made.lengths.sum()) == sum(lengths)


@given(lengths=LENGTHS, max_length=st.integers(1, 60))
def test_drop_leaves_long_samples_out_and_counts_them(lengths, max_length):
    made = visit(lengths, max_length, "drop")
    kept = [(i * 10, length) for i, length in enumerate(lengths) if length <= max_length]
    assert list(zip(made.samples.tolist(), made.lengths.tolist(), strict=True)) == kept
    assert made.lost.dropped_samples == len(lengths) - len(kept)
    assert made.lost.dropped_tokens + int(made.lengths.sum()) == sum(lengths)


@given(lengths=LENGTHS, max_length=st.integers(1, 60))
def test_split_loses_nothing_and_follows_each_sample(lengths, max_length):
    made = visit(lengths, max_length, "split")
    starts = np.zeros_like(made.lengths) if made.starts is None else made.starts
    parts = zip(made.samples.tolist(), starts.tolist(), made.lengths.tolist(), strict=True)
    expected = []
    for i, length in enumerate(lengths):
        for start in range(0, max(length, 1), max_length):
            expected.append((i * 10, start, min(max_length, length - start)))
    assert list(parts) == expected
