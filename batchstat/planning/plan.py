"""`BatchPlan`: which rows share a batch, as flat arrays. `Window` and `Windows`: its samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups, offsets_from_sizes, round_up


@dataclass(frozen=True, eq=False, slots=True)
class Window:
    """Consecutive samples of the order that are batched together."""

    lengths: Ints  # (n,) tokens of each sample, after `max_length`, in order
    rng: np.random.Generator  # the window's own generator, seeded with (seed, epoch, window)
    last: bool  # whether the epoch ends with this window
    torch_seed: int = 0  # what torch's samplers are seeded with: the seed + the epoch
    starts: Ints | None = None  # (n,) first token of each part of a sample; None if all are whole
    epoch: int = 0  # number of the epoch


@dataclass(frozen=True, eq=False, slots=True)
class Windows:
    """Consecutive windows, planned in one go."""

    lengths: Ints  # (n,) tokens of the samples of all windows, in order
    size: int  # samples per window; only the last window may have fewer
    rng: Callable[[int], np.random.Generator]  # the generator of a window, counted from the first
    last: bool  # whether the epoch ends with these windows
    torch_seed: int = 0  # what torch's samplers are seeded with: the seed + the epoch
    starts: Ints | None = None  # (n,) first token of each part of a sample; None if all are whole
    epoch: int = 0  # number of the epoch

    def __iter__(self) -> Iterator[Window]:
        """Yield each window. Without samples, there is one empty window."""
        n = len(self.lengths)
        for k, first in enumerate(range(0, max(n, 1), self.size)):
            end = first + self.size
            starts = None if self.starts is None else self.starts[first:end]
            last = self.last and end >= n
            yield Window(
                self.lengths[first:end], self.rng(k), last, self.torch_seed, starts, self.epoch
            )


@dataclass(frozen=True, eq=False, slots=True)
class BatchPlan:
    """Entries in rows, rows in batches, batches in units; every offsets array starts with 0.

    An entry is a sample, or a part of one that begins at `starts`. No row and no batch is empty.

    Example:
        >>> import numpy as np
        >>> plan = batchstat.BatchPlan(
        ...     samples=np.array([2, 0, 1]),
        ...     lengths=np.array([9, 7, 4]),
        ...     row_offsets=np.array([0, 1, 2, 3]),
        ...     batch_offsets=np.array([0, 2, 3]),
        ...     unit_offsets=np.array([0, 1, 2]),
        ...     widths=np.array([9, 4]),
        ... )
        >>> len(plan)
        2

    Attributes:
        samples: (n_entries,) index of the sample. A strategy counts from the start of its window; a
            planned epoch holds record numbers.
        lengths: (n_entries,) tokens of each entry.
        row_offsets: (n_rows + 1,) row i holds entries row_offsets[i] to row_offsets[i + 1].
        batch_offsets: (n_batches + 1,) rows of each batch.
        unit_offsets: (n_units + 1,) batches of each unit, which go to one rank together.
        widths: (n_batches,) tokens to which every row of the batch is padded.
        starts: (n_entries,) first token of each entry; None if every sample is whole or truncated
            only at its end.
        document_multiple: each entry is padded to a multiple of this many tokens in its row.
    """

    samples: Ints
    lengths: Ints
    row_offsets: Ints
    batch_offsets: Ints
    unit_offsets: Ints
    widths: Ints
    starts: Ints | None = None
    document_multiple: int = 1

    @property
    def padded_lengths(self) -> Ints:
        """(n_entries,) tokens that each entry takes in its row."""
        return round_up(self.lengths, self.document_multiple)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.widths)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.unit_offsets) - 1

    def take(self, units: Ints) -> "BatchPlan":
        """Return the plan of `units`, in this order; a unit may come several times."""
        unit_offsets, batches = gather_groups(self.unit_offsets, units)
        batch_offsets, rows = gather_groups(self.batch_offsets, batches)
        row_offsets, entries = gather_groups(self.row_offsets, rows)
        return replace(
            self,
            samples=self.samples[entries],
            lengths=self.lengths[entries],
            row_offsets=row_offsets,
            batch_offsets=batch_offsets,
            unit_offsets=unit_offsets,
            widths=self.widths[batches],
            starts=None if self.starts is None else self.starts[entries],
        )

    def first_units(self, units: int) -> "BatchPlan":
        """Return the plan of the first `units` units, as views of the same arrays."""
        # An offset is the number of batches, rows or entries before it.
        batches = self.unit_offsets[units]
        rows = self.batch_offsets[batches]
        entries = self.row_offsets[rows]
        return replace(
            self,
            samples=self.samples[:entries],
            lengths=self.lengths[:entries],
            row_offsets=self.row_offsets[: rows + 1],
            batch_offsets=self.batch_offsets[: batches + 1],
            unit_offsets=self.unit_offsets[: units + 1],
            widths=self.widths[:batches],
            starts=None if self.starts is None else self.starts[:entries],
        )

    @staticmethod
    def concatenate(plans: Sequence["BatchPlan"]) -> "BatchPlan":
        """Concatenate `plans` of one strategy, at least one."""
        return BatchPlan(
            samples=np.concatenate([plan.samples for plan in plans]),
            lengths=np.concatenate([plan.lengths for plan in plans]),
            row_offsets=_chain([plan.row_offsets for plan in plans]),
            batch_offsets=_chain([plan.batch_offsets for plan in plans]),
            unit_offsets=_chain([plan.unit_offsets for plan in plans]),
            widths=np.concatenate([plan.widths for plan in plans]),
            starts=concatenate_starts([(plan.samples, plan.starts) for plan in plans]),
            # One strategy, so the same in all plans.
            document_multiple=plans[0].document_multiple,
        )


def concatenate_starts(parts: Sequence[tuple[Ints, Ints | None]]) -> Ints | None:
    """Concatenate the first tokens (n,) of parts of an epoch or plan, each with its samples (n,). A
    part in which no sample is split has None, for zeros; if all have None, so has the result.
    """
    if all(starts is None for _, starts in parts):
        return None
    return np.concatenate([np.zeros_like(ids) if first is None else first for ids, first in parts])


def _chain(offsets: Sequence[Ints]) -> Ints:
    return offsets_from_sizes(np.concatenate([each[1:] - each[:-1] for each in offsets]))
