"""`BatchTable`: the batches of planned epochs, a few numbers each, in units to be distributed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups, offsets_from_sizes
from batchstat.lengths.exact import moments, sums
from batchstat.planning.plan import BatchPlan
from batchstat.planning.samples import Samples

_NUMBERS = ("rows", "widths", "entries", "samples", "tokens", "squares", "padded_squares")


@dataclass(frozen=True, eq=False)
class BatchTable:
    """Batches as columns of numbers, grouped in units: steps of a plan, each for one rank."""

    rows: Ints  # (n_batches,) rows of each batch
    widths: Ints  # (n_batches,) tokens to which its rows are padded
    entries: Ints  # (n_batches,) entries in its rows
    samples: Ints  # (n_batches,) samples that begin in it; a split one counts with its first part
    tokens: Ints  # (n_batches,) real tokens
    squares: Ints  # (n_batches,) sum of the squared lengths of its entries
    padded_squares: Ints  # (n_batches,) the same with the padding of entries within their rows
    unit_offsets: Ints  # (n_units + 1,) batches of each unit
    trained: Ints | None = None  # (n_batches,) tokens that carry loss; None where no one needs them

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.rows)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.unit_offsets) - 1

    @cached_property
    def total_tokens(self) -> Ints:
        """(n_batches,) rows × width."""
        return self.rows * self.widths

    @classmethod
    def of(cls, plans: Iterable[BatchPlan], trained_in: Samples | None = None) -> "BatchTable":
        """Return the batches of an epoch, given the plans of all its windows, perhaps none."""
        return cls.concatenate([cls._of_plan(plan, trained_in) for plan in plans])

    @classmethod
    def _of_plan(cls, plan: BatchPlan, trained_in: Samples | None) -> "BatchTable":
        """Count the batches of one plan. `trained_in` as in `of`."""
        # (n_batches + 1,) entries of each batch: the first entry of its first row.
        entry_offsets = plan.row_offsets[plan.batch_offsets]
        entries: Ints = np.diff(entry_offsets)
        samples = entries
        # Of a split sample, only the part at token 0 counts.
        if plan.starts is not None:
            samples = sums((plan.starts == 0).astype(np.int64), entry_offsets)
        tokens, squares = moments(plan.lengths, entry_offsets)
        padded_squares = squares
        # Where samples are padded within their rows, attention also computes that padding.
        if plan.document_multiple > 1:
            padded_squares = moments(plan.padded_lengths, entry_offsets)[1]
        trained = None
        if trained_in is not None:
            trained_of_entries = trained_in.trained_tokens(plan.samples, plan.starts, plan.lengths)
            # `trained_in` is given only where it is known which tokens are trained.
            assert trained_of_entries is not None
            trained = sums(trained_of_entries, entry_offsets)
        rows = np.diff(plan.batch_offsets)
        numbers = (rows, plan.widths, entries, samples, tokens, squares, padded_squares)
        return cls(*numbers, unit_offsets=plan.unit_offsets, trained=trained)

    @classmethod
    def of_whole_samples(
        cls, rows: Ints, widths: Ints, entries: Ints, tokens: Ints, squares: Ints
    ) -> "BatchTable":
        """Return batches (n_batches,) of whole, unpadded samples; each is a unit of its own."""
        units = np.arange(len(rows) + 1)
        # `samples` are the entries, and `padded_squares` the squares.
        return cls(rows, widths, entries, entries, tokens, squares, squares, units)

    @classmethod
    def concatenate(cls, tables: Sequence["BatchTable"]) -> "BatchTable":
        """Concatenate tables, perhaps none; units of the first come before those of the next."""
        if not tables:
            empty = np.zeros(0, dtype=np.int64)
            return cls(**dict.fromkeys(_NUMBERS, empty), unit_offsets=np.zeros(1, dtype=np.int64))
        sizes = np.concatenate([np.diff(table.unit_offsets) for table in tables])
        # Tables of one strategy have the same columns.
        columns = {
            name: np.concatenate([getattr(table, name) for table in tables])
            for name in tables[0]._columns
        }
        return cls(**columns, unit_offsets=offsets_from_sizes(sizes))

    @property
    def _columns(self) -> tuple[str, ...]:
        return _NUMBERS if self.trained is None else (*_NUMBERS, "trained")

    def take(self, units: Ints) -> "BatchTable":
        """Return the batches of `units`, in this order."""
        # All units as they are: nothing is copied.
        if np.array_equal(units, np.arange(self.n_units)):
            return self
        if self.n_units != len(self):
            offsets, batches = gather_groups(self.unit_offsets, units)
        else:  # each unit is one batch: unit numbers are batch numbers
            offsets, batches = np.arange(len(units) + 1), units
        columns = {name: getattr(self, name)[batches] for name in self._columns}
        return BatchTable(**columns, unit_offsets=offsets)

    def sum_by_unit(self, numbers: Ints) -> Ints:
        """Return (n_units,) the sum of `numbers` (n_batches,) over the batches of each unit."""
        return numbers if self.n_units == len(self) else sums(numbers, self.unit_offsets)
