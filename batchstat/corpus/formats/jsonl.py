"""JSON Lines: one object per line."""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from batchstat.corpus.bad_records import BLANK, BadRecord
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.formats.json_records import RecordCollector, reason_of
from batchstat.corpus.lines import Lines, read_lines
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions
from batchstat.storage.arrow_numbers import as_arrow
from batchstat.storage.sealed_records import unique_keys

# The scanner in C, which json.loads wraps in several calls of Python for each line.
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def read_jsonl(
    opened: OpenSource,
    options: CorpusOptions,
    convert: Callable[[object], object] = lambda record: record,
) -> Iterator[Chunk]:
    """Yield the columns of the object on each line; a blank line is an empty record.

    `convert` returns what is read of each record.
    """
    collector = RecordCollector(opened, options)
    if opened.split.first:
        # The columns are those of the first split of the file: by its first good record.
        head = (record for lines in read_lines(opened.head()) for record in _parsed(lines))
        next(filter(collector.decide, head), None)
    for lines in read_lines(opened):
        yield from collector.chunks(map(convert, _parsed(lines)), lines.numbers)


def _parsed(lines: Lines) -> list[object]:
    """Return the records of lines, each as `_parsed_line` does, but without its call per object.

    A key that appears twice in an object is lost in the parsed record, with its quotes: so if the
    lines have as many quotes as the strings of their records, no key does.
    """
    records: list[object] = []
    certain: list[object] = []
    uncertain: list[int] = []
    for i, line in enumerate(lines.texts.to_pylist()):
        try:
            record, end = _scan(line, 0)
        except (StopIteration, ValueError, RecursionError):
            end = -1
        if end == len(line):
            certain.append(record)
        else:
            record = _parsed_line(line)
            uncertain.append(i)
        records.append(record)
    texts = lines.texts
    if uncertain:
        texts = texts.take(as_arrow(np.delete(np.arange(len(texts)), uncertain)))
    if _quotes(texts) != 2 * _strings(certain):
        records = [_parsed_line(line) for line in lines.texts.to_pylist()]
    for i, bad in lines.bad.items():
        records[i] = bad
    return records


def _parsed_line(line: str) -> object:
    """Return the record of a line, or a `BadRecord`."""
    if not line or line.isspace():
        return BLANK
    try:
        return json.loads(line, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        return BadRecord("malformed", f"malformed JSON: {reason_of(error)}")


def _quotes(texts: pa.LargeStringArray) -> int:
    """Return how many quotes begin or end a string in texts that are valid JSON."""
    _, _, data = texts.buffers()
    octets = np.frombuffer(b"" if data is None else data, np.uint8)
    slashes = np.flatnonzero(octets == ord("\\"))
    # A quote is escaped after an odd number of consecutive backslashes.
    lasts = np.flatnonzero(np.diff(slashes, append=-1) != 1)
    is_escape = np.diff(lasts, prepend=-1) % 2 == 1
    escaped = octets[slashes[lasts[is_escape]] + 1] == ord('"')
    return int(np.count_nonzero(octets == ord('"')) - np.count_nonzero(escaped))


def _strings(values: Iterable[object]) -> int:
    """Return how many strings JSON values hold, keys included, but not in lists of numbers."""
    strings = 0
    while values := list(values):
        kinds = list(map(type, values))
        objects = [each for each in values if type(each) is dict] if dict in kinds else []
        lists = [each for each in values if type(each) is list] if list in kinds else []
        strings += kinds.count(str) + sum(map(len, objects))
        nested = (each for each in lists if each and not isinstance(each[0], int | float))
        values = chain.from_iterable(chain(map(dict.values, objects), nested))
    return strings
