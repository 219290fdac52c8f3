"""`lhotse`: how lhotse batches a stream."""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import offsets_from_sizes, round_up
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.algorithms.bucket_edges import above_last_edge, check_edges, find_edges
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy

_SEEN_FOR_EDGES = 10_000  # samples that give lhotse its edges: num_cuts_for_bins_estimate
_USUAL_BUCKETS = 10  # buckets for which a rule finds edges where nobody says how many


@described(
    """A buffer of `buffer_size` samples, in buckets by length, is refilled after every batch.

    A random bucket is chosen, or the nearest one that can fill a batch. Random samples of it join
    the batch (with `shuffle=false`, those that have waited longest) until one more as long as its
    longest would exceed the budget. This is checked after each sample has joined, so a longer last
    one takes the batch over the budget. Samples left in the buckets at the end become short
    batches, or are all dropped with `drop_last`. Without `boundaries`, a `rule` of `boundaries`
    finds the edges of `buckets` buckets (10 unless set) from the first 10,000 samples; longer
    samples go into the last bucket. Source: lhotse's DynamicBucketingSampler with shuffle=True.

    Ranks: batches in turn; the samples of the last ones are spread over all ranks, and repeated if
    there are fewer samples than ranks. Last batch: kept as short batches. Longer samples: a batch
    of one, with a warning. Budget: checked after a sample has joined.
    """
)
@dataclass(frozen=True, kw_only=True)
class Lhotse(Strategy):
    distribute: ClassVar[str | None] = "batches"
    remainder: ClassVar[str | None] = "spread"
    samples_per_second: ClassVar[int] = 100_000

    tokens_per_batch: int
    boundaries: tuple[int, ...] = ()
    buckets: int | None = None
    rule: str = "equal-tokens"
    buffer_size: int = parameter("How many samples are in the buckets at a time.", 20_000)
    max_samples: int | None = None
    shuffle: bool = parameter(
        "Whether random samples of a bucket are drawn, or those that have waited longest.", True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_edges(self.rule, ("boundaries", self.boundaries), ("buckets", self.buckets))

    def plan(self, window: Window) -> BatchPlan:
        """Let the samples into a buffer in sequence, and draw batches from its buckets. Raises
        InputError: a sample longer than the last of `boundaries`, or too many buckets.
        """
        if len(window.lengths) == 0:  # no sample says where edges are
            no_rows, offsets = np.arange(0), np.zeros(1, int)
            return self.batch_rows(window, no_rows, offsets)
        edges = self.boundaries or find_edges(
            self.rule, window.lengths[:_SEEN_FOR_EDGES], ("buckets", self.buckets), _USUAL_BUCKETS
        )
        longest = int(window.lengths.max())
        if self.boundaries and longest > edges[-1]:
            raise above_last_edge("lhotse", edges, longest)
        # Edges that were found are of the first samples: longer ones come into the last bucket.
        bucket_of = np.minimum(np.searchsorted(edges, window.lengths), len(edges) - 1)
        padded = round_up(window.lengths, self.pad_to_multiple_of)
        batches = _Buffer(self, padded.tolist(), bucket_of.tolist(), len(edges), window).batches()
        order = np.fromiter((i for batch in batches for i in batch), dtype=np.int64)
        offsets = offsets_from_sizes(np.array([*map(len, batches)], dtype=np.int64))
        return self.batch_rows(window, order, offsets)


class _Buffer:
    """The buffer of samples, in buckets, from which batches are drawn."""

    def __init__(
        self,
        settings: Lhotse,
        lengths: list[int],
        bucket_of: list[int],
        n_buckets: int,
        window: Window,
    ) -> None:
        self.settings = settings
        self.lengths = lengths  # (n,) padded tokens of all samples of the epoch
        self.bucket_of = bucket_of  # (n,) bucket of each
        self.keeps_short = settings.keeps_short(window)  # whether short batches at the end are kept
        # Random numbers in [0, 1), many at a time: a call of NumPy takes much longer than a number.
        drawn = (window.rng.random(4096).tolist() for _ in count())
        self.random_numbers = chain.from_iterable(drawn)
        self.max_samples = settings.max_samples or MAX_INT  # the most samples in a batch
        # Random samples are taken from the end of a list, the oldest from the front of a queue.
        container = list if settings.shuffle else deque
        # For each bucket, the samples in the buffer.
        self.waiting: list[list[int] | deque[int]] = [container() for _ in range(n_buckets)]
        # For each bucket, how many of these have each length.
        self.length_counts: list[Counter[int]] = [Counter() for _ in range(n_buckets)]
        self.longest = [0] * n_buckets  # for each bucket, the longest of these lengths
        self.n_arrived = 0  # how many samples have come into the buffer so far

    def batches(self) -> list[list[int]]:
        """Return each batch's samples as they are drawn; the buffer is refilled after each."""
        batches = []
        self._fill(self.settings.buffer_size)
        while (bucket := self._next_bucket()) is not None:
            batch = self._take(bucket)
            batches.append(batch)
            self._fill(len(batch))
        return batches

    def _fill(self, n_samples: int) -> None:
        """Let the next `n_samples` samples into the buffer, or all that are left."""
        end = min(self.n_arrived + n_samples, len(self.lengths))
        for i in range(self.n_arrived, end):
            bucket = self.bucket_of[i]
            length = self.lengths[i]
            self.waiting[bucket].append(i)
            self.length_counts[bucket][length] += 1
            self.longest[bucket] = max(self.longest[bucket], length)
        self.n_arrived = end

    def _is_full(self, samples: int, longest: int) -> bool:
        exceeds_budget = (samples + 1) * longest > self.settings.tokens_per_batch
        return exceeds_budget or samples >= self.max_samples

    def _next_bucket(self) -> int | None:
        """Return the bucket nearest to a random one that fills a batch, at the end one with any."""
        random_bucket = int(next(self.random_numbers) * len(self.waiting))
        outward = sorted(range(len(self.waiting)), key=lambda k: (abs(k - random_bucket), k))
        for k in outward:
            if self.waiting[k] and self._is_full(len(self.waiting[k]), self.longest[k]):
                return k
        if self.keeps_short:
            return next((k for k in outward if self.waiting[k]), None)
        return None

    def _take(self, bucket: int) -> list[int]:
        """Draw samples of bucket `bucket` until the batch is full or the bucket is empty."""
        counts = self.length_counts[bucket]
        batch: list[int] = []
        longest = 0
        for i in self._draw(self.waiting[bucket]):
            length = self.lengths[i]
            batch.append(i)
            longest = max(longest, length)
            counts[length] -= 1
            if not counts[length]:
                del counts[length]
            if self._is_full(len(batch), longest):
                break
        # All of the longest were taken: find the next.
        if self.longest[bucket] not in counts:
            self.longest[bucket] = max(counts, default=0)
        return batch

    def _draw(self, waiting: "list[int] | deque[int]") -> Iterator[int]:
        """Yield samples and remove them: random ones, or those that have waited longest."""
        while waiting:
            if isinstance(waiting, deque):
                yield waiting.popleft()
                continue
            drawn = int(next(self.random_numbers) * len(waiting))
            # To the end, where removing an item moves no other.
            waiting[drawn], waiting[-1] = waiting[-1], waiting[drawn]
            yield waiting.pop()
