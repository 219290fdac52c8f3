"""The corpus and the tokenizer with which verl.json and slime.json were made."""

import json
from pathlib import Path

from axolotl_corpora import save_corpora
from trainers import save_tokenizer

ANSWERS = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<|im_end|>\n"
    "{% endgeneration %}{% else %}{{ message['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A chat template that marks what both train: all of a turn after what begins it."""


def save_answering_tokenizer(folder: Path) -> Path:
    """The built-in tokenizer with the marked template, as transformers saves it."""
    folder.mkdir(exist_ok=True)
    save_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(ANSWERS)
    return folder


def save_chats(folder: Path, *, all_answered: bool = False) -> Path:
    """Chats, as Parquet; some have no answer, unless all should."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = save_corpora(folder)["chat"].read_text(encoding="utf-8").splitlines()
    chats = list(map(json.loads, lines))
    if all_answered:
        answered = [any(m["role"] == "assistant" for m in chat["messages"]) for chat in chats]
        chats = [chat for chat, has_answer in zip(chats, answered, strict=True) if has_answer]
    pq.write_table(pa.Table.from_pylist(chats), folder / "chats.parquet")
    return folder / "chats.parquet"
