"""Which samples of a corpus axolotl batches, in which sequence, and how long it trains."""

import math
from dataclasses import dataclass, replace

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.lost import Lost
from batchstat.planning.epoch import make_epoch
from batchstat.profiling.profile import Profile
from batchstat.trainers.axolotl.keys import AxolotlConfig
from batchstat.trainers.base.rules import EpochSize, Schedule
from batchstat.trainers.base.samples import TrainedSamples

_MOST_PIECES = 64
"""axolotl truncates a text to so many pieces of `sequence_len` tokens; what follows is lost."""


def prepare(
    config: AxolotlConfig, seed: int | None, cuts_texts: bool, profile: Profile, max_length: int
) -> TrainedSamples:
    """Return the samples that axolotl batches: it cuts texts, shuffles, drops short and long
    samples, and holds out the last ones for evaluation.

    Source: tokenize_prompt of src/axolotl/prompt_tokenizers.py and of completion.py in
    prompt_strategies, merge_datasets and create_train_validation_split of utils/data/shared.py,
    handle_long_seq_in_dataset of utils/data/utils.py, process_datasets_for_packing of
    utils/trainer.py, in axolotl 0.19; Dataset.shuffle and train_test_split of datasets.

    Args:
        config: the keys.
        seed: seed of the shuffle; None if samples keep the sequence of the corpus.
        cuts_texts: whether texts above max_length become several samples before the shuffle.
        profile: the corpus.
        max_length: the most tokens of a sample.

    Raises:
        InputError: no sample is left to train on, or a longer one is refused.
    """
    lost_ends: Ints = np.zeros(0, dtype=np.int64)  # tokens lost at the end of each very long text
    if cuts_texts and profile.corpus.options.content == "text":
        longest = _MOST_PIECES * max_length
        lost_ends = profile.lengths[profile.lengths > longest] - longest
        profile = _cut_texts(profile, max_length)
    if profile.corpus.options.tokenize_apart:  # type: alpaca
        profile = _truncate_instructions(config, profile, max_length)
    if config.excess_length_strategy == "raise" and profile.stats.max > max_length:
        raise InputError(
            f"a sample of {profile.stats.max:,} tokens is longer than sequence_len={max_length}, "
            "which excess_length_strategy=raise refuses",
            "raise sequence_len, or set it to drop",
        )
    order = np.arange(len(profile))
    if seed is not None:
        order = np.random.default_rng(seed).permutation(len(profile))
    # Unset, min_sample_len is 2.
    lengths, least = profile.lengths[order], config.min_sample_len or 2
    # For each reason to drop samples, (n_samples,) whether it drops each, in the shuffled sequence.
    drops = {f"shorter than {least} tokens": lengths < least}
    if config.excess_length_strategy in (None, "drop"):
        drops[f"longer than {max_length} tokens"] = lengths > max_length
    if config.sample_packing and profile.trained is not None:
        # axolotl truncates first, and then drops samples without a trained token left.
        drops["without a trained token"] = profile.trained.counts(stops=max_length)[order] == 0
    dropped: dict[str, int] = {}
    is_kept = np.ones(len(order), dtype=bool)
    for reason, is_dropped in drops.items():
        # A sample counts under the first reason that drops it.
        if count := int((is_kept & is_dropped).sum()):
            dropped[reason] = count
        is_kept &= ~is_dropped
    lost = Lost.of_excess(lost_ends) + Lost(
        dropped_samples=int(np.count_nonzero(~is_kept)), dropped_tokens=int(lengths[~is_kept].sum())
    )
    order = order[is_kept]
    size = config.val_set_size
    # Above 1, val_set_size is a number; a share is rounded up by `Dataset.train_test_split`.
    held_out = int(size) if size > 1 else math.ceil(size * len(order))
    if len(order) <= held_out:
        raise InputError(
            f"axolotl trains on none of {len(profile):,} samples: {sum(dropped.values()):,} "
            f"are dropped and {held_out:,} held out",
            "raise sequence_len, or lower val_set_size",
        )
    # The last samples are held out: axolotl splits without shuffling again.
    trained = profile.take(order[: len(order) - held_out])
    return TrainedSamples(profile=trained, dropped=dropped, held_out=held_out, lost=lost)


