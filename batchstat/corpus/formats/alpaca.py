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
from batchstat.corpus.formats.json import read_json
from batchstat.corpus.formats.jsonl import read_jsonl
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions

MESSAGES = "messages"
"""The column that holds the chats."""
PROMPT, COMPLETION = "prompt", "completion"
"""The columns that hold the prompts and the answers."""

_ASKED = ("instruction", "input")
_ANSWERED = "output"
_LINES = (".jsonl", ".ndjson")

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
    has_lines = any(ending in opened.path.lower() for ending in _LINES)
    read = read_jsonl if has_lines else read_json
    # Pairs need `instruction` and `output`; chats only `output`, as their question may be the
    # input alone.
    if options.completion_column:
        convert = partial(_with_columns, required=(_ASKED[0], _ANSWERED), make=_instruction)
    else:
        convert = partial(_with_columns, required=(_ANSWERED,), make=_chat)
    yield from read(opened, options, convert)


def _with_columns(
    record: object, required: tuple[str, ...], make: Callable[..., dict[str, Any]]
) -> object:
    """Return a record with the columns that are made of its Alpaca keys.

    Args:
        record: an object of the file, or a `BadRecord`.
        required: the Alpaca keys that must have a text; others may be missing or null.
        make: function that makes the columns from `instruction`, `input` and `output`.

    Returns:
        The record with these columns; a `BadRecord` if a key is missing or is not text.
    """
    if not isinstance(record, dict):
        return record
    values = {name: record.get(name) for name in (*_ASKED, _ANSWERED)}
    # Wrong is what is neither a text nor null, and null or a missing key if the key is required.
    for name, value in values.items():
        if not isinstance(value, str) and (value is not None or name in required):
            if name not in record:
                return BadRecord("missing_column", f"column {name!r} is missing")
            message = f"{name!r} is {kind_of(value)} where text is expected"
            return BadRecord("wrong_type", message)
    return {**record, **make(**values)}


def _chat(instruction: str | None, input: str | None, output: str) -> dict[str, Any]:  # noqa: A002
    """Return a column with the chat that LLaMA-Factory makes: a question and its answer.

    The question is the instruction, and the input below it; either may be missing.
    """
    question = "\n".join(filter(None, (instruction, input)))
    chat = [{"role": "user", "content": question}, {"role": "assistant", "content": output}]
    return {MESSAGES: chat}


def _instruction(instruction: str, input: str | None, output: str) -> dict[str, Any]:  # noqa: A002
    """Return two columns: the prompt that axolotl makes in the words of Stanford Alpaca, and the
    output as its completion. Without an input, the prompt lacks that part.
    """
    parts = [f"{_TASK}{_CONTEXT if input else ''}{_WISH}", f"### Instruction:\n{instruction}"]
    parts += [f"### Input:\n{input}"] if input else []
    return {PROMPT: "\n\n".join([*parts, "### Response:\n"]), COMPLETION: output}
