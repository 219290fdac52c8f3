"""Build the `Profile` of a corpus."""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.sources import Source, find_sources
from batchstat.errors import OptionError
from batchstat.parameters import named_path
from batchstat.profiling.cache import CountCache
from batchstat.profiling.conduct import RunOptions, build
from batchstat.profiling.counting import Counting
from batchstat.profiling.executors.local import given_executor, threads
from batchstat.profiling.merge import alone
from batchstat.profiling.profile import Profile
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.chat import with_chat_template
from batchstat.tokenization.loading import load_tokenizer
from batchstat.tokenization.piece_counter import PieceError
from batchstat.tokenization.threads import worker_count
from batchstat.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    import datasets
    import pandas as pd

Path_ = str | os.PathLike[str]


def profile(
    corpus: "Path_ | Sequence[Path_] | pd.DataFrame | datasets.Dataset",
    *,
    tokenizer: str | None = None,
    text_column: str | int | Sequence[str] = (),
    chat_template: Path_ | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    count_cache: Path_ | None = None,
    **options: Any,
) -> Profile:
    """Count a corpus and return its profile.

    Args:
        corpus: paths, addresses or glob patterns of files or folders; or a pandas DataFrame; or a
            Dataset of the datasets library.
        tokenizer: `builtin` (the default), the path of a tokenizer.json, a local folder, or a hub
            name.
        text_column: name of the text column, or two names for pairs; by default the only text
            column, or the one called text, content, sentence, review or prompt.
        chat_template: a file with the Jinja template for `messages_column`, instead of the
            tokenizer's own.
        workers: number of counting threads; defaults to the number of cores.
        executor: executor to count with instead: any of `concurrent.futures`, such as a
            ProcessPoolExecutor or the one of a Dask client; files, or parts
            of large ones, are counted on it.
        count_cache: where the counts of parts are stored, so that a restarted run counts only what
            is missing: a folder or an address that all of the executor's workers can reach;
            defaults to a temporary folder of this machine.
        options: other fields of `batchstat.CorpusOptions`, such as `label_column="label"`.

    Raises:
        OptionError: an option that is invalid by itself.
        InputError: a corpus or tokenizer that cannot be read; a corpus without samples.
    """
    names = (str(text_column),) if isinstance(text_column, str | int) else tuple(text_column)
    read_as = CorpusOptions(text_column=names, **options)
    template = None if chat_template is None else named_path("chat_template", chat_template)
    if isinstance(corpus, str | os.PathLike):
        corpus = [corpus]
    if isinstance(corpus, Sequence):
        sources = find_sources(corpus, read_as.input_format)
        counts = counter(read_as, tokenizer, template, sources)
        count = worker_count(workers)
        engine = threads(count) if executor is None else given_executor(executor, workers)
        if count_cache is not None:
            named_path("count_cache", count_cache)
        store = None if count_cache is None else CountCache.at(count_cache)
        return build(sources, read_as, counts, RunOptions(engine, store))

    return _of_table(corpus, read_as, counter(read_as, tokenizer, template), worker_count(workers))


def counter(
    options: CorpusOptions,
    tokenizer: str | None,
    chat_template: Path | None,
    sources: Sequence[Source] = (),
) -> Tokenizer | None:
    """Return the tokenizer for a corpus read with `options`; None if it needs no counting.

    Raises:
        OptionError: a tokenizer, chat template or other option that has no effect here.
        InputError: a tokenizer or template that cannot be loaded.
    """
    formats = {source.format for source in sources}
    if not {"csv", "tsv"} & formats:
        flags = {"--no-header": not options.header, "--quote": options.quote is not None}
        for flag in (flag for flag, given in flags.items() if given):
            raise OptionError(f"{flag} is for .csv and .tsv files, but the corpus has none")
    if chat_template is not None and options.content != "messages":
        raise OptionError("chat_template needs a messages_column: pass one")
    counted = f"a {options.content}_column" if options.content in ("tokens", "length") else ""
    if formats == {"npy"}:
        counted = "a .npy file"
    if counted:
        needless = {
            "tokenizer": tokenizer is not None,
            "strip": options.strip,
            "min_chars": options.min_chars > 0,
        }
        for name in (name for name, given in needless.items() if given):
            raise OptionError(f"{name} is for texts, but {counted} has none: remove it")
        return None
    loaded = load_tokenizer(BUILTIN if tokenizer is None else tokenizer)
    return with_chat_template(loaded, chat_template) if options.content == "messages" else loaded


def _of_table(
    table: Any, options: CorpusOptions, tokenizer: Tokenizer | None, workers: int
) -> Profile:
    from batchstat.corpus.in_memory import TableReader

    created = datetime.now(UTC).isoformat()
    counting = Counting(options, workers)
    try:
        found = counting.profile(TableReader(table, options), tokenizer)
    except PieceError as difference:
        assert tokenizer is not None
        warnings.warn(f"{difference}: recounting every text as a whole", stacklevel=3)
        whole = replace(tokenizer, pieces=None)
        found = counting.profile(TableReader(table, options), whole)
    return alone(found, created)
