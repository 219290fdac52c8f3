"""Alpaca: objects with `instruction`, `input` and `output` in JSON or lines of it, as chats and as
prompts. Sources: AlpacaDatasetConverter of src/llamafactory/data/converter.py, LLaMA-Factory 0.9.5;
AlpacaPrompter of src/axolotl/prompters.py, axolotl 0.19, with Stanford Alpaca's words.
"""

from collections.abc import Iterator
from functools import partial

from batchstat.corpus.arrow_values import kind_of
from batchstat.corpus.bad_records import BadRecord
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.formats.json import read_json
from batchstat.corpus.formats.jsonl import read_jsonl
from batchstat.corpus.options import CorpusOptions

MESSAGES = "messages"  # the column that holds the chats
PROMPT, COMPLETION = "prompt", "completion"  # the columns that hold the prompts and the answers

_KEYS = ("instruction", "input", "output")

_TASK = "Below is an instruction that describes a task"
_CONTEXT = ", paired with an input that provides further context"
_WISH = ". Write a response that appropriately completes the request."


def read_alpaca(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield objects with columns of their Alpaca keys: `prompt` and `completion`, or `messages`."""
    # Anywhere in the name, as the ending of a compressed file may follow.
    has_lines = any(ending in opened.path.lower() for ending in (".jsonl", ".ndjson"))
    read = read_jsonl if has_lines else read_json
    is_chat = not options.completion_column
    yield from read(opened, options, partial(_with_columns, is_chat=is_chat))


def _with_columns(record: object, *, is_chat: bool) -> object:
    """Return a record with the columns that are made of its Alpaca keys."""
    if not isinstance(record, dict):
        return record
    # The question of a chat may be the instruction or the input alone.
    optional = ("instruction", "input") if is_chat else ("input",)
    for key in _KEYS:
        value = record.get(key)
        if isinstance(value, str) or (value is None and key in optional):
            continue
        if key not in record:
            return BadRecord("missing_column", f"column {key!r} is missing")
        return BadRecord("wrong_type", f"{key!r} is {kind_of(value)} where text is expected")
    instruction, context, output = map(record.get, _KEYS)
    if is_chat:
        question = "\n".join(filter(None, (instruction, context)))
        chat = [{"role": "user", "content": question}, {"role": "assistant", "content": output}]
        return {**record, MESSAGES: chat}
    parts = [f"{_TASK}{_CONTEXT if context else ''}{_WISH}", f"### Instruction:\n{instruction}"]
    parts += [f"### Input:\n{context}"] if context else []
    return {**record, PROMPT: "\n\n".join([*parts, "### Response:\n"]), COMPLETION: output}
