"""Chats through a tokenizer's chat template, as transformers' `apply_chat_template` does it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from batchstat.corpus.chat import Message
from batchstat.errors import InputError
from batchstat.tokens.tokenizer import Tokenizer

_TOOL_CALLS = "tool_calls"


class TemplateError(Exception):
    """A chat that the template has no place for."""


def with_chat_template(tokenizer: Tokenizer, template_file: Path | None) -> Tokenizer:
    """The tokenizer ready for chats, by the template of a file or else by its own.

    No generation prompt is added, and special tokens are those that the template writes.

    Raises:
        InputError: the file cannot be read; the tokenizer has no template of its own.
    """
    own = tokenizer.as_transformers
    template = _read(template_file) if template_file else _own_template(own())
    if not template:
        raise InputError(
            f"tokenizer {tokenizer.name!r} has no chat template: pass --chat-template FILE"
        )
    return _with_template(tokenizer, template)


def _with_template(tokenizer: Tokenizer, template: str) -> Tokenizer:
    loaded = tokenizer.as_transformers()

    def encode_chats(chats: list[list[Message]]) -> Sequence[Any]:
        for chat in chats:
            if _TOOL_CALLS not in template and any(message.get(_TOOL_CALLS) for message in chat):
                raise TemplateError("a tool call, and the chat template has no place for it")
        ids: Sequence[Any] = loaded.apply_chat_template(
            chats,
            chat_template=template,
            tokenize=True,
            add_generation_prompt=False,
            padding=False,
            truncation=False,
            return_dict=False,
        )
        return ids

    # A template may write the special tokens, which stand in the tokenizer's configuration.
    parts = [tokenizer.digest, template, json.dumps(loaded.special_tokens_map, default=str)]
    definition = "\n".join(parts)
    return replace(
        tokenizer,
        define=lambda: definition,
        library=f"{tokenizer.library}, transformers {version('transformers')}",
        special_tokens_per_sample=0,
        encode_chats=encode_chats,
        made_by=(_with_template, (tokenizer, template)),
    )


def _own_template(tokenizer: Any) -> str | None:
    template = tokenizer.chat_template
    found: str | None = template.get("default") if isinstance(template, dict) else template
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InputError(f"chat template {file.as_posix()} cannot be read: {reason}") from None
