"""What is counted: the files of a corpus, how they are read, and the tokenizer that counts them."""

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.sources import Source, find_sources
from batchstat.corpus.splits import Split, splits_of
from batchstat.errors import ColumnError, InputError, OptionError
from batchstat.storage.shown import is_remote
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.chats.chat import with_chat_template
from batchstat.tokenization.chats.instructions import with_instructions
from batchstat.tokenization.loading.load import as_tokenizer
from batchstat.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from batchstat.corpus.reader import CorpusReader


@dataclass(frozen=True)
class Corpus:
    """Files to count, and how.

    Attributes:
        sources: the files, in order.
        options: how they are read.
        tokenizer: tokenizer that counts; None if they need no counting.
    """

    sources: tuple[Source, ...]
    options: CorpusOptions
    tokenizer: Tokenizer | None

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
    on_warning: Callable[[str], object] = warnings.warn,
    *,
    allow_empty: bool = False,
) -> Corpus:
    """Find the files of a corpus, and load the tokenizer that counts them.

    Raises:
        OptionError, InputError: as in `find_sources` and `tokenizer_for`.
    """
    sources = find_sources(paths, options.input_format, on_warning, allow_empty=allow_empty)
    is_chat = options.content == "messages"
    if tokenizer not in (None, BUILTIN) or options.content == "completion":
        is_chat = begins_with_chats(sources[0], options) or is_chat
    counter = tokenizer_for(options, tokenizer, chat_template, sources, is_chat=is_chat)
    return Corpus(sources, options, counter)


def has_columns(path: str | os.PathLike[str], options: CorpusOptions) -> bool | None:
    """Return whether a corpus begins with a file that can be read with these options; None if what
    it lacks are columns.

    Raises:
        InputError: there is no such file, or it is read only once or over a network.
    """
    source = find_sources([path], options.input_format)[0]
    if source.is_standard_input or is_remote(source.path):
        raise InputError(
            f"which columns {source.shown} has is not known before it is counted: name them, as "
            "with --text-column or --messages-column"
        )
    try:
        begins_with_chats(source, options)
    except ColumnError:
        return None
    except InputError:
        return False
    return True


def column_names(path: str | os.PathLike[str], input_format: str | None) -> tuple[str, ...]:
    """Return the columns of the first file of a corpus, by its first record where it has no schema;
    none where they are not known before it is counted, or it has none.
    """
    source = find_sources([path], input_format)[0]
    try:
        # No column has this name, so that the error lists those that there are.
        begins_with_chats(source, CorpusOptions(tokens_column="\0", input_format=input_format))
    except ColumnError as error:
        return error.names
    except InputError:  # a format without columns, or whatever counting says of the file
        return ()
    return ()


def begins_with_chats(source: Source, options: CorpusOptions) -> bool:
    """Return whether the first records of a file are chats.

    A missing column is an error here, before a tokenizer loads, which may take seconds.
    """
    from batchstat.corpus.reader import CorpusReader

    if source.is_standard_input or is_remote(source.path):
        return False
    return holds_chats(CorpusReader(splits_of([source], options)[:1], options))


def holds_chats(reader: "CorpusReader") -> bool:
    """Return whether the first samples that a reader yields are chats."""
    from batchstat.corpus.content import Chats

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
) -> Tokenizer | None:
    """Return the tokenizer for a corpus read with `options`, which has chats if `is_chat`; None if
    it needs no counting.

    Raises:
        OptionError: a tokenizer, chat template or other option that has no effect here.
        InputError: a tokenizer or template that cannot be loaded.
    """
    formats = {source.format for source in sources}
    is_delimited = not options.header or options.quote is not None
    if is_delimited and not {"csv", "tsv"} & formats:
        flag = "--quote" if options.header else "--no-header"
        raise OptionError(f"{flag} is for .csv and .tsv files, but the corpus has none")
    if chat_template is not None and not is_chat:
        raise OptionError("chat_template needs a messages_column: pass one")
    counted = f"a {options.content}_column" if options.content in ("tokens", "length") else ""
    if formats == {"npy"}:
        counted = "a .npy file"
    if counted:
        needless = {
            "tokenizer": tokenizer is not None,
            "strip": options.strip,
            "min_chars": options.min_chars > 0,
            "append": bool(options.append),
        }
        for name, is_set in needless.items():
            if is_set:
                raise OptionError(f"{name} is for texts, but {counted} has none: remove it")
        return None
    loaded = as_tokenizer(BUILTIN if tokenizer is None else tokenizer)
    if options.tokenize_apart:
        return with_instructions(loaded)
    return with_chat_template(loaded, chat_template, options.turn_ends) if is_chat else loaded
