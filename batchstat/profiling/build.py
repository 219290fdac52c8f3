"""A corpus to its `Profile`."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus import CorpusOptions, Skipped, Source, find_sources, read_corpus
from batchstat.errors import InputError
from batchstat.profiling.record import CorpusFacts, Labels, Profile, TokenizerFacts
from batchstat.tokens import Tokenizer, load_tokenizer


@dataclass(frozen=True)
class Progress:
    """How far a profile has come: bytes of the corpus on disk, samples, tokens."""

    bytes: int
    samples: int
    tokens: int


def profile(
    corpus: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    tokenizer: str = "builtin",
    text_column: str | None = None,
    label_column: str | None = None,
    header: bool = True,
    quote: bool | None = None,
    strip: bool = False,
    min_chars: int = 0,
) -> Profile:
    """The profile of a corpus of one or more files, which is read once and not kept.

    Args:
        corpus: path or paths of .txt, .csv, .tsv, .jsonl or .parquet files, also compressed.
        tokenizer: `builtin`, the path of a tokenizer.json, a local folder, or a hub name.
        text_column: the column of the text; without it, the only text column or the one called
            text, content, sentence, review or prompt. By number from 0 where `header` is false.
        label_column: the column of the class.
        header: whether .csv and .tsv files begin with the names of their columns.
        quote: whether their fields may be quoted; None for .csv only.
        strip: take white space off both ends of every text.
        min_chars: skip shorter samples, in characters; blank ones always are.

    Raises:
        OptionError: an option that is wrong by itself.
        InputError: a corpus or tokenizer that cannot be read; a corpus without a sample.
    """
    paths = [corpus] if isinstance(corpus, str | os.PathLike) else list(corpus)
    options = CorpusOptions(
        text_column=text_column,
        label_column=label_column,
        header=header,
        quote=quote,
        strip=strip,
        min_chars=min_chars,
    )
    return build(find_sources(paths), options, load_tokenizer(tokenizer))


def build(
    sources: tuple[Source, ...],
    options: CorpusOptions,
    tokenizer: Tokenizer,
    on_progress: Callable[[Progress], object] = lambda _: None,
) -> Profile:
    """As `profile`, for sources that are found and a tokenizer that is loaded."""
    created = datetime.now(UTC).isoformat()
    skipped = Skipped()
    records, lengths, labels = [], [], []
    samples = tokens = 0
    for block in read_corpus(sources, options, skipped):
        counts = tokenizer.count(block.texts)
        records.append(block.records)
        lengths.append(counts)
        if block.labels is not None:
            labels.append(block.labels.dictionary_encode())
        samples += len(counts)
        tokens += int(counts.sum())
        on_progress(Progress(block.position, samples, tokens))
    if samples == 0:
        raise InputError(f"no sample in {_named(sources)}: {_reason(skipped.counts)}")
    return Profile(
        created=created,
        corpus=CorpusFacts(sources, options, skipped.counts),
        tokenizer=TokenizerFacts(
            tokenizer.name,
            tokenizer.digest,
            tokenizer.special_tokens_per_sample,
            tokenizer.max_length,
            tokenizer.library,
        ),
        records=np.concatenate(records),
        lengths=np.concatenate(lengths),
        labels=as_labels(pa.chunked_array(labels)) if labels else None,
    )


def as_labels(values: pa.ChunkedArray) -> Labels:
    """Dictionary-encoded text as `Labels`."""
    whole = values.unify_dictionaries().combine_chunks()
    codes = pc.fill_null(whole.indices, -1).to_numpy(zero_copy_only=False)
    return Labels(codes, tuple(whole.dictionary.to_pylist()))


def _named(sources: tuple[Source, ...]) -> str:
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return f"{sources[0].path}{more}"


def _reason(skipped: dict[str, int]) -> str:
    found = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items() if count)
    return f"all records are skipped ({found})" if found else "it has no record"
