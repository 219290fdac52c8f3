"""The corpora and the tokenizer with which axolotl.json was made."""

import json
import random
from pathlib import Path

from trainers import save_tokenizer

SAMPLE_DATA = Path(__file__).resolve().parents[3] / "sample_data"
MARKED = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<|im_end|>"
    "{% endgeneration %}{% else %}{{ message['content'] }}<|im_end|>{% endif %}\n{% endfor %}"
)
"""A chat template that marks what axolotl trains: the content and the token that ends it."""


def save_marked_tokenizer(folder: Path) -> Path:
    """The built-in tokenizer with the marked template, as transformers saves it."""
    folder.mkdir(exist_ok=True)
    save_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(MARKED)
    return folder


def save_corpora(folder: Path) -> dict[str, Path]:
    """Texts, some of which end as the trainer would end them; chats, some without an assistant."""
    rng = random.Random(0)
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()
    texts = [line[: rng.randint(1, 400)].strip() or "x" for line in lines[:83]]
    ended = [{"text": text + "<|im_end|>" * (i % 5 == 0)} for i, text in enumerate(texts)]
    chats = []
    for line in (SAMPLE_DATA / "conversations.jsonl").read_text(encoding="utf-8").splitlines():
        messages = [
            {"role": each["role"], "content": each["content"]}
            for each in json.loads(line)["messages"]
        ]
        chats.append({"messages": messages[: rng.randint(1, len(messages))]})
    found = {"text": ended, "chat": chats}
    for name, rows in found.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {name: folder / f"{name}.jsonl" for name in found}
