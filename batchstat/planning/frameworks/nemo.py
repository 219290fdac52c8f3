"""`nemo`: NeMo's and Megatron-Bridge's packed sequences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints, round_up
from batchstat.lengths.stats import distinct
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.algorithms.packing import first_fit
from batchstat.planning.frameworks.packed_rows import PackedRows
from batchstat.planning.plan import Window
from batchstat.planning.strategies.packed import PackedSamples

ALGORITHMS: Mapping[str, str] = {
    "first_fit_shuffle": "In random sequence, each sample into the first row that has room.",
    "first_fit_decreasing": "Longest first, each sample into the first row that has room.",
}

_PAD_TO = 16


@described(
    """Packed sequences of NeMo and Megatron-Bridge for finetuning: the histogram of all lengths is
    packed by first fit into rows of `max_length` (packed_sequence_size), in random sequence or
    longest first, and random samples of these lengths are put there. A batch is one row
    (micro_batch_size=1), padded to a multiple of 16, at most `max_length`. The rows are shuffled.

    Random numbers: the packing is Megatron-Bridge's for its seed, `packing_seed`; NeMo itself does
    not seed it, nor is the sequence of the rows theirs. A length here is the tokens that enter the
    model, all but the last one of a sample (EOS), as a tokenizer that adds none counts them.

    Ranks: rows in turn; all ranks stop with the shortest, there after the last whole global batch.
    Last batch: kept. Longer samples: truncated. Budget: one row of `max_length`. Checked against
    Megatron-Bridge at commit 067f987.
    """
)
@dataclass(frozen=True, kw_only=True)
class Nemo(PackedRows):
    name: ClassVar[str] = "nemo"
    shuffles_as: ClassVar[str | None] = "shuffled"
    remainder: ClassVar[str | None] = "drop"
    attends_within_samples = True  # by the boundaries of samples (cu_seqlens)

    packing_algorithm: str = parameter(
        "How NeMo packs a histogram of lengths.", "first_fit_shuffle", values=ALGORITHMS
    )
    packing_seed: int = parameter(
        "The seed of the packing, whatever the epoch's is.", 1234, least=0
    )

    def batch_widths(self, widest: Ints) -> Ints:
        """Return multiples of 16, at most `max_length`."""
        return np.minimum(round_up(widest, _PAD_TO), self.max_length)

    def pack_rows(self, lengths: Ints, begins: Ints) -> PackedSamples:  # noqa: ARG002
        """Return the rows of all samples: first of lengths alone, then with random samples of them.
        Source: create_packing_strategy and fill_packing_strategy of
        src/megatron/bridge/data/packing/algorithms.py.
        """
        rng = np.random.RandomState(self.packing_seed)
        entry_lengths = np.sort(lengths)
        if self.packing_algorithm == "first_fit_shuffle":
            rng.shuffle(entry_lengths)
        else:
            entry_lengths = entry_lengths[::-1]
        packing = first_fit(entry_lengths, self.max_length, max_per_row=MAX_INT)
        # Entries row by row, then sorted by their lengths: those of a length stay row by row.
        entries = np.lexsort((packing.before, packing.row))
        entries = entries[np.argsort(entry_lengths[entries], kind="stable")]
        samples_by_length = np.argsort(lengths, kind="stable")
        sample_of_entry = np.empty_like(entries)
        end = 0
        # For each distinct length, ascending, how many entries and samples have it.
        for count in distinct(lengths)[1].tolist():
            begin, end = end, end + count
            # In Megatron-Bridge, each entry takes the last that is left of these samples.
            shuffled = samples_by_length[begin:end][rng.permutation(count)]
            sample_of_entry[entries[begin:end]] = shuffled[::-1]
        return PackedSamples(sample_of_entry, entry_lengths, starts=None, packing=packing)

    def divide_rows(self, n_rows: int, window: Window) -> tuple[Ints, Ints]:
        """Return the rows in random sequence, one per batch."""
        return window.rng.permutation(n_rows), np.arange(n_rows + 1)
