"""A corpus to its `Profile`."""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchstat.corpus import (
    STANDARD_INPUT,
    CorpusOptions,
    CorpusReader,
    Rereadable,
    Source,
    digest_of,
    find_sources,
)
from batchstat.errors import OptionError
from batchstat.profiling.cache import Cache, key_of
from batchstat.profiling.counting import Counting, Progress
from batchstat.profiling.merging import merge
from batchstat.profiling.record import Profile
from batchstat.threads import worker_count
from batchstat.tokens import Tokenizer, load_tokenizer, with_chat_template
from batchstat.tokens.builtin import NAME as BUILTIN

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
    **options: Any,
) -> Profile:
    """The profile of a corpus, which is read once and not kept.

    Args:
        corpus: paths of files, folders or glob patterns; or a pandas DataFrame; or a Dataset of
            the datasets library.
        tokenizer: `builtin` (the default), the path of a tokenizer.json, a local folder, or a hub
            name.
        text_column: the column of the text, two for a pair; without it, the only text column or
            the one called text, content, sentence, review or prompt.
        chat_template: a file with the Jinja template for `messages_column`, in the place of the
            tokenizer's own.
        workers: threads that count; as many as there are cores unless set.
        options: other fields of `batchstat.CorpusOptions`, such as `label_column="label"`.

    Raises:
        OptionError: an option that is wrong by itself.
        InputError: a corpus or tokenizer that cannot be read; a corpus without a sample.
    """
    names = (str(text_column),) if isinstance(text_column, str | int) else tuple(text_column)
    read_as = CorpusOptions(text_column=names, **options)
    template = Path(chat_template) if chat_template else None
    if isinstance(corpus, str | os.PathLike):
        corpus = [corpus]
    if isinstance(corpus, Sequence):
        sources = find_sources(corpus, read_as.input_format)
        counts = counter(read_as, tokenizer, template, sources)
        return build(sources, read_as, counts, workers=workers)

    from batchstat.corpus.tables import TableReader

    counts = counter(read_as, tokenizer, template)

    def reader() -> TableReader:
        return TableReader(corpus, read_as)

    created = datetime.now(UTC).isoformat()
    return merge(Counting(read_as, worker_count(workers)).profiles(reader, counts), created)


def counter(
    options: CorpusOptions,
    tokenizer: str | None,
    chat_template: Path | None,
    sources: Sequence[Source] = (),
) -> Tokenizer | None:
    """The tokenizer that counts a corpus read with `options`; None where it is counted already.

    Raises:
        OptionError: a tokenizer, chat template or other option where none is used.
        InputError: one that cannot be loaded.
    """
    formats = {source.format for source in sources}
    if not {"csv", "tsv"} & formats:
        flags = {"--no-header": not options.header, "--quote": options.quote is not None}
        for flag in (flag for flag, given in flags.items() if given):
            raise OptionError(f"{flag} is for .csv and .tsv files, and the corpus has none")
    if chat_template is not None and options.content != "messages":
        raise OptionError("chat_template is for a messages_column, and none is named")
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
            raise OptionError(f"{name} is for texts, and {counted} holds none: leave it out")
        return None
    loaded = load_tokenizer(tokenizer or BUILTIN)
    return with_chat_template(loaded, chat_template) if options.content == "messages" else loaded


def build(
    sources: tuple[Source, ...],
    options: CorpusOptions,
    tokenizer: Tokenizer | None,
    *,
    workers: int | None = None,
    cache: Cache | None = None,
    on_progress: Callable[[Progress], object] = lambda _: None,
    on_warning: Callable[[str], object] = warnings.warn,
) -> Profile:
    """As `profile`, for sources that are found and a tokenizer that is loaded.

    Of sources that `cache` knows the counts are taken from there; the others are counted, and kept.
    """
    created = datetime.now(UTC).isoformat()
    keys = {source: key_of(source, options, tokenizer) for source in sources if source.digest}
    known = {source: cache.get(key) for source, key in keys.items()} if cache else {}
    new = tuple(source for source in sources if known.get(source) is None)
    counting = Counting(
        options, worker_count(workers), sum(each.bytes for each in new), on_progress, on_warning
    )
    counted = iter(counting.profiles(_reader_of(new, options, tokenizer), tokenizer))
    profiles = []
    for source in sources:
        found = known.get(source)
        if found is None:
            found = next(counted)
            if cache is not None and source in keys and _is_unchanged(source):
                cache.put(keys[source], found)
        profiles.append(found)
    return merge(profiles, created)


def _is_unchanged(source: Source) -> bool:
    """Whether what was counted is what the digest is of: it was taken before the file was read."""
    try:
        return digest_of(Path(source.path)) == source.digest
    except OSError:
        return False


def _reader_of(
    sources: tuple[Source, ...], options: CorpusOptions, tokenizer: Tokenizer | None
) -> Callable[[], CorpusReader]:
    """A reader that can be had anew: standard input too where the pieces might be wrong."""
    standard_input = None
    pieces = tokenizer is not None and tokenizer.pieces is not None
    if pieces and any(source.path == STANDARD_INPUT for source in sources):
        standard_input = Rereadable(sys.stdin.buffer)

    def reader() -> CorpusReader:
        if standard_input is not None:
            standard_input.rewind()
        return CorpusReader(sources, options, standard_input)

    return reader
