"""Build the `Profile` of a corpus: find its files, count their splits, merge the counts."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from batchstat.corpus.files.streams import Rereadable
from batchstat.corpus.options import CorpusOptions, ReadingOptions
from batchstat.corpus.values import holds_values, table_of, table_of_texts
from batchstat.errors import InputError, OptionError, StorageFullError
from batchstat.findings import Finding, warn_in_python
from batchstat.parameters import checks_keywords, named_path
from batchstat.profiling.cache import CountCache
from batchstat.profiling.executors.local import threads
from batchstat.profiling.inputs import Corpus, holds_chats, open_corpus, tokenizer_for
from batchstat.profiling.merge import CacheEvictedError, merge_splits, no_samples, with_classes
from batchstat.profiling.profile import Profile
from batchstat.profiling.progress import Progress, shown_progress
from batchstat.profiling.run_options import RunOptions
from batchstat.profiling.scheduler import Scheduler
from batchstat.profiling.tasks import CountTask
from batchstat.storage.shown import one_line
from batchstat.tokenization.counting.count_check import MiscountError, recounted
from batchstat.tokenization.loading.load import as_tokenizer
from batchstat.tokenization.threads import worker_count
from batchstat.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    import datasets
    import numpy.typing as npt
    import pandas as pd

    Table: TypeAlias = pd.DataFrame | pd.Series[Any] | datasets.Dataset

Path_ = str | os.PathLike[str]

_LISTED = 100  # failed splits that are warned of


@checks_keywords(CorpusOptions)
def profile(
    corpus: "Path_ | Corpus | Table | npt.NDArray[Any] | Sequence[Any] | None" = None,
    *,
    texts: Iterable[str] | None = None,
    tokenizer: Any = None,
    text_column: str | int | Sequence[str] = (),
    label_column: str | int | Sequence[str] | None = None,
    chat_template: Path_ | None = None,
    workers: int | None = None,
    executor: str = "threads",
    scheduler: str | None = None,
    count_cache: Path_ | CountCache | None = None,
    recount: bool = False,
    allow_partial: bool = False,
    on_progress: Callable[[Progress], object] | None = None,
    on_warning: Callable[[Finding], object] = warn_in_python,
    **options: Unpack[ReadingOptions],
) -> Profile:
    """Count a corpus and return its profile.

    Args:
        corpus: paths, addresses or glob patterns of files or folders; or a corpus that is open; or
            a pandas DataFrame; or a Dataset of the datasets library; or one value per sample, in a
            Series, an array or a list: its tokens, its token ids, its text (a list of texts is
            `texts`, since one of paths is a corpus), or its messages.
        texts: the text of each sample, instead of a corpus.
        tokenizer: `builtin` (the default), the path of a tokenizer.json, a local folder, or a hub
            name; or a tokenizer of tokenizers or transformers.
        text_column: name of the text column, or two names for pairs; by default the only text
            column, or the one called text, content, sentence, review or prompt.
        chat_template: a file with the Jinja template for `messages_column`, instead of the
            tokenizer's own.
        workers: number of threads or processes; defaults to the number of cores.
        executor: what counts files, or splits of large ones: `threads`, `processes`, `dask`, or
            `auto` for processes if the corpus is large.
        scheduler: address of the scheduler for `dask`.
        count_cache: where the counts of splits are stored, so that a restarted run counts only what
            is missing: a folder or an address that all of the executor's workers can reach; by
            default they are not stored beyond the run.
        recount: whether to ignore counts that are already stored.
        allow_partial: whether to build a profile from the splits that could be counted.
        on_progress: called with the progress of the count; by default an interactive session, such
            as a notebook, shows it on standard error.
        on_warning: called with each warning.
        label_column: name of the column with labels, or names of several of 0 and 1.
        options: other fields of `batchstat.CorpusOptions`, such as `strip=True`.

    Example:
        >>> profile = batchstat.profile("sample_data/reviews.csv", text_column="review")
        >>> profile
        Profile(sample_data/reviews.csv, builtin, 720 samples, 54,634 tokens, ...)
        >>> profile.suggested_max_length
        512
        >>> batchstat.profile(texts=["Pack it.", "Pad it, then."])
        Profile(texts, builtin, 2 samples, 9 tokens, ...)

    Raises:
        OptionError: an option that is invalid by itself.
        InputError: a corpus or tokenizer that cannot be read; a corpus without samples.
    """
    if count_cache is not None and not isinstance(count_cache, CountCache):
        named_path("count_cache", count_cache)
        count_cache = CountCache.at(count_cache)
    if tokenizer is not None:
        is_name = isinstance(tokenizer, str | os.PathLike)
        tokenizer = os.fspath(tokenizer) if is_name else as_tokenizer(tokenizer)

    run = RunOptions(
        executor, workers, scheduler, count_cache, recount, allow_partial, on_warning=on_warning
    )
    if isinstance(corpus, Corpus):
        return _with_progress(corpus, run, on_progress)
    columns: dict[str, Any] = {"text_column": text_column, "label_column": label_column}
    read_as = CorpusOptions(**columns, **options)
    template = None if chat_template is None else named_path("chat_template", chat_template)
    if (texts is None) == (corpus is None):
        raise OptionError("pass a corpus, or its texts")
    name = type(corpus).__name__
    # Paths are counted as files, all else as a table in memory, which one value per sample becomes.
    if texts is not None:
        corpus, name = table_of_texts(texts), "texts"
    elif holds_values(corpus):
        corpus, read_as = table_of(corpus, read_as)
    elif isinstance(corpus, str | os.PathLike | Sequence):
        paths: Any = [corpus] if isinstance(corpus, str | os.PathLike) else corpus
        files = open_corpus(
            paths, read_as, tokenizer, template, on_warning, allow_empty=allow_partial
        )
        return _with_progress(files, run, on_progress)
    return _count_table(corpus, read_as, name, tokenizer, template, worker_count(workers))


def _with_progress(
    corpus: Corpus, run: RunOptions, on_progress: Callable[[Progress], object] | None
) -> Profile:
    if on_progress is not None:
        return build(corpus, replace(run, on_progress=on_progress))
    # Python defines sys.ps1, its prompt, in interactive sessions alone, such as a notebook.
    if not hasattr(sys, "ps1"):
        return build(corpus, run)
    with shown_progress() as show:
        return build(corpus, replace(run, on_progress=show))


def build(corpus: Corpus, run: RunOptions) -> Profile:
    """Count a corpus; without a cache if an optional one is full. Raises OptionError: the executor;
    InputError: splits that cannot be read; StorageFullError: a full cache of the user's.
    """
    cache = run.count_cache
    try:
        counted = _count_and_merge(corpus, run)
    except StorageFullError as full:
        # Standard input is over by then and cannot be counted again.
        if cache is None or not cache.is_optional or corpus.reads_standard_input:
            raise
        run.on_warning(
            Finding("counting/cache-full", f"{full.problem}: recounting without the cache")
        )
        counted = _count_and_merge(corpus, replace(run, count_cache=None))
    if cache is not None and cache.is_optional:
        cache.make_room()
    return counted


def _count_and_merge(corpus: Corpus, run: RunOptions) -> Profile:
    """Count all splits of a corpus, and merge their counts into its profile."""
    created = datetime.now(UTC).isoformat()
    splits = corpus.splits
    with _cache_of(run) as cache:
        scheduler = _make_scheduler(corpus, run, cache)
        # Again where a small cache evicts counts to make room for those of other runs.
        for _ in range(20):
            scheduler.count()  # all splits at first, later those whose counts were evicted
            done, failed = scheduler.done, scheduler.failed
            if failed and not run.allow_partial:
                raise _failure(failed, len(splits), run)
            try:
                return merge_splits(splits, done, failed, cache, corpus.options, created)
            except CacheEvictedError as evicted:
                # A damaged entry would be found again if it stayed.
                cache.remove(done.pop(evicted.number).key)
        raise InputError(
            f"{cache.address}: cached counts disappear or change before they can be read",
            "use another folder with --count-cache",
        )


def _make_scheduler(corpus: Corpus, run: RunOptions, cache: CountCache) -> Scheduler:
    executor, tokenizer = run.executor_for(corpus.splits), corpus.tokenizer
    if corpus.reads_standard_input and not executor.in_process:
        executor = threads(worker_count(None))  # only this process can read it
    task = CountTask(
        options=corpus.options,
        tokenizer=tokenizer,
        cache=cache,
        threads=executor.threads,
        recount=run.recount,
        # A cache in a temporary folder only takes what does not fit in memory.
        in_memory=run.count_cache is None,
    )
    # If a shortcut of counting proves wrong, standard input is counted again, from a copy.
    needs_copy = corpus.reads_standard_input and tokenizer is not None and tokenizer.has_shortcuts
    copy = Rereadable(sys.stdin.buffer) if needs_copy else None
    return Scheduler(corpus.splits, task, executor, run, standard_input=copy)


@contextmanager
def _cache_of(run: RunOptions) -> Iterator[CountCache]:
    """Yield the count cache of the run, or one in a folder that is deleted afterwards."""
    if run.count_cache is not None:
        yield run.count_cache
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix="batchstat-", ignore_cleanup_errors=True)
    except OSError as error:
        raise InputError(
            f"counts cannot be stored during the run: {one_line(error)}",
            "set TMPDIR to a writable folder",
        ) from None
    with folder as path:
        yield CountCache(path)


def _failure(failed: Mapping[int, str], splits: int, run: RunOptions) -> InputError:
    """Return the error for splits that failed, after a warning for each if there are several."""
    reasons = [failed[i] for i in sorted(failed)]
    if splits == 1:
        return InputError(reasons[0])
    # A single failure is named by the error itself.
    for reason in reasons[:_LISTED] if len(reasons) > 1 else ():
        run.on_warning(Finding("corpus/not-counted", f"not counted: {reason}"))
    if len(reasons) > _LISTED:
        more = f"not counted: {len(reasons) - _LISTED:,} more"
        run.on_warning(Finding("corpus/not-counted", more))
    return InputError(
        f"{len(reasons):,} of {splits:,} splits failed: {reasons[0]}",
        "fix or "
        "remove them and run again, which counts only what is missing, or pass --allow-partial",
    )


def _count_table(
    table: Any,
    options: CorpusOptions,
    name: str,
    tokenizer: str | Tokenizer | None,
    chat_template: Path | None,
    workers: int,
) -> Profile:
    """Count a table in memory, which messages call `name`: by threads, without a cache."""
    from batchstat.corpus.in_memory import TableReader
    from batchstat.profiling.counting import count_samples

    is_chat = options.content == "messages"
    # A prompt and its completion are texts or chats: the first rows tell.
    if options.content == "completion":
        is_chat = holds_chats(TableReader(table, options, name))
    counter = tokenizer_for(options, tokenizer, chat_template, is_chat=is_chat)
    reader = TableReader(table, options, name)
    try:
        counted = count_samples(reader, counter, workers)
    except MiscountError as difference:
        assert counter is not None
        warn_in_python(recounted(difference))
        reader = TableReader(table, options, name)  # a reader is read once
        counted = count_samples(reader, counter.without_shortcuts(), workers)
    if len(counted) == 0:
        raise no_samples(counted.corpus.sources, counted.corpus.skipped)
    return with_classes(counted)
