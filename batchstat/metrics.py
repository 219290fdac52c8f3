"""A plan measured: counts only, every ratio a property of them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from batchstat.batching.plan import BatchPlan, Ints
from batchstat.errors import InputError
from batchstat.grouping import Grouping
from batchstat.sampling.epoch import Epoch


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of an epoch, one number each.

    Attributes:
        rows: (n_batches,) rows of each batch.
        widths: (n_batches,) tokens to which its rows are padded.
        samples: (n_batches,) entries in its rows.
        tokens: (n_batches,) real tokens of these.
    """

    rows: Ints
    widths: Ints
    samples: Ints
    tokens: Ints

    @property
    def total_tokens(self) -> Ints:
        """(n_batches,) rows × width."""
        return self.rows * self.widths


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
    min_samples_per_batch: int
    max_samples_per_batch: int
    sum_samples_per_batch: int
    grouping: Grouping

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
    plans: Iterable[BatchPlan],
    visits: Epoch,
    *,
    tokens_per_batch: int,
    max_length: int | None = None,
    attends_within_samples: bool = False,
    accumulate: int = 1,
) -> tuple[PlanCounts, Batches]:
    """The plans of all windows of an epoch measured.

    Args:
        plans: one a window.
        visits: what the epoch visits.
        tokens_per_batch: the budget that `fill` is held against.
        max_length: of a row; None where rows have no such length.
        attends_within_samples: whether attention knows where samples begin.
        accumulate: so many of the plans' steps are one.

    Raises:
        InputError: no batch is left, or no token: there is nothing to measure.
    """
    rows, widths, entries, tokens, steps = [], [], [], [], []
    samples = real_squares = 0
    for plan in plans:
        edges = plan.row_offsets[plan.batch_offsets]
        rows.append(np.diff(plan.batch_offsets))
        widths.append(plan.widths)
        entries.append(np.diff(edges))
        tokens.append(_sums(plan.lengths, edges))
        steps.append(np.diff(plan.step_offsets))
        samples += _whole_samples(plan.samples, plan.starts)
        real_squares += _sum_of_squares(plan.lengths)
    if not any(map(len, widths)):
        raise InputError(
            "no batch is left: the corpus fills none, and drop_last leaves out one that is not "
            "full: lower batch_size, or leave drop_last out"
        )
    batches = Batches(*(np.concatenate(part) for part in (rows, widths, entries, tokens)))
    real_tokens = int(batches.tokens.sum())
    if real_tokens == 0:
        raise InputError(f"no token in {samples:,} samples: there is nothing to batch")
    total = batches.total_tokens
    step_offsets = _accumulated(np.concatenate(steps), accumulate)
    squares = _sum_of_squares(batches.widths, batches.rows)
    n_rows = int(batches.rows.sum())
    planned_tokens = int(visits.lengths.sum(dtype=np.int64))
    counts = PlanCounts(
        tokens_per_batch=tokens_per_batch,
        visited_tokens=planned_tokens + visits.truncated_tokens + visits.dropped_tokens,
        samples=samples,
        rows=n_rows,
        batches=len(total),
        steps=len(step_offsets) - 1,
        real_tokens=real_tokens,
        total_tokens=int(total.sum()),
        squared_tokens=real_squares if attends_within_samples else squares,
        real_squared_tokens=real_squares,
        row_tokens=None if max_length is None else n_rows * max_length,
        max_batch_tokens=int(total.max()),
        over_budget_batches=int(np.count_nonzero(total > tokens_per_batch)),
        distinct_shapes=len(np.unique(batches.rows * (batches.widths.max() + 1) + batches.widths)),
        truncated_samples=visits.truncated_samples,
        truncated_tokens=visits.truncated_tokens,
        dropped_samples=visits.dropped_samples
        + _whole_samples(visits.samples, visits.starts)
        - samples,
        dropped_tokens=visits.dropped_tokens + planned_tokens - real_tokens,
        duplicated_samples=0,
        min_samples_per_batch=int(batches.samples.min()),
        max_samples_per_batch=int(batches.samples.max()),
        sum_samples_per_batch=int(batches.samples.sum()),
        grouping=Grouping.of(batches.samples, batches.tokens, real_squares, step_offsets),
    )
    return counts, batches


def _sums(numbers: Ints, offsets: Ints) -> Ints:
    if len(offsets) == 1:
        return numbers[:0].astype(np.int64)
    sums: Ints = np.add.reduceat(numbers, offsets[:-1], dtype=np.int64)
    return sums


def _sum_of_squares(numbers: Ints, times: Ints | None = None) -> int:
    """Of `numbers` (n,), each `times` (n,) or once: exact, whatever its size."""
    most = int(numbers.max(initial=0))
    count = len(numbers) if times is None else int(times.sum())
    if most * most * count < 2**63:
        return int(numbers @ (numbers if times is None else numbers * times))
    each = [1] * len(numbers) if times is None else times.tolist()
    return sum(number * number * n for number, n in zip(numbers.tolist(), each, strict=True))


def _accumulated(batches: Ints, steps: int) -> Ints:
    """Offsets of steps that are so many of the plan's, whose `batches` (n_steps,) are given."""
    offsets = np.concatenate([[0], np.cumsum(batches, dtype=np.int64)])
    return np.append(offsets[:-1:steps], offsets[-1])


def _whole_samples(samples: Ints, starts: Ints | None) -> int:
    """How many samples begin here: a split one counts with its first part."""
    return len(samples) - (0 if starts is None else int(np.count_nonzero(starts)))
