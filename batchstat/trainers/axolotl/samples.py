"""Which samples of a corpus axolotl batches, in which sequence, and how long it trains."""

import math
from dataclasses import dataclass, replace

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.lost import Lost
from batchstat.profiling.profile import Profile
from batchstat.trainers.axolotl.keys import AxolotlConfig
from batchstat.trainers.base.rules import EpochSize, Schedule
from batchstat.trainers.base.samples import TrainedSamples

_MOST_PIECES = 64
"""Pieces of `sequence_len` tokens that axolotl keeps of a text."""


def prepare(
    config: AxolotlConfig, seed: int | None, splits: bool, profile: Profile, max_length: int
) -> TrainedSamples:
    """Return what axolotl batches: it splits texts, shuffles, drops, and holds out the last.

    Source: tokenize_prompt of src/axolotl/prompt_tokenizers.py and of completion.py in
    prompt_strategies, merge_datasets and create_train_validation_split of utils/data/shared.py,
    handle_long_seq_in_dataset of utils/data/utils.py, process_datasets_for_packing of
    utils/trainer.py, in axolotl 0.19; Dataset.shuffle and train_test_split of datasets.

    Args:
        config: the keys.
        seed: of the shuffled sequence; None where it is that of the corpus.
        splits: whether longer texts become several samples before they are shuffled.
        profile: the corpus.
        max_length: tokens of the longest sample.

    Raises:
        InputError: nothing is left, or a longer sample is refused.
    """
    beyond: Ints = np.zeros(0, dtype=np.int64)
    if splits and profile.corpus.options.content == "text":
        longest = _MOST_PIECES * max_length
        beyond = profile.lengths[profile.lengths > longest] - longest
        profile = _in_pieces(profile, max_length)
    if profile.corpus.options.tokenize_apart:
        profile = _instructions(config, profile, max_length)
    if config.excess_length_strategy == "raise" and profile.stats.max > max_length:
        raise InputError(
            f"a sample of {profile.stats.max:,} tokens is longer than sequence_len={max_length}, "
            "which excess_length_strategy=raise refuses: raise sequence_len, or set it to drop"
        )
    order = np.arange(len(profile))
    if seed is not None:
        order = np.random.default_rng(seed).permutation(len(profile))
    lengths, least = profile.lengths[order], config.min_sample_len or 2
    reasons = {f"shorter than {least} tokens": lengths >= least}
    if config.excess_length_strategy in (None, "drop"):
        reasons[f"longer than {max_length} tokens"] = lengths <= max_length
    if config.sample_packing and profile.trained is not None:
        # axolotl truncates first, and then drops these.
        reasons["without a trained token"] = profile.trained.counts(stops=max_length)[order] > 0
    dropped: dict[str, int] = {}
    kept = np.ones(len(order), dtype=bool)
    for reason, holds in reasons.items():
        if missing := int((kept & ~holds).sum()):
            dropped[reason] = missing
        kept &= holds
    lost = Lost.of_excess(beyond) + Lost(
        dropped_samples=int(np.count_nonzero(~kept)), dropped_tokens=int(lengths[~kept].sum())
    )
    order = order[kept]
    size = config.val_set_size
    # `Dataset.train_test_split` rounds the test set up.
    held_out = int(size) if size > 1 else math.ceil(size * len(order))
    if len(order) <= held_out:
        raise InputError(
            f"axolotl trains on none of {len(profile):,} samples: {sum(dropped.values()):,} "
            f"are dropped and {held_out:,} held out: raise sequence_len, or lower val_set_size"
        )
    trained = profile.take(order[: len(order) - held_out])
    return TrainedSamples(profile=trained, dropped=dropped, held_out=held_out, lost=lost)


def _instructions(config: AxolotlConfig, profile: Profile, max_length: int) -> Profile:
    """Return prompts with completions as axolotl has them.

    Both are truncated before they are joined, so only what has no completion always fits.
    """
    assert profile.trained is not None, "completions carry loss"
    alone = profile.trained.counts() == 0
    lengths = np.where(alone, np.minimum(profile.lengths, max_length), profile.lengths)
    kinds = {} if config.train_on_inputs else profile.kinds
    return replace(profile, lengths=lengths, kinds=kinds)


def _in_pieces(profile: Profile, size: int) -> Profile:
    """Return texts cut every `size` tokens, the pieces of each one after the other."""
    lengths = np.minimum(profile.lengths, _MOST_PIECES * size)
    pieces = -(-lengths // size)
    text = np.repeat(np.arange(len(profile)), pieces)
    before = size * (np.arange(len(text)) - offsets_from_sizes(pieces)[text])
    return replace(profile.take(text), lengths=np.minimum(lengths[text] - before, size))


_WARMUP_SHARE, _MOST_WARMUP = 0.03, 100


@dataclass(frozen=True, kw_only=True)
class AxolotlSchedule(Schedule):
    """How long axolotl trains.

    Source: calculate_total_num_steps of src/axolotl/utils/trainer.py, and
    _configure_warmup_and_logging of src/axolotl/core/builders/base.py, in axolotl 0.19.

    Attributes:
        max_steps: as in `Schedule`, or negative where the Trainer counts the steps itself.
        config: the keys.
        samples_per_step: samples per step on each rank with which steps are counted.
    """

    config: AxolotlConfig
    samples_per_step: int

    def total_steps(self, epoch: EpochSize) -> int:
        """Return the number of optimizer steps: the Trainer's own where axolotl counts none."""
        steps = self.max_steps or self._counted(epoch)
        return steps if steps > 0 else math.ceil(self.epochs * epoch.steps)

    def warmup_steps(self, epoch: EpochSize) -> int:
        """Return how many of the steps are warm-up; of a single one, axolotl makes two."""
        counted, ratio = self._counted(epoch), self.config.warmup_ratio
        total = min(self.max_steps, counted) if self.max_steps else counted
        if self.config.warmup_steps is not None:
            steps = self.config.warmup_steps
        elif total == 0:  # a share of what the Trainer counts, then
            share = _WARMUP_SHARE if ratio is None else ratio
            return math.ceil(self.total_steps(epoch) * share)
        elif total < 0:
            # drop_last takes a step for each epoch that begins: axolotl's count may be -1.
            steps = 0
        elif ratio is not None:
            steps = int(ratio * total)
        else:
            steps = min(int(_WARMUP_SHARE * total), _MOST_WARMUP)
        return 2 if steps == 1 else steps

    def _counted(self, epoch: EpochSize) -> int:
        if not self.config.sample_packing:
            per_step = self.samples_per_step * epoch.world_size
            return math.ceil(epoch.samples * self.epochs / per_step)
        accumulation = self.samples_per_step // self.config.micro_batch_size
        counted = math.floor(max(1, epoch.batches // accumulation) * self.epochs)
        # An epoch counts as one step less then, where samples are packed.
        return counted - math.ceil(self.epochs) if self.config.dataloader_drop_last else counted
