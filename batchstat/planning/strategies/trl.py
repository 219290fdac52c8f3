"""`trl`: SFTTrainer with packing=True."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups, offsets_from_sizes, round_up
from batchstat.lengths.exact import sums
from batchstat.parameters import MAX_INT, parameter
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.samplers.torch_random import torch_permutation
from batchstat.planning.size_limits import check_room
from batchstat.planning.strategies.cutting import cut_every
from batchstat.planning.strategies.packed import check_longest, pack
from batchstat.planning.strategies.packs_documents import PacksDocuments

METHODS: Mapping[str, str] = {
    "bfd": "Best fit decreasing; the rows of a batch are laid end to end (padding_free).",
    "wrapped": "Samples laid end to end and cut every max_length; rows are padded to the longest.",
}


@dataclass(frozen=True, kw_only=True)
class Trl(PacksDocuments):
    """TRL's SFTTrainer with packing=True: samples are packed into rows of at most `max_length`, in
    the sequence of the corpus and `read_ahead` (1,000) at a time; the rows are then shuffled, by
    its `seed`, and a batch is `batch_size` consecutive ones (per_device_train_batch_size).

    Ranks: accelerate distributes batches in turn, and fills up the last ones with the first rows
    (even_batches), or with dataloader_drop_last drops them. Last batch: kept; with one rank it is
    short. Longer samples: truncated to `max_length` (bfd), or split: --overflow split (bfd_split).
    Budget: none; `batch_size` rows (8 unless one is given) of at most `max_length`. Checked against
    TRL 1.16 and accelerate 1.15.
    """

    in_short: ClassVar[str] = "several per row"
    order: ClassVar[str | None] = "file"
    shuffles_as: ClassVar[str | None] = "blocks"
    distribute: ClassVar[str | None] = "batches"
    remainder: ClassVar[str | None] = "repeat"
    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)
    usual_batch_size: ClassVar[int | None] = 8
    loss: ClassVar[str] = "trl"
    needs_epoch: ClassVar[bool] = True

    batch_size: int
    max_length: int
    method: str = parameter("How samples are packed into rows.", "bfd", values=METHODS)
    read_ahead: int = 1000
    world_size: int = 1

    @property
    def window_size(self) -> None:
        """The whole epoch: `read_ahead` limits what is packed together, not what is batched."""
        return None

    @property
    def row_length(self) -> int | None:
        """`max_length`; None where rows are laid end to end."""
        return self.max_length if self.cuts_samples else None

    @property
    def attends_within_samples(self) -> bool:
        """Whether attention stays within samples, which padding_free implies."""
        return not self.cuts_samples

    @property
    def cuts_samples(self) -> bool:
        """Whether rows are cut from concatenated samples."""
        return self.method == "wrapped"

    @property
    def repeats_samples(self) -> bool:
        """Whether rows are repeated for the ranks."""
        return self.world_size > 1 and not self.drop_last

    def plan(self, window: Window) -> BatchPlan:
        """Pack, shuffle the rows, cut every `batch_size` of them.

        Raises:
            InputError: a sample is longer than `max_length`, or more rows than fit into memory.
        """
        check_longest("trl", int(window.lengths.max(initial=0)), self.max_length)
        begins = np.arange(len(window.lengths))
        if window.starts is not None:  # of several parts, a sample still counts as one
            begins = np.flatnonzero(window.starts == 0)
        firsts = begins[:: self.read_ahead].tolist()
        multiple = self.document_multiple
        samples, lengths, starts, packing = pack(
            window.lengths, self.max_length, self.method, MAX_INT, firsts, multiple
        )
        whole = offsets_from_sizes(packing.totals[1])
        placed = np.empty(len(samples), dtype=np.int64)
        for some, places in packing.places(whole[:-1]):
            placed[places] = np.arange(some.start, some.stop)
        rows = self._divided(torch_permutation(packing.n_rows, window.torch_seed), window)
        row_offsets, entries = gather_groups(whole, rows)
        entries = placed[entries]
        held = lengths[entries].astype(np.int64)
        batch_offsets = cut_every(len(rows), self.batch_size)
        if not self.cuts_samples:  # the rows of a batch become one
            row_offsets, batch_offsets = row_offsets[batch_offsets], np.arange(len(batch_offsets))
        tokens = sums(round_up(held, multiple), row_offsets)
        widths = np.maximum.reduceat(tokens, batch_offsets[:-1]) if len(tokens) else tokens
        return BatchPlan(
            samples=samples[entries],
            lengths=held,
            row_offsets=row_offsets,
            batch_offsets=batch_offsets,
            step_offsets=np.arange(len(batch_offsets)),
            widths=round_up(widths, self.pad_to_multiple_of),
            starts=None if starts is None else starts[entries],
            document_multiple=multiple,
        )

    def _divided(self, rows: Ints, window: Window) -> Ints:
        """Return the rows that ranks get: repeated from the first, or without the last ones."""
        of_turn = self.batch_size * self.world_size
        if not self.keeps_short(window):
            return rows[: len(rows) - len(rows) % of_turn]
        if self.world_size == 1:
            return rows
        needed = round_up(len(rows), of_turn)
        check_room(f"trl with batch_size={self.batch_size} makes", needed, "lower batch_size")
        return np.resize(rows, needed)
