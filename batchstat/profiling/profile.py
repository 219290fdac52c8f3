"""`Profile`: the lengths and labels of a corpus, where they come from, and what they say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.sources import Source
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import Histogram, LengthStats, log_edges

if TYPE_CHECKING:
    import pandas as pd


_HARMLESS = ("blank", "short")
"""Reasons to skip a record that are no faults."""


@dataclass(frozen=True)
class CorpusFacts:
    """Which corpus was read, and how.

    Attributes:
        sources: its files, in the order they were read.
        options: how they were read.
        skipped: records that are no samples, by reason.
        faults: what was wrong with the first few records that could not be read.
        failed: why parts of it are not counted: with one, the profile is partial.
        left_out: chats of which the chat template leaves something out, by what that is: see
            `batchstat.tokenization.template_coverage.Places.left_out`.
    """

    sources: tuple[Source, ...]
    options: CorpusOptions
    skipped: Mapping[str, int]
    faults: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def faulty(self) -> dict[str, int]:
        """Records that could not be read, by the reasons that occur."""
        return {
            reason: count
            for reason, count in self.skipped.items()
            if count and reason not in _HARMLESS
        }

    @property
    def unreadable(self) -> int:
        """Records that could not be read, and were skipped because that was asked for."""
        return sum(self.faulty.values())


@dataclass(frozen=True)
class TokenizerFacts:
    """Which tokenizer counted: see `batchstat.tokenization.tokenizer.Tokenizer`."""

    name: str
    digest: str
    special_tokens_per_sample: int
    max_length: int | None
    library: str


@dataclass(frozen=True)
class Truncation:
    """What a `max_length` would cut: how many samples, and how many tokens of them."""

    max_length: int
    samples: int
    tokens: int


@dataclass(frozen=True)
class ClassCount:
    """The samples of one label; None where a sample has none.

    Attributes:
        label: the class.
        count: its samples.
        tokens: their tokens.
        total: the samples of all classes.
    """

    label: str | None
    count: int
    tokens: int
    total: int

    @property
    def share(self) -> float:
        """Of all samples."""
        return self.count / self.total

    @property
    def mean_length(self) -> float:
        """Tokens a sample."""
        return self.tokens / self.count


@dataclass(frozen=True, eq=False)
class Labels:
    """The classes of samples: one each or none, or any number where there are `offsets`.

    Attributes:
        codes: (n,) which of `names`, -1 where a sample has no label; or (offsets[-1],) those of
            all samples in turn.
        names: the labels that occur, in the order of their first sample.
        offsets: (n + 1,) sample i has codes[offsets[i] : offsets[i + 1]]; None where every sample
            has one.
    """

    codes: Ints
    names: tuple[str, ...]
    offsets: Ints | None = None

    @property
    def samples(self) -> Ints:
        """(n_codes,) the sample that each code is of."""
        if self.offsets is None:
            return np.arange(len(self.codes))
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


@dataclass(frozen=True, eq=False)
class Profile:
    """The lengths of a corpus's samples, in corpus order, and what is known of them.

    Attributes:
        created: when reading began, ISO 8601 in UTC.
        corpus: which corpus.
        tokenizer: which tokenizer counted; None where the corpus was counted already.
        records: (n,) where each sample stood in its corpus, skipped records counted.
        lengths: (n,) tokens of each sample, whole, special tokens counted.
        labels: the classes; None where no label column was read.
    """

    created: str
    corpus: CorpusFacts
    tokenizer: TokenizerFacts | None
    records: Ints
    lengths: Ints
    labels: Labels | None

    def __len__(self) -> int:
        """How many samples."""
        return len(self.lengths)

    @property
    def stated_max(self) -> int | None:
        """The longest sample that the tokenizer's maker states, if any."""
        return self.tokenizer.max_length if self.tokenizer else None

    @cached_property
    def stats(self) -> LengthStats:
        """The numbers of its lengths."""
        return LengthStats.of(self.lengths)

    @cached_property
    def histogram(self) -> Histogram:
        """Its lengths in four bins an octave."""
        return self.stats.histogram(log_edges(self.stats.min, self.stats.max, per_octave=4))

    @cached_property
    def octaves(self) -> Histogram:
        """Its lengths in one bin an octave: 1, 2-3, 4-7, …"""
        return self.stats.histogram(log_edges(self.stats.min, self.stats.max))

    @cached_property
    def truncation(self) -> tuple[Truncation, ...]:
        """What the `max_length` candidates that matter here would cut.

        These are the powers of two that cut between half of the samples and none, the tokenizer's
        maximum where it cuts any, the length that cuts 1 % and the longest, which cuts nothing.
        """
        stats = self.stats
        candidates = {
            2**power for power in range(31) if stats.percentile(500) <= 2**power < stats.max
        }
        candidates |= {stats.percentile(990), stats.max}
        if self.stated_max is not None and self.stated_max < stats.max:
            candidates.add(self.stated_max)
        return tuple(Truncation(limit, *stats.above(limit)) for limit in sorted(candidates))

    @cached_property
    def classes(self) -> tuple[ClassCount, ...]:
        """Its classes, the largest first; empty where no label column was read.

        A sample of several classes counts in each of them.
        """
        if self.labels is None:
            return ()
        names = (None, *self.labels.names)
        places = self.labels.codes + 1
        counts = np.bincount(places, minlength=len(names))
        tokens = np.zeros(len(names), dtype=np.int64)
        np.add.at(tokens, places, self.lengths[self.labels.samples])
        present = [i for i in np.argsort(-counts, kind="stable").tolist() if counts[i]]
        return tuple(
            ClassCount(names[i], int(counts[i]), int(tokens[i]), len(self)) for i in present
        )

    @property
    def class_ratio(self) -> float | None:
        """Samples of the largest class / samples of the smallest; None where there is none.

        Samples without a label are no class.
        """
        counts = [each.count for each in self.classes if each.label is not None]
        return max(counts) / min(counts) if counts else None

    def lengths_of(self, label: str | None) -> Ints:
        """(n_of_class,) tokens of the samples with this label, or of those without one."""
        if self.labels is None:
            raise InputError("no label column was read: pass label_column")
        code = -1 if label is None else self.labels.names.index(label)
        chosen: Ints = self.lengths[self.labels.samples[self.labels.codes == code]]
        return chosen

    def to_frame(self) -> "pd.DataFrame":
        """A row a sample: `record`, `length`, and `label` where there are labels.

        A label is a category; of samples with several classes, a list of them.
        """
        import pandas as pd

        frame = pd.DataFrame({"record": self.records, "length": self.lengths})
        if self.labels is None:
            return frame
        names = pd.Index(self.labels.names, dtype="str")
        if self.labels.offsets is None:
            frame["label"] = pd.Categorical.from_codes(self.labels.codes, names)
        else:
            named = [None if code < 0 else self.labels.names[code] for code in self.labels.codes]
            expand_ranges = pairwise(self.labels.offsets.tolist())
            frame["label"] = [[n for n in named[a:b] if n is not None] for a, b in expand_ranges]
        return frame
