"""A plan measured: counts only, every ratio a property of them."""

from dataclasses import dataclass

import numpy as np

from batchstat.batches import Batches
from batchstat.batching.plan import Ints
from batchstat.errors import InputError, NoBatchError
from batchstat.grouping import Grouping
from batchstat.ranks import RankCounts, steps_of
from batchstat.reach import Reach, Unique
from batchstat.sampling.epoch import Epoch


@dataclass(frozen=True, kw_only=True)
class PlanCounts:
    """What an epoch under one strategy computes, pads, cuts and leaves out.

    `samples` and the token counts say what is computed. `dropped_*` counts whole samples, and all
    tokens that no batch holds; `truncated_*` what `max_length` cut off. `visited_tokens` is what
    the samples of the epoch hold, whole: all of the corpus, where each is visited once.

    `squared_tokens` is what attention computes: the sum over rows of the square of their width, or
    over samples of that of their length where attention knows where they begin.
    `real_squared_tokens` is the latter, always. `row_tokens` is how many tokens fit in all rows of
    `max_length`; None where rows have no such length.
    """

    tokens_per_batch: int
    visited_tokens: int
    samples: int
    rows: int
    batches: int
    steps: int
    real_tokens: int
    total_tokens: int
    squared_tokens: int
    real_squared_tokens: int
    row_tokens: int | None
    max_batch_tokens: int
    over_budget_batches: int
    distinct_shapes: int
    truncated_samples: int
    truncated_tokens: int
    dropped_samples: int
    dropped_tokens: int
    duplicated_samples: int
    duplicated_tokens: int
    min_samples_per_batch: int
    max_samples_per_batch: int
    sum_samples_per_batch: int
    grouping: Grouping
    ranks: RankCounts
    reach: Reach

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
        """Truncated tokens / visited tokens."""
        return self.truncated_tokens / self.visited_tokens

    @property
    def dropped_ratio(self) -> float:
        """Dropped tokens / visited tokens."""
        return self.dropped_tokens / self.visited_tokens

    @property
    def lost_tokens(self) -> int:
        """Truncated and dropped tokens together: read, and never computed."""
        return self.truncated_tokens + self.dropped_tokens

    @property
    def lost_ratio(self) -> float:
        """Lost tokens / visited tokens."""
        return self.lost_tokens / self.visited_tokens

    @property
    def duplicated_ratio(self) -> float:
        """Duplicated tokens / real tokens."""
        return self.duplicated_tokens / self.real_tokens

    @property
    def coverage(self) -> float:
        """Samples that are computed at least once / samples of the corpus."""
        return self.reach.coverage

    @property
    def rank_idle(self) -> float:
        """Share of the ranks' time that waits for the slowest one, where cost is total tokens."""
        return self.ranks.idle

    @property
    def rank_idle_quadratic(self) -> float:
        """The same where cost is attention's."""
        return self.ranks.idle_quadratic

    @property
    def fill(self) -> float:
        """Total tokens / (batches × `tokens_per_batch`)."""
        return self.total_tokens / (self.batches * self.tokens_per_batch)

    @property
    def packing_efficiency(self) -> float | None:
        """Real tokens / (rows × `max_length`)."""
        return None if self.row_tokens is None else self.real_tokens / self.row_tokens

    def relative_cost(self, linear: int, quadratic: int) -> float:
        """What is computed / what the real tokens need by themselves, each sample alone: at least
        1, where a row of w tokens costs `linear` × w + `quadratic` × w².
        """
        computed = linear * self.total_tokens + quadratic * self.squared_tokens
        return computed / (linear * self.real_tokens + quadratic * self.real_squared_tokens)

    @property
    def mean_samples_per_batch(self) -> float:
        """Entries of all batches / batches."""
        return self.sum_samples_per_batch / self.batches


