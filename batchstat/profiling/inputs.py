"""What is counted: the files of a corpus, how they are read, and the tokenizer that counts them."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.corpus.files.sources import Source, find_sources
from batchstat.corpus.files.splits import Split, splits_of
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import ColumnError, InputError, OptionError
from batchstat.findings import Finding, warn_in_python
from batchstat.storage.shown import is_remote
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.loading.load import as_tokenizer, recalled
from batchstat.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from batchstat.corpus.reader import CorpusReader


@dataclass(frozen=True)
class Corpus:
    """Files to count, and how."""

    sources: tuple[Source, ...]  # the files, in order
    options: CorpusOptions
    tokenizer: Tokenizer | None  # tokenizer that counts; None if they need no counting

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """The splits of all files: the units of counting."""
        return splits_of(self.sources, self.options)

    @property
    def reads_standard_input(self) -> bool:
        """Whether standard input is one of the files."""
        return any(source.is_standard_input for source in self.sources)


def open_corpus(
    paths: Sequence[str | os.PathLike[str]],
    options: CorpusOptions,
    tokenizer: str | Tokenizer | None,
    chat_template: Path | None,
    on_warning: Callable[[Finding], object] = warn_in_python,
    *,
    allow_empty: bool = False,
    fresh: bool = False,
) -> Corpus:
    """Find the files of a corpus, and load what counts them. Raises InputError or OptionError."""
    sources = find_sources(paths, options.input_format, on_warning, allow_empty=allow_empty)
    is_chat = options.content == "messages"
    if isinstance(tokenizer, str) and (tokenizer == BUILTIN or not fresh):
        tokenizer = recalled(tokenizer) or tokenizer
    # The first records are read before a tokenizer that takes seconds to load, so that a missing
    # column is an error first; and where only they tell whether prompts are texts or chats.
    if isinstance(tokenizer, str) or options.content == "completion":
        is_chat = begins_with_chats(sources[0], options) or is_chat
    counter = tokenizer_for(
        options, tokenizer, chat_template, sources, is_chat=is_chat, fresh=fresh
    )
    return Corpus(sources, options, counter)


def has_columns(path: str | os.PathLike[str], options: CorpusOptions) -> bool | None:
    """Return True if the first file of a corpus can be read so, None if it lacks the columns, else
    False. Raises InputError: no such file, or one that is read only once.
    """
    source = find_sources([path], options.input_format)[0]
    if source.is_standard_input or is_remote(source.path):
        raise InputError(
            f"which columns {source.shown} has is not known before it is counted",
            "name them, as with --text-column or --messages-column",
        )
    # This reads the first records; only its errors matter here.
    try:
        begins_with_chats(source, options)
    except ColumnError:
        return None
    except InputError:
        return False
    return True


def column_names(path: str | os.PathLike[str], input_format: str | None) -> tuple[str, ...]:
    """Return the columns in the first file of a corpus; empty if it has none, or cannot be read."""
    source = find_sources([path], input_format)[0]
    try:
        # Ask for a column that no file has: the error lists the columns that there are.
        begins_with_chats(source, CorpusOptions(tokens_column="\0", input_format=input_format))
    except ColumnError as error:
        return error.names
    except InputError:  # a format without columns, or a file that counting will refuse
        return ()
    return ()  # standard input or a remote file, which was not read


def begins_with_chats(source: Source, options: CorpusOptions) -> bool:
    """Return whether a file begins with chats; raise here, before loading, for a missing column."""
    from batchstat.corpus.reader import CorpusReader

    # Standard input can be read once, and a remote file is not read twice.
    if source.is_standard_input or is_remote(source.path):
        return False
    return holds_chats(CorpusReader(splits_of([source], options)[:1], options))


def holds_chats(reader: "CorpusReader") -> bool:
    """Return whether the first samples that a reader yields are chats."""
    from batchstat.corpus.content import Chats

    # Closed after the first block that has samples: the rest is not read.
    with closing(reader.blocks()) as blocks:
        first = next((block for block in blocks if len(block.records)), None)
    return first is not None and isinstance(first.content, Chats)


def tokenizer_for(
    options: CorpusOptions,
    tokenizer: str | Tokenizer | None,
    chat_template: Path | None,
    sources: Sequence[Source] = (),
    *,
    is_chat: bool = False,
    fresh: bool = False,
) -> Tokenizer | None:
    """Return the tokenizer that counts a corpus; None if it has tokens or lengths. Raises
    OptionError: an option without effect on such a corpus; InputError: it cannot be loaded.
    """
    formats = {source.format for source in sources}
    _check_formats(options, formats)
    if chat_template is not None and not is_chat:
        raise OptionError("chat_template needs a messages_column", "pass one")
    # Where tokens or lengths stand, for messages; empty for a corpus of texts or chats.
    precounted = f"a {options.content}_column" if options.content in ("tokens", "length") else ""
    if formats == {"npy"}:
        precounted = "a .npy file"
    if precounted:
        options_of_texts = {
            "tokenizer": tokenizer is not None,
            "strip": options.strip,
            "min_chars": options.min_chars > 0,
            "append": bool(options.append),
        }
        for name, is_set in options_of_texts.items():
            if is_set:
                raise OptionError(f"{name} is for texts, but {precounted} has none", "remove it")
        return None
    loaded = as_tokenizer(BUILTIN if tokenizer is None else tokenizer, fresh=fresh)
    if is_chat:
        from batchstat.tokenization.chats.chat import with_chat_template  # loads jinja2

        return with_chat_template(loaded, chat_template)
    return loaded


def _check_formats(options: CorpusOptions, formats: set[str]) -> None:
    """Raise OptionError for an option of formats that the corpus does not have."""
    csv_options = {
        "--no-header": not options.header,
        "--quote": options.quote is not None,
        "--separator": options.separator is not None,
        "--backslash": options.backslash,
    }
    for flag, is_set in csv_options.items():
        if is_set and not {"csv", "tsv"} & formats:
            raise OptionError(
                f"{flag} is for .csv and .tsv files, but the corpus has none",
                "pass --input-format csv if it is one of other endings",
            )
    if options.encoding is not None and not formats - {"parquet", "arrow", "npy"}:
        raise OptionError("encoding is for text files, but the corpus has none", "remove it")
    if options.records is not None and not formats & {"json", "jsonl"}:
        raise OptionError("records is for .json and .jsonl files, but the corpus has none")
