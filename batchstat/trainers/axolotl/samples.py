"""Which samples of a corpus axolotl batches, in which sequence."""

import math
from dataclasses import dataclass, replace

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.lost import Lost
from batchstat.profiling.profile import Profile
from batchstat.trainers.base.samples import TrainedSamples

_MOST_PIECES = 64
"""Pieces of `sequence_len` tokens that axolotl keeps of a text."""


@dataclass(frozen=True, kw_only=True)
class AxolotlSamples:
    """axolotl's preparation: split texts, shuffle, drop, hold out the last.

    Source: tokenize_prompt of src/axolotl/prompt_tokenizers.py and of completion.py in
    prompt_strategies, merge_datasets and create_train_validation_split of utils/data/shared.py,
    handle_long_seq_in_dataset of utils/data/utils.py, process_datasets_for_packing of
    utils/trainer.py, in axolotl 0.19; Dataset.shuffle and train_test_split of datasets.

    Attributes:
        seed: of the shuffled sequence; None where it is that of the corpus.
        least: tokens that a sample has at least.
        excess: what happens to longer samples than `max_length`: drop, truncate or raise.
        only_trained: whether samples without a trained token are dropped.
        splits: whether longer texts become several samples before they are shuffled.
        trains_prompts: whether the prompts of instructions are trained, too.
        held_out: samples to evaluate on: a share of them, or above 1 their number.
    """

    seed: int | None
    least: int
    excess: str
    only_trained: bool
    splits: bool
    trains_prompts: bool
    held_out: float

    def __call__(self, profile: Profile, max_length: int) -> TrainedSamples:
        """Return what axolotl batches.

        Raises:
            InputError: nothing is left, or a longer sample is refused.
        """
        longest = _MOST_PIECES * max_length
        beyond: Ints = np.zeros(0, dtype=np.int64)
        if self.splits and profile.corpus.options.content == "text":
            beyond = profile.lengths[profile.lengths > longest] - longest
            profile = _in_pieces(profile, max_length)
        if profile.corpus.options.tokenize_apart:
            profile = self._instructions(profile, max_length)
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
            # axolotl truncates first, and then drops these.
            counts = profile.trained.counts(stops=max_length)[order]
            reasons["without a trained token"] = counts > 0
        kept = np.ones(len(order), dtype=bool)
        for reason, holds in reasons.items():
            if missing := int((kept & ~holds).sum()):
                dropped[reason] = missing
            kept &= holds
        lost = Lost(
            truncated_samples=len(beyond),
            truncated_tokens=int(beyond.sum()),
            dropped_samples=int(np.count_nonzero(~kept)),
            dropped_tokens=int(lengths[~kept].sum()),
        )
        order = order[kept]
        held_out = self._held_out(len(order))
        if len(order) <= held_out:
            raise InputError(
                f"axolotl trains on none of {len(profile):,} samples: {sum(dropped.values()):,} "
                f"are dropped and {held_out:,} held out: raise sequence_len, or lower val_set_size"
            )
        found = profile.take(order[: len(order) - held_out])
        return TrainedSamples(profile=found, dropped=dropped, held_out=held_out, lost=lost)

    def _instructions(self, profile: Profile, max_length: int) -> Profile:
        """Return prompts with completions as axolotl has them.

        Both are truncated before they are joined, so only what has no completion always fits.
        """
        assert profile.trained is not None, "completions carry loss"
        alone = profile.trained.counts() == 0
        lengths = np.where(alone, np.minimum(profile.lengths, max_length), profile.lengths)
        kinds = {} if self.trains_prompts else profile.kinds
        return replace(profile, lengths=lengths, kinds=kinds)

    def _held_out(self, samples: int) -> int:
        if self.held_out > 1:
            return int(self.held_out)
        # `Dataset.train_test_split` rounds the test set up.
        return math.ceil(self.held_out * samples)

    def _check_longest(self, profile: Profile, max_length: int) -> None:
        longest = profile.stats.max
        if longest <= max_length:
            return
        if self.excess == "raise":
            raise InputError(
                f"a sample of {longest:,} tokens is longer than sequence_len={max_length}, which "
                "excess_length_strategy=raise refuses: raise sequence_len, or set it to drop"
            )


def _in_pieces(profile: Profile, size: int) -> Profile:
    """Return texts cut every `size` tokens, the pieces of each one after the other."""
    lengths = np.minimum(profile.lengths, _MOST_PIECES * size)
    pieces = -(-lengths // size)
    text = np.repeat(np.arange(len(profile)), pieces)
    before = size * (np.arange(len(text)) - offsets_from_sizes(pieces)[text])
    return replace(profile.take(text), lengths=np.minimum(lengths[text] - before, size))
