"""Count one split of a corpus into a `Profile`: read in blocks, counted by several threads."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from batchstat.corpus.content import PrecountedLengths
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.reader import Block, CorpusReader
from batchstat.lengths.arrays import Ints
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.profiling.labels import as_labels
from batchstat.profiling.profile import CorpusFacts, Profile, TokenizerFacts
from batchstat.profiling.progress import CountedAmount
from batchstat.storage.arrow_numbers import as_arrow
from batchstat.tokenization.counting.count_check import counting_after
from batchstat.tokenization.threads import in_order
from batchstat.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Counting:
    """How a split is counted.

    Attributes:
        options: how the split is read.
        workers: number of counting threads.
        on_progress: called with the amount counted so far.
        pool: thread pool to use instead of an own one.
        bytes: size of what is read; 0 if unknown.
        first_byte: where it begins in its file.
    """

    options: CorpusOptions
    workers: int
    on_progress: Callable[[CountedAmount], object] = lambda _: None
    pool: ThreadPoolExecutor | None = None
    bytes: int = 0
    first_byte: int = 0

    def profile(self, reader: CorpusReader, tokenizer: Tokenizer | None) -> Profile:
        """Return the profile of what a reader reads (a source or a split); may have no samples.

        Raises:
            InputError: as in `CorpusReader.blocks`.
            MiscountError: a shortcut of counting is wrong for the tokenizer.
        """
        created = datetime.now(UTC).isoformat()
        split, samples, tokens = _CountedSplit(), 0, 0
        left_out: Counter[str] = Counter()
        work = partial(self._counted, tokenizer)
        for block in in_order(work, reader.blocks(), self.workers, self.pool):
            split.add(block)
            samples += len(block.lengths)
            tokens += int(block.lengths.sum())
            left_out.update(block.left_out)
            self.on_progress(CountedAmount(block.position, samples, tokens))
        (reading,) = reader.readings
        return Profile(
            created=created,
            corpus=CorpusFacts(
                (reading.source,),
                self.options,
                reading.skipped,
                tuple(reading.bad_records.examples),
                left_out=dict(sorted(left_out.items())),
            ),
            tokenizer=None if tokenizer is None else facts_of(tokenizer, self.options),
            records=_joined(split.records),
            lengths=_joined(split.lengths),
            labels=None if self.options.label_column is None else as_labels(split.labels),
            kinds={
                kind: TokenRanges.concatenate(split.kinds[kind])
                for kind in self.options.token_kinds
            },
        )

    def _counted(self, tokenizer: Tokenizer | None, block: Block) -> "_CountedBlock":
        left_out: Counter[str] = Counter()
        kinds: dict[str, TokenRanges] = {}
        if isinstance(block.content, PrecountedLengths):
            counts: Ints = block.content.lengths
            samples: Ints = np.arange(len(counts))
        else:
            assert tokenizer is not None

            def report(i: int, error: Exception) -> None:
                block.report_bad(i, "not_counted", tokenizer.cannot_count(error))

            # Only now that a block could be read: loading cannot be interrupted.
            tokenizer.expect(self.bytes)
            with counting_after(block.locations.first, first_byte=self.first_byte):
                counts, samples, found = tokenizer.count(block.content, report, left_out)
            kinds = {kind: ranges.take(samples) for kind, ranges in found.items()}
        if block.trained is not None:
            samples = _fitting(block, counts, samples)
            kinds["trained"] = block.trained.select(samples).of(counts[samples])
        labels = block.labels
        if labels is not None and len(samples) < len(counts):
            labels = labels.take(as_arrow(samples))
        return _CountedBlock(
            block.records[samples], counts[samples], labels, kinds, block.position, left_out
        )


@dataclass(frozen=True)
class _CountedSplit:
    """Counted blocks of a split."""

    records: list[Ints] = field(default_factory=list)
    lengths: list[Ints] = field(default_factory=list)
    labels: list[pa.Array] = field(default_factory=list)
    kinds: dict[str, list[TokenRanges]] = field(default_factory=lambda: defaultdict(list))

    def add(self, block: "_CountedBlock") -> None:
        self.records.append(block.records)
        # Half the memory until they are joined: LONGEST fits into 32 bits.
        self.lengths.append(block.lengths.astype(np.int32))
        if block.labels is not None:
            self.labels.append(block.labels)
        for kind, ranges in block.kinds.items():
            self.kinds[kind].append(ranges)


def _joined(blocks: list[Any]) -> Ints:
    """Join blocks into one array and empty the list, so that memory is not doubled for long."""
    joined = np.concatenate([np.empty(0, np.int64), *blocks], dtype=np.int64)
    blocks.clear()
    return joined


@dataclass(frozen=True, eq=False)
class _CountedBlock:
    """Stored result of a block of samples, without those that the tokenizer raised on."""

    records: Ints
    lengths: Ints
    labels: pa.Array | None
    kinds: Mapping[str, TokenRanges]
    position: int
    left_out: Counter[str]


def _fitting(block: Block, counts: Ints, samples: Ints) -> Ints:
    """Return those of the samples whose trained tokens fit their counts; report the others."""
    assert block.trained is not None
    misfits = block.trained.misfits(counts)
    for i in samples.tolist() if misfits else ():
        if i in misfits:
            block.report_bad(i, "trained", misfits[i])
    return np.setdiff1d(samples, list(misfits), assume_unique=True) if misfits else samples


def facts_of(tokenizer: Tokenizer, options: CorpusOptions) -> TokenizerFacts:
    """Return what a profile records about the tokenizer for a corpus read with `options`."""
    pairs = len(options.text_column) > 1
    return TokenizerFacts(
        tokenizer.name,
        tokenizer.digest,
        tokenizer.special_tokens_per_pair if pairs else tokenizer.special_tokens_per_sample,
        tokenizer.max_length,
        tokenizer.library,
    )
