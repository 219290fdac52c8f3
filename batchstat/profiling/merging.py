"""Profiles of the sources of a corpus as the profile of the corpus."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from batchstat.corpus.faults import EXAMPLES
from batchstat.errors import InputError
from batchstat.profiling.record import CorpusFacts, Labels, Profile


def merge(profiles: Sequence[Profile], created: str) -> Profile:
    """The samples of all in turn, numbered on from one to the next.

    Args:
        profiles: at least one, read with the same options and counted by the same tokenizer.
        created: when reading began, ISO 8601 in UTC.

    Raises:
        InputError: none of them has a sample.
    """
    sources = tuple(source for each in profiles for source in each.corpus.sources)
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
        corpus=CorpusFacts(sources, first.corpus.options, skipped, tuple(faults[:EXAMPLES])),
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
