"""Merge the counts of the splits of a corpus into its profile."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from batchstat.corpus.bad_records import EXAMPLES
from batchstat.corpus.content import LONGEST
from batchstat.corpus.files.digests import joined_digest
from batchstat.corpus.files.sources import Source
from batchstat.corpus.files.splits import Split
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.lengths.labels import Labels
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.profiling.cache import CountCache, SplitCounts, SplitFacts
from batchstat.profiling.memmap import new_array
from batchstat.profiling.parquet import FAR
from batchstat.profiling.profile import CorpusFacts, Profile, ReadColumns
from batchstat.profiling.tasks import SplitResult


class CacheEvictedError(Exception):
    """The counts of split `number` were evicted, or are not those that were stored."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def merge_splits(
    splits: Sequence[Split],
    counted: Mapping[int, SplitResult],
    failed: Mapping[int, str],
    cache: CountCache,
    options: CorpusOptions,
    created: str,
) -> Profile:
    """Build the profile of a corpus from counts of splits. Raises CacheEvictedError, InputError."""
    sources: list[Source] = []  # as they were read: with a digest, and what was counted
    samples = tokens = 0  # of the files before
    merged = _MergedSamples(sum(split.samples for split in counted.values()))
    # File by file: each begins with a split at byte 0, and has the splits `first` to `stop` - 1.
    file_begins = [i for i, split in enumerate(splits) if split.first == 0]
    for first, stop in pairwise([*file_begins, len(splits)]):
        source, facts = splits[first].source, list[SplitFacts]()
        for i in sorted(counted.keys() & set(range(first, stop))):
            counts = counted[i].counts or _stored(counted[i], cache, splits[i].source, options)
            if counts is None or not merged.takes(counts.profile):
                raise CacheEvictedError(i)
            merged.add(counts.profile)
            facts.append(counts.facts)
            # The size and the digest of standard input are known only once it was read.
            if source.is_standard_input:
                (source,) = counts.profile.corpus.sources
        # A split may lack labels by chance. If all splits of a file do, the name is wrong.
        labels_seen = [fact.label_seen for fact in facts if fact.label_seen is not None]
        if options.label_column and labels_seen and not any(labels_seen):
            raise InputError(
                f"no record of {source.shown} has column {options.label_column[0]!r}",
                "pass another --label-column",
            )
        # Joined of those of its splits, unless one failed; standard input got its digest above.
        if not source.digest and len(facts) == stop - first:
            digests = [digest for fact in facts for digest in fact.digests]
            source = replace(source, digest=joined_digest(digests))
        source = replace(source, samples=len(merged) - samples, tokens=merged.tokens - tokens)
        sources.append(source)
        samples, tokens = len(merged), merged.tokens
    if merged.first is None:
        raise InputError(f"no split could be counted: {failed[min(failed)]}")
    return merged.profile(created, sources, options, tuple(failed[i] for i in sorted(failed)))


def _stored(
    result: SplitResult, cache: CountCache, source: Source, options: CorpusOptions
) -> SplitCounts | None:
    """Return the counts of a split; None if missing, damaged, or not those of this source."""
    counts = cache.get(result.key)
    if counts is None:
        return None
    profile, corpus = counts.profile, counts.profile.corpus
    fits = (
        (len(profile), int(profile.lengths.sum())) == (result.samples, result.tokens)
        # The digests may differ: that of a source may be known only once it was read.
        and [replace(each, digest=source.digest) for each in corpus.sources] == [source]
        # Counts are shared by runs that stop at bad records and runs that skip them: `key_of`.
        and replace(corpus.options, on_error=options.on_error) == options
        and (profile.labels is None) == (not options.label_column)
    )
    return counts if fits else None


class _MergedSamples:
    """The samples of consecutive splits, with record numbers continued from split to split."""

    def __init__(self, samples: int) -> None:
        self.first: Profile | None = None
        self._lengths, self._records = new_array(samples, LONGEST), new_array(samples, FAR)
        # Samples added so far, and records: the samples, and those that were skipped.
        self._samples = self._seen_records = self.tokens = 0
        self._skipped: Counter[str] = Counter()
        self._bad_records: list[str] = []
        self._left_out: Counter[str] = Counter()
        self._read: dict[ReadColumns, None] = {}  # a set that keeps their sequence
        self._labels: list[Labels] = []
        self._kinds: dict[str, list[TokenRanges]] = {}

    def __len__(self) -> int:
        return self._samples

    def takes(self, profile: Profile) -> bool:
        first = self.first or profile
        return first.tokenizer == profile.tokenizer and first.kinds.keys() == profile.kinds.keys()

    def add(self, profile: Profile) -> None:
        self.first = self.first or profile
        rows = slice(self._samples, self._samples + len(profile))
        self._lengths[rows] = profile.lengths
        # A split numbers its records from 0.
        self._records[rows] = profile.records + self._seen_records
        self._samples += len(profile)
        self.tokens += int(profile.lengths.sum())
        self._seen_records += len(profile) + sum(profile.corpus.skipped.values())
        self._skipped.update(profile.corpus.skipped)
        # Only the first bad records of the corpus are shown.
        self._bad_records += profile.corpus.faults[: EXAMPLES - len(self._bad_records)]
        self._left_out.update(profile.corpus.left_out)
        self._read.update(dict.fromkeys(profile.corpus.read))
        self._labels += [] if profile.labels is None else [profile.labels]
        for kind, ranges in profile.kinds.items():
            self._kinds.setdefault(kind, []).append(ranges)

    def profile(
        self,
        created: str,
        sources: Sequence[Source],
        options: CorpusOptions,
        failed: tuple[str, ...],
    ) -> Profile:
        """Return the profile of all splits. Raise InputError if it has no samples."""
        assert self.first is not None
        if self._samples == 0:
            raise no_samples(sources, self._skipped)
        profile = Profile(
            created=created,
            corpus=CorpusFacts(
                sources=tuple(sources),
                options=options,
                skipped=dict(self._skipped),
                faults=tuple(self._bad_records),
                failed=failed,
                left_out=dict(sorted(self._left_out.items())),
                read=tuple(self._read),
            ),
            tokenizer=self.first.tokenizer,
            records=self._records,
            lengths=self._lengths,
            labels=Labels.joined(self._labels) if self._labels else None,
            kinds={kind: TokenRanges.concatenate(ranges) for kind, ranges in self._kinds.items()},
        )
        return with_classes(profile)


def no_samples(sources: Sequence[Source], skipped: Mapping[str, int]) -> InputError:
    """Return the error for a corpus without samples, which says why its records were skipped."""
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items() if count)
    why = f"all records were skipped ({reasons})" if reasons else "it has no records"
    return InputError(f"no samples in {sources[0].shown}{more}: {why}")


def with_classes(profile: Profile) -> Profile:
    """Return the profile of a whole corpus with its classes, which only all of its labels tell.
    Raises InputError: lists of numbers that are neither classes nor 0 or 1 for each.
    """
    labels, columns = profile.labels, profile.corpus.options.label_column
    if labels is None:
        return profile
    resolved = labels if len(columns) > 1 else labels.resolved(columns[0])
    form = "one" if resolved.offsets is None else "several"
    if len(columns) > 1:
        form = "columns"
    elif labels.are_positions:
        form = "positions"
    return replace(profile, labels=resolved, corpus=replace(profile.corpus, label_form=form))
