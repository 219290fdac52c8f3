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
    """Collects JSON records, one by one, into chunks of the requested columns."""

    def __init__(self, opened: OpenSource, options: CorpusOptions) -> None:
        self._opened, self._options = opened, options
        self._named = [name for name in options.named_columns if name != options.label_column]
        self._columns: Columns | None = None
        self._label_seen = False
        self._records: list[dict[str, object]] = []
        self._bad: dict[int, BadRecord] = {}

    def chunks(
        self, records: Iterable[object], lines: Sequence[int] | None = None
    ) -> Iterator[Chunk]:
        """Yield a chunk of parsed records; of an `InputError`, those before it come first.

        A record may also be a `BadRecord`.
        """
        left, rest = iter(records), list[object]()
        error = None
        try:
            for record in left:
                self._add(record)
                if self._columns is not None:
                    break
            # Where the records end in an error, those before it are kept.
            rest.extend(left)
        except InputError as raised:
            error = raised
        if not self._add_complete(rest):
            for record in rest:
                self._add(record)
        yield self._chunk(lines)
        if error is not None:
            raise error

    def _add_complete(self, records: list[Any]) -> bool:
        """Add records if all are objects with every required column; return whether so."""
        if self._columns is None or set(map(type, records)) != {dict}:
            return False
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
        i, good = len(self._records), {}
        if isinstance(record, BadRecord):
            self._bad[i] = record
        elif not isinstance(record, dict):
            message = f"{kind_of(record)} where an object is expected"
            self._bad[i] = BadRecord("wrong_type", message)
        elif missing := self._missing(record):
            self._bad[i] = BadRecord("missing_column", missing)
        else:
            good = record
        self._records.append(good)

    def _missing(self, record: dict[str, object]) -> str:
        """Return the message for a record that lacks a column; empty if it lacks none."""
        self._label_seen = self._label_seen or self._options.label_column in record
        self.decide(record)
        required = self._columns.required if self._columns else self._named or ["text"]
        missing = [column for column in required if column not in record]
        if not missing:
            return ""
        has = ", ".join(list(record)[:20]) or "nothing"
        return f"column {missing[0]!r} is missing (has: {has})"

    def decide(self, record: object) -> bool:
        """Choose the columns by the first record that has them; return whether they are chosen."""
        if self._columns is None and isinstance(record, dict) and record:
            # A column that the first record lacks is a mistake in the option, unless bad ones are
            # skipped.
            lacking = any(column not in record for column in self._named)
            if not (lacking and self._options.on_error == "skip"):
                self._columns = self._choose(record)
        return self._columns is not None

    def _choose(self, record: dict[str, object]) -> Columns:
        # A missing label counts as a class of its own, and a text may be null.
        names = list(dict.fromkeys([*record, *filter(None, [self._options.label_column])]))
        texts = [name for name, value in record.items() if value is None or isinstance(value, str)]
        usual = [name for name in record if name.lower() in TEXT_NAMES]
        chosen = choose_columns(self._opened.path, names, texts or usual, self._options)
        if not self._options.may_hold_chats:
            return chosen
        # Not every chat in a file has tools.
        settings = SETTINGS_COLUMN if self._options.chats_as_written else None
        return replace(chosen, tools=TOOLS_COLUMN, settings=settings)

    def _chunk(self, lines: Sequence[int] | None = None) -> Chunk:
        columns = self._columns or Columns(("text",))
        if columns.settings and not any(columns.settings in each for each in self._records):
            # One that no record has is no column; null in a column that some have is an error.
            columns = replace(columns, settings=None)
        made = Chunk(
            columns={name: [record.get(name) for record in self._records] for name in columns.all},
            position=self._opened.position,
            read=columns,
            lines=lines,
            bad=self._bad,
            before=self._opened.lines_before,
            label_seen=None if self._columns is None else self._label_seen,
        )
        self._records, self._bad = [], {}
        return made


def reason_of(error: Exception, unit: str = "column", before: int = 1) -> str:
    """Return why JSON cannot be parsed, with the position, to which `before` is added."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.removesuffix(' at')} at {unit} {before + error.pos}"
    return str(error)
