"""Counts of a measured plan; every ratio is a property of them."""

from dataclasses import dataclass

from batchstat.documents.grouping import Grouping
from batchstat.simulation.meters.coverage import Coverage
from batchstat.simulation.meters.rank_idle import RankCounts


@dataclass(frozen=True, kw_only=True)
class PlanCounts:
    """What an epoch under one strategy computes, pads, truncates and drops."""

    tokens_per_batch: int
    # Tokens of the epoch's samples before `max_length`: of the corpus, if each comes once.
    visited_tokens: int
    samples: int  # computed, repeats included, as in other counts that say nothing else
    rows: int
    batches: int
    steps: int
    real_tokens: int
    total_tokens: int
    # What attention computes: Σ width² of rows, or Σ length² of samples where it stays in these.
    squared_tokens: int
    real_squared_tokens: int  # the sum over samples of the squared length
    row_tokens: int | None  # tokens that fit in all rows of `max_length`; None without one
    max_batch_tokens: int
    largest_step: int  # the first step, counted from 1, with a batch of `max_batch_tokens`
    # The most total tokens in a batch that could be smaller: of several samples, or padded.
    reducible_peak: int
    peak_bytes: int | None  # the most memory that a batch takes; None where that is not known
    over_budget_batches: int
    distinct_shapes: int
    truncated_samples: int
    truncated_tokens: int  # cut off by `max_length`, or before by a trainer: see `Profile.lost`
    dropped_samples: int  # whole samples in no batch, or lost before by a trainer's configuration
    dropped_tokens: int  # tokens in no batch, or lost before by a trainer's configuration
    duplicated_samples: int
    duplicated_tokens: int
    min_samples_per_batch: int
    max_samples_per_batch: int
    sum_samples_per_batch: int  # entries of all batches
    grouping: Grouping
    ranks: RankCounts
    sample_coverage: Coverage

    @property
    def drawn_samples(self) -> int:
        """Samples of the epoch, as the sampler draws them."""
        return self.samples - self.duplicated_samples + self.dropped_samples

    @property
    def begun_steps(self) -> int:
        """Its steps, and those on which no optimizer steps, as at the end of an epoch."""
        return self.steps + self.ranks.unfinished_steps

    @property
    def padding_tokens(self) -> int:
        """Total tokens − real tokens."""
        return self.total_tokens - self.real_tokens

    @property
    def padding_ratio(self) -> float:
        """Padding tokens / total tokens, in [0, 1)."""
        return self.padding_tokens / self.total_tokens

    @property
    def truncated_ratio(self) -> float:
        """Truncated tokens / tokens of the epoch's samples."""
        return self.truncated_tokens / self.visited_tokens

    @property
    def dropped_ratio(self) -> float:
        """Dropped tokens / tokens of the epoch's samples."""
        return self.dropped_tokens / self.visited_tokens

    @property
    def lost_tokens(self) -> int:
        """Truncated and dropped tokens together: in the corpus, but never computed."""
        return self.truncated_tokens + self.dropped_tokens

    @property
    def lost_ratio(self) -> float:
        """Lost tokens / tokens of the epoch's samples."""
        return self.lost_tokens / self.visited_tokens

    @property
    def duplicated_ratio(self) -> float:
        """Duplicated tokens / real tokens."""
        return self.duplicated_tokens / self.real_tokens

    @property
    def lost_share(self) -> float:
        """Share of the corpus that is lost: of its tokens, or of its samples where that is more."""
        return max(self.lost_ratio, self.dropped_samples / self.drawn_samples)

    @property
    def repeated_share(self) -> float:
        """Share of the samples computed that are duplicates."""
        return self.duplicated_samples / self.samples

    @property
    def compute(self) -> int:
        """Estimated work of the epoch, by the slowest rank wherever ranks meet: total tokens, or
        the operations of the cost model it was measured with.
        """
        return self.ranks.compute

    @property
    def coverage(self) -> float:
        """Samples computed at least once / samples of the corpus."""
        return self.sample_coverage.coverage

    @property
    def rank_idle(self) -> float:
        """Share of the ranks' time that is waiting, where time is proportional to total tokens."""
        return self.ranks.idle

    @property
    def rank_idle_quadratic(self) -> float:
        """The same, if time is proportional to the pairs of tokens that attention computes."""
        return 1 - self.ranks.squares / (self.ranks.world_size * self.ranks.slowest_squares)

    @property
    def fill(self) -> float:
        """Total tokens / (batches × `tokens_per_batch`)."""
        return self.total_tokens / (self.batches * self.tokens_per_batch)

    @property
    def packing_efficiency(self) -> float | None:
        """Real tokens / (rows × `max_length`)."""
        return None if self.row_tokens is None else self.real_tokens / self.row_tokens

    def relative_cost(self, linear: int, quadratic: int) -> float:
        """Return the cost of what is computed / the cost of the samples without padding. At least
        1. A row of w tokens costs `linear` × w + `quadratic` × w².
        """
        computed = linear * self.total_tokens + quadratic * self.squared_tokens
        return computed / (linear * self.real_tokens + quadratic * self.real_squared_tokens)

    @property
    def mean_batch_tokens(self) -> float:
        """Mean total tokens of a batch."""
        return self.total_tokens / self.batches

    @property
    def mean_samples_per_batch(self) -> float:
        """Mean entries per batch."""
        return self.sum_samples_per_batch / self.batches
