"""Which samples of a corpus ms-swift batches, in which sequence.

Checked against ms-swift 4.6.0: `load_dataset` of swift/dataset/loader.py, `post_process` of
dataset_meta.py, `sample_dataset` and `AddLengthPreprocessor` of utils.py, `Template._truncate` of
swift/template/base.py; `Dataset.shuffle` and `train_test_split` of datasets 4.8.
"""

from dataclasses import dataclass, replace

import numpy as np

from batchstat.errors import InputError
from batchstat.frameworks.samples import TrainedSamples, keep_some
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.lost import Lost
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.profiling.chat_rows import chat_rows
from batchstat.profiling.profile import Profile

TOKENIZES = (
    "ms-swift tokenizes with templates of its own: pass what its template's encode makes of each "
    "sample as CORPUS, a file for each data set, with the columns input_ids and labels"
)
_SEEDS = np.iinfo(np.int32).max


@dataclass(frozen=True, kw_only=True)
class MsSwiftSamples:
    """ms-swift's preparation: sample each data set, hold out, shuffle, drop or truncate.

    Attributes:
        sampled: how many samples of each data set are taken; None for all.
        held_out_share: the share of each that is held out to evaluate on.
        seed: data_seed.
        shuffles: whether samples are drawn, held out and sequenced at random.
        longest: tokens that a sample may have; None for any number.
        truncation: what happens to longer ones: delete, left or right.
        lazy: whether they are found during training only.
        strict: whether one of them ends the run.
    """

    sampled: tuple[int | None, ...]
    held_out_share: float
    seed: int
    shuffles: bool
    longest: int | None
    truncation: str
    lazy: bool
    strict: bool

    def __call__(self, profile: Profile, max_length: int) -> TrainedSamples:
        """Return what ms-swift batches.

        Raises:
            InputError: nothing is left, the corpus has other files than the configuration data
                sets, or which samples are trained on is decided at random.
        """
        del max_length  # that of packing_length, where samples are packed
        found = self._trained(profile)
        if profile.tokenizer is None:
            return found
        return replace(found, warnings=(f"counts may differ: {TOKENIZES}",))

    def _trained(self, profile: Profile) -> TrainedSamples:
        order, held_out = self._order(self._sizes(profile))
        not_sampled = len(profile) - len(order) - held_out
        dropped = {"by sampling": not_sampled} if not_sampled else {}
        found = profile.take(order)
        if self.strict and self.truncation == "delete":
            self._check_longest(profile if held_out else found)
        if self.longest is None or not (found.lengths > self.longest).any():
            return TrainedSamples(profile=found, dropped=dropped, held_out=held_out)
        longer = found.lengths > self.longest
        if self.truncation == "delete":
            if self.lazy:
                raise InputError(
                    f"a sample is longer than max_length={self.longest}: with lazy_tokenize, "
                    "ms-swift replaces it by a random one: set lazy_tokenize to false"
                )
            if longer.all():
                raise InputError(
                    f"all {len(found):,} samples are longer than max_length={self.longest}, so "
                    "ms-swift trains on none: raise it"
                )
            reason = f"longer than {self.longest} tokens"
            fitting = keep_some(found, np.flatnonzero(~longer), reason)
            return replace(fitting, dropped={**dropped, **fitting.dropped}, held_out=held_out)
        return TrainedSamples(
            profile=_shortened(found, self.longest, from_left=self.truncation == "left"),
            dropped=dropped,
            held_out=held_out,
            lost=Lost(
                truncated_samples=int(longer.sum()),
                truncated_tokens=int((found.lengths[longer] - self.longest).sum()),
            ),
        )

    def _check_longest(self, profile: Profile) -> None:
        """Raise InputError if a sample is too long."""
        longest = profile.stats.max
        if self.longest is not None and longest > self.longest:
            raise InputError(
                f"a sample of {longest:,} tokens is longer than max_length={self.longest}, at "
                "which ms-swift stops with strict=true: raise it, or set strict to false"
            )

    def _sizes(self, profile: Profile) -> tuple[int, ...]:
        """Return the number of samples of each data set."""
        corpus = profile.corpus
        if sum(corpus.skipped.values()) or len(corpus.sources) == 1:
            sizes: tuple[int, ...] = (len(profile) + sum(corpus.skipped.values()),)
        else:
            sizes = chat_rows(profile).sizes
        if sum(sizes) != len(profile):
            raise InputError("the corpus has samples that were skipped: remove them beforehand")
        each_matters = self.held_out_share or any(each is not None for each in self.sampled)
        if len(sizes) != len(self.sampled) and each_matters:
            raise InputError(
                f"ms-swift takes a part of each of {len(self.sampled)} data sets, but the corpus "
                f"has {len(sizes)} files: pass a file for each, in their sequence"
            )
        return sizes

    def _order(self, sizes: tuple[int, ...]) -> tuple[Ints, int]:
        """Return the samples in sequence, and how many are held out."""
        random = np.random.RandomState(self.seed)
        parts, held_out, first = [], 0, 0
        sampled = self.sampled if len(self.sampled) == len(sizes) else (None,) * len(sizes)
        for size, wanted in zip(sizes, sampled, strict=True):
            random.randint(0, _SEEDS)  # ms-swift draws one for what only other tasks need
            part, out = self._part(size, size if wanted is None else wanted, random)
            parts.append(first + part)
            held_out += out
            first += size
        order = np.concatenate(parts)
        if self.shuffles:
            seed = random.randint(0, _SEEDS)
            order = order[np.random.default_rng(seed).permutation(len(order))]
        return order, held_out

    def _part(self, size: int, wanted: int, random: np.random.RandomState) -> tuple[Ints, int]:
        """Return the samples of a data set that are trained on, and how many are held out."""
        if wanted < 1:
            raise InputError("dataset takes #0 samples of a file: raise it")
        if wanted > size:
            raise InputError(
                f"dataset takes #{wanted} samples of a file that has {size:,}, which repeats some "
                "and is not modelled: lower it"
            )
        left, held_out = np.arange(size), 0
        if self.held_out_share:
            held_out = max(int(min(size, wanted) * self.held_out_share), 1)
            if wanted <= held_out:
                raise InputError(f"split_dataset_ratio holds out all {wanted:,} samples: lower it")
            wanted -= held_out
            left = left[: size - held_out]
            if self.shuffles:
                seed = random.randint(0, _SEEDS)
                left = np.random.default_rng(seed).permutation(size)[held_out:]
        if wanted < len(left):
            some = random.permutation(len(left)) if self.shuffles else np.arange(len(left))
            left = left[some[:wanted]]
        return left, held_out


def _shortened(profile: Profile, longest: int, *, from_left: bool) -> Profile:
    """Return samples without the tokens beyond the longest, the first ones or the last."""
    lengths = np.minimum(profile.lengths, longest)
    if profile.trained is None:
        return replace(profile, lengths=lengths)
    ranges = profile.trained
    sizes = np.diff(ranges.offsets)
    shift = (profile.lengths - lengths) * from_left
    edges = np.clip(ranges.edges - np.repeat(shift, sizes), 0, np.repeat(lengths, sizes))
    sample = np.repeat(np.arange(len(lengths)), sizes // 2)
    pairs = edges.reshape(-1, 2)
    kept = pairs[:, 0] < pairs[:, 1]
    counts = 2 * np.bincount(sample[kept], minlength=len(lengths))
    trained = TokenRanges(pairs[kept].reshape(-1), offsets_from_sizes(counts))
    return replace(profile, lengths=lengths, kinds={**profile.kinds, "trained": trained})
