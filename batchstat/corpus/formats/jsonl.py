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

    Args:
        opened: the file, or a split of it.
        options: how it is read.
        convert: function that returns, for each line's value, the record whose columns are read.
            If one is passed, the file must be read whole: it is not applied to the records of the
            head, by which a later split chooses its columns.
    """
    collector = RecordCollector(opened, options)
    # A split that begins later reads the columns that the first one does, which the first good
    # record of the file chooses.
    begins_later = opened.split.first > 0
    if begins_later:
        for record in chain.from_iterable(map(_parsed, read_lines(opened.head()))):
            if collector.decide(record):
                break
    for lines in read_lines(opened):
        yield from collector.chunks(map(convert, _parsed(lines)), lines.numbers)


def _parsed(lines: Lines) -> list[object]:
    """Parse lines as `_parsed_line` does, but faster: duplicate keys are looked for in all at once.

    Of a key that appears twice in an object, the parsed record has only one. So there is no
    such key if the lines have exactly two quotes for each string of their parsed records.
    """
    records: list[object] = []
    # Values of the lines that the fast scanner parses to their end, and positions of the others.
    scanned: list[object] = []
    not_scanned: list[int] = []
    for i, line in enumerate(lines.texts.to_pylist()):
        # `end`: the position after the value; -1 if the line does not begin with one.
        try:
            record, end = _scan(line, 0)
        except (StopIteration, ValueError, RecursionError):
            end = -1
        if end == len(line):
            scanned.append(record)
        # Blank, malformed, or with whitespace around the value.
        else:
            record = _parsed_line(line)
            not_scanned.append(i)
        records.append(record)
    texts = lines.texts
    if not_scanned:
        texts = texts.take(as_arrow(np.delete(np.arange(len(texts)), not_scanned)))
    # Some line has a duplicate key: parsing one by one finds it.
    if _quotes(texts) != 2 * _strings(scanned):
        records = [_parsed_line(line) for line in lines.texts.to_pylist()]
    # Lines that are too long or not UTF-8. Their texts are empty, and were parsed as blank ones.
    for i, bad in lines.bad.items():
        records[i] = bad
    return records


def _parsed_line(line: str) -> object:
    """Return the value of a line of JSON; a `BadRecord` if it is blank, malformed, or has an object
    with a duplicate key.
    """
    if not line or line.isspace():
        return BLANK
    try:
        return json.loads(line, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        return BadRecord("malformed", f"malformed JSON: {reason_of(error)}")


def _quotes(texts: pa.LargeStringArray) -> int:
    """Count the quotes that begin or end a string in texts that are valid JSON.

    These are all quotes but the escaped ones.
    """
    _, _, data = texts.buffers()  # validity, offsets, and the UTF-8 of all texts; None if empty
    octets = np.frombuffer(b"" if data is None else data, np.uint8)
    backslashes = np.flatnonzero(octets == ord("\\"))
    # Of each run of consecutive backslashes, the index of its last one in `backslashes`; the
    # differences of these are the lengths of the runs. The appended -1 ends the last run; the -1
    # put in front stands for the end of a run before the first.
    lasts = np.flatnonzero(np.diff(backslashes, append=-1) != 1)
    # A run of an odd length escapes the character after it, which valid JSON always has.
    is_escape = np.diff(lasts, prepend=-1) % 2 == 1
    is_escaped_quote = octets[backslashes[lasts[is_escape]] + 1] == ord('"')
    return int(np.count_nonzero(octets == ord('"')) - np.count_nonzero(is_escaped_quote))


def _strings(values: Iterable[object]) -> int:
    """Count the strings in JSON values at any depth, keys included.

    A list that begins with a number is passed over without looking for strings in it, which is fast
    for lists of token ids. If it has strings, the count is too small, which `_parsed` notices.
    """
    strings = 0
    # `values` are all values at one depth, and then those inside of their objects and lists.
    while values := list(values):
        kinds = list(map(type, values))
        objects = [value for value in values if type(value) is dict] if dict in kinds else []
        lists = [value for value in values if type(value) is list] if list in kinds else []
        # The values that are strings, and all keys.
        strings += kinds.count(str) + sum(map(len, objects))
        searched = (items for items in lists if items and not isinstance(items[0], int | float))
        values = chain.from_iterable(chain(map(dict.values, objects), searched))
    return strings
