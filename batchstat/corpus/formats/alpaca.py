"""Alpaca: objects with `instruction`, `input` and `output`, each a chat of two messages.

Source: AlpacaDatasetConverter of src/llamafactory/data/converter.py, LLaMA-Factory 0.9.5; other
keys of an object are not read. The file is an array of JSON, or has an object on each line.
"""

from collections.abc import Iterator

from batchstat.corpus.arrow_values import kind_of
from batchstat.corpus.bad_records import BadRecord
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.formats.json import read_json
from batchstat.corpus.formats.jsonl import read_jsonl
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions

MESSAGES = "messages"
"""The column that holds the chats."""

_ASKED = ("instruction", "input")
_ANSWERED = "output"
_LINES = (".jsonl", ".ndjson")


def read_alpaca(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the column `messages` of the objects of a file, and its other columns.

    Raises:
        InputError: as in `read_json` and `read_jsonl`.
    """
    by_line = any(ending in opened.path.lower() for ending in _LINES)
    read = read_jsonl if by_line else read_json
    yield from read(opened, options, _with_chat)


def _with_chat(record: object) -> object:
    """Return a record with its chat; a `BadRecord` if it has none."""
    if not isinstance(record, dict):
        return record
    asked = [record.get(name) for name in _ASKED]
    for name, value in zip((*_ASKED, _ANSWERED), (*asked, record.get(_ANSWERED)), strict=True):
        if not isinstance(value, str) and (value is not None or name == _ANSWERED):
            message = f"{name!r} is {kind_of(value)} where text is expected"
            kind = "wrong_type" if name in record else "missing_column"
            return BadRecord(kind, message if name in record else f"column {name!r} is missing")
    chat = [
        {"role": "user", "content": "\n".join(filter(None, asked))},
        {"role": "assistant", "content": record[_ANSWERED]},
    ]
    return {**record, MESSAGES: chat}
