"""`axolotl`: axolotl's training, also with sample_packing: true."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints, round_up
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.algorithms.cutting import cut_every
from batchstat.planning.frameworks.defaults import HfTrainer
from batchstat.planning.frameworks.packed_rows import PackedRows
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.samplers.torch_random import torch_permutation, torch_seeds
from batchstat.planning.strategies.base import PacksDocuments, Strategy
from batchstat.planning.strategies.packed import PackedSamples, pack

# axolotl's trainer builder pads to multiples of this unless pad_to_multiple_of is set.
_PAD_TO = 64
# num_count_samples of MultipackBatchSampler, which counts once from so many ranks on.
_COUNTS, _RANKS_THAT_COUNT_ONCE = 4, 4


@dataclass(frozen=True, kw_only=True)
class AxolotlPadded(HfTrainer):
    """axolotl with its defaults: the Trainer's batches, padded to multiples of 64."""

    own_parameters: ClassVar[tuple[str, ...]] = ("pad_to_multiple_of",)
    usual_batch_size: ClassVar[int | None] = 1
    loss: ClassVar[str] = "axolotl"
    takes_sampler: ClassVar[bool] = False

    pad_to_multiple_of: int = _PAD_TO


@described(
    """axolotl. With its defaults, the batches of `hf-trainer` of `batch_size` (micro_batch_size),
    padded to the longest sample and to a multiple of 64.

    With `sample_packing`, samples are shuffled by the `seed` and packed into rows of
    `batch_size` (micro_batch_size) × `max_length` (sequence_len) tokens, `read_ahead` at a time
    (sample_packing_group_size, 100,000), at most `max_samples_per_row` (sample_packing_bin_size,
    200) in each; a row is a batch. Where the attention takes no such rows (`real_batches`), a batch
    is `batch_size` rows of `max_length` tokens.

    The batches of an epoch are no more than the fewest that axolotl finds when it first packs the
    samples in several random orders. With one rank, each epoch has another order; with several, all
    epochs have the batches that were counted last. Source: MultipackBatchSampler of
    src/axolotl/utils/samplers/multipack.py, and _create_multipack_sampler of
    src/axolotl/core/trainers/base.py.

    Ranks: batches in turn; all ranks stop with the shortest. Last batch: dropped if it has too few
    rows. Longer samples: dropped before packing (--overflow drop), unless truncated. Budget: none;
    rows as above, padded to multiples of sequence_len. Checked against axolotl 0.19 and accelerate
    1.13.
    """
)
@dataclass(frozen=True, kw_only=True)
class Axolotl(PackedRows, PacksDocuments):
    name: ClassVar[str] = "axolotl"
    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)
    usual_batch_size: ClassVar[int | None] = 1
    remainder: ClassVar[str | None] = "drop"
    loss: ClassVar[str] = "axolotl"
    packed_by: ClassVar[str] = "sample_packing"
    unpacked: ClassVar[type[Strategy] | None] = AxolotlPadded

    batch_size: int
    world_size: int = 1
    sample_packing: bool = parameter("Whether samples are packed into rows.", False)
    sequential: bool = parameter(
        "Whether a sample joins the last row or a new one (sample_packing_sequentially), not the "
        "first that has room.",
        False,
    )
    read_ahead: int = 100_000
    max_samples_per_row: int = parameter("The most samples in a row.", 200)
    real_batches: bool = parameter("Whether a batch is `batch_size` rows.", False)
    curriculum: bool = parameter("Whether samples keep their sequence.", False)
    within_samples: bool = parameter("Whether attention stays within the samples of a row.", True)
    pad_to_sequence_len: bool = parameter(
        "Whether rows are padded to multiples of `max_length`, itself in multiples of "
        "`pad_to_multiple_of` (64 where that is 1).",
        True,
    )

    @property
    def shuffles_as(self) -> str | None:  # type: ignore[override]
        """The order to which its batches amount; none of its own where samples keep theirs."""
        return None if self.curriculum else "torch"

    @property
    def row_length(self) -> int:
        """Tokens that a row may hold."""
        rows = 1 if self.real_batches else self.batch_size
        return round_up(self.max_length, self.document_multiple) * rows

    def batch_widths(self, widest: Ints) -> Ints:
        """Return the widths, in multiples of `max_length` unless `pad_to_sequence_len` is off."""
        multiple = self.pad_to_multiple_of if self.pad_to_multiple_of > 1 else _PAD_TO
        full_row = round_up(round_up(self.max_length, self.document_multiple), multiple)
        return round_up(widest, full_row) if self.pad_to_sequence_len else widest

    def pack_rows(self, lengths: Ints, begins: Ints) -> PackedSamples:  # noqa: ARG002
        """Return the rows of groups of `read_ahead` samples, or if `sequential` of all samples."""
        # `begins` is not needed: axolotl splits samples before it packs them, and a part counts
        # wherever it begins.
        # Sequentially, all samples are one group, and only tokens limit a row.
        method, group_size, most = "next-fit", MAX_INT, MAX_INT
        if not self.sequential:
            method, group_size, most = "first-fit", self.read_ahead, self.max_samples_per_row
        firsts, multiple = range(0, len(lengths), group_size), self.document_multiple
        # `row_length` holds whole multiples already, which `pack` does not change.
        return pack(lengths, self.row_length, method, most=most, firsts=firsts, multiple=multiple)

    def divide_rows(self, n_rows: int, window: Window) -> tuple[Ints, Ints]:  # noqa: ARG002
        """Return the rows of all batches, and the offsets of these, without a short last one."""
        rows_per_batch = self.batch_size if self.real_batches else 1
        offsets = cut_every(n_rows, rows_per_batch, keep_short=False)
        return np.arange(offsets[-1]), offsets

    def plan(self, window: Window) -> BatchPlan:
        """Shuffle and pack the epoch; leave out the batches above the number that axolotl counted.
        Raises InputError: a sample is longer than `max_length`.
        """
        order, max_batches = self._order_and_max_batches(window)
        starts = None if window.starts is None else window.starts[order]
        plan = super().plan(replace(window, lengths=window.lengths[order], starts=starts))
        # Positions in the shuffled order become positions in the window again.
        plan = replace(plan, samples=order[plan.samples])
        return plan.first_units(min(len(plan), max_batches))  # each unit is a batch

    def _order_and_max_batches(self, window: Window) -> tuple[Ints, int]:
        """Return (n,) the order of the samples, and the most batches of an epoch: before training,
        axolotl packs the samples in several random orders, and takes the fewest batches of any.
        """
        n = len(window.lengths)
        if self.curriculum:  # samples keep their order, and no batch of it is left out
            return np.arange(n), MAX_INT
        n_counts = 1 if self.world_size >= _RANKS_THAT_COUNT_ONCE else _COUNTS
        # Each order that is counted has a seed of its own, drawn as by a RandomSampler without a
        # generator: from the seed of the training, which is `torch_seed` − the epoch.
        # MultipackBatchSampler.__len__ packs once before it counts: the first seed is not used.
        _, *seeds = torch_seeds(1 + n_counts, window.torch_seed - window.epoch)
        counted_orders = [torch_permutation(n, seed) for seed in seeds]
        packed = (self.pack_rows(window.lengths[order], order) for order in counted_orders)
        max_batches = min(each.packing.n_rows for each in packed)
        if self.real_batches:
            max_batches //= self.batch_size
        if self.world_size > 1:  # every epoch has the order that was counted last
            return counted_orders[-1], max_batches
        return torch_permutation(n, window.torch_seed), max_batches
