"""Which samples of a corpus axolotl batches, in which sequence."""

import math
from dataclasses import dataclass

import numpy as np

from batchstat.errors import InputError
from batchstat.frameworks.samples import TrainedSamples
from batchstat.profiling.profile import Profile


@dataclass(frozen=True, kw_only=True)
class AxolotlSamples:
    """axolotl's preparation: shuffle, drop, hold out the last.

    Source: merge_datasets and create_train_validation_split of src/axolotl/utils/data/shared.py,
    handle_long_seq_in_dataset of src/axolotl/utils/data/utils.py, process_datasets_for_packing of
    src/axolotl/utils/trainer.py, in axolotl 0.19; Dataset.shuffle and train_test_split of datasets.

    Attributes:
        seed: of the shuffled sequence; None where it is that of the corpus.
        least: tokens that a sample has at least.
        excess: what happens to longer samples than `max_length`: drop, truncate or raise.
        only_trained: whether samples without a trained token are dropped.
        splits: whether longer samples are split before they are shuffled.
        held_out: samples to evaluate on: a share of them, or above 1 their number.
    """

    seed: int | None
    least: int
    excess: str
    only_trained: bool
    splits: bool
    held_out: float

    def __call__(self, profile: Profile, max_length: int) -> TrainedSamples:
        """Return what axolotl batches.

        Raises:
            InputError: nothing is left, or a longer sample is refused, or would be split.
        """
        self._check_longest(profile, max_length)
        order = np.arange(len(profile))
        if self.seed is not None:
            order = np.random.default_rng(self.seed).permutation(len(profile))
        dropped: dict[str, int] = {}
        lengths = profile.lengths[order]
        reasons = {f"shorter than {self.least} tokens": lengths >= self.least}
        if self.excess == "drop":
            reasons[f"longer than {max_length} tokens"] = lengths <= max_length
        if self.only_trained and profile.trained is not None:
            counts = profile.trained.counts(stops=max_length)[order]
            reasons["without a trained token"] = counts > 0
        kept = np.ones(len(order), dtype=bool)
        for reason, holds in reasons.items():
            if missing := int((kept & ~holds).sum()):
                dropped[reason] = missing
            kept &= holds
        order = order[kept]
        held_out = self._held_out(len(order))
        if len(order) <= held_out:
            raise InputError(
                f"axolotl trains on none of {len(profile):,} samples: {sum(dropped.values()):,} "
                f"are dropped and {held_out:,} held out: raise sequence_len, or lower val_set_size"
            )
        found = profile.take(order[: len(order) - held_out])
        return TrainedSamples(profile=found, dropped=dropped, held_out=held_out)

    def _held_out(self, samples: int) -> int:
        if self.held_out > 1:
            return int(self.held_out)
        return math.ceil(self.held_out * samples)

    def _check_longest(self, profile: Profile, max_length: int) -> None:
        longest = profile.stats.max
        if longest <= max_length:
            return
        if self.splits:
            raise InputError(
                f"a text of {longest:,} tokens is longer than sequence_len={max_length}: axolotl "
                "splits it before it shuffles, which is not modelled: split texts beforehand, or "
                "raise sequence_len"
            )
        if self.excess == "raise":
            raise InputError(
                f"a sample of {longest:,} tokens is longer than sequence_len={max_length}, which "
                "excess_length_strategy=raise refuses: raise sequence_len, or set it to drop"
            )
