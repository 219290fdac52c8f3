"""A corpus to its `Profile`."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus import Block, CorpusOptions, CorpusReader, Source, find_sources
from batchstat.errors import InputError, OptionError
from batchstat.profiling.record import CorpusFacts, Labels, Profile, TokenizerFacts
from batchstat.tokens import Tokenizer, load_tokenizer, with_chat_template
from batchstat.tokens.builtin import NAME as BUILTIN

if TYPE_CHECKING:
    import datasets
    import pandas as pd

Path_ = str | os.PathLike[str]


@dataclass(frozen=True)
class Progress:
    """How far a profile has come: bytes of the corpus on disk, samples, tokens."""

    bytes: int
    samples: int
    tokens: int


def profile(
    corpus: "Path_ | Sequence[Path_] | pd.DataFrame | datasets.Dataset",
    *,
    tokenizer: str | None = None,
    text_column: str | Sequence[str] = (),
    chat_template: Path_ | None = None,
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
        options: other fields of `batchstat.CorpusOptions`, such as `label_column="label"`.

    Raises:
        OptionError: an option that is wrong by itself.
        InputError: a corpus or tokenizer that cannot be read; a corpus without a sample.
    """
    names = (text_column,) if isinstance(text_column, str) else tuple(text_column)
    read_as = CorpusOptions(text_column=names, **options)
    counts = counter(read_as, tokenizer, Path(chat_template) if chat_template else None)
    if isinstance(corpus, str | os.PathLike):
        corpus = [corpus]
    if isinstance(corpus, Sequence):
        return build(find_sources(corpus, read_as.input_format), read_as, counts)

    from batchstat.corpus.tables import TableReader

    reader = TableReader(corpus, read_as)
    return _collect(reader, reader.blocks(), read_as, counts, lambda _: None)


def counter(
    options: CorpusOptions, tokenizer: str | None, chat_template: Path | None
) -> Tokenizer | None:
    """The tokenizer that counts a corpus read with `options`; None where it is counted already.

    Raises:
        OptionError: a tokenizer or chat template where none is used.
        InputError: one that cannot be loaded.
    """
    if chat_template is not None and options.content != "messages":
        raise OptionError("chat_template is for a messages_column, and none is named")
    if options.content in ("tokens", "length"):
        if tokenizer is not None:
            raise OptionError(
                f"tokenizer={tokenizer!r}: what a {options.content}_column holds is counted "
                "already, leave the tokenizer out"
            )
        return None
    loaded = load_tokenizer(tokenizer or BUILTIN)
    return with_chat_template(loaded, chat_template) if options.content == "messages" else loaded


def build(
    sources: tuple[Source, ...],
    options: CorpusOptions,
    tokenizer: Tokenizer | None,
    on_progress: Callable[[Progress], object] = lambda _: None,
) -> Profile:
    """As `profile`, for sources that are found and a tokenizer that is loaded."""
    if {source.format for source in sources} == {"npy"}:
        tokenizer = None
    reader = CorpusReader(sources, options)
    return _collect(reader, reader.blocks(), options, tokenizer, on_progress)


def _collect(
    reader: CorpusReader,
    blocks: Iterable[Block],
    options: CorpusOptions,
    tokenizer: Tokenizer | None,
    on_progress: Callable[[Progress], object],
) -> Profile:
    created = datetime.now(UTC).isoformat()
    records, lengths, labels = [], [], []
    samples = tokens = 0
    for block in blocks:
        counted, counts, label = _counted(block, tokenizer, reader)
        records.append(counted)
        lengths.append(counts)
        if label is not None:
            labels.append(label)
        samples += len(counts)
        tokens += int(counts.sum())
        on_progress(Progress(block.position, samples, tokens))
    if samples == 0:
        raise InputError(f"no sample in {_named(reader.read)}: {_reason(reader.skipped)}")
    return Profile(
        created=created,
        corpus=CorpusFacts(
            tuple(reader.read), options, reader.skipped, tuple(reader.faults.examples)
        ),
        tokenizer=None if tokenizer is None else _facts(tokenizer),
        records=np.concatenate(records),
        lengths=np.concatenate(lengths),
        labels=as_labels(labels) if labels else None,
    )


def _counted(
    block: Block, tokenizer: Tokenizer | None, reader: CorpusReader
) -> tuple[Any, Any, pa.Array | None]:
    """Records, lengths and labels of a block's samples, less those the tokenizer raised on."""
    from batchstat.corpus.content import Counted

    if isinstance(block.content, Counted):
        return block.records, block.content.lengths, block.labels
    assert tokenizer is not None

    def faulty(i: int, error: Exception) -> None:
        reason = " ".join(str(error).split()) or type(error).__name__
        message = f"tokenizer {tokenizer.name!r} cannot count it: {reason[:200]}"
        reader.faults.add("not_counted", block.places(i), message)

    counts, kept = tokenizer.count(block.content, faulty)
    if len(kept) == len(counts):
        return block.records, counts, block.labels
    labels = None if block.labels is None else block.labels.take(pa.array(kept))
    return block.records[kept], counts[kept], labels


def _facts(tokenizer: Tokenizer) -> TokenizerFacts:
    return TokenizerFacts(
        tokenizer.name,
        tokenizer.digest,
        tokenizer.special_tokens_per_sample,
        tokenizer.max_length,
        tokenizer.library,
    )


def as_labels(parts: Sequence[pa.Array]) -> Labels:
    """Blocks of labels as one: of lists where one of them is of lists."""
    listed = [pa.types.is_large_list(part.type) for part in parts]
    if not any(listed):
        codes, names = _encoded(pa.chunked_array(list(parts), pa.large_string()))
        return Labels(codes, names)
    sizes = [
        np.maximum(pc.fill_null(pc.list_value_length(part), 0).to_numpy(zero_copy_only=False), 1)
        if is_list
        else np.ones(len(part), dtype=np.int64)
        for part, is_list in zip(parts, listed, strict=True)
    ]
    # A sample without a label keeps one place, for the code that says so.
    none = pa.array([[None]], pa.large_list(pa.large_string()))[0]
    flat = [
        pc.list_flatten(pc.coalesce(part, none)) if is_list else part
        for part, is_list in zip(parts, listed, strict=True)
    ]
    codes, names = _encoded(pa.chunked_array(flat, pa.large_string()))
    return Labels(codes, names, np.concatenate([[0], np.cumsum(np.concatenate(sizes))]))


def _encoded(values: pa.ChunkedArray) -> tuple[Any, tuple[str, ...]]:
    whole = values.dictionary_encode().unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    codes = pc.fill_null(whole.indices, -1).to_numpy(zero_copy_only=False)
    return codes, tuple(whole.dictionary.to_pylist())


def _named(sources: Sequence[Source]) -> str:
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return f"{sources[0].shown}{more}"


def _reason(skipped: dict[str, int]) -> str:
    found = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items() if count)
    return f"all records are skipped ({found})" if found else "it has no record"
