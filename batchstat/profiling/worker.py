"""Count one split on any worker."""

import hashlib
import json
import platform
import secrets
from contextlib import suppress
from dataclasses import asdict, replace

from batchstat._version import __version__
from batchstat.corpus.files.digests import content_digests
from batchstat.corpus.files.splits import Split
from batchstat.errors import InputError, SourceError
from batchstat.profiling.cache import SplitCounts, SplitFacts
from batchstat.profiling.parquet import SCHEMA
from batchstat.profiling.profile import TokenizerFacts
from batchstat.profiling.progress import CountedAmount
from batchstat.profiling.tasks import CountTask, SplitResult, different_versions
from batchstat.storage.addresses import as_os_errors, state_of
from batchstat.tokenization.counting.count_check import MiscountError
from batchstat.tokenization.tokenizer import Tokenizer


def count_split(task: CountTask, split: Split) -> SplitResult:
    """Count a split and store its counts, unless they are stored already, on any worker. Raises
    InputError: it cannot be read so, or versions differ; SourceError: it or the cache fails now;
    StorageFullError.
    """
    if other := different_versions(task.versions):
        raise InputError(
            f"worker {platform.node()} has other versions; the run began with {other}",
            "install the same versions everywhere",
        )
    is_input = split.source.is_standard_input
    # The key of the counts is made of digests of what is read: of the split's own bytes
    # (`digests`), and of other parts of its file, such as the head (`surroundings`).
    digests: tuple[str, ...] = ()
    surroundings, state_before = "", None
    if is_input:
        # Its content is unknown before it is read: a random text gives it a key of its own.
        surroundings = secrets.token_hex()
    elif not split.source.digest:  # a digest of the whole file is a part of the key anyway
        state_before = _file_state(split)
        digests, surroundings = content_digests(split)
    key = key_of(split, (*digests, surroundings), task)
    counts = None if task.recount or is_input else task.cache.get(key)
    # A run that stops at bad records reads the split again, to name the first one.
    if counts and task.options.on_error == "fail" and counts.profile.corpus.unreadable:
        counts = None
    was_cached = counts is not None
    if counts is None:
        counts = _read_and_count(task, split, digests)
        records = len(counts.profile) + sum(counts.profile.corpus.skipped.values())
        # Where a storage does not say the size of a file, only reading shows that it is empty.
        if not (is_input or split.source.bytes or records):
            raise split.source.emptiness()
        if state_before is not None and state_before != _file_state(split):
            raise SourceError(f"{split.source.shown} changed while it was being read", "run again")
    # Counts that stay in the memory of this process need not be loaded to be merged. They need not
    # be stored either if nobody asked for a cache (`in_memory`).
    stays = task.local is not None and task.local.memory.take(counts.bytes)
    if not was_cached and not (stays and task.in_memory):
        try:
            task.cache.put(key, counts)
        except OSError as error:
            raise task.cache.refusal(f"the counts of {split.shown}", error) from None
    return SplitResult(
        key=key,
        samples=len(counts.profile),
        tokens=int(counts.profile.lengths.sum()),
        was_cached=was_cached,
        difference=counts.facts.difference,
        counts=counts if stays else None,
    )


def _file_state(split: Split) -> tuple[object, ...] | None:
    with suppress(OSError), as_os_errors(split.source.path):
        return state_of(split.location)
    return None  # reading it gives the better error message


def key_of(split: Split, content: tuple[str, ...], task: CountTask) -> str:
    """Return the key of a split's counts: a digest of all that they depend on."""
    tokenizer = TokenizerFacts.of(task.tokenizer, task.options)
    # Runs that stop at bad records and runs that skip them share the counts of splits without any.
    options = replace(task.options, on_error="fail")
    place = (asdict(split.source), split.first, split.stop)
    how = (asdict(options), None if tokenizer is None else asdict(tokenizer))
    facts = (SCHEMA, __version__, place, content, *how, {"shortcuts": task.shortcuts})
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _read_and_count(task: CountTask, split: Split, digests: tuple[str, ...]) -> SplitCounts:
    """Read and count a split, again without shortcuts if one of these proves wrong."""
    from batchstat.corpus.reader import CorpusReader
    from batchstat.profiling.counting import count_samples

    local = task.local  # None in a worker elsewhere, which reports no progress
    is_input = split.source.is_standard_input
    standard_input = local.standard_input if local is not None and is_input else None

    def report_progress(amount: CountedAmount) -> None:
        if local is not None:
            # Python cannot end a thread from outside: after an interrupt it ends itself here.
            if local.stop.is_set():
                raise InputError("interrupted")
            local.on_progress(split, amount)

    def count_with(tokenizer: Tokenizer | None, difference: str = "") -> SplitCounts:
        if standard_input is not None:
            standard_input.rewind()  # the second time, it is read from its copy
        reader = CorpusReader([split], task.options, standard_input)
        pool = None if local is None else local.pool
        profile = count_samples(reader, tokenizer, task.threads, pool, report_progress)
        return SplitCounts(profile, SplitFacts(digests, reader.readings[0].label_seen, difference))

    # None, as the tokenizer, where the corpus comes with its lengths.
    without_shortcuts = task.tokenizer and task.tokenizer.without_shortcuts()
    if not task.shortcuts:
        return count_with(without_shortcuts)
    try:
        return count_with(task.tokenizer)
    except MiscountError as difference:
        return count_with(without_shortcuts, str(difference))
