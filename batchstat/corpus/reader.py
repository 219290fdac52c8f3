"""Read a corpus as blocks of samples: skipped records are counted, samples keep their record."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.bad_records import Fault, Faults, Place
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.content import Chats, Content, Counted, Mask, Texts, read_content
from batchstat.corpus.formats import READERS
from batchstat.corpus.opening import Rereadable, open_source
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import Part
from batchstat.corpus.sources import Source
from batchstat.errors import InputError
from batchstat.parameters import one_of


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive samples of one source.

    Attributes:
        reading: state of reading the source that they come from.
        records: (n,) position of each in its source, skipped records counted.
        content: (n,) what is counted.
        labels: (n,) large_string, or lists of it for samples with several classes; null for a
            sample without a label; None if no label is read.
        position: bytes of the corpus on disk that are read so far.
        places: (n,) place of each, for messages.
        faults: bad records between them.
    """

    reading: "Reading"
    records: npt.NDArray[np.int64]
    content: Content
    labels: pa.Array | None
    position: int
    places: "Places"
    faults: list[Fault]


@dataclass(frozen=True)
class Places:
    """Places of the samples of a block in their file."""

    path: str
    lines: Sequence[int] | None
    kept: npt.NDArray[np.int64]
    first: int
    before: Callable[[], int]

    def __call__(self, i: int) -> Place:
        """Return the place of sample i of the block."""
        return self.of_record(int(self.kept[i]))

    def of_record(self, i: int) -> Place:
        """Return the place of record i of the block's chunk."""
        if self.lines:
            return Place(self.path, self.lines[i], "line", self.before)
        return Place(self.path, self.first + i, before=self.before)


@dataclass(eq=False)
class Reading:
    """State of reading the records of one source.

    Attributes:
        source: the source; once it is read, with size and digest even for standard input.
        faults: bad records.
        records: number of records.
        blank: records with nothing but whitespace in them.
        short: records of fewer than `min_chars` characters.
        label_seen: whether any record has the label; None if none could be read.
    """

    source: Source
    faults: Faults
    records: int = 0
    blank: int = 0
    short: int = 0
    label_seen: bool | None = None

    @property
    def skipped(self) -> dict[str, int]:
        """Number of records that are not samples, by reason."""
        return {"blank": self.blank, "short": self.short, **self.faults.counts}


class CorpusReader:
    """Reader of the samples of a corpus, and of what became of its records.

    The consumer of the blocks settles their faults, in order, together with those found later.

    Attributes:
        readings: states of the sources that were begun.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        options: CorpusOptions,
        standard_input: Rereadable | None = None,
    ) -> None:
        """Raise OptionError for an unknown format."""
        self._parts, self._options = parts, options
        self._standard_input = standard_input
        self.readings: list[Reading] = []
        if options.input_format is not None:
            one_of("input_format", options.input_format, READERS)

    def blocks(self) -> Iterator[Block]:
        """Yield the samples of all parts in order.

        Raises:
            InputError: a source that cannot be read in its format, or a bad record unless bad
                records are skipped.
        """
        before = 0
        for part in self._parts:
            reading = self.begin(part.source)
            with open_source(part, self._standard_input) as opened:
                if opened.part.stop != opened.part.first:
                    chunks = READERS[part.source.format](opened, self._options, reading.faults)
                    yield from self.samples(reading, chunks, before)
                reading.source = opened.source(part.source)
            before += part.bytes

    def begin(self, source: Source) -> Reading:
        """Create the state of the next part."""
        self.readings.append(Reading(source, Faults(skip=self._options.on_error == "skip")))
        return self.readings[-1]

    def samples(
        self, reading: Reading, chunks: Iterable[Chunk], before: int = 0
    ) -> Iterator[Block]:
        """Yield the samples of the chunks of one part, `before` bytes into the corpus."""
        try:
            for chunk in chunks:
                if chunk.label_seen is not None:
                    reading.label_seen = chunk.label_seen
                yield self._block(reading, chunk, before + chunk.position)
                reading.records += chunk.size
        except InputError:
            reading.faults.settle(reading.faults.take())
            raise

    def _block(self, reading: Reading, chunk: Chunk, position: int) -> Block:
        path, first = reading.source.shown, reading.records

        nothing = np.empty(0, dtype=np.int64)
        place = Places(path, chunk.lines, nothing, first, chunk.before).of_record
        content, labels, keep = read_content(chunk, self._options, place, reading.faults)
        reading.blank += len(chunk.blank)
        if isinstance(content, Texts):
            content, keep = self._filtered(reading, content, keep)
        kept = np.flatnonzero(keep)
        return Block(
            reading=reading,
            records=first + kept,
            content=take(content, kept),
            labels=None if labels is None else labels.take(pa.array(kept)),
            position=position,
            places=Places(path, chunk.lines, kept, first, chunk.before),
            faults=reading.faults.take(),
        )

    def _filtered(self, reading: Reading, texts: Texts, ok: Mask) -> tuple[Texts, Mask]:
        """Return the texts, stripped if requested, and which of the ok ones are samples."""
        parts = [texts.first] if texts.second is None else [texts.first, texts.second]
        trimmed = [pc.utf8_trim_whitespace(part) for part in parts]
        written = [pc.not_equal(pc.binary_length(part), 0) for part in trimmed]
        filled = _mask(written[0] if len(written) == 1 else pc.or_(*written))
        reading.blank += int(np.count_nonzero(ok & ~filled))
        keep = ok & filled
        if self._options.strip:
            parts = trimmed
        if self._options.min_chars > 1:
            chars = sum(pc.utf8_length(part).to_numpy(zero_copy_only=False) for part in parts)
            long_enough = chars >= self._options.min_chars
            reading.short += int(np.count_nonzero(keep & ~long_enough))
            keep &= long_enough
        return Texts(*parts), keep


def take(content: Content, kept: npt.NDArray[np.int64]) -> Content:
    """Return the samples at the positions `kept`, in ascending order."""
    if isinstance(content, Counted):
        return Counted(content.lengths[kept])
    if isinstance(content, Chats):
        places = kept.tolist()
        return Chats([content.messages[i] for i in places], [content.tools[i] for i in places])
    if len(kept) == len(content.first):
        return content
    places = pa.array(kept)
    second = None if content.second is None else content.second.take(places)
    return Texts(content.first.take(places), second)


def _mask(values: pa.BooleanArray) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask
