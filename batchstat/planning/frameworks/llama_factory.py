"""`llama-factory`: LLaMA-Factory's SFT, also with packing: true, and its pre-training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.errors import OptionError
from batchstat.lengths.arrays import Ints, round_up
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.algorithms.cutting import longest_first
from batchstat.planning.algorithms.packing import first_fit
from batchstat.planning.frameworks.defaults import HfTrainer
from batchstat.planning.frameworks.packed_rows import ShuffledRows
from batchstat.planning.strategies.base import NOT_PACKED, Strategy
from batchstat.planning.strategies.packed import PackedSamples, group_starts, pack_groups, wrap

PACKING: Mapping[str, str] = {
    NOT_PACKED: "One sample per row, padded to the longest of the batch: LLaMA-Factory's default.",
    "plain": "packing: true; samples of a row see each other, and its padding.",
    "masked": "neat_packing: true; attention keeps samples apart, by a mask.",
    "unpadded": "neat_packing: true with flash attention, which also leaves out the padding; one "
    "row per batch.",
    "wrapped": "stage: pt; texts laid end to end and cut every max_length, without what is left.",
}

# What LLaMA-Factory's SFT workflow passes to its collator while it trains.
_PAD_TO = 8


@dataclass(frozen=True, kw_only=True)
class LlamaFactoryPadded(HfTrainer):
    """LLaMA-Factory's SFT with its defaults: the Trainer's batches, padded to multiples of 8."""

    own_parameters: ClassVar[tuple[str, ...]] = ("pad_to_multiple_of",)
    takes_sampler: ClassVar[bool] = False

    pad_to_multiple_of: int = _PAD_TO


@described(
    """LLaMA-Factory's SFT. With its defaults, the batches of `hf-trainer`, padded to the longest
    sample and to a multiple of 8.

    With `packing`, `read_ahead` samples at a time
    (preprocessing_batch_size), in the sequence of the corpus, are packed into rows of
    `max_length` − 1 tokens; each row takes the longest sample that still fits, of equal ones the
    latest. Rows are padded to `max_length` (cutoff_len), and to a multiple of 8; they are then
    shuffled by the Trainer's `seed`, and a batch is `batch_size` consecutive ones
    (per_device_train_batch_size). With `wrapped`, `read_ahead` texts are laid end to end and cut
    every `max_length` tokens; what is left of them, less than a row, is dropped.

    Ranks: accelerate distributes batches in turn, and fills up the last ones with the first rows
    (even_batches), or with dataloader_drop_last drops them. Last batch: kept; with one rank it is
    short. Longer samples: truncated to `max_length` − 1 tokens, the prompt and the answer in
    proportion; here a sample of `max_length` keeps its last token and has a row of its own, as
    there. Budget: none; `batch_size` rows (8 unless one is given) of `max_length`. Checked against
    LLaMA-Factory at commit ff6d4d1 and accelerate 1.15, without streaming.
    """
)
@dataclass(frozen=True, kw_only=True)
class LlamaFactory(ShuffledRows):
    name: ClassVar[str] = "llama-factory"
    loss: ClassVar[str] = "num-items-in-batch"
    unpacked: ClassVar[type[Strategy] | None] = LlamaFactoryPadded

    packing: str = parameter("How samples are packed into rows.", NOT_PACKED, values=PACKING)
    read_ahead: int = 1000
    preprocessing_num_workers: int = parameter(
        "How many processes pack, each its own consecutive part of the corpus.", 1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.packing == "unpadded" and self.batch_size != 1:
            raise OptionError(
                f"llama-factory: packing=unpadded with batch_size={self.batch_size}: "
                "LLaMA-Factory takes one row per batch with flash attention",
                "set batch_size=1",
            )

    @property
    def attends_within_samples(self) -> bool:
        """Whether attention stays within samples, as with neat_packing: true."""
        return self.packing in ("masked", "unpadded")

    @property
    def joins_samples(self) -> bool:
        """Whether samples of a row predict the next: in all packed rows, with neat_packing, too."""
        return self.packing != NOT_PACKED

    def batch_widths(self, widest: Ints) -> Ints:
        """Return `max_length`, in multiples of 8; if `unpadded` or `wrapped`, the widest row."""
        full_rows = np.full(len(widest), round_up(self.max_length, _PAD_TO))
        return widest if self.packing in ("unpadded", "wrapped") else full_rows

    def pack_rows(self, lengths: Ints, begins: Ints) -> PackedSamples:
        """Return the rows of each group of `read_ahead` samples; each process has its own."""
        firsts = group_starts(begins, self.read_ahead, self.preprocessing_num_workers)
        pack_group = self._cut_blocks if self.cuts_samples else self._fill_knapsacks
        return pack_groups(lengths, firsts, pack_group)

    def _cut_blocks(self, lengths: Ints) -> PackedSamples:
        begins = np.cumsum(lengths, dtype=np.int64) - lengths
        n_tokens = int(lengths.sum()) // self.max_length * self.max_length
        # Samples that begin in the whole rows; the last of them is cut where these rows end.
        kept_lengths = np.minimum(lengths, n_tokens - begins)[begins < n_tokens]
        return wrap(kept_lengths, self.max_length)

    def _fill_knapsacks(self, lengths: Ints) -> PackedSamples:
        # Filling one row after the other, each with the longest that fits, is first fit decreasing.
        # Source: greedy_knapsack of src/llamafactory/data/processor/processor_utils.py.
        # Sorted from the back, so that of equal lengths the latest comes first.
        order = len(lengths) - 1 - longest_first(lengths[::-1])
        falling = lengths[order]
        # With packing, DataArguments makes cutoff_len one less; the row is padded to the whole.
        packing = first_fit(falling, max(self.max_length - 1, 1), max_per_row=MAX_INT)
        return PackedSamples(order, falling, starts=None, packing=packing)
