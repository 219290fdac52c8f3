"""Sources to one `Profile` each: read in blocks, counted by several threads."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from batchstat.corpus import Block, CorpusOptions, CorpusReader, Reading
from batchstat.corpus.content import Counted
from batchstat.corpus.faults import Fault, fault
from batchstat.profiling.labels import as_labels
from batchstat.profiling.record import CorpusFacts, Profile, TokenizerFacts
from batchstat.threads import in_order
from batchstat.tokens import PieceError, Tokenizer


@dataclass(frozen=True)
class Progress:
    """How far a count has come.

    Attributes:
        bytes: of what is counted, as it lies on disk.
        total_bytes: how many there are; 0 where that is not known.
        samples: so far.
        tokens: so far.
    """

    bytes: int
    total_bytes: int
    samples: int
    tokens: int


@dataclass(frozen=True)
class Counting:
    """How sources are counted.

    Attributes:
        options: how they are read.
        workers: threads that count.
        total_bytes: of the sources, for `on_progress`.
        on_progress: called with each `Progress`.
        on_warning: called with each warning.
    """

    options: CorpusOptions
    workers: int
    total_bytes: int = 0
    on_progress: Callable[[Progress], object] = lambda _: None
    on_warning: Callable[[str], object] = warnings.warn

    def profiles(
        self, reader: Callable[[], CorpusReader], tokenizer: Tokenizer | None
    ) -> list[Profile]:
        """The profile of each source, which may have no sample; from a reader that can be had
        anew.

        Raises:
            InputError: as `CorpusReader.blocks`.
        """
        try:
            return self._once(reader(), tokenizer)
        except PieceError as difference:
            assert tokenizer is not None
            self.on_warning(f"{difference}: everything is counted again, whole")
            return self._once(reader(), replace(tokenizer, pieces=None))

    def _once(self, reader: CorpusReader, tokenizer: Tokenizer | None) -> list[Profile]:
        created = datetime.now(UTC).isoformat()
        parts: dict[Reading, _Part] = {}
        samples = tokens = 0
        for block in in_order(partial(_counted, tokenizer), reader.blocks(), self.workers):
            block.reading.faults.settle(block.faults)
            parts.setdefault(block.reading, _Part()).add(block)
            samples += len(block.lengths)
            tokens += int(block.lengths.sum())
            self.on_progress(Progress(block.position, self.total_bytes, samples, tokens))
        facts = None if tokenizer is None else _facts(tokenizer, self.options)
        return [
            Profile(
                created=created,
                corpus=CorpusFacts(
                    (reading.source,),
                    self.options,
                    reading.skipped,
                    tuple(reading.faults.examples),
                ),
                tokenizer=facts,
                records=_joined(part.records),
                lengths=_joined(part.lengths),
                labels=None if self.options.label_column is None else as_labels(part.labels),
            )
            for reading, part in ((each, parts.get(each, _Part())) for each in reader.readings)
        ]


@dataclass(frozen=True)
class _Part:
    """The blocks of one source."""

    records: list[npt.NDArray[np.int64]] = field(default_factory=list)
    lengths: list[npt.NDArray[np.int32]] = field(default_factory=list)
    labels: list[pa.Array] = field(default_factory=list)

    def add(self, block: "_CountedBlock") -> None:
        self.records.append(block.records)
        self.lengths.append(block.lengths.astype(np.int32))
        if block.labels is not None:
            self.labels.append(block.labels)


def _joined(parts: list[Any]) -> npt.NDArray[np.int64]:
    """Blocks as one array, and the list emptied: a large corpus is not held twice for long."""
    whole = np.concatenate([np.empty(0, np.int64), *parts], dtype=np.int64)
    parts.clear()
    return whole


@dataclass(frozen=True, eq=False)
class _CountedBlock:
    """What is kept of a block of samples, less those that the tokenizer raised on."""

    reading: Reading
    records: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    labels: pa.Array | None
    faults: list[Fault]
    position: int


def _counted(tokenizer: Tokenizer | None, block: Block) -> _CountedBlock:
    faults, labels = list(block.faults), block.labels
    if isinstance(block.content, Counted):
        records, counts = block.records, block.content.lengths
    else:
        assert tokenizer is not None

        def faulty(i: int, error: Exception) -> None:
            reason = " ".join(str(error).split()) or type(error).__name__
            message = f"tokenizer {tokenizer.name!r} cannot count it: {reason[:200]}"
            faults.append(fault("not_counted", block.places(i), message))

        counts, kept = tokenizer.count(block.content, faulty)
        if labels is not None and len(kept) < len(counts):
            labels = labels.take(pa.array(kept))
        records, counts = block.records[kept], counts[kept]
    return _CountedBlock(block.reading, records, counts, labels, faults, block.position)


def _facts(tokenizer: Tokenizer, options: CorpusOptions) -> TokenizerFacts:
    pairs = len(options.text_column) > 1
    return TokenizerFacts(
        tokenizer.name,
        tokenizer.digest,
        tokenizer.special_tokens_per_pair if pairs else tokenizer.special_tokens_per_sample,
        tokenizer.max_length,
        tokenizer.library,
    )
