"""Read a corpus as blocks of samples: skipped records are counted, samples keep their record."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.bad_records import BLANK, BadRecord, BadRecords, Location
from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.chunk_content import ChunkContent
from batchstat.corpus.content import (
    AssistantChats,
    Chats,
    CompletionChats,
    Completions,
    Content,
    PrecountedLengths,
    Texts,
)
from batchstat.corpus.files.opening import open_source
from batchstat.corpus.files.sources import Source
from batchstat.corpus.files.splits import Split
from batchstat.corpus.files.streams import Rereadable
from batchstat.corpus.formats import READERS
from batchstat.corpus.label_columns import read_labels
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.trained_column import TrainedColumn, read_trained
from batchstat.lengths.arrays import Ints
from batchstat.parameters import one_of
from batchstat.storage.arrow_numbers import as_arrow, as_numpy

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Locations:
    """Locations of consecutive records of a file, for messages."""

    path: str
    lines: Sequence[int] | None  # line on which each record starts; None in files without lines
    first: int  # number of the first of these records, counted from 0 in the split that is read
    before: Callable[[], int]

    def __call__(self, i: int) -> Location:
        """Return the location of the i-th of these records."""
        if self.lines:
            return Location(self.path, self.lines[i], "line", self.before)
        return Location(self.path, self.first + i, before=self.before)


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive samples of one source."""

    reading: "Reading"
    records: Ints
    content: Content
    labels: pa.Array | None  # (n,) large_string, or lists of it for samples with several classes
    trained: TrainedColumn | None  # (n,) what a column says about the trained tokens of each sample
    position: int  # bytes of the corpus on disk that are read so far
    locations: Locations

    def report_bad(self, i: int, reason: str, message: str) -> None:
        """Report that sample i cannot be counted. Raises InputError unless bad ones are skipped."""
        self.reading.bad_records.raise_or_count(self.location(i), BadRecord(reason, message))

    def location(self, i: int) -> Location:
        """Return the location of sample i."""
        return self.locations(int(self.records[i]) - self.locations.first)

    def select(self, samples: Ints) -> "Block":
        """Return a block of the samples at these positions, which ascend."""
        return replace(
            self,
            records=self.records[samples],
            content=self.content.select(samples),
            labels=None if self.labels is None else self.labels.take(as_arrow(samples)),
            trained=None if self.trained is None else self.trained.select(samples),
        )


@dataclass(eq=False)
class Reading:
    """State of reading the records of one split of a source."""

    source: Source
    bad_records: BadRecords
    before: int = 0
    records: int = 0
    blank: int = 0
    short: int = 0  # number of records of fewer than `min_chars` characters
    label_seen: bool | None = None  # whether any record has a label
    columns: Columns | None = None  # what of the records was read; None if no record could be read

    @property
    def skipped(self) -> dict[str, int]:
        """Number of records that are not samples, by reason."""
        return {"blank": self.blank, "short": self.short, **self.bad_records.counts}


