"""`grain`: packing of Google's grain, as MaxText uses it."""

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.algorithms.cutting import cut_every
from batchstat.planning.algorithms.packing import Packing, first_fit
from batchstat.planning.frameworks.packed_rows import PackedRows
from batchstat.planning.plan import Window
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
    samples_per_second: ClassVar[int] = 100_000
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

    def padded(self, widest: Ints) -> Ints:
        """Return `max_length` for each."""
        return np.full(len(widest), self.max_length)

    def packed(self, lengths: Ints, begins: Ints) -> PackedSamples:  # noqa: ARG002
        """Return the rows in the sequence in which they are emitted."""
        row, before = np.zeros((2, len(lengths)), dtype=np.int64)
        end = rows = 0
        while end < len(lengths):
            first = end
            row_of_each, held_before = self._filled(lengths[first:])
            end += len(row_of_each)
            places = np.arange(row_of_each.max(initial=0) + 1)
            if self.shuffle_bins:  # seeded with the number of rows before
                rng = np.random.default_rng(self.packing_seed + rows)
                places = np.argsort(rng.permuted(places))
            row[first:end], before[first:end] = rows + places[row_of_each], held_before
            rows += len(places)
        one = np.ones(len(lengths), dtype=np.int64)
        packing = Packing(row, one, one, before, lengths)
        return PackedSamples(np.arange(len(lengths)), lengths, None, packing)

    def divided(self, n_rows: int, window: Window) -> tuple[Ints, Ints]:
        """Return the rows of all batches, and (n_batches + 1,) which of them each batch has."""
        offsets = cut_every(n_rows, self.batch_size, keep_short=self.keeps_short(window))
        return np.arange(offsets[-1]), offsets

    def _filled(self, lengths: Ints) -> tuple[Ints, Ints]:
        """Return the row of each sample, and how many it had before, up to the first sample that
        fits into no row.
        """
        rows = self.num_packing_bins or self.batch_size
        most = self.max_sequences_per_bin or MAX_INT
        tried = 4 * rows
        while True:
            next_lengths = lengths[:tried]
            if self.best_fit:
                # More rows than samples stay empty: none of them need be there.
                row, before = _fill_best(
                    next_lengths, self.max_length, most, min(rows, len(next_lengths))
                )
                placed = len(row)
            else:
                packing = first_fit(next_lengths, self.max_length, most)
                row, before = packing.row, packing.before
                beyond = np.flatnonzero(row >= rows)
                placed = int(beyond[0]) if len(beyond) else len(row)
            if placed < len(next_lengths) or len(next_lengths) == len(lengths):
                return row[:placed], before[:placed]
            tried *= 2


def _fill_best(lengths: Ints, capacity: int, most: int, rows: int) -> tuple[Ints, Ints]:
    """Put lengths into the fullest of some rows that has room, of equal ones the first."""
    room = [(capacity, row) for row in range(rows)]
    held = [0] * rows
    placements: list[tuple[int, int]] = []
    for length in np.maximum(lengths, 1).tolist():
        at = bisect_left(room, (length, -1))
        if at == len(room):
            break
        left, row = room.pop(at)
        placements.append((row, held[row]))
        held[row] += 1
        if held[row] < most:
            insort(room, (left - length, row))
    columns = np.array(placements, dtype=np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]
