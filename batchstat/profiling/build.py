"""A corpus to its `Profile`."""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from batchstat.corpus import (
    STANDARD_INPUT,
    Block,
    CorpusOptions,
    CorpusReader,
    Rereadable,
    Source,
    find_sources,
)
from batchstat.corpus.content import Counted
from batchstat.corpus.faults import Fault, fault
from batchstat.errors import InputError, OptionError
from batchstat.profiling.labels import as_labels
from batchstat.profiling.record import CorpusFacts, Profile, TokenizerFacts
from batchstat.threads import in_order, worker_count
from batchstat.tokens import PieceError, Tokenizer, load_tokenizer, with_chat_template
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

    threads = worker_count(workers)
    return _Counting(reader, read_as, threads, lambda _: None, warnings.warn).profile(counts)


def counter(
    options: CorpusOptions,
    tokenizer: str | None,
    chat_template: Path | None,
    sources: Sequence[Source] = (),
) -> Tokenizer | None:
    """The tokenizer that counts a corpus read with `options`; None where it is counted already.

    Raises:
        OptionError: a tokenizer or chat template where none is used.
        InputError: one that cannot be loaded.
    """
    if chat_template is not None and options.content != "messages":
        raise OptionError("chat_template is for a messages_column, and none is named")
    counted = f"a {options.content}_column" if options.content in ("tokens", "length") else ""
    if sources and {source.format for source in sources} == {"npy"}:
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
    on_progress: Callable[[Progress], object] = lambda _: None,
    on_warning: Callable[[str], object] = warnings.warn,
) -> Profile:
    """As `profile`, for sources that are found and a tokenizer that is loaded."""
    standard_input = None
    pieces = tokenizer is not None and tokenizer.pieces is not None
    if pieces and any(source.path == STANDARD_INPUT for source in sources):
        standard_input = Rereadable(sys.stdin.buffer)

    def reader() -> CorpusReader:
        if standard_input is not None:
            standard_input.rewind()
        return CorpusReader(sources, options, standard_input)

    threads = worker_count(workers)
    return _Counting(reader, options, threads, on_progress, on_warning).profile(tokenizer)


@dataclass(frozen=True)
class _Counting:
    """One corpus being counted; from a reader that can be had anew."""

    reader: Callable[[], CorpusReader]
    options: CorpusOptions
    workers: int
    on_progress: Callable[[Progress], object]
    on_warning: Callable[[str], object]

    def profile(self, tokenizer: Tokenizer | None) -> Profile:
        try:
            return self._once(tokenizer)
        except PieceError as difference:
            assert tokenizer is not None
            self.on_warning(f"{difference}: everything is counted again, whole")
            return self._once(replace(tokenizer, pieces=None))

    def _once(self, tokenizer: Tokenizer | None) -> Profile:
        created = datetime.now(UTC).isoformat()
        reader = self.reader()
        records, lengths, labels = [], [], []
        samples = tokens = 0
        work = partial(_counted, tokenizer)
        for block in in_order(work, reader.blocks(), self.workers):
            reader.faults.settle(block.faults)
            records.append(block.records)
            lengths.append(block.lengths.astype(np.int32))
            if block.labels is not None:
                labels.append(block.labels)
            samples += len(block.lengths)
            tokens += int(block.lengths.sum())
            self.on_progress(Progress(block.position, samples, tokens))
        if samples == 0:
            raise InputError(f"no sample in {_named(reader.read)}: {_reason(reader.skipped)}")
        return Profile(
            created=created,
            corpus=CorpusFacts(
                tuple(reader.read), self.options, reader.skipped, tuple(reader.faults.examples)
            ),
            tokenizer=None if tokenizer is None else _facts(tokenizer, self.options),
            records=_joined(records),
            lengths=_joined(lengths),
            labels=as_labels(labels) if labels else None,
        )


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """Blocks as one array, and the list emptied: a large corpus is not held twice for long."""
    whole: npt.NDArray[np.int64] = np.concatenate(parts, dtype=np.int64)
    parts.clear()
    return whole


@dataclass(frozen=True, eq=False)
class _CountedBlock:
    """What is kept of a block of samples, less those that the tokenizer raised on."""

    records: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    labels: pa.Array | None
    faults: list[Fault]
    position: int


def _counted(tokenizer: Tokenizer | None, block: Block) -> _CountedBlock:
    if isinstance(block.content, Counted):
        lengths = block.content.lengths
        return _CountedBlock(block.records, lengths, block.labels, block.faults, block.position)
    assert tokenizer is not None
    faults = list(block.faults)

    def faulty(i: int, error: Exception) -> None:
        reason = " ".join(str(error).split()) or type(error).__name__
        message = f"tokenizer {tokenizer.name!r} cannot count it: {reason[:200]}"
        faults.append(fault("not_counted", block.places(i), message))

    counts, kept = tokenizer.count(block.content, faulty)
    labels = block.labels
    if labels is not None and len(kept) < len(counts):
        labels = labels.take(pa.array(kept))
    return _CountedBlock(block.records[kept], counts[kept], labels, faults, block.position)


def _facts(tokenizer: Tokenizer, options: CorpusOptions) -> TokenizerFacts:
    pairs = len(options.text_column) > 1
    return TokenizerFacts(
        tokenizer.name,
        tokenizer.digest,
        tokenizer.special_tokens_per_pair if pairs else tokenizer.special_tokens_per_sample,
        tokenizer.max_length,
        tokenizer.library,
    )


def _named(sources: Sequence[Source]) -> str:
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return f"{sources[0].shown}{more}"


def _reason(skipped: dict[str, int]) -> str:
    found = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items() if count)
    return f"all records are skipped ({found})" if found else "it has no record"
