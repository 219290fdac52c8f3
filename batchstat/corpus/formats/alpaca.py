"""Alpaca: objects with `instruction`, `input` and `output`, as chats and as prompts.

Source: AlpacaDatasetConverter of src/llamafactory/data/converter.py, LLaMA-Factory 0.9.5, for the
chats; the words of Stanford Alpaca for the prompts, as AlpacaPrompter of src/axolotl/prompters.py,
axolotl 0.19, joins them. Other keys of an object are not read. The file is an array of JSON, or has
an object on each line.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from batchstat.corpus.arrow_values import kind_of
from batchstat.corpus.bad_records import BadRecord
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.formats.json import read_json
from batchstat.corpus.formats.jsonl import read_jsonl
from batchstat.corpus.options import CorpusOptions

MESSAGES = "messages"  # the column that holds the chats
PROMPT, COMPLETION = "prompt", "completion"
"""The columns that hold the prompts and the answers."""

_KEYS = ("instruction", "input", "output")

_TASK = "Below is an instruction that describes a task"
_CONTEXT = ", paired with an input that provides further context"
_WISH = ". Write a response that appropriately completes the request."


def read_alpaca(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the objects of a file, each with the columns that are made of its Alpaca keys.

    These are `prompt` and `completion` if the options name a completion column, else `messages`.

    Raises:
        InputError: as in `read_json` and `read_jsonl`.
    """
    # Anywhere in the name, as the ending of a compressed file may follow.
    has_lines = any(ending in opened.path.lower() for ending in (".jsonl", ".ndjson"))
    read = read_jsonl if has_lines else read_json
    if options.completion_column:
        required = ("instruction", "output")
        convert = partial(_with_columns, required=required, make_columns=_prompt_columns)
    # The question of a chat may be the instruction or the input alone.
    else:
        convert = partial(_with_columns, required=("output",), make_columns=_chat_column)
    yield from read(opened, options, convert)


def _with_columns(
    record: object, required: tuple[str, ...], make_columns: Callable[..., dict[str, Any]]
) -> object:
    """Return a record with the columns that are made of its Alpaca keys."""
    if not isinstance(record, dict):
        return record
    values = {key: record.get(key) for key in _KEYS}
    for key, value in values.items():
        is_optional = key not in required
        if isinstance(value, str) or (value is None and is_optional):
            continue
        if key not in record:
            return BadRecord("missing_column", f"column {key!r} is missing")
        return BadRecord("wrong_type", f"{key!r} is {kind_of(value)} where text is expected")
    return {**record, **make_columns(**values)}


def _chat_column(instruction: str | None, input: str | None, output: str) -> dict[str, Any]:  # noqa: A002
    # The question is the instruction, and the input below it; either may be missing.
    question = "\n".join(filter(None, (instruction, input)))
    chat = [{"role": "user", "content": question}, {"role": "assistant", "content": output}]
    return {MESSAGES: chat}


def _prompt_columns(instruction: str, input: str | None, output: str) -> dict[str, Any]:  # noqa: A002
    parts = [f"{_TASK}{_CONTEXT if input else ''}{_WISH}", f"### Instruction:\n{instruction}"]
    parts += [f"### Input:\n{input}"] if input else []
    return {PROMPT: "\n\n".join([*parts, "### Response:\n"]), COMPLETION: output}
