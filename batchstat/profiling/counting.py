"""Count one split of a corpus into a `Profile`: read in blocks, counted by several threads."""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np

from batchstat.corpus.content import PrecountedLengths
from batchstat.corpus.label_columns import as_labels
from batchstat.corpus.reader import Block, CorpusReader
from batchstat.lengths.arrays import Ints
from batchstat.lengths.labels import Labels
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.profiling.profile import CorpusFacts, Profile, ReadColumns, TokenizerFacts
from batchstat.profiling.progress import CountedAmount
from batchstat.storage.arrow_numbers import as_arrow
from batchstat.tokenization.counting.count_check import counting_after
from batchstat.tokenization.threads import in_order
from batchstat.tokenization.tokenizer import Tokenizer


def count_samples(
    reader: CorpusReader,
    tokenizer: Tokenizer | None,
    workers: int,
    pool: ThreadPoolExecutor | None = None,
    on_progress: Callable[[CountedAmount], object] = lambda _: None,
) -> Profile:
    """Return the profile of one split, or of a table, counted by several threads, perhaps without
    samples. Raises InputError: as in `CorpusReader.blocks`; MiscountError: a wrong shortcut.
    """
    created, options = datetime.now(UTC).isoformat(), reader.options
    # What each block has; joined at the end.
    records, lengths, labels = list[Ints](), list[Ints](), list[Labels]()
    # Tokens that carry loss, if the options say which do.
    has_trained = options.trained_column or options.completion_column or options.assistant_only_loss
    kinds: dict[str, list[TokenRanges]] = {"trained": []} if has_trained else {}
    samples, tokens = 0, 0
    # Chats that the template does not render completely, by what it leaves out.
    left_out: Counter[str] = Counter()
    # Blocks are counted at the same time, and come back in the order in which they were read.
    for block in in_order(partial(_count_block, reader, tokenizer), reader.blocks(), workers, pool):
        records.append(block.records)
        lengths.append(block.lengths)
        labels += [] if block.labels is None else [block.labels]
        for kind, ranges in block.kinds.items():
            kinds[kind].append(ranges)
        samples += len(block.lengths)
        tokens += int(block.lengths.sum())
        left_out.update(block.left_out)
        on_progress(CountedAmount(block.position, samples, tokens))
    (reading,) = reader.readings  # one split, so one reading
    read_columns: tuple[ReadColumns, ...] = ()
    if (columns := reading.columns) is not None:
        # Plain text and .npy files have a column without a name.
        named = tuple(name for name in columns.content if name)
        read_columns = (ReadColumns(named, columns.is_guessed, columns.separator),)
    return Profile(
        created=created,
        corpus=CorpusFacts(
            sources=(reading.source,),
            options=options,
            skipped=reading.skipped,
            faults=tuple(reading.bad_records.examples),
            left_out=dict(sorted(left_out.items())),
            read=read_columns,
        ),
        tokenizer=TokenizerFacts.of(tokenizer, options),
        records=_join(records),
        lengths=_join(lengths),
        labels=Labels.joined(labels) if options.label_column else None,
        kinds={kind: TokenRanges.concatenate(ranges) for kind, ranges in kinds.items()},
    )


def _join(blocks: list[Ints]) -> Ints:
    joined = np.concatenate([np.empty(0, np.int64), *blocks], dtype=np.int64)
    blocks.clear()
    return joined


@dataclass(frozen=True, eq=False)
class _CountedBlock:
    """Counts of a block of samples, without those that the tokenizer raised on."""

    records: Ints
    lengths: Ints
    labels: Labels | None  # its label; None without labels
    kinds: Mapping[str, TokenRanges]
    position: int  # bytes of the corpus that were read up to the end of the block
    left_out: Counter[str]


def _count_block(reader: CorpusReader, tokenizer: Tokenizer | None, block: Block) -> _CountedBlock:
    """Count the samples of one block, while other threads count others."""
    left_out: Counter[str] = Counter()
    kinds: dict[str, TokenRanges] = {}
    # `lengths`: tokens of all samples of the block; `samples`: indices of those that were counted.
    if isinstance(block.content, PrecountedLengths):
        lengths: Ints = block.content.lengths
        samples: Ints = np.arange(len(lengths))
    else:
        assert tokenizer is not None

        def report_bad(i: int, error: Exception) -> None:
            block.report_bad(i, "not_counted", tokenizer.cannot_count(error))

        # This may load the fast engine, which nothing interrupts: only once a block could be read.
        tokenizer.expect(sum(split.bytes for split in reader.splits))
        first_byte = reader.splits[0].first if reader.splits else 0
        # Where this block is in the corpus decides which of its texts check the shortcuts.
        with counting_after(block.locations.first, first_byte=first_byte):
            lengths, samples, counted_kinds = tokenizer.count(block.content, report_bad, left_out)
        kinds = {kind: ranges.take(samples) for kind, ranges in counted_kinds.items()}
    # The corpus says itself which tokens are trained, as in a mask: that must fit the lengths.
    if block.trained is not None:
        if misfits := block.trained.misfits(lengths):  # nearly always empty
            for i in sorted(misfits.keys() & set(samples.tolist())):
                block.report_bad(i, "trained", misfits[i])
            samples = np.setdiff1d(samples, list(misfits), assume_unique=True)
        kinds["trained"] = block.trained.select(samples).ranges(lengths[samples])
    labels = block.labels
    if labels is not None and len(samples) < len(lengths):
        labels = labels.take(as_arrow(samples))
    return _CountedBlock(
        records=block.records[samples],
        # Half the memory until they are joined: LONGEST fits into 32 bits.
        lengths=lengths[samples].astype(np.int32),
        labels=None if labels is None else as_labels(labels),
        kinds=kinds,
        position=block.position,
        left_out=left_out,
    )
