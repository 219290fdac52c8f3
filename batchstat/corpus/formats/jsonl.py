"""JSON Lines: one object per line."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from batchstat.corpus.bad_records import BLANK, BadRecord
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.formats.json_records import RecordCollector, reason_of
from batchstat.corpus.lines import Lines, read_lines
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.records_path import expanded, steps_of
from batchstat.errors import InputError
from batchstat.storage.arrow_numbers import as_arrow
from batchstat.storage.sealed_records import unique_keys

# The scanner in C, which json.loads wraps in several calls of Python for each line.
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def read_jsonl(
    opened: OpenSource,
    options: CorpusOptions,
    convert: Callable[[object], object] = lambda record: record,
) -> Iterator[Chunk]:
    """Yield the columns of the object on each line; blank lines are skipped."""
    collector = RecordCollector(opened, options)
    steps = () if options.records is None else steps_of(options.records)
    # A later split reads the columns that the first good record of the file chooses.
    is_later_split = opened.split.first > 0
    if is_later_split:
        for record in chain.from_iterable(map(_parse_lines, read_lines(opened.head()))):
            if any(map(collector.choose_columns_by, _at(steps, record))):
                break
    for lines in read_lines(opened):
        records: list[object] = _parse_lines(lines)
        if lines.first == 1 and not is_later_split:
            first = next((i for i, record in enumerate(records) if record is not BLANK), None)
            # One value of JSON, written over several lines.
            is_bad = first is not None and isinstance(records[first], BadRecord)
            if is_bad and lines.texts[first].as_py().strip() in ("{", "[", "[{"):
                raise InputError(
                    f"{opened.path} is one JSON value over several lines, not one per line",
                    "pass --input-format json",
                )
        numbers: Sequence[int] = lines.numbers
        if steps or any(record is BLANK for record in records):
            at_lines = [
                (found, line)
                for record, line in zip(records, numbers, strict=True)
                if record is not BLANK
                for found in _at(steps, record)
            ]
            records, numbers = [found for found, _ in at_lines], [line for _, line in at_lines]
        yield from collector.chunks(map(convert, records), numbers)


def _at(steps: Sequence[str], record: object) -> Iterable[object]:
    return [record] if isinstance(record, BadRecord) or not steps else expanded(record, steps)


def _parse_lines(lines: Lines) -> list[object]:
    """Parse lines as `_parse_line` does, but look for duplicate keys in all at once: faster."""
    # Of a key that appears twice in an object, the parsed record has only one. So there is no such
    # key if the lines have exactly two quotes for each string of their parsed records.
    records: list[object] = []
    # The values of the lines that the fast scanner can parse, and the indices of the other lines.
    scanned: list[object] = []
    not_scanned: list[int] = []
    for i, line in enumerate(lines.texts.to_pylist()):
        try:
            record, end = _scan(line, 0)
        except (StopIteration, ValueError, RecursionError):
            end = None
        if end == len(line):
            scanned.append(record)
        # Blank, malformed, or with whitespace around the value.
        else:
            record = _parse_line(line)
            not_scanned.append(i)
        records.append(record)
    scanned_texts = lines.texts
    if not_scanned:
        indices = np.delete(np.arange(len(scanned_texts)), not_scanned)
        scanned_texts = scanned_texts.take(as_arrow(indices))
    # Some line has a duplicate key: parsing one by one finds it.
    if _count_quotes(scanned_texts) != 2 * _count_strings(scanned):
        records = [_parse_line(line) for line in lines.texts.to_pylist()]
    # Lines that are too long or not UTF-8. Their texts are empty, and were parsed as blank ones.
    for i, bad in lines.bad.items():
        records[i] = bad
    return records


def _parse_line(line: str) -> object:
    """Return the value of a line of JSON, or what is wrong with it."""
    if not line or line.isspace():
        return BLANK
    try:
        return json.loads(line, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        return BadRecord("malformed", f"malformed JSON: {reason_of(error)}")


def _count_quotes(texts: pa.LargeStringArray) -> int:
    """Count the quotes that begin or end a string in texts that are valid JSON."""
    _validity, _offsets, data = texts.buffers()  # data: the UTF-8 of all texts; None if empty
    octets = np.frombuffer(b"" if data is None else data, np.uint8)
    backslashes = np.flatnonzero(octets == ord("\\"))  # their positions in `octets`
    # A run of backslashes ends where no neighbor follows; the appended -1 is no neighbor.
    is_last = np.diff(backslashes, append=-1) != 1
    lasts = np.flatnonzero(is_last)
    run_lengths = np.diff(lasts, prepend=-1)
    # A backslash escapes the next one, so the last of an odd number escapes what follows the run.
    escaping = backslashes[lasts[run_lengths % 2 == 1]]
    is_escaped_quote = octets[escaping + 1] == ord('"')
    return int(np.count_nonzero(octets == ord('"')) - np.count_nonzero(is_escaped_quote))


def _count_strings(values: Iterable[object]) -> int:
    """Count the strings in JSON values at any depth, keys included."""
    # A list that begins with a number is not searched for strings: fast for token ids. If it has
    # some, the count is too small, which `_parse_lines` notices.
    count = 0
    # In the first round, `values` are those at the top; in each other, those one level deeper.
    while values := list(values):
        types = list(map(type, values))
        # Most rounds have no objects or no lists: these are not looked for then.
        objects = [value for value in values if type(value) is dict] if dict in types else []
        lists = [value for value in values if type(value) is list] if list in types else []
        # The values that are strings, and the keys of all objects.
        count += types.count(str) + sum(map(len, objects))
        searched = [items for items in lists if items and not isinstance(items[0], int | float)]
        values = chain.from_iterable(chain(map(dict.values, objects), searched))
    return count