def measure(
    batches: Batches,
    turns: Ints,
    visits: Epoch,
    *,
    tokens_per_batch: int,
    max_length: int | None = None,
    attends_within_samples: bool = False,
    accumulate: int = 1,
    even: bool = False,
    followed: tuple[Unique, Reach] | None = None,
) -> tuple[PlanCounts, Batches]:
    """The batches of an epoch measured, as they are dealt to the ranks.

    Args:
        batches: all that are planned.
        turns: (n_turns, world_size) units of them, dealt at the same time; −1 where a rank has
            none.
        visits: what the epoch visits.
        tokens_per_batch: the budget that `fill` is held against.
        max_length: of a row; None where rows have no such length.
        attends_within_samples: whether attention knows where samples begin.
        accumulate: turns a step.
        even: whether a rank without a unit takes an empty step.
        followed: which samples are computed; None where each visit is in one unit, so that what is
            dealt says it.

    Returns:
        The counts, and the batches in the sequence in which they are dealt.

    Raises:
        InputError: no batch is left, or no token: there is nothing to measure.
    """
    units = turns[turns >= 0]
    if len(units) == 0:
        raise NoBatchError()
    dealt = batches.take(units)
    real_tokens, samples = int(dealt.tokens.sum()), int(dealt.samples.sum())
    if real_tokens == 0:
        raise InputError(f"no token in {samples:,} samples: there is nothing to batch")
    total = dealt.total_tokens
    rows, real_squares = int(dealt.rows.sum()), int(dealt.squares.sum())
    if followed is None:  # units are repeated only where all are dealt
        once = dealt if len(units) <= batches.units else batches
        visited = visits.dropped_samples + _whole_samples(visits)
        followed = (
            Unique(int(once.samples.sum()), int(once.tokens.sum())),
            Reach.of_units(batches, turns, visited),
        )
    unique, reach = followed
    samples += unique.headless
    attention = _attention(batches, within=attends_within_samples)
    ranks = RankCounts.of(turns, batches, attention, accumulate, even=even)
    tokens, entries = batches.of_units(batches.tokens), batches.of_units(batches.entries)
    grouping = Grouping.of(
        dealt.entries,
        dealt.tokens,
        real_squares,
        steps_of(turns, tokens, accumulate).sum(axis=1)
        / steps_of(turns, entries, accumulate).sum(axis=1),
        steps_of(turns, tokens, accumulate).sum(axis=1),
    )
    planned_tokens = int(visits.lengths.sum(dtype=np.int64))
    counts = PlanCounts(
        tokens_per_batch=tokens_per_batch,
        visited_tokens=planned_tokens + visits.truncated_tokens + visits.dropped_tokens,
        samples=samples,
        rows=rows,
        batches=len(dealt),
        steps=ranks.max_steps,
        real_tokens=real_tokens,
        total_tokens=int(total.sum()),
        squared_tokens=int(_attention(dealt, within=attends_within_samples).sum()),
        real_squared_tokens=real_squares,
        row_tokens=None if max_length is None else rows * max_length,
        max_batch_tokens=int(total.max()),
        over_budget_batches=int(np.count_nonzero(total > tokens_per_batch)),
        distinct_shapes=len(np.unique(dealt.rows * (dealt.widths.max() + 1) + dealt.widths)),
        truncated_samples=visits.truncated_samples,
        truncated_tokens=visits.truncated_tokens,
        dropped_samples=visits.dropped_samples + _whole_samples(visits) - unique.samples,
        dropped_tokens=visits.dropped_tokens + planned_tokens - unique.tokens,
        duplicated_samples=samples - unique.samples,
        duplicated_tokens=real_tokens - unique.tokens,
        min_samples_per_batch=int(dealt.entries.min()),
        max_samples_per_batch=int(dealt.entries.max()),
        sum_samples_per_batch=int(dealt.entries.sum()),
        grouping=grouping,
        ranks=ranks,
        reach=reach,
    )
    return counts, dealt


def _attention(batches: Batches, *, within: bool) -> Ints:
    """(n_batches,) what attention computes: exact, whatever its size."""
    if within:
        return batches.squares
    widest, rows = int(batches.widths.max(initial=0)), int(batches.rows.sum())
    if widest**2 * rows < 2**63:
        cost: Ints = batches.rows * batches.widths**2
        return cost
    large: Ints = batches.rows.astype(object) * batches.widths.astype(object) ** 2
    return large


def _whole_samples(visits: Epoch) -> int:
    """How many samples begin here: a split one counts with its first part."""
    parts = 0 if visits.starts is None else int(np.count_nonzero(visits.starts))
    return len(visits.samples) - parts
