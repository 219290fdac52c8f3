"""`Profile`: the lengths and labels of a corpus, where they come from, and their statistics."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import numpy as np

from batchstat.corpus.files.sources import Source
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.exact import sums_at
from batchstat.lengths.labels import Labels
from batchstat.lengths.max_length import (
    Lost,
    Outliers,
    Truncation,
    batch_cost,
    candidate_lengths,
    lost_without,
    outliers_of,
)
from batchstat.lengths.sample_rows import SampleRows
from batchstat.lengths.stats import Histogram, LengthStats, log_edges
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.parameters import described
from batchstat.records import Amount, Count, Positive, Ratio, Record, allowed, told, told_of, untold

if TYPE_CHECKING:
    import pandas as pd

    from batchstat.tokenization.tokenizer import Tokenizer

_HARMLESS = ("blank", "short")  # reasons to skip a record that are not errors

LABEL_FORMS = ("one", "several", "positions", "columns")
INDEXED = ("corpus", "data set", "nothing")


@described("What of each record was read, in some of the files or in all of them.")
class ReadColumns(Record):
    content: tuple[str, ...] = told(
        "Columns with what was counted; empty where a record has no columns."
    )
    is_guessed: bool = told("Whether no option named them.")
    separator: str | None = told("What separates the fields of delimited text; null elsewhere.")


@dataclass(frozen=True)
class CorpusFacts:
    """Which corpus was read, and how."""

    sources: tuple[Source, ...]  # its files, in the order they were read
    options: CorpusOptions
    skipped: Mapping[str, int]  # number of records that are not samples, by reason
    faults: tuple[str, ...] = ()  # what was wrong with the first few bad records
    failed: tuple[str, ...] = ()  # why splits of it are not counted
    left_out: Mapping[str, int] = field(default_factory=dict)
    read: tuple[ReadColumns, ...] = ()  # what of their records was read
    label_form: str = ""  # how labels were read, one of `LABEL_FORMS`; empty without labels
    indexed: str = "corpus"  # what records index, one of `INDEXED`

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
        """Records that could not be read and were skipped on request."""
        return sum(self.faulty.values())


@described("The tokenizer that counted.")
class TokenizerFacts(Record):
    name: str
    digest: Annotated[str, allowed(pattern=r"^sha256:[0-9a-f]{64}$")]
    special_tokens_per_sample: Count = told(
        "Special tokens that the tokenizer adds to a single text; counted in every length."
    )
    max_length: Positive | None
    library: str = told("The library that counted, with its version.")

    @classmethod
    def of(cls, tokenizer: "Tokenizer | None", options: CorpusOptions) -> "TokenizerFacts | None":
        """Return what a profile records of what counts a corpus that is read with these options."""
        if tokenizer is None:
            return None
        pairs = len(options.text_column) > 1
        return cls(
            tokenizer.name,
            tokenizer.digest,
            tokenizer.special_tokens_per_pair if pairs else tokenizer.special_tokens_per_sample,
            tokenizer.max_length,
            tokenizer.library,
        )


@described("One class.")
class ClassCount(Record):
    label: str | None = told("The class; null for samples without one.")
    count: Positive = told("How many samples it has.")
    tokens: int = untold()
    total: int = untold()

    @property
    @told_of("count / all samples.")
    def share(self) -> Ratio:
        return self.count / self.total

    @property
    @told_of("Tokens per sample of the class.")
    def mean_length(self) -> Amount:
        return self.tokens / self.count


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """Lengths of the samples of a corpus, in corpus order, and what else is known of them.

    Example:
        >>> profile = batchstat.profile("sample_data/corpus.txt")
        >>> len(profile), profile.stats.max
        (900, 590)

    Attributes:
        created: when reading began, ISO 8601 in UTC.
        corpus: which corpus was read, and how.
        tokenizer: tokenizer that counted; None if the corpus came with lengths or token ids.
        records: (n,) position of each sample in its corpus, skipped records counted; of a loader or
            a recorded run, its index in the data set, where that is known: see `is_indexed`.
        lengths: (n,) tokens of each sample, whole, special tokens counted.
        labels: the classes; None if no label column was read.
        kinds: tokens of each kind that is known, such as `trained`.
        lost: what a trainer's configuration drops and cuts off, which these samples are without.
        rows: the rows of samples that are made of several, whose length is that of their longest;
            None if each sample is one row.
    """

    created: str
    corpus: CorpusFacts
    tokenizer: TokenizerFacts | None
    records: Ints
    lengths: Ints
    labels: Labels | None
    kinds: Mapping[str, TokenRanges] = field(default_factory=dict)
    lost: Lost = field(default_factory=Lost)
    rows: SampleRows | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        paths = [source.path for source in self.corpus.sources]
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        name = f"{paths[0]}{more}" if paths else "a table"
        by = "" if self.tokenizer is None else f", {self.tokenizer.name}"
        return (
            f"Profile({name}{by}, {len(self):,} samples, {self.tokens:,} tokens, mean "
            f"{self.stats.mean:,.1f}, longest {self.stats.max:,})"
        )

    def take(self, samples: Ints) -> "Profile":
        """Return the profile of the samples at these positions, in this sequence."""
        return replace(
            self,
            records=self.records[samples],
            lengths=self.lengths[samples],
            labels=None if self.labels is None else self.labels.take(samples),
            kinds={kind: ranges.take(samples) for kind, ranges in self.kinds.items()},
            rows=self.rows and self.rows.take(samples),
        )

    @property
    def is_indexed(self) -> bool:
        """Whether the records index a data set, so that samplers can draw from it."""
        return self.corpus.indexed != "nothing"

    @property
    def stated_max(self) -> int | None:
        """Maximum length that the tokenizer declares (`model_max_length`), if any."""
        return self.tokenizer.max_length if self.tokenizer else None

    @property
    def tokens(self) -> int:
        """Tokens of all samples, with those of all rows of each."""
        return self.stats.sum if self.rows is None else int(self.rows.lengths.sum())

    @cached_property
    def stats(self) -> LengthStats:
        """Statistics of the lengths."""
        return LengthStats.of(self.lengths)

    @cached_property
    def histogram(self) -> Histogram:
        """Histogram of the lengths with four bins per octave."""
        return self.stats.histogram(log_edges(self.stats.min, self.stats.max, per_octave=4))

    @cached_property
    def octaves(self) -> Histogram:
        """Histogram of the lengths with one bin per octave: 1, 2-3, 4-7, …"""
        return self.stats.histogram(log_edges(self.stats.min, self.stats.max))

    @cached_property
    def truncation(self) -> tuple[Truncation, ...]:
        """What the `max_length` candidates would truncate, and what each costs."""
        stats = self.stats
        return tuple(
            Truncation(
                length,
                *stats.above(length),
                *self._trained_above(length),
                compute=batch_cost(stats, length) / max(batch_cost(stats, stats.max), 1),
            )
            for length in candidate_lengths(stats, self.stated_max)
        )

    def _trained_above(self, max_length: int) -> tuple[int | None, int | None]:
        """Return how many trained tokens and samples a `max_length` would lose, where known."""
        if self.trained is None or self.trained_tokens is None:
            return None, None
        tokens_left = self.trained.counts(stops=max_length)
        lost_tokens = self.trained_tokens - int(tokens_left.sum())
        return lost_tokens, int(np.count_nonzero(tokens_left == 0))

    @property
    def trained(self) -> TokenRanges | None:
        """The tokens that carry loss; None if they are unknown."""
        return self.kinds.get("trained")

    @cached_property
    def trained_tokens(self) -> int | None:
        """Number of tokens that carry loss; None if it is unknown."""
        return None if self.trained is None else int(self.trained.counts().sum())

    @cached_property
    def untrained_samples(self) -> int | None:
        """Number of samples without a token that carries loss; None if it is unknown."""
        if self.trained is None:
            return None
        return int(np.count_nonzero(self.trained.counts() == 0))

    @cached_property
    def outliers(self) -> Outliers | None:
        """The few samples that are far longer than all others; None if there are none."""
        return outliers_of(self.stats)

    @cached_property
    def suggested_max_length(self) -> int | None:
        """The smallest candidate that truncates at most 1 % of the samples and, outliers apart,
        loses at most 0.5 % of the tokens; None where the tokenizer's maximum is too small.
        """
        for candidate in self.truncation:
            lost, whole = lost_without(self.stats, candidate.max_length, self.outliers)
            # In whole numbers, so that a share of exactly 1 % is no matter of rounding.
            if 100 * candidate.samples <= len(self) and 200 * lost <= whole:
                return candidate.max_length
        return None

    @cached_property
    def classes(self) -> tuple[ClassCount, ...]:
        """Classes, largest first; a sample of several counts in each; empty without labels."""
        if self.labels is None:
            return ()
        # Samples without a label, whose code is -1, are class 0 here.
        names = (None, *self.labels.names)
        classes = self.labels.codes + 1  # the class of each label; `labels.samples` are its samples
        counts = np.bincount(classes, minlength=len(names))
        tokens = sums_at(classes, self.lengths[self.labels.samples], len(names))
        largest_first = [i for i in np.argsort(-counts, kind="stable").tolist() if counts[i]]
        return tuple(
            ClassCount(names[i], int(counts[i]), int(tokens[i]), len(self)) for i in largest_first
        )

    @property
    def class_ratio(self) -> float | None:
        """Samples of the largest class / of the smallest, unlabelled ones aside; None without."""
        counts = [each.count for each in self.classes if each.label is not None]
        return max(counts) / min(counts) if counts else None

    def lengths_of(self, label: str | None) -> Ints:
        """Return (n_of_class,) tokens of the samples with this label (None: without a label)."""
        if self.labels is None:
            raise InputError("no label column was read", "pass label_column")
        code = -1 if label is None else self.labels.names.index(label)
        chosen: Ints = self.lengths[self.labels.samples[self.labels.codes == code]]
        return chosen

    def to_frame(self) -> "pd.DataFrame":
        """Return a DataFrame with one row per sample: `record`, `length` and, where known,
        `trained`, the number of its trained tokens, and `label`.

        A label is a category; for samples with several classes, a list of them.
        """
        import pandas as pd

        frame = pd.DataFrame({"record": self.records, "length": self.lengths})
        if self.trained is not None:
            frame["trained"] = self.trained.counts()
        if self.labels is None:
            return frame
        codes, names = self.labels.codes, self.labels.names  # code -1: no label
        if self.labels.offsets is None:
            frame["label"] = pd.Categorical.from_codes(codes, pd.Index(names, dtype="str"))
        else:
            frame["label"] = self.labels.to_list()
        return frame
