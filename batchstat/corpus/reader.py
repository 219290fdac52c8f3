"""Read a corpus as blocks of samples: skipped records are counted, samples keep their record."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.bad_records import BLANK, BadRecord, BadRecords, Location
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.chunk_content import ChunkContent
from batchstat.corpus.content import (
    AssistantChats,
    Chats,
    CompletionChats,
    Completions,
    Content,
    Instructions,
    PrecountedLengths,
    Texts,
)
from batchstat.corpus.formats import READERS
from batchstat.corpus.opening import Rereadable, open_source
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.sources import Source
from batchstat.corpus.splits import Split
from batchstat.corpus.trained_column import TrainedColumn, read_trained
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.parameters import one_of
from batchstat.storage.arrow_numbers import as_arrow, as_numpy

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Locations:
    """Locations of consecutive records of a file.

    Attributes:
        path: the file, as messages name it.
        lines: line on which each starts; None in files without lines.
        first: number of the first one in the split that is read.
        before: returns how many lines or records precede that split.
    """

    path: str
    lines: Sequence[int] | None
    first: int
    before: Callable[[], int]

    def __call__(self, i: int) -> Location:
        """Return the location of the i-th of them."""
        if self.lines:
            return Location(self.path, self.lines[i], "line", self.before)
        return Location(self.path, self.first + i, before=self.before)


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive samples of one source.

    Attributes:
        reading: state of reading the source that they come from.
        records: (n,) position of each in its source, skipped records counted.
        content: (n,) what is counted.
        labels: (n,) large_string, or lists of it for samples with several classes; null for a
            sample without a label; None if no label is read.
        trained: (n,) what a column says of their trained tokens; None if none is read.
        position: bytes of the corpus on disk that are read so far.
        locations: locations of the records of the block, those that are not samples included.
    """

    reading: "Reading"
    records: Ints
    content: Content
    labels: pa.Array | None
    trained: TrainedColumn | None
    position: int
    locations: Locations

    def report_bad(self, i: int, reason: str, message: str) -> None:
        """Report that sample i cannot be counted.

        Raises:
            InputError: bad records are not skipped.
        """
        self.reading.bad_records.raise_or_count(self.location(i), BadRecord(reason, message))

    def location(self, i: int) -> Location:
        """Return the location of sample i."""
        return self.locations(int(self.records[i]) - self.locations.first)

    def select(self, samples: Ints) -> "Block":
        """Return those of these samples, by their positions."""
        return replace(
            self,
            records=self.records[samples],
            content=self.content.select(samples),
            labels=None if self.labels is None else self.labels.take(as_arrow(samples)),
            trained=None if self.trained is None else self.trained.select(samples),
        )


@dataclass(eq=False)
class Reading:
    """State of reading the records of one source.

    Attributes:
        source: the source; once it is read, with size and digest even for standard input.
        bad_records: bad records so far.
        before: records of the corpus before its first.
        records: number of records.
        blank: records with nothing but whitespace in them.
        short: records of fewer than `min_chars` characters.
        label_seen: whether any record has the label; None if none could be read.
    """

    source: Source
    bad_records: BadRecords
    before: int = 0
    records: int = 0
    blank: int = 0
    short: int = 0
    label_seen: bool | None = None

    @property
    def skipped(self) -> dict[str, int]:
        """Number of records that are not samples, by reason."""
        return {"blank": self.blank, "short": self.short, **self.bad_records.counts}


