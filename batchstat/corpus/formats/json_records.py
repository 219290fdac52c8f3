"""Collect parsed JSON records into chunks of the requested columns."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from batchstat.corpus.arrow_values import kind_of
from batchstat.corpus.bad_records import BadRecord
from batchstat.corpus.chat import SETTINGS_COLUMN, TOOLS_COLUMN
from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.columns import TEXT_NAMES, choose_columns
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.records_path import EACH, as_record, inside_of, with_nested
from batchstat.errors import InputError


class RecordCollector:
    """Collects JSON records into chunks; the first record that can decide chooses the columns."""

    def __init__(self, opened: OpenSource, options: CorpusOptions) -> None:
        self._opened, self._options = opened, options
        # The columns that options name, and that each record must have: not a label.
        labels = options.label_column
        self._must_have = [name for name in options.named_columns if name not in labels]
        # Columns that may be inside of objects, such as data.text.
        self._nested = [name for name in options.named_columns if "." in name]
        self._columns: Columns | None = None  # None until a record has chosen them
        self._label_seen = False
        # Records of the current chunk, {} for a bad one; and the bad ones by their position.
        self._records: list[dict[str, object]] = []
        self._bad: dict[int, BadRecord] = {}

    def chunks(
        self, records: Iterable[object], lines: Sequence[int] | None = None
    ) -> Iterator[Chunk]:
        """Yield parsed records as one chunk; an InputError of the iterator is raised after it."""
        iterator, later_records = iter(records), list[object]()
        error = None
        try:
            # Records are added one by one until one has chosen the columns.
            for record in iterator:
                self._add(record)
                if self._columns is not None:
                    break
            # The later ones are checked together. If this raises, those before the error are here.
            later_records.extend(iterator)
        except InputError as raised:
            error = raised
        if not self._add_all_if_complete(later_records):
            for record in later_records:
                self._add(record)
        # While no columns are chosen, all records are bad: any name does for the column.
        columns = self._columns or Columns(("text",))
        # A settings column that no record has does not exist; where some have it, null is an error.
        if columns.settings and not any(columns.settings in record for record in self._records):
            columns = replace(columns, settings=None)
        values = {name: [record.get(name) for record in self._records] for name in columns.all}
        label_seen = None if self._columns is None else self._label_seen
        bad, self._records, self._bad = self._bad, [], {}
        yield Chunk.read_from(self._opened, values, columns, lines, bad, label_seen=label_seen)
        if error is not None:
            raise error

    def _as_object(self, record: object) -> object:
        record = record if isinstance(record, dict) else as_record(record)
        return with_nested(record, self._nested) if self._nested else record

    def _add_all_if_complete(self, records: list[Any]) -> bool:
        """Add records together, which is fast, if all have the required columns."""
        if self._nested or set(map(type, records)) != {dict}:
            records = list(map(self._as_object, records))
        if self._columns is None or set(map(type, records)) != {dict}:
            return False
        # All records are asked for the required columns, in C: a deque of length 0 keeps nothing.
        try:
            deque(map(itemgetter(*self._columns.required), records), maxlen=0)
        except KeyError:
            return False
        labels = self._options.label_column
        if labels and not self._label_seen:
            self._label_seen = any(label in record for record in records for label in labels)
        self._records += records
        return True

    def _add(self, record: object) -> None:
        """Add one record; if it is bad, an empty one in its place."""
        i, good_record = len(self._records), {}
        record = self._as_object(record)
        if isinstance(record, BadRecord):
            self._bad[i] = record
        elif not isinstance(record, dict):
            message = f"{kind_of(record)} where an object is expected"
            self._bad[i] = BadRecord("wrong_type", message)
        elif message := self._missing_column(record):
            self._bad[i] = BadRecord("missing_column", message)
        else:
            good_record = record
        self._records.append(good_record)

    def _missing_column(self, record: dict[str, object]) -> str:
        """Return the message for a record that lacks a required column; empty if it has all."""
        labels = self._options.label_column
        self._label_seen = self._label_seen or any(label in record for label in labels)
        self.choose_columns_by(record)
        # It could not if it lacks a named column, or is empty. Where no column is named, the
        # message about an empty record says that `text` is missing.
        required = self._columns.required if self._columns else self._must_have or ["text"]
        missing = [column for column in required if column not in record]
        if not missing:
            return ""
        has = ", ".join(list(record)[:20]) or "nothing"
        return f"column {missing[0]!r} is missing (has: {has})"

    def choose_columns_by(self, record: object) -> bool:
        """Choose by this record which columns are read, unless that is done or it cannot; return
        whether it is done. Raise InputError if it lacks a named column, or is ambiguous.
        """
        record = self._as_object(record)
        if self._columns is None and isinstance(record, dict) and record:
            # A named column that the first record lacks is a mistake in the option: `_columns_by`
            # raises. If bad records are skipped, it may be the record's: then a later one chooses.
            is_lacking = any(column not in record for column in self._must_have)
            if not (is_lacking and self._options.on_error == "skip"):
                self._columns = self._columns_by(record)
        return self._columns is not None

    def _columns_by(self, record: dict[str, object]) -> Columns:
        """Return which columns are read of all records, by what the first one has."""
        names = list(record)
        # The label column is read even if this record has no label; others may have one.
        names += [label for label in self._options.label_column if label not in record]
        # null may stand for a text: the column is one of texts.
        texts = [name for name, value in record.items() if value is None or isinstance(value, str)]
        # Where no value is a text, a column such as `text` is read all the same: the record is bad.
        usual_names = [name for name in record if name.lower() in TEXT_NAMES]
        # An element of an array, unless the file has an object on each line.
        top = EACH if self._opened.split.source.format == "json" else ""
        records = self._options.records
        path = top if records is None else f"{records.removesuffix(EACH)}{EACH}"
        inside = inside_of(record, path)
        chosen = choose_columns(
            self._opened.path, names, texts or usual_names, self._options, inside
        )
        if not self._options.may_hold_chats:
            return chosen
        # Tools and settings are looked for in every record, as not every chat of a file has them.
        settings = SETTINGS_COLUMN if self._options.chats_as_written else None
        return replace(chosen, tools=TOOLS_COLUMN, settings=settings)


def reason_of(error: Exception, unit: str = "column", first: int = 1) -> str:
    """Return why JSON cannot be parsed, and where."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        # Some of Python's messages end in "at".
        return f"{error.msg.removesuffix(' at')} at {unit} {first + error.pos}"
    return str(error)