class CorpusReader:
    """Reads the samples of a corpus; a bad record is skipped and counted, or ends the reading."""

    def __init__(
        self,
        splits: Sequence[Split],
        options: CorpusOptions,
        standard_input: Rereadable | None = None,
    ) -> None:
        """Prepare to read; nothing is opened yet. Raise OptionError for an unknown format."""
        self.splits, self.options = splits, options
        self._standard_input = standard_input
        self.readings: list[Reading] = []
        if options.input_format is not None:
            one_of("input_format", options.input_format, READERS)

    def blocks(self) -> Generator[Block, None, None]:
        """Yield the samples of all splits in order. Raises InputError: a bad source or record."""
        bytes_before = 0
        for split in self.splits:
            reading = self.begin(split.source)
            with open_source(split, self._standard_input, self.options.encoding) as opened:
                # A compressed file without a name that says so is all in its first split.
                if opened.split.stop != opened.split.first:
                    chunks = READERS[split.source.format](opened, self.options)
                    yield from self.samples(reading, chunks, bytes_before)
                reading.source = opened.source(split.source)
            bytes_before += split.bytes

    def begin(self, source: Source) -> Reading:
        """Start the state of the next split, of this source, and return it."""
        before = self.readings[-1].before + self.readings[-1].records if self.readings else 0
        bad_records = BadRecords(skip=self.options.on_error == "skip")
        self.readings.append(Reading(source, bad_records, before))
        return self.readings[-1]

    def samples(
        self, reading: Reading, chunks: Iterable[Chunk], bytes_before: int = 0
    ) -> Iterator[Block]:
        """Yield the samples of a split's chunks. Raises InputError: a bad record not skipped."""
        for chunk in chunks:
            # A chunk without a record that could be read says nothing about the label.
            if chunk.label_seen is not None:
                reading.label_seen, reading.columns = chunk.label_seen, chunk.columns
            first = reading.records
            locations = Locations(reading.source.shown, chunk.lines, first, chunk.count_before)
            block, bad = self._block(reading, chunk, locations, bytes_before + chunk.position)
            if bad and not reading.bad_records.skip:
                # Only the samples before the first bad record. Whoever counts them may find a bad
                # one among them, which then is the first that an error has to name.
                block = block.select(np.flatnonzero(block.records < first + min(bad)))
            yield block
            # Without `skip`, the first of these raises.
            for i in sorted(bad):
                reading.bad_records.raise_or_count(locations(i), bad[i])
            reading.records += chunk.size

    def _block(
        self, reading: Reading, chunk: Chunk, locations: Locations, position: int
    ) -> tuple[Block, dict[int, BadRecord]]:
        """Return the samples of a chunk, and its bad records by their index in the chunk."""
        values = ChunkContent(chunk, locations)
        # Each of these reads a column, and adds the records that it finds wrong to `values.bad`.
        content = _content_of(values, chunk, self.options)
        columns = chunk.columns
        labels = read_labels(values, columns.labels) if columns.labels else None
        trained = read_trained(values, columns.trained) if columns.trained else None
        is_sample = np.ones(chunk.size, dtype=bool)
        is_sample[list(values.bad)] = False
        # Blank records are among `values.bad`, but are skipped without being an error.
        bad = {i: record for i, record in values.bad.items() if record is not BLANK}
        reading.blank += len(values.bad) - len(bad)
        if isinstance(content, Texts):
            content, is_sample = self._prepare_texts(reading, content, is_sample)
        records = locations.first + np.arange(chunk.size)
        block = Block(reading, records, content, labels, trained, position, locations)
        return block.select(np.flatnonzero(is_sample)), bad

    def _prepare_texts(self, reading: Reading, texts: Texts, is_good: Mask) -> tuple[Texts, Mask]:
        """Apply the options `strip`, `min_chars` and `append` to texts, or to pairs of texts."""
        sides = texts.sides  # one array of texts, or two for pairs
        stripped = [pc.utf8_trim_whitespace(side) for side in sides]
        # A pair is blank only if both of its texts are. No text is blank once one is appended.
        has_text = np.any([as_numpy(pc.binary_length(side)) != 0 for side in stripped], axis=0)
        is_blank = is_good & ~has_text & (not self.options.append)
        reading.blank += int(np.count_nonzero(is_blank))
        is_sample = is_good & ~is_blank
        if self.options.strip:
            sides = stripped
        if self.options.min_chars:
            chars = sum(as_numpy(pc.utf8_length(side)) for side in sides)
            is_long_enough = chars >= self.options.min_chars
            reading.short += int(np.count_nonzero(is_sample & ~is_long_enough))
            is_sample &= is_long_enough
        if self.options.append:
            *first, last = sides  # of a pair, the second text gets it
            # The ending, and the separator, here none, which joining takes as its last argument.
            ending, separator = pa.array([self.options.append, ""], pa.large_string())
            appended = pc.binary_join_element_wise(last, ending, separator)
            sides = [*first, pc.if_else(pc.ends_with(last, self.options.append), last, appended)]
        return type(texts)(*sides), is_sample


def _content_of(values: ChunkContent, chunk: Chunk, options: CorpusOptions) -> Content:
    """Return what is counted of a chunk, by the columns that the options name."""
    columns = chunk.columns.content
    if options.content == "messages":
        kind_of_chats = AssistantChats if options.assistant_only_loss else Chats
        chats = values.chats(columns[0], options.chat_format)
        return kind_of_chats(chats, values.template_inputs(as_written=options.chats_as_written))
    # Prompts and completions may be texts, or lists of messages.
    if options.content == "completion" and values.holds_lists(columns[0]):
        prompts, completions = (values.chats(column, options.chat_format) for column in columns)
        chats = [prompt + after for prompt, after in zip(prompts, completions, strict=True)]
        inputs = values.template_inputs(as_written=options.chats_as_written)
        return CompletionChats(chats, inputs, prompts=list(map(len, prompts)))
    # .npy and CoNLL files hold lengths and words, without an option that says so.
    by_kind: dict[str, Callable[[str], Content]] = {
        "words": values.words,
        "tokens": lambda column: PrecountedLengths(values.token_counts(column)),
        "length": lambda column: PrecountedLengths(values.whole_numbers(column)),
    }
    if read := by_kind.get(chunk.holds or options.content):
        return read(columns[0])
    kind_of_texts: type[Texts] = Texts
    if options.content == "completion":
        kind_of_texts = Completions
        if options.chats_as_written:
            # TRL hands tools and settings on beside a pair of texts, too, and fails if it cannot.
            for i, inputs_of_record in enumerate(values.template_inputs(as_written=True)):
                if inputs_of_record.wrong:
                    values.reject(i, inputs_of_record.wrong)
    return values.without_long(kind_of_texts(*map(values.texts, columns)))
