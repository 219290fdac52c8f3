"""Samples of a profile's corpus, for scripts that train on the corpus directly."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchstat.errors import InputError, OptionError, arguments_named
from batchstat.hidden_secrets import is_shortened
from batchstat.storage.shown import full_address
from batchstat.words import short

if TYPE_CHECKING:
    from batchstat.corpus.reader import Block
    from batchstat.profiling.profile import Profile

Record = dict[str, Any]


@arguments_named()
def read_samples(profile: "Profile | str | Path") -> list[Record | None]:
    """Read the corpus again as it was counted: item i is record i, so a sampler can index it.

    Args:
        profile: a `Profile`, or the path of its `lengths.parquet`.

    Returns:
        A dictionary for each record, with `text` (a string, or two for a pair), `prompt` and
        `completion`, `messages`, or `words`; `label` where there are labels, and `trained` where
        trained tokens are known: pairs of the first token of a range of them and of the one after
        its last. None for a record that was skipped.

    Example:
        >>> samples = batchstat.read_samples(batchstat.profile("sample_data/corpus.txt"))
        >>> list(samples[0])
        ['text']

    Raises:
        InputError: the corpus has changed, cannot be read again, or contains no text.
    """
    from batchstat.corpus.files.splits import splits_of
    from batchstat.corpus.reader import CorpusReader
    from batchstat.profiling.parquet import read_file
    from batchstat.profiling.profile import Profile
    from batchstat.profiling.staleness import changes

    if isinstance(profile, str | Path):
        profile = read_file(profile)
    if not isinstance(profile, Profile):
        raise OptionError(f"profile={short(profile)}", "must be a profile, or its lengths.parquet")
    facts = profile.corpus
    is_file = facts.indexed == "corpus" and bool(facts.sources)
    if not is_file or any(source.is_standard_input for source in facts.sources):
        raise InputError("the corpus was not read from files", "load it the way you did before")
    for source in facts.sources:
        if is_shortened(full_address(source.path)):
            raise InputError(
                f"{source.path} is stored without what may be a secret, and cannot be read again",
                "download it, and profile that file",
            )
    # The first change is enough for the error.
    for change in changes(profile):
        raise InputError(change, "run batchstat profile again")
    reader = CorpusReader(splits_of(facts.sources, facts.options), facts.options)
    samples: list[Record | None] = []
    for block in reader.blocks():
        # Record numbers in the whole corpus; those that are missing in between were skipped.
        records = (block.reading.before + block.records).tolist()
        for record, sample in zip(records, _records(block), strict=True):
            samples += [None] * (record - len(samples))  # so that samples[record] is next
            samples.append(sample)
    if len(profile) and int(profile.records[-1]) >= len(samples):
        raise InputError(
            "the corpus has fewer samples than its profile", "run batchstat profile again"
        )
    _add_facts(profile, samples)
    return samples


def _add_facts(profile: "Profile", samples: list[Record | None]) -> None:
    """Add to each sample of a profile what else is known of it: its label, its trained tokens."""
    if profile.trained is not None:
        # No record of a profile was skipped: `or {}` is for the type alone.
        for record, ranges in zip(profile.records.tolist(), profile.trained.ranges(), strict=True):
            samples[record] = {**(samples[record] or {}), "trained": ranges}
    if profile.labels is not None:
        # Those of the profile, in which lists of 0 and 1 are the classes that they stand for.
        labels = profile.labels.to_list()
        for record, label in zip(profile.records.tolist(), labels, strict=True):
            samples[record] = {**(samples[record] or {}), "label": label}


def _records(block: "Block") -> Iterator[Record]:
    """Yield a dictionary for each sample of a block, as `read_samples` documents them."""
    from batchstat.corpus.content import (
        Chats,
        CompletionChats,
        Completions,
        PrecountedLengths,
        Words,
    )

    content = block.content
    if isinstance(content, PrecountedLengths):
        raise InputError("the corpus has token ids or lengths, not text", "load it yourself")
    if isinstance(content, CompletionChats):
        chats = zip(content.messages, content.prompts, strict=True)
        # The first n messages of each chat are its prompt.
        records: list[Record] = [{"prompt": chat[:n], "completion": chat[n:]} for chat, n in chats]
    elif isinstance(content, Chats):
        records = [{"messages": messages} for messages in content.messages]
    elif isinstance(content, Words):
        words, offsets = content.words.to_pylist(), content.offsets.tolist()
        records = [{"words": words[first:stop]} for first, stop in pairwise(offsets)]
    elif content.second is None:
        records = [{"text": text} for text in content.first.to_pylist()]
    else:
        pairs = zip(content.first.to_pylist(), content.second.to_pylist(), strict=True)
        if isinstance(content, Completions):
            records = [{"prompt": prompt, "completion": completion} for prompt, completion in pairs]
        else:
            records = [{"text": pair} for pair in pairs]
    yield from records
