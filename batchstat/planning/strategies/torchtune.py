"""`torchtune`: torchtune's PackedDataset."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.parameters import MAX_INT, parameter
from batchstat.planning.plan import Window
from batchstat.planning.samplers.torch_random import torch_permutation
from batchstat.planning.strategies.packed import PackedSamples, pack
from batchstat.planning.strategies.packed_rows import ShuffledRows


@dataclass(frozen=True, kw_only=True)
class Torchtune(ShuffledRows):
    """torchtune's PackedDataset (packed: True): samples join the last row in the sequence of the
    corpus, and one that does not fit begins a new row; with `split_across_pack`, its first tokens
    fill the row, and the others go on in the next. Rows are padded to `max_length` (max_seq_len)
    and shuffled by the `seed`; a batch is `batch_size` of them.

    Ranks: DistributedSampler distributes rows in turn, the first ones repeated for ranks without
    one; each rank batches its own. Last batch: kept here; torchtune's recipes drop it, as
    `drop_last` does. Longer samples: truncated by the tokenizer; else an error, or split over the
    rows with `split_across_pack` (--overflow split). Budget: none; `batch_size` rows (2 unless one
    is given, as in most of its configurations) of `max_length`. Checked against torchtune at commit
    bd2a0fc and torch 2.13.
    """

    name: ClassVar[str] = "torchtune"
    usual_batch_size: ClassVar[int | None] = 2
    loss: ClassVar[str] = "token-sum"

    split_across_pack: bool = parameter(
        "Whether a sample that does not fit fills the row with its first tokens.", False
    )
    max_packs: int | None = parameter(
        "The most rows; samples that are left after these are dropped.", None
    )

    @property
    def repeats_samples(self) -> bool:
        """Whether rows are repeated for the ranks."""
        return self.world_size > 1

    @property
    def attends_within_samples(self) -> bool:
        """Whether attention stays within samples, by a block mask."""
        return True

    @property
    def cuts_samples(self) -> bool:
        """Whether a sample may be split over several rows."""
        return self.split_across_pack

    def padded(self, widest: Ints) -> Ints:
        """Return `max_length` for each."""
        return np.full(len(widest), self.max_length)

    def packed(self, lengths: Ints, begins: Ints) -> PackedSamples:
        """Return the rows of all samples."""
        del begins
        method = "wrapped" if self.split_across_pack else "next-fit"
        return pack(lengths, self.max_length, method, MAX_INT, [])

    def divided(self, n_rows: int, window: Window) -> tuple[Ints, Ints]:
        """Return the rows of all batches, and (n_batches + 1,) which of them each batch has.

        Rows reach the ranks in turn, and each rank cuts its own every `batch_size`. Source: torch's
        DistributedSampler, in torchtune's recipes followed by a DataLoader.
        """
        kept = min(n_rows, self.max_packs or n_rows)
        each = -(-kept // self.world_size)
        if not self.keeps_short(window):
            each -= each % self.batch_size
        return self.in_turn(torch_permutation(kept, window.torch_seed), each)
