"""Merge the counts of the parts of a corpus into its profile."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from batchstat.corpus.bad_records import EXAMPLES
from batchstat.corpus.content import LONGEST
from batchstat.corpus.digests import joined_digest
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import Part
from batchstat.corpus.sources import STANDARD_INPUT, Source
from batchstat.errors import InputError
from batchstat.lengths.arrays import offsets_from_sizes
from batchstat.profiling.cache import CountCache, PartCounts
from batchstat.profiling.memmap import new_array
from batchstat.profiling.parquet import FAR
from batchstat.profiling.profile import CorpusFacts, Labels, Profile


class CachedPart(NamedTuple):
    """Where the counts of a part are, and how many samples it has.

    Attributes:
        caches: caches to look in; one that has the counts is enough.
        key: key of the counts.
        samples: samples in the part.
        counts: the counts, if they are in memory.
    """

    caches: tuple[CountCache, ...]
    key: str
    samples: int
    counts: PartCounts | None = None

    def load(self) -> PartCounts | None:
        """Return the counts; None if they are missing or damaged.

        Raises:
            InputError: an address that cannot be read.
        """
        if self.counts is not None:
            return self.counts
        cached = (cache.get(self.key) for cache in self.caches)
        return next((c for c in cached if c and len(c.profile) == self.samples), None)


class PartResults(NamedTuple):
    """Results of the parts of a corpus, by part number.

    Attributes:
        counted: where the counts of most parts are.
        failed: why the other parts have no counts.
    """

    counted: Mapping[int, CachedPart]
    failed: Mapping[int, str]


class CacheEvictedError(Exception):
    """The counts of a part no longer exist, for example because another process evicted them."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def merge_parts(
    parts: Sequence[Part],
    results: PartResults,
    options: CorpusOptions,
    created: str,
) -> Profile:
    """Build the profile of a corpus from the counts of its parts.

    Args:
        parts: all parts of the corpus, in order.
        results: results of the parts.
        options: how the corpus was read.
        created: when reading began, ISO 8601 in UTC.

    Raises:
        CacheEvictedError: stored counts no longer exist.
        InputError: there are no samples, or no record has the label.
    """
    sources: list[Source] = []
    corpus = _MergedCorpus(sum(part.samples for part in results.counted.values()))
    firsts = [i for i, part in enumerate(parts) if part.first == 0]
    for first, stop in pairwise([*firsts, len(parts)]):
        merged = _MergedSource(parts[first].source)
        for i in range(first, stop):
            if i in results.counted:
                counts = results.counted[i].load()
                if counts is None:
                    raise CacheEvictedError(i)
                merged.add(counts)
                corpus.add(counts.profile)
        sources.append(merged.source(options, complete=merged.parts == stop - first))
    if corpus.first is None:
        raise InputError(f"no part could be counted: {results.failed[min(results.failed)]}")
    failed = tuple(results.failed[i] for i in sorted(results.failed))
    return corpus.profile(created, sources, options, failed)


class _MergedSource:
    """A source, merged part by part."""

    def __init__(self, source: Source) -> None:
        self._source, self.parts = source, 0
        self._digests: list[str] = []
        self._labels: list[bool] = []

    def add(self, counts: PartCounts) -> None:
        """Add its next part."""
        self.parts += 1
        self._digests += counts.facts.digests
        if counts.facts.label_seen is not None:
            self._labels.append(counts.facts.label_seen)
        if self._source.path == STANDARD_INPUT:
            (self._source,) = counts.profile.corpus.sources

    def source(self, options: CorpusOptions, *, complete: bool) -> Source:
        """Return the source, completed with what is known once it has been read.

        Raises:
            InputError: no record has the label.
        """
        if options.label_column and self._labels and not any(self._labels):
            raise InputError(
                f"no record of {self._source.shown} has column {options.label_column!r}: pass "
                "another --label-column"
            )
        if self._source.digest or not complete:  # standard input gets its digest here, too
            return self._source
        return replace(self._source, digest=joined_digest(self._digests))


class _MergedCorpus:
    """The samples of consecutive parts, with record numbers continued from part to part."""

    def __init__(self, samples: int) -> None:
        self.first: Profile | None = None
        self._lengths, self._records = new_array(samples, LONGEST), new_array(samples, FAR)
        self._samples = self._seen = 0
        self._skipped: dict[str, int] = {}
        self._bad_records: list[str] = []
        self._left_out: Counter[str] = Counter()
        self._labels: list[Labels] = []

    def add(self, part: Profile) -> None:
        """Append the next part."""
        self.first = self.first or part
        at = slice(self._samples, self._samples + len(part))
        self._lengths[at] = part.lengths
        self._records[at] = part.records + self._seen
        self._samples += len(part)
        self._seen += len(part) + sum(part.corpus.skipped.values())
        for reason, count in part.corpus.skipped.items():
            self._skipped[reason] = self._skipped.get(reason, 0) + count
        self._bad_records += part.corpus.faults[: EXAMPLES - len(self._bad_records)]
        self._left_out.update(part.corpus.left_out)
        self._labels += [] if part.labels is None else [part.labels]

    def profile(
        self,
        created: str,
        sources: Sequence[Source],
        options: CorpusOptions,
        failed: tuple[str, ...] = (),
    ) -> Profile:
        """Return the profile of all parts (at least one). Raise InputError if it has no samples."""
        assert self.first is not None
        if self._samples == 0:
            more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
            raise InputError(f"no samples in {sources[0].shown}{more}: {_reason(self._skipped)}")
        facts = CorpusFacts(
            tuple(sources),
            options,
            self._skipped,
            tuple(self._bad_records),
            failed,
            dict(sorted(self._left_out.items())),
        )
        return Profile(
            created=created,
            corpus=facts,
            tokenizer=self.first.tokenizer,
            records=self._records,
            lengths=self._lengths,
            labels=_merged(self._labels) if self._labels else None,
        )


def single_part(profile: Profile, created: str) -> Profile:
    """Return the profile of a single-part corpus. Raise InputError if it has no samples."""
    corpus = _MergedCorpus(len(profile))
    corpus.add(profile)
    return corpus.profile(created, profile.corpus.sources, profile.corpus.options)


def _merged(parts: Sequence[Labels]) -> Labels:
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    numbers = {name: i for i, name in enumerate(names)}
    codes = []
    for part in parts:
        own = np.array([*(numbers[name] for name in part.names), -1], dtype=np.int64)
        codes.append(own[part.codes])
    joined = np.concatenate(codes)
    if all(part.offsets is None for part in parts):
        return Labels(joined, names)
    sizes = [
        np.ones(len(part.codes), dtype=np.int64) if part.offsets is None else np.diff(part.offsets)
        for part in parts
    ]
    return Labels(joined, names, offsets_from_sizes(np.concatenate(sizes)))


def _reason(skipped: dict[str, int]) -> str:
    found = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items() if count)
    return f"all records were skipped ({found})" if found else "it has no records"
