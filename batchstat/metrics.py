"""A plan measured: counts only, every ratio a property of them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from batchstat.batching.plan import BatchPlan, Ints
from batchstat.errors import InputError
from batchstat.sampling.epoch import Epoch


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of an epoch, one number each.

    Attributes:
        rows: (n_batches,) rows of each batch.
        widths: (n_batches,) tokens to which its rows are padded.
        samples: (n_batches,) entries in its rows.
    """

    rows: Ints
    widths: Ints
    samples: Ints

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
    """

    tokens_per_batch: int
    visited_tokens: int
    samples: int
    rows: int
    batches: int
    steps: int
    real_tokens: int
    total_tokens: int
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
    def mean_samples_per_batch(self) -> float:
        """Entries of all batches / batches."""
        return self.sum_samples_per_batch / self.batches


def measure(
    plans: Iterable[BatchPlan], visits: Epoch, *, tokens_per_batch: int, accumulate: int = 1
) -> tuple[PlanCounts, Batches]:
    """The plans of all windows of an epoch measured, `accumulate` of their steps made one.

    Raises:
        InputError: no batch is left, or no token: there is nothing to measure.
    """
    rows, widths, entries = [], [], []
    samples = steps = real_tokens = 0
    for plan in plans:
        rows.append(np.diff(plan.batch_offsets))
        widths.append(plan.widths)
        entries.append(np.diff(plan.row_offsets[plan.batch_offsets]))
        samples += _whole_samples(plan.samples, plan.starts)
        steps += len(plan.step_offsets) - 1
        real_tokens += int(plan.lengths.sum(dtype=np.int64))
    if not any(map(len, widths)):
        raise InputError(
            "no batch is left: the corpus fills none, and drop_last leaves out one that is not "
            "full: lower batch_size, or leave drop_last out"
        )
    if real_tokens == 0:
        raise InputError(f"no token in {samples:,} samples: there is nothing to batch")
    batches = Batches(*(np.concatenate(part) for part in (rows, widths, entries)))
    total = batches.total_tokens
    planned_tokens = int(visits.lengths.sum(dtype=np.int64))
    counts = PlanCounts(
        tokens_per_batch=tokens_per_batch,
        visited_tokens=planned_tokens + visits.truncated_tokens + visits.dropped_tokens,
        samples=samples,
        rows=int(batches.rows.sum()),
        batches=len(total),
        steps=-(-steps // accumulate),
        real_tokens=real_tokens,
        total_tokens=int(total.sum()),
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
    )
    return counts, batches


def _whole_samples(samples: Ints, starts: Ints | None) -> int:
    """How many samples begin here: a split one counts with its first part."""
    return len(samples) - (0 if starts is None else int(np.count_nonzero(starts)))
