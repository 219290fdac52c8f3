"""`trl`: SFTTrainer; with packing=True or padding_free=True, its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.frameworks.defaults import HfTrainer
from batchstat.planning.frameworks.packed_rows import ShuffledRows
from batchstat.planning.plan import Window
from batchstat.planning.strategies.base import NOT_PACKED, PacksDocuments, Strategy
from batchstat.planning.strategies.packed import PackedSamples, group_starts, pack

PACKING: Mapping[str, str] = {
    NOT_PACKED: "One sample per row, padded to the longest of the batch: SFTTrainer's default.",
    "bfd": "Best fit decreasing; the rows of a batch are laid end to end (padding_free).",
    "padding-free": "One sample per row, and no limit; the rows of a batch are laid end to end "
    "(padding_free without packing).",
    "wrapped": "Samples laid end to end and cut every max_length; rows are padded to the longest.",
}


@dataclass(frozen=True, kw_only=True)
class TrlPadded(HfTrainer):
    """SFTTrainer with its defaults: the Trainer's batches, with a loss of its own."""

    loss: ClassVar[str] = "trl"


@described(
    """TRL's SFTTrainer. With its defaults, the batches of `hf-trainer`: one sample per row, padded
    to the longest of the batch.

    With `packing`, samples are packed into rows of at most `max_length`, in the sequence of the
    corpus and `read_ahead` (1,000) at a time; the rows are then shuffled, by its `seed`, and a
    batch is `batch_size` consecutive ones (per_device_train_batch_size). With `shuffle_seed` rows
    are shuffled by that first, as shuffle_dataset does it; the samples are expected in the sequence
    that it gives them.

    Ranks: accelerate distributes batches in turn, and fills up the last ones with the first rows
    (even_batches), or with dataloader_drop_last drops them. Last batch: kept; with one rank it is
    short. Longer samples: truncated to `max_length`, SFTConfig's default is 1024; or split:
    --overflow split (bfd_split).
    Budget: none; `batch_size` rows (8 unless one is given) of at most `max_length`. Checked against
    TRL 1.16 and accelerate 1.15.
    """
)
@dataclass(frozen=True, kw_only=True)
class Trl(ShuffledRows, PacksDocuments):
    name: ClassVar[str] = "trl"
    loss: ClassVar[str] = "trl"

    unpacked: ClassVar[type[Strategy] | None] = TrlPadded

    packing: str = parameter("How samples are packed into rows.", NOT_PACKED, values=PACKING)
    read_ahead: int = 1000
    dataset_num_proc: int = parameter(
        "How many processes pack, each its own consecutive part of the corpus.", 1
    )
    shuffle_seed: int | None = parameter(
        "Seed of another shuffle of the rows, before the trainer's.", None, least=0
    )

    @property
    def attends_within_samples(self) -> bool:
        """Whether attention stays within samples, which padding_free implies."""
        return not self.cuts_samples

    @property
    def lays_rows_end_to_end(self) -> bool:
        """Whether the rows of a batch become one."""
        return not self.cuts_samples

    def pack_rows(self, lengths: Ints, begins: Ints) -> PackedSamples:
        """Return the rows of each group of `read_ahead` samples; each process has its own."""
        method, most = self.packing, MAX_INT
        firsts = group_starts(begins, self.read_ahead, self.dataset_num_proc)
        # One sample per row: `next-fit` with at most 1, of all samples as one group.
        if self.packing == "padding-free":
            method, most, firsts = "next-fit", 1, [0]
        multiple = self.document_multiple
        return pack(lengths, self.max_length, method, most=most, firsts=firsts, multiple=multiple)

    def sequence(self, n_rows: int, window: Window) -> Ints:
        """Return (n_rows,) the rows as the trainer shuffles them, after any `shuffle_seed`."""
        sequence = super().sequence(n_rows, window)
        if self.shuffle_seed is None:
            return sequence
        # The trainer's shuffle has positions in the shuffle before it.
        return np.random.default_rng(self.shuffle_seed).permutation(n_rows)[sequence]
