"""Count all parts of a corpus and merge them into a profile."""

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from batchstat.corpus.opening import Rereadable
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import Part, parts_of
from batchstat.corpus.sources import STANDARD_INPUT, Source
from batchstat.errors import InputError, StorageFullError
from batchstat.profiling.cache import CountCache
from batchstat.profiling.counting import facts_of
from batchstat.profiling.executors.executor import CountingExecutor
from batchstat.profiling.executors.local import threads
from batchstat.profiling.merge import CachedPart, CacheEvictedError, PartResults, of_parts
from batchstat.profiling.profile import Profile
from batchstat.profiling.progress import Progress
from batchstat.profiling.scheduler import PartOutcome, Scheduler
from batchstat.profiling.shards import Shard, ShardSpec
from batchstat.profiling.tasks import CountTask
from batchstat.storage.addresses import one_line
from batchstat.tokenization.threads import worker_count
from batchstat.tokenization.tokenizer import Tokenizer

_TIMES_GONE = 20
"""A small cache may evict counts of this run to make room for those of other runs."""


@dataclass(frozen=True)
class RunOptions:
    """How a run is executed.

    Attributes:
        engine: executor that counts; by default threads of this process, one per core.
        store: where the counts of parts are stored; by default a temporary folder.
        fall_back_to_temp: whether to fall back to a temporary folder if the store is full.
        recount: whether to ignore counts that are already stored.
        allow_partial: whether to build a profile from the parts that could be counted.
        on_progress: called with the progress of the count.
        on_outcome: called with the outcome of each part.
        on_warning: called with each warning.
    """

    engine: CountingExecutor = field(default_factory=lambda: threads(worker_count(None)))
    store: CountCache | None = None
    fall_back_to_temp: bool = False
    recount: bool = False
    allow_partial: bool = False
    on_progress: Callable[[Progress], object] = lambda _: None
    on_outcome: Callable[[PartOutcome], object] = lambda _: None
    on_warning: Callable[[str], object] = warnings.warn


_USUAL = RunOptions()


def build(
    sources: Sequence[Source],
    options: CorpusOptions,
    tokenizer: Tokenizer | None,
    conduct: RunOptions = _USUAL,
) -> Profile:
    """Count sources with a loaded tokenizer, as `profile` does for a corpus.

    Raises:
        InputError: a part that cannot be read with these options, or parts that failed.
        StorageFullError: there is no space for the counts.
    """
    try:
        return _built(sources, options, tokenizer, conduct)
    except StorageFullError as full:
        passes_once = any(source.path == STANDARD_INPUT for source in sources)
        if passes_once or not conduct.fall_back_to_temp:
            raise
        conduct.on_warning(f"{full.reason}: recounting without the cache")
        return _built(sources, options, tokenizer, replace(conduct, store=None))


def _built(
    sources: Sequence[Source],
    options: CorpusOptions,
    tokenizer: Tokenizer | None,
    conduct: RunOptions,
) -> Profile:
    created = datetime.now(UTC).isoformat()
    parts = parts_of(sources, options)
    with _stored(conduct.store) as store:
        run = _run(parts, options, tokenizer, store, conduct)
        for _ in range(_TIMES_GONE):
            run.count()
            if run.failed and not conduct.allow_partial:
                _list(run.failed, conduct)
                raise _failure(run, len(parts))
            kept = {i: CachedPart((store,), done.key, done.samples) for i, done in run.done.items()}
            counted = PartResults(kept, run.failed)
            try:
                return of_parts(parts, counted, options, created)
            except CacheEvictedError as gone:
                run.forget(gone.number)
    raise InputError(
        f"{store.address}: cached counts disappear before they can be read: use another folder "
        "with --count-cache"
    )


def count_shard(
    sources: Sequence[Source],
    options: CorpusOptions,
    tokenizer: Tokenizer | None,
    share: ShardSpec,
    conduct: RunOptions,
) -> Shard:
    """Count one shard of the parts; parts that failed are named in the shard.

    Raises:
        InputError: a part that cannot be read with these options.
    """
    created = datetime.now(UTC).isoformat()
    parts = parts_of(sources, options)
    numbers = [i for i in range(len(parts)) if share.takes(i)]
    assert conduct.store is not None, "a shard stores its parts"
    own = [parts[i] for i in numbers]
    run = _run(own, options, tokenizer, conduct.store, conduct)
    run.count()
    return Shard(
        created=created,
        share=share,
        sources=tuple(sources),
        options=options,
        tokenizer=None if tokenizer is None else facts_of(tokenizer, options),
        kept={numbers[i]: (done.key, done.samples) for i, done in sorted(run.done.items())},
        failed={numbers[i]: why for i, why in sorted(run.failed.items())},
        by_pieces=run.by_pieces,
    )


def _run(
    parts: Sequence[Part],
    options: CorpusOptions,
    tokenizer: Tokenizer | None,
    store: CountCache,
    conduct: RunOptions,
) -> Scheduler:
    here = any(part.source.path == STANDARD_INPUT for part in parts)
    engine = conduct.engine
    if here and not engine.in_process:
        engine = threads(worker_count(None))  # only this process can read it
    # A copy is made while reading only if it may have to be read again.
    twice = here and tokenizer is not None and tokenizer.pieces is not None
    return Scheduler(
        parts,
        CountTask(options, tokenizer, store, conduct.recount, engine.threads),
        engine,
        keep_going=conduct.allow_partial,
        standard_input=Rereadable(sys.stdin.buffer) if twice else None,
        on_outcome=conduct.on_outcome,
        on_progress=conduct.on_progress,
        on_warning=conduct.on_warning,
    )


@contextmanager
def _stored(store: CountCache | None) -> Iterator[CountCache]:
    if store is not None:
        yield store
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix="batchstat-", ignore_cleanup_errors=True)
    except OSError as error:
        raise InputError(
            f"counts cannot be stored during the run: {one_line(error)}: set TMPDIR to a writable "
            "folder"
        ) from None
    with folder as path:
        yield CountCache(path)


def _list(failed: Mapping[int, str], conduct: RunOptions) -> None:
    """Warn of each part that failed, since the error that follows names only the first."""
    if len(failed) == 1:
        return
    for i in sorted(failed)[:_LISTED]:
        conduct.on_warning(f"not counted: {failed[i]}")
    if len(failed) > _LISTED:
        conduct.on_warning(f"not counted: {len(failed) - _LISTED:,} more, all listed in the log")


_LISTED = 100


def _failure(run: Scheduler, parts: int) -> InputError:
    first = run.failed[min(run.failed)]
    if parts == 1:
        return InputError(first)
    return InputError(
        f"{len(run.failed):,} of {parts:,} parts failed after 3 attempts each: {first}: fix or "
        "remove them and run again, which counts only what is missing, or pass "
        "--allow-partial"
    )
