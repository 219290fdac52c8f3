"""A corpus as blocks of samples: what is skipped is counted, what is left keeps its record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.columns import CorpusOptions
from batchstat.corpus.formats import READERS, Chunk
from batchstat.corpus.sources import Source, format_name, open_source
from batchstat.errors import OptionError


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive samples of a corpus.

    Attributes:
        records: (n,) where each stood in its corpus, skipped ones counted.
        texts: (n,) large_string.
        labels: (n,) large_string, null where there is none; None where no label is read.
        position: bytes of the corpus, as it lies on disk, that are read so far.
    """

    records: npt.NDArray[np.int64]
    texts: pa.LargeStringArray
    labels: pa.LargeStringArray | None
    position: int


@dataclass
class Skipped:
    """Records that are no samples, by reason: `blank`, and `short` of `min_chars`."""

    counts: dict[str, int] = field(default_factory=lambda: {"blank": 0, "short": 0})


def read_corpus(
    sources: Sequence[Source], options: CorpusOptions, skipped: Skipped
) -> Iterator[Block]:
    """The samples of all sources in turn; `skipped` is counted up while they are read.

    Raises:
        OptionError: an option that none of the sources' formats has.
        InputError: a source that cannot be read as its format.
    """
    formats = [format_name(source.path) for source in sources]
    _check_options(formats, options)
    records = position = 0
    for source, name in zip(sources, formats, strict=True):
        with open_source(source) as opened:
            for chunk in READERS[name](opened, options):
                yield _samples(chunk, options, skipped, records, position + chunk.position)
                records += len(chunk.texts)
        position += source.bytes


def _check_options(formats: Sequence[str], options: CorpusOptions) -> None:
    if {"csv", "tsv"} & set(formats):
        return
    for flag, given in (
        ("--no-header", not options.header),
        ("--quote", options.quote is not None),
    ):
        if given:
            raise OptionError(f"{flag} is for .csv and .tsv files, and the corpus has none")


def _samples(
    chunk: Chunk, options: CorpusOptions, skipped: Skipped, first: int, position: int
) -> Block:
    trimmed = pc.utf8_trim_whitespace(chunk.texts)
    texts = trimmed if options.strip else chunk.texts
    keep = pc.not_equal(pc.binary_length(trimmed), 0)
    skipped.counts["blank"] += len(texts) - _count(keep)
    if options.min_chars > 1:
        long_enough = pc.greater_equal(pc.utf8_length(texts), options.min_chars)
        skipped.counts["short"] += _count(pc.and_not(keep, long_enough))
        keep = pc.and_(keep, long_enough)
    records = first + np.flatnonzero(keep.to_numpy(zero_copy_only=False))
    labels = None if chunk.labels is None else chunk.labels.filter(keep)
    return Block(records, texts.filter(keep), labels, position)


def _count(mask: pa.BooleanArray) -> int:
    return int(mask.true_count)
