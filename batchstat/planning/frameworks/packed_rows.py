"""Bases of frameworks that pack a corpus into rows, and then shuffle and batch the rows."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups, offsets_from_sizes, round_up
from batchstat.lengths.exact import sums
from batchstat.planning.algorithms.cutting import cut_every
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.samplers.torch_random import torch_permutation
from batchstat.planning.samples import check_room
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.packed import PackedSamples, check_longest


@dataclass(frozen=True, kw_only=True)
class PackedRows(Strategy):
    """Rows packed in the sequence of the corpus, which are then batched."""

    in_short: ClassVar[str] = "several per row"
    order: ClassVar[str | None] = "file"
    shuffles_as: ClassVar[str | None] = "blocks"
    distribute: ClassVar[str | None] = "batches"
    remainder: ClassVar[str | None] = "repeat"
    packs_rows: ClassVar[bool] = True
    needs_epoch: ClassVar[bool] = True
    samples_per_second: ClassVar[int] = 100_000
    name: ClassVar[str]  # the strategy's name, for messages
    # `read_ahead` limits what is packed together, not what is batched.
    window_size = None

    max_length: int  # tokens that a sample may have

    @property
    def lays_rows_end_to_end(self) -> bool:
        """Whether the rows of a batch become one."""
        return False

    @property
    def row_length(self) -> int | None:
        """`max_length`; None where rows are laid end to end."""
        return None if self.lays_rows_end_to_end else self.max_length

    def batch_widths(self, widest: Ints) -> Ints:
        """Return (n_batches,) widths, given the tokens of the widest rows: these, by default."""
        return widest

    @abstractmethod
    def pack_rows(self, lengths: Ints, begins: Ints) -> PackedSamples:
        """Return the samples in rows: (n,) `lengths` of parts, of which `begins` begin samples."""

    def divide_rows(self, n_rows: int, window: Window) -> tuple[Ints, Ints]:
        """Return the rows of all batches end to end, and (n_batches + 1,) where batches begin."""
        size = self.batch_capacity or 1
        offsets = cut_every(n_rows, size, keep_short=self.keeps_short(window))
        return np.arange(offsets[-1]), offsets

    def plan(self, window: Window) -> BatchPlan:
        """Pack the samples into rows, and divide the rows among batches. Raises InputError: a
        sample is longer than `max_length`, or more rows than fit into memory.
        """
        check_longest(self.name, int(window.lengths.max(initial=0)), self.max_length)
        samples, lengths, starts, packing = self.pack_rows(
            window.lengths, _begins(window.lengths, window.starts)
        )
        # The packed rows end to end: (n_rows + 1,) where each begins, and the entry at each place.
        _, row_sizes = packing.totals
        packed_offsets = offsets_from_sizes(row_sizes)
        entry_at = np.empty(len(samples), dtype=np.int64)
        for piece, places in packing.places(packed_offsets[:-1]):
            entry_at[places] = np.arange(piece.start, piece.stop)
        # The same of the rows in the sequence of the batches, in which a row may come twice.
        rows, batch_offsets = self.divide_rows(packing.n_rows, window)
        row_offsets, places = gather_groups(packed_offsets, rows)
        entries = entry_at[places]
        entry_lengths = lengths[entries].astype(np.int64)
        if self.lays_rows_end_to_end:
            row_offsets, batch_offsets = row_offsets[batch_offsets], np.arange(len(batch_offsets))
        tokens = sums(round_up(entry_lengths, self.sample_multiple), row_offsets)
        # The tokens of the fullest row of each batch; without a batch, reduceat would fail.
        widest = np.maximum.reduceat(tokens, batch_offsets[:-1]) if len(tokens) else tokens
        return BatchPlan(
            samples=samples[entries],
            lengths=entry_lengths,
            row_offsets=row_offsets,
            batch_offsets=batch_offsets,
            unit_offsets=np.arange(len(batch_offsets)),
            widths=round_up(self.batch_widths(widest), self.pad_to_multiple_of),
            starts=None if starts is None else starts[entries],
            document_multiple=self.sample_multiple,
        )


@dataclass(frozen=True, kw_only=True)
class ShuffledRows(PackedRows):
    """Rows shuffled as torch does, `batch_size` per batch, divided as accelerate does."""

    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)
    usual_batch_size: ClassVar[int | None] = 8
    packed_by: ClassVar[str] = "packing"

    batch_size: int  # rows per batch
    world_size: int = 1  # number of ranks, among which the rows are divided

    @property
    def cuts_samples(self) -> bool:
        """Whether rows are cut from concatenated samples."""
        return bool(vars(self)["packing"] == "wrapped")

    def repeats_samples(self, settings: ResolvedSettings) -> bool:  # noqa: ARG002
        """Return whether rows are repeated for the ranks."""
        return self.world_size > 1 and not self.drop_last

    def divide_rows(self, n_rows: int, window: Window) -> tuple[Ints, Ints]:
        """Return the rows of all batches, the last turn filled up as by accelerate, or dropped."""
        rows = self.sequence(n_rows, window)
        rows_per_turn = self.batch_size * self.world_size
        if not self.keeps_short(window):
            rows = rows[: len(rows) - len(rows) % rows_per_turn]
        elif self.world_size > 1:
            n_rows_filled = round_up(n_rows, rows_per_turn)
            what = f"{self.name} with batch_size={self.batch_size} makes"
            check_room(what, n_rows_filled, "lower batch_size")
            rows = np.resize(rows, n_rows_filled)
        return rows, cut_every(len(rows), self.batch_size)

    def count_rows(self, lengths: Ints, starts: Ints | None) -> int:
        """Return the rows before any is repeated or dropped: the trainers' number of examples."""
        return self.pack_rows(lengths, _begins(lengths, starts)).packing.n_rows

    def sequence(self, n_rows: int, window: Window) -> Ints:
        """Return (n_rows,) the rows as they are shuffled."""
        return torch_permutation(n_rows, window.torch_seed)


def _begins(lengths: Ints, starts: Ints | None) -> Ints:
    return np.arange(len(lengths)) if starts is None else np.flatnonzero(starts == 0)
