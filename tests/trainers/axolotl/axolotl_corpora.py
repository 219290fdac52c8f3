"""The corpora and the tokenizer with which axolotl.json was made."""

import hashlib
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from trainers import save_tokenizer

SAMPLE_DATA = Path(__file__).resolve().parents[3] / "sample_data"
MARKED = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<|im_end|>"
    "{% endgeneration %}{% else %}{{ message['content'] }}<|im_end|>{% endif %}\n{% endfor %}"
)
"""A chat template that marks what axolotl trains: the content and the token that ends it."""


CHATML = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
)
CONTENTS: list[tuple[str, str, list[str] | None]] = [
    ("chat", MARKED, None),
    ("chat", CHATML, None),
    ("headers", CHATML, None),
    ("headers", CHATML, ["<|im_end|>", "<|eot_id|>"]),
    ("headers", CHATML.replace("+ '<|im_end|>", "| trim + '<|im_end|>") + "{{ eos_token }}", None),
    (
        "headers",
        CHATML.replace("<|im_end|>", "<|im_end|>{{ eos_token }}").replace(
            "{{ eos_token }}", "' + eos_token + '"
        ),
        ["<|im_end|>"],
    ),
    ("chat", "{% for m in messages %}{{ '<|im_end|>' + m['content'] }}{% endfor %}", None),
    ("chat", "{% for m in messages %}{{ m['content'] + 'a two words[[zz\\n' }}{% endfor %}", None),
    (
        "chat",
        "{% for m in messages %}{% if loop.last or m['role'] != 'assistant' %}{{ m['content'] }}"
        "{% else %}{{ m['content'].split(' ')[-1] }}{% endif %}<|im_end|>{% endfor %}",
        None,
    ),
]
"""Tokenizers, chat templates and eot_tokens with which axolotl finds what assistants say."""


def save_marked_tokenizer(folder: Path) -> Path:
    """The built-in tokenizer with the marked template, as transformers saves it."""
    folder.mkdir(exist_ok=True)
    save_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(MARKED)
    return folder


def save_beginning_tokenizer(folder: Path) -> Path:
    """The same with a token that begins each text."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(save_marked_tokenizer(folder))
    begin = "<|im_start|>"
    token = (begin, loaded.convert_tokens_to_ids(begin))
    loaded.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A {begin} $B", special_tokens=[token]
    )
    loaded.bos_token = begin
    loaded.save_pretrained(folder)
    return folder


def save_header_tokenizer(folder: Path) -> Path:
    """The same with the special tokens of Llama 3."""
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(save_marked_tokenizer(folder))
    loaded.add_tokens(["<|start_header_id|>", "<|end_header_id|>"], special_tokens=True)
    loaded.add_special_tokens({"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"})
    loaded.save_pretrained(folder)
    return folder


def save_tokenizers(folder: Path) -> dict[str, Path]:
    """The tokenizer of each corpus."""
    marked = save_marked_tokenizer(folder / "tokenizer")
    return {
        "text": marked,
        "chat": marked,
        "headers": save_header_tokenizer(folder / "headers"),
        "instructions": save_beginning_tokenizer(folder / "beginning"),
    }


def save_corpora(folder: Path) -> dict[str, Path]:
    """Texts, some of which are empty or end as the trainer would end them; chats, some without an
    assistant, and the same with answers that are empty; instructions, with or without an input, and
    some whose answer begins with whitespace, ends as the trainer would end it, is empty, or is
    longer than the others.
    """
    rng = random.Random(0)
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()
    texts = [line[: rng.randint(1, 400)].strip() or "x" for line in lines[:83]]
    ended = [
        {"text": "" if i % 16 == 6 else text + "<|im_end|>" * (i % 5 == 0)}
        for i, text in enumerate(texts)
    ]
    chats, empty = [], []
    for line in (SAMPLE_DATA / "conversations.jsonl").read_text(encoding="utf-8").splitlines():
        messages = [
            {"role": each["role"], "content": each["content"]}
            for each in json.loads(line)["messages"]
        ]
        chats.append({"messages": messages[: rng.randint(1, len(messages))]})
        empty.append({"messages": [_emptied(each, len(empty)) for each in chats[-1]["messages"]]})
    found = {"text": ended, "chat": chats, "headers": empty}
    found["instructions"] = list(_instructions(texts))
    for name, rows in found.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {name: folder / f"{name}.jsonl" for name in found}


def _emptied(message: dict[str, str], number: int) -> dict[str, str]:
    """A message, without content where it is an answer in every fourth chat."""
    empty = message["role"] == "assistant" and number % 4 == 1
    return message | {"content": ""} if empty else message


def random_chats() -> Iterator[list[dict[str, str]]]:
    """Chats of any roles, with whitespace and braces at the edges of what is said."""
    rng = random.Random(1)
    edges = ("", " ", "\n", "\n\n", "\t", "{{ ", "%}", "<|im_end|>", "é漢字 ")
    words = ("", "a", "two words", "{% if %}", "'quoted' \"twice\"", "<b>&amp;", "line\nline")
    for _ in range(200):
        roles = rng.choices(("system", "user", "assistant", "tool"), k=rng.randint(1, 6))
        yield [
            {"role": role, "content": rng.choice(edges) + rng.choice(words) + rng.choice(edges)}
            for role in roles
        ]


def digest_of(template: str, tokenizer: Path) -> str:
    """SHA-256 of what a chat template renders of random chats."""
    loaded = _loaded(tokenizer)
    rendered = [
        loaded.apply_chat_template(chat, chat_template=template, tokenize=False)
        for chat in random_chats()
    ]
    return hashlib.sha256(json.dumps(rendered).encode()).hexdigest()


@cache
def _loaded(tokenizer: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tokenizer)


def _instructions(texts: list[str]) -> Iterator[dict[str, str | None]]:
    inputs = (None, "", "two lines\nof input ", texts[0])
    answers = ("{}", " {}", "\n\n{}", "{}<|im_end|>", "<|im_start|>{}", "{} \n")
    for i, text in enumerate(texts):
        answer = answers[i % len(answers)].format(text * (1 + 4 * (i % 11 == 3)))
        asked = text[::-1] * (1 + 9 * (i % 13 == 5))
        output = "" if i % 9 == 4 or i % 26 == 5 else answer
        yield {"instruction": asked, "input": inputs[i % len(inputs)], "output": output}
