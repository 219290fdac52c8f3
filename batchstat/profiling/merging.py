"""Counts of the parts of a corpus as the profile of the corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from batchstat.corpus import STANDARD_INPUT, CorpusOptions, Part, Source, joined_digest
from batchstat.corpus.faults import EXAMPLES
from batchstat.errors import InputError
from batchstat.profiling.part_store import PartCounts, PartStore
from batchstat.profiling.record import CorpusFacts, Labels, Profile
from batchstat.storage import is_remote


class Counted(NamedTuple):
    """What became of the parts of a corpus, by their number.

    Attributes:
        kept: where the counts are, and under which key.
        failed: why others have none.
    """

    kept: Mapping[int, tuple[PartStore, str]]
    failed: Mapping[int, str]


def of_parts(
    parts: Sequence[Part],
    counted: Counted,
    options: CorpusOptions,
    created: str,
) -> Profile:
    """The profile of a corpus from the counts that are kept of its parts.

    Args:
        parts: all of the corpus, in turn.
        counted: which of them are counted.
        options: how the corpus was read.
        created: when reading began, ISO 8601 in UTC.

    Raises:
        GoneError: counts that are no longer there.
        InputError: no sample, or no record that names the label.
    """
    profiles: list[Profile] = []
    sources: list[Source] = []
    begins = [i for i, part in enumerate(parts) if part.first == 0]
    for begin, end in pairwise([*begins, len(parts)]):
        source, numbers = parts[begin].source, range(begin, end)
        counts = [_kept(i, *counted.kept[i]) for i in numbers if i in counted.kept]
        _check_label(source, counts, options)
        profiles += [each.profile for each in counts]
        sources.append(_read(source, counts, complete=len(counts) == len(numbers)))
    if not profiles:
        raise InputError(f"no part could be counted: {counted.failed[min(counted.failed)]}")
    failed = tuple(counted.failed[i] for i in sorted(counted.failed))
    found = merged(profiles, created, sources)
    facts = replace(found.corpus, options=options, failed=failed)
    return replace(found, corpus=facts)


class GoneError(Exception):
    """The counts of a part that are no longer kept, as where another process makes room."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _kept(number: int, store: PartStore, key: str) -> PartCounts:
    found = store.get(key)
    if found is None:
        raise GoneError(number)
    return found


def _check_label(source: Source, counts: Sequence[PartCounts], options: CorpusOptions) -> None:
    seen = [each.label_seen for each in counts if each.label_seen is not None]
    if options.label_column and seen and not any(seen):
        raise InputError(
            f"column {options.label_column!r} is in no record of {source.shown}: pass another "
            "--label-column"
        )


def _read(source: Source, counts: Sequence[PartCounts], *, complete: bool) -> Source:
    """A source with what is known of it once it is read."""
    if source.path == STANDARD_INPUT and counts:
        return counts[0].profile.corpus.sources[0]
    if is_remote(source.path) or not complete:
        return source
    return replace(source, digest=joined_digest([d for each in counts for d in each.digests]))


def merged(
    profiles: Sequence[Profile], created: str, sources: Sequence[Source] | None = None
) -> Profile:
    """The samples of all in turn, numbered on from one to the next.

    Args:
        profiles: at least one, read with the same options and counted by the same tokenizer.
        created: when reading began, ISO 8601 in UTC.
        sources: of what they are, where they are parts; else each has its own.

    Raises:
        InputError: none of them has a sample.
    """
    if sources is None:
        sources = [source for each in profiles for source in each.corpus.sources]
    skipped: dict[str, int] = {}
    for each in profiles:
        for reason, count in each.corpus.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
    if not any(map(len, profiles)):
        more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
        raise InputError(f"no sample in {sources[0].shown}{more}: {_reason(skipped)}")
    faults = [fault for each in profiles for fault in each.corpus.faults]
    first = profiles[0]
    before = accumulate((_records(each) for each in profiles[:-1]), initial=0)
    labels = [each.labels for each in profiles if each.labels is not None]
    return Profile(
        created=created,
        corpus=CorpusFacts(tuple(sources), first.corpus.options, skipped, tuple(faults[:EXAMPLES])),
        tokenizer=first.tokenizer,
        records=np.concatenate(
            [each.records + start for each, start in zip(profiles, before, strict=True)]
        ),
        lengths=np.concatenate([each.lengths for each in profiles]),
        labels=_merged(labels) if labels else None,
    )


def _records(profile: Profile) -> int:
    return len(profile) + sum(profile.corpus.skipped.values())


def _merged(parts: Sequence[Labels]) -> Labels:
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    place = {name: i for i, name in enumerate(names)}
    codes = []
    for part in parts:
        own = np.array([*(place[name] for name in part.names), -1], dtype=np.int64)
        codes.append(own[part.codes])
    joined = np.concatenate(codes)
    if all(part.offsets is None for part in parts):
        return Labels(joined, names)
    sizes = [
        np.ones(len(part.codes), dtype=np.int64) if part.offsets is None else np.diff(part.offsets)
        for part in parts
    ]
    return Labels(joined, names, np.concatenate([[0], np.cumsum(np.concatenate(sizes))]))


def _reason(skipped: dict[str, int]) -> str:
    found = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items() if count)
    return f"all records are skipped ({found})" if found else "it has no record"
