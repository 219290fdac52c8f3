"""Alpaca's objects, read as chats of two messages."""

import json

import pytest

from batchstat import InputError
from batchstat.corpus.files.sources import find_sources
from batchstat.corpus.files.splits import splits_of
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.reader import CorpusReader

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

OPTIONS = {"input_format": "alpaca", "messages_column": "messages"}
ROWS = [
    {"instruction": "Add.", "input": "1 2", "output": "3", "history": [["a", "b"]]},
    {"instruction": "Say hi.", "input": "", "output": "Hi."},
    {"instruction": "", "input": None, "output": ""},
    {"instruction": "Nothing else.", "output": "Fine."},
]
CHATS = [("Add.\n1 2", "3"), ("Say hi.", "Hi."), ("", ""), ("Nothing else.", "Fine.")]


def chats(path, **options):
    reading = CorpusOptions(**OPTIONS, **options)
    reader = CorpusReader(splits_of(find_sources([path], "alpaca"), reading), reading)
    blocks = list(reader.blocks())
    found = [tuple(m["content"] for m in chat) for b in blocks for chat in b.content.messages]
    roles = {tuple(m["role"] for m in chat) for b in blocks for chat in b.content.messages}
    assert roles == {("user", "assistant")}
    return found, sum(reader.readings[0].bad_records.counts.values())


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.JSONL"])
def test_an_object_is_a_chat(tmp_path, name):
    path = tmp_path / name
    lines = "\n".join(map(json.dumps, ROWS))
    path.write_text(json.dumps(ROWS) if name.endswith(".json") else lines)
    assert chats(path) == (CHATS, 0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"instruction": "a", "input": ""}, "column 'output' is missing"),
        ({"instruction": "a", "output": None}, "'output' is null where text is expected"),
        ({"instruction": 1, "output": "b"}, "'instruction' is a number where text is expected"),
        ({"instruction": "a", "input": ["b"], "output": "c"}, "'input' is a list where text"),
        ("a", "column 'messages' is missing"),
    ],
)
def test_an_object_that_is_no_chat(tmp_path, row, message):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([*ROWS, row]))
    with pytest.raises(InputError, match=f"record 4: .*{message}"):
        chats(path)
    assert chats(path, on_error="skip") == (CHATS, 1)


PROMPTS = {
    "input_format": "alpaca",
    "prompt_column": "prompt",
    "completion_column": "completion",
}
WISH = "Write a response that appropriately completes the request.\n\n### Instruction:\n"


def prompts(path) -> list[tuple[str, str]]:
    reading = CorpusOptions(**PROMPTS)
    reader = CorpusReader(splits_of(find_sources([path], "alpaca"), reading), reading)
    sides = [side.to_pylist() for block in reader.blocks() for side in block.content.sides]
    return list(zip(*sides, strict=True))


def test_an_object_is_a_prompt_and_a_completion(tmp_path):
    """In the words of Stanford Alpaca, whose prompt has another beginning with an input."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ROWS))
    task = "Below is an instruction that describes a task"
    context = f"{task}, paired with an input that provides further context. {WISH}"
    assert prompts(path) == [
        (f"{context}Add.\n\n### Input:\n1 2\n\n### Response:\n", "3"),
        *(
            (f"{task}. {WISH}{asked}\n\n### Response:\n", answer)
            for asked, answer in (("Say hi.", "Hi."), ("", ""), ("Nothing else.", "Fine."))
        ),
    ]


def test_a_prompt_needs_an_instruction(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([*ROWS, {"instruction": None, "output": "b"}]))
    with pytest.raises(InputError, match="record 4: 'instruction' is null where text is expected"):
        prompts(path)