def _truncate_instructions(config: AxolotlConfig, profile: Profile, max_length: int) -> Profile:
    """Return samples of type alpaca as long as axolotl makes them.

    It truncates a prompt and its completion to `max_length` each, and then joins them: a prompt
    without a completion never exceeds it, any other sample may.
    """
    assert profile.trained is not None, "completions carry loss"
    has_no_completion = profile.trained.counts() == 0
    lengths = np.where(has_no_completion, np.minimum(profile.lengths, max_length), profile.lengths)
    kinds = {} if config.train_on_inputs else profile.kinds  # no kinds: every token is trained
    return replace(profile, lengths=lengths, kinds=kinds)


def _cut_texts(profile: Profile, size: int) -> Profile:
    """Return texts cut every `size` tokens, each piece a sample: lengths [5, 2] and size 2 become
    lengths [2, 2, 1, 2].
    """
    texts = np.flatnonzero(profile.lengths)  # one without tokens has no piece
    lengths = np.minimum(profile.lengths[texts], _MOST_PIECES * size)
    pieces = make_epoch(texts, lengths, size, "split")
    return replace(profile.take(pieces.samples), lengths=pieces.lengths)


_WARMUP_SHARE, _MOST_WARMUP = 0.03, 100
"""axolotl's default warm-up: this share of all steps, at most so many."""


@dataclass(frozen=True, kw_only=True)
class AxolotlSchedule(Schedule):
    """How long axolotl trains.

    Source: calculate_total_num_steps of src/axolotl/utils/trainer.py, and
    _configure_warmup_and_logging of src/axolotl/core/builders/base.py, in axolotl 0.19.

    Attributes:
        max_steps: as in `Schedule`; -1 leaves the counting of steps to the Trainer.
        config: the keys.
        samples_per_step: samples per step on each rank, by which axolotl counts steps.
    """

    config: AxolotlConfig
    samples_per_step: int

    def total_steps(self, epoch: EpochSize) -> int:
        """Return the number of optimizer steps.

        axolotl hands its own count to the Trainer as max_steps. Where that is 0 or less, the
        Trainer takes it for "not set", and counts epochs itself.
        """
        steps = self.max_steps or self._counted_steps(epoch)
        return steps if steps > 0 else math.ceil(self.epochs * epoch.steps)

    def warmup_steps(self, epoch: EpochSize) -> int:
        """Return how many of the steps are warm-up. Of a single one, axolotl makes two."""
        counted, ratio = self._counted_steps(epoch), self.config.warmup_ratio
        total = min(self.max_steps, counted) if self.max_steps else counted
        if self.config.warmup_steps is not None:
            steps = self.config.warmup_steps
        elif total == 0:  # axolotl hands on the share, which the Trainer takes of its own count
            share = _WARMUP_SHARE if ratio is None else ratio
            return math.ceil(self.total_steps(epoch) * share)
        elif total < 0:  # max_steps is -1, or its count is negative: see `_counted_steps`
            steps = 0
        elif ratio is not None:
            steps = int(ratio * total)
        else:
            steps = min(int(_WARMUP_SHARE * total), _MOST_WARMUP)
        return 2 if steps == 1 else steps

    def _counted_steps(self, epoch: EpochSize) -> int:
        """Return the number of steps that axolotl counts before training: with packing from the
        batches of the epoch, else from its samples. A short training with packing may count 0 or
        fewer.
        """
        if not self.config.sample_packing:
            per_step = self.samples_per_step * epoch.world_size
            return math.ceil(epoch.samples * self.epochs / per_step)
        batches_per_step = self.samples_per_step // self.config.micro_batch_size
        # axolotl counts one step at least for each epoch.
        steps = math.floor(max(1, epoch.batches // batches_per_step) * self.epochs)
        # With drop_last, it takes one step off for each epoch that begins.
        return steps - math.ceil(self.epochs) if self.config.dataloader_drop_last else steps