class CorpusReader:
    """Reader of the samples of a corpus, and of what became of its records.

    A bad record is counted; or it ends the reading, after the samples before it.

    Attributes:
        splits: what is read; empty for a table in memory.
        options: how it is read.
        readings: states of the sources that were begun.
    """

    def __init__(
        self,
        splits: Sequence[Split],
        options: CorpusOptions,
        standard_input: Rereadable | None = None,
    ) -> None:
        """Raise OptionError for an unknown format."""
        self.splits, self.options = splits, options
        self._standard_input = standard_input
        self.readings: list[Reading] = []
        if options.input_format is not None:
            one_of("input_format", options.input_format, READERS)

    def blocks(self) -> Generator[Block, None, None]:
        """Yield the samples of all splits in order.

        Raises:
            InputError: a source that cannot be read in its format, or a bad record unless bad
                records are skipped.
        """
        before = 0
        for split in self.splits:
            reading = self.begin(split.source)
            with open_source(split, self._standard_input) as opened:
                # Empty for the later splits of a compressed file whose name does not say so.
                if opened.split.stop != opened.split.first:
                    chunks = READERS[split.source.format](opened, self.options)
                    yield from self.samples(reading, chunks, before)
                reading.source = opened.source(split.source)
            before += split.bytes

    def begin(self, source: Source) -> Reading:
        """Create the state of the next split."""
        before = self.readings[-1].before + self.readings[-1].records if self.readings else 0
        bad_records = BadRecords(skip=self.options.on_error == "skip")
        self.readings.append(Reading(source, bad_records, before))
        return self.readings[-1]

    def samples(
        self, reading: Reading, chunks: Iterable[Chunk], before: int = 0
    ) -> Iterator[Block]:
        """Yield the samples of the chunks of one split.

        Args:
            reading: its state.
            chunks: its records.
            before: bytes of the corpus before the split.
        """
        for chunk in chunks:
            if chunk.label_seen is not None:
                reading.label_seen = chunk.label_seen
            first = reading.records
            locations = Locations(reading.source.shown, chunk.lines, first, chunk.before)
            block, bad = self._block(reading, chunk, locations, before + chunk.position)
            if bad and not reading.bad_records.skip:
                # Whoever counts the block may find a bad record before the first of these.
                block = block.select(np.flatnonzero(block.records < first + min(bad)))
            yield block
            for i in sorted(bad):
                reading.bad_records.raise_or_count(locations(i), bad[i])
            reading.records += chunk.size

    def _block(
        self, reading: Reading, chunk: Chunk, locations: Locations, position: int
    ) -> tuple[Block, dict[int, BadRecord]]:
        """Return the samples of a chunk, and its bad records."""
        values = ChunkContent(chunk, locations)
        content = _content_of(values, chunk, self.options)
        columns = chunk.read
        labels = values.labels(columns.label) if columns.label else None
        trained = read_trained(values, columns.trained) if columns.trained else None
        is_sample = np.ones(chunk.size, dtype=bool)
        is_sample[list(values.bad)] = False
        bad = {i: record for i, record in values.bad.items() if record is not BLANK}
        reading.blank += len(values.bad) - len(bad)
        if isinstance(content, Texts):
            content, is_sample = self._filtered(reading, content, is_sample)
        records = locations.first + np.arange(chunk.size)
        block = Block(reading, records, content, labels, trained, position, locations)
        return block.select(np.flatnonzero(is_sample)), bad

    def _filtered(self, reading: Reading, texts: Texts, ok: Mask) -> tuple[Texts, Mask]:
        """Return the texts, stripped if requested, and which of the ok ones are samples."""
        parts = texts.sides
        trimmed = [pc.utf8_trim_whitespace(part) for part in parts]
        # A pair is blank only if both of its texts are.
        filled = np.any([as_numpy(pc.binary_length(part)) != 0 for part in trimmed], axis=0)
        if self.options.append:  # what is appended makes a sample of a blank text, too
            filled = np.ones_like(filled)
        reading.blank += int(np.count_nonzero(ok & ~filled))
        keep = ok & filled
        if self.options.strip:
            parts = trimmed
        if self.options.min_chars:
            chars = sum(as_numpy(pc.utf8_length(part)) for part in parts)
            long_enough = chars >= self.options.min_chars
            reading.short += int(np.count_nonzero(keep & ~long_enough))
            keep &= long_enough
        if self.options.append:
            last, ending = parts[-1], pa.scalar(self.options.append, pa.large_string())
            longer = pc.binary_join_element_wise(last, ending, pa.scalar("", pa.large_string()))
            if not self.options.always_append:
                longer = pc.if_else(pc.ends_with(last, self.options.append), last, longer)
            parts = [*parts[:-1], longer]
        return type(texts)(*parts), keep


def _content_of(values: ChunkContent, chunk: Chunk, options: CorpusOptions) -> Content:
    """Return what is counted of a chunk.

    Raises:
        InputError: a column of another type.
    """
    columns = chunk.read.content
    if options.content == "messages":
        chats = AssistantChats if options.assistant_only_loss else Chats
        messages = values.chats(columns[0], options.chat_format)
        return chats(messages, values.template_inputs(as_written=options.chats_as_written))
    if options.content == "completion" and values.holds_lists(columns[0]):
        if options.tokenize_apart:
            raise InputError(
                f"{values.locate(0)}: {columns[0]!r} holds chats, which are tokenized whole: "
                "remove --tokenize-apart"
            )
        prompts, rest = (values.chats(each, options.chat_format) for each in columns)
        messages = [asked + said for asked, said in zip(prompts, rest, strict=True)]
        inputs = values.template_inputs(as_written=options.chats_as_written)
        return CompletionChats(messages, inputs, list(map(len, prompts)))
    if options.content == "tokens":
        return PrecountedLengths(values.token_lists(columns[0]))
    if options.content == "length" or chunk.counted:
        return PrecountedLengths(values.lengths(columns[0]))
    kind: type[Texts] = Texts
    if options.content == "completion":
        kind = Instructions if options.tokenize_apart else Completions
        if options.chats_as_written:
            # TRL hands them on beside a pair of texts, too, and stops where it cannot.
            for i, beside in enumerate(values.template_inputs(as_written=True)):
                if beside.wrong:
                    values.fail(i, beside.wrong)
    return values.without_long(kind(*map(values.text, columns)))
