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
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError


class RecordCollector:
    """Collects JSON records, one by one, into chunks of the requested columns.

    JSON has no header: the first record that can decide chooses which columns are read.
    """

    def __init__(self, opened: OpenSource, options: CorpusOptions) -> None:
        self._opened, self._options = opened, options
        # The columns that each record must have: a label may be missing.
        self._named = [name for name in options.named_columns if name != options.label_column]
        self._columns: Columns | None = None  # None until a record has chosen them
        self._label_seen = False
        # Records of the current chunk, {} for a bad one; and the bad ones by their position.
        self._records: list[dict[str, object]] = []
        self._bad: dict[int, BadRecord] = {}

    def chunks(
        self, records: Iterable[object], lines: Sequence[int] | None = None
    ) -> Iterator[Chunk]:
        """Yield parsed records as one chunk.

        If the iterator raises an `InputError`, the chunk has the records before it, and the error
        is raised after the chunk.

        Args:
            records: values as parsed from JSON, or a `BadRecord` for one that cannot be parsed.
            lines: line on which each record starts; None in files without lines.
        """
        # `rest`: the records after the one that chose the columns; all, if they were chosen before.
        iterator, rest = iter(records), list[object]()
        error = None
        try:
            # One by one until the columns are chosen; the rest can then be checked together.
            for record in iterator:
                self._add(record)
                if self._columns is not None:
                    break
            # If this raises, `rest` has the records before the error.
            rest.extend(iterator)
        except InputError as raised:
            error = raised
        if not self._add_complete(rest):
            for record in rest:
                self._add(record)
        yield self._chunk(lines)
        if error is not None:
            raise error

    def _add_complete(self, records: list[Any]) -> bool:
        """Add records together, which is fast, if all are objects that have the required columns.

        Returns whether they were added: if one of them is bad, none is.
        """
        if self._columns is None or set(map(type, records)) != {dict}:
            return False
        # This looks up the required columns in all records, in C, and keeps nothing of them.
        try:
            deque(map(itemgetter(*self._columns.required), records), maxlen=0)
        except KeyError:
            return False
        label = self._options.label_column
        if label is not None and not self._label_seen:
            self._label_seen = any(label in record for record in records)
        self._records += records
        return True

    def _add(self, record: object) -> None:
        """Add one record; if it is bad, an empty one in its place."""
        i, good_record = len(self._records), {}
        if isinstance(record, BadRecord):
            self._bad[i] = record
        elif not isinstance(record, dict):
            message = f"{kind_of(record)} where an object is expected"
            self._bad[i] = BadRecord("wrong_type", message)
        elif missing := self._missing(record):
            self._bad[i] = BadRecord("missing_column", missing)
        else:
            good_record = record
        self._records.append(good_record)

    def _missing(self, record: dict[str, object]) -> str:
        """Return the message for a record that lacks a required column; empty if it has all.

        It may choose the columns, if this is the first record.
        """
        self._label_seen = self._label_seen or self._options.label_column in record
        self.decide(record)
        # No columns are chosen yet if this record lacks a named one, or is empty. The message about
        # an empty record, where no column is named, says that `text` is missing.
        required = self._columns.required if self._columns else self._named or ["text"]
        missing = [column for column in required if column not in record]
        if not missing:
            return ""
        has = ", ".join(list(record)[:20]) or "nothing"
        return f"column {missing[0]!r} is missing (has: {has})"

    def decide(self, record: object) -> bool:
        """Choose the columns by this record, unless they are chosen or it cannot decide them.

        Returns whether they are chosen.

        Raises:
            InputError: the record lacks a column that an option names, or the text column is
                ambiguous.
        """
        if self._columns is None and isinstance(record, dict) and record:
            # A named column that the first record lacks is a mistake in the option: `_choose`
            # raises it. If bad records are skipped, this may be one, and a later record decides.
            is_lacking = any(column not in record for column in self._named)
            if not (is_lacking and self._options.on_error == "skip"):
                self._columns = self._choose(record)
        return self._columns is not None

    def _choose(self, record: dict[str, object]) -> Columns:
        """Return the columns that are read of all records, by the first one."""
        # The label column is read even if this record has no label; others may have one.
        names = list(dict.fromkeys([*record, *filter(None, [self._options.label_column])]))
        # null may stand for a text: the column is one of texts.
        texts = [name for name, value in record.items() if value is None or isinstance(value, str)]
        # Where no value is a text, a column such as `text` is read all the same: the record is bad.
        usual_names = [name for name in record if name.lower() in TEXT_NAMES]
        chosen = choose_columns(self._opened.path, names, texts or usual_names, self._options)
        if not self._options.may_hold_chats:
            return chosen
        # Tools and settings are looked for in every record, as not every chat of a file has them.
        settings = SETTINGS_COLUMN if self._options.chats_as_written else None
        return replace(chosen, tools=TOOLS_COLUMN, settings=settings)

    def _chunk(self, lines: Sequence[int] | None = None) -> Chunk:
        """Return the records that were added as a chunk, and start the next one."""
        # While no columns are chosen, all records are bad: any name does for the column.
        columns = self._columns or Columns(("text",))
        # A settings column that no record has does not exist; where some have it, a record without
        # it has null there, which is an error.
        if columns.settings and not any(columns.settings in record for record in self._records):
            columns = replace(columns, settings=None)
        chunk = Chunk(
            columns={name: [record.get(name) for record in self._records] for name in columns.all},
            position=self._opened.position,
            read=columns,
            lines=lines,
            bad=self._bad,
            before=self._opened.lines_before,
            label_seen=None if self._columns is None else self._label_seen,
        )
        self._records, self._bad = [], {}
        return chunk


def reason_of(error: Exception, unit: str = "column", before: int = 1) -> str:
    """Return why JSON cannot be parsed, and where.

    Args:
        error: what the parser raised.
        unit: what the position counts, as the message names it.
        before: number of these that precede the parsed text; 1 counts columns from 1.
    """
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        # Some of Python's messages end in "at".
        return f"{error.msg.removesuffix(' at')} at {unit} {before + error.pos}"
    return str(error)
