"""`grain`: packing of Google's grain, as MaxText uses it."""

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.algorithms.packing import Packing, first_fit
from batchstat.planning.frameworks.packed_rows import PackedRows
from batchstat.planning.strategies.packed import PackedSamples


@described(
    """Packing of grain: samples in the order's sequence join `num_packing_bins` rows; once one fits
    into none of them, all rows are emitted, shuffled, and it begins the next ones. A batch is
    `batch_size` rows, padded to `max_length` (length_struct).

    Random numbers: rows are shuffled by `packing_seed` as grain does it, in each epoch from the
    start. The order of samples is that of the settings: grain's own shuffle is another one.

    Ranks: samples in turn (ShardOptions), each rank packs its own. Last batch: kept; dropped by
    drop_last (drop_remainder). Longer samples: an error there, so truncated before. Budget: none;
    `batch_size` rows of `max_length`. Checked against grain 0.2.18; source: PackingDatasetIterator
    and PackedBatch of grain/_src/python/dataset/transformations.
    """
)
@dataclass(frozen=True, kw_only=True)
class Grain(PackedRows):
    name: ClassVar[str] = "grain"
    order: ClassVar[str | None] = None
    shuffles_as: ClassVar[str | None] = None
    distribute: ClassVar[str | None] = "samples"
    remainder: ClassVar[str | None] = "uneven"
    needs_epoch: ClassVar[bool] = False
    attends_within_samples = True  # by segment ids

    batch_size: int
    best_fit: bool = parameter(
        "Whether a sample joins the fullest row that has room (BestFitPackIterDataset), not the "
        "first (FirstFitPackIterDataset).",
        False,
    )
    num_packing_bins: int | None = parameter(
        "How many rows are open at a time; `batch_size` unless given, as in MaxText.", None
    )
    max_sequences_per_bin: int | None = parameter("The most samples in a row.", None)
    shuffle_bins: bool = parameter("Whether rows that are emitted together are shuffled.", True)
    packing_seed: int = parameter("The seed of that shuffle, whatever the epoch's is.", 0, least=0)

    def batch_widths(self, widest: Ints) -> Ints:
        """Return `max_length` for each."""
        return np.full(len(widest), self.max_length)

    def pack_rows(self, lengths: Ints, begins: Ints) -> PackedSamples:  # noqa: ARG002
        """Return rows as emitted: fill open ones until a sample fits in none, emit them, go on."""
        # Of each sample: its row, and how many samples the row held before it.
        row, before = np.zeros((2, len(lengths)), dtype=np.int64)
        end = n_emitted = 0
        while end < len(lengths):
            first = end
            open_row, held_before = self._fill_rows(lengths[first:])
            end += len(open_row)
            # Open rows that got a sample, as they are emitted; others have the highest numbers.
            emitted = np.arange(open_row.max() + 1)
            # grain seeds each shuffle with its seed + the number of rows before.
            if self.shuffle_bins:
                emitted = np.random.default_rng(self.packing_seed + n_emitted).permuted(emitted)
            row[first:end] = n_emitted + np.argsort(emitted)[open_row]
            before[first:end] = held_before
            n_emitted += len(emitted)
        ones = np.ones(len(lengths), dtype=np.int64)
        packing = Packing(row=row, rows=ones, per_row=ones, before=before, tokens=lengths)
        return PackedSamples(np.arange(len(lengths)), lengths, starts=None, packing=packing)

    def _fill_rows(self, lengths: Ints) -> tuple[Ints, Ints]:
        """Fill open rows until a sample fits into none; return rows, and samples held before."""
        n_rows = self.num_packing_bins or self.batch_size
        max_per_row = self.max_sequences_per_bin or MAX_INT
        # Try a few samples first: no one knows how many the rows hold, and the epoch may be long.
        n_tried = 4 * n_rows
        while True:
            next_lengths = lengths[:n_tried]
            if self.best_fit:
                # One row per sample is enough: any more would stay empty.
                row, before = _fill_best(
                    next_lengths, self.max_length, max_per_row, min(n_rows, len(next_lengths))
                )
                n_placed = len(row)
            else:
                # `first_fit` opens rows without a limit: all before one too many is the same.
                packing = first_fit(next_lengths, self.max_length, max_per_row)
                row, before = packing.row, packing.before
                in_new_rows = np.flatnonzero(row >= n_rows)
                n_placed = int(in_new_rows[0]) if len(in_new_rows) else len(row)
            # All that were tried fit: try twice as many, unless these were all.
            if n_placed < len(next_lengths) or len(next_lengths) == len(lengths):
                return row[:n_placed], before[:n_placed]
            n_tried *= 2


def _fill_best(lengths: Ints, capacity: int, max_per_row: int, rows: int) -> tuple[Ints, Ints]:
    """Fill the fullest rows until a length fits into none; return rows, and lengths held before."""
    room = [(capacity, row) for row in range(rows)]
    n_held = [0] * rows
    placements: list[tuple[int, int]] = []
    # An empty sample takes a token of room.
    for length in np.maximum(lengths, 1).tolist():
        # By room and row, the first that has enough is the fullest; −1 is before any row.
        i = bisect_left(room, (length, -1))
        if i == len(room):
            break
        row_room, row = room.pop(i)
        placements.append((row, n_held[row]))
        n_held[row] += 1
        # A row with `max_per_row` lengths is not put back.
        if n_held[row] < max_per_row:
            insort(room, (row_room - length, row))
    columns = np.array(placements, dtype=np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]
