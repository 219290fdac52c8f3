"""What is computed once and what again, token by token, against plain counting."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

import batchstat
from batchstat import BatchSampler
from batchstat.errors import BatchstatError

STRATEGIES = ("static", "bucketed", "token-budget", "packed", "packed:method=wrapped", "fixed")


@given(
    lengths=st.lists(st.integers(1, 120), min_size=1, max_size=40),
    strategy=st.sampled_from(STRATEGIES),
    world_size=st.sampled_from([1, 2, 3, 8]),
    max_length=st.sampled_from([20, 50, 64]),
    overflow=st.sampled_from(["split", "truncate"]),
    remainder=st.sampled_from(["repeat", "drop", "uneven"]),
    distribute=st.sampled_from(["independent", "chunks", "batches", "samples", "balanced"]),
)
def test_every_token_that_is_computed_again_is_counted(lengths, strategy, **given_):
    """Parts that another rank computes too, wherever each rank cut its samples."""
    given_["tokens_per_batch"] = 2 * given_["max_length"]
    try:
        row = batchstat.compare(lengths, strategies=[strategy], **given_).strategies[0]
        times: Counter[tuple[int, int]] = Counter()
        repeated = 0
        for rank in range(given_["world_size"]):
            for batch in BatchSampler(lengths, strategy, rank=rank, **given_).batches():
                for record, start, stop, again in zip(
                    batch.records, batch.starts, batch.stops, batch.repeated, strict=True
                ):
                    times.update((record, place) for place in range(start, stop))
                    repeated += (stop - start) * again
    except BatchstatError:
        return  # no batch is left, or the strategy does not distribute so
    assert row.counts.real_tokens == times.total()
    assert row.counts.duplicated_tokens == times.total() - len(times)
    assert repeated <= row.counts.duplicated_tokens
    if strategy != "packed:method=wrapped" or given_["world_size"] == 1:
        assert repeated == row.counts.duplicated_tokens
