"""Render chats with a tokenizer's chat template, as transformers' `apply_chat_template` does."""

import json
from collections.abc import Iterable, Sized
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from batchstat.corpus.chat import Message, Tool
from batchstat.errors import InputError
from batchstat.tokenization.assistant_turns import (
    AssistantTurns,
    MarkedChat,
    TemplateError,
)
from batchstat.tokenization.prompts import count_completions
from batchstat.tokenization.template_coverage import TemplateCoverage
from batchstat.tokenization.tokenizer import Tokenizer

_TOOL_CALLS = "tool_calls"

_Chat = tuple[list[Message], list[Tool] | None]


def with_chat_template(tokenizer: Tokenizer, template_file: Path | None) -> Tokenizer:
    """Return the tokenizer prepared for chats, with the template of a file or its own.

    No generation prompt is added, and the only special tokens are those that the template writes.
    Tools are passed to the template, or to the tokenizer's separate one for them (`tool_use`).

    Raises:
        InputError: the file cannot be read; the tokenizer has no template of its own.
    """
    if template_file:
        plain = with_tools = _read(template_file)
    else:
        plain, with_tools = _own_templates(tokenizer.encoder.as_transformers())
    if not plain:
        raise InputError(
            f"tokenizer {tokenizer.name!r} has no chat template: pass --chat-template FILE"
        )
    return _with_templates(tokenizer, plain, with_tools)


def _with_templates(tokenizer: Tokenizer, plain: str, with_tools: str) -> Tokenizer:
    """Add one template for chats without tools and one for chats with tools."""
    loaded = tokenizer.encoder.as_transformers()

    def template_of(tools: list[Tool] | None) -> str:
        return with_tools if tools else plain

    def render(messages: list[Message], tools: list[Tool] | None, **more: Any) -> Any:
        given = {"tokenize": False, "add_generation_prompt": False} | more
        template = template_of(tools)
        return loaded.apply_chat_template(
            messages, tools=tools or None, chat_template=template, **given
        )

    def check(chats: list[_Chat]) -> None:
        for messages, tools in chats:
            template = template_of(tools)
            if _TOOL_CALLS not in template and any(each.get(_TOOL_CALLS) for each in messages):
                raise TemplateError("the chat template cannot render its tool call")

    def encode_chats(chats: list[_Chat]) -> Iterable[Sized]:
        check(chats)
        return tokenizer.encoder.encode_rendered([render(*chat) for chat in chats])

    turns = [AssistantTurns(loaded, template, render) for template in (plain, with_tools)]

    def mark_chats(chats: list[_Chat]) -> list[MarkedChat]:
        check(chats)
        if not any(tools for _, tools in chats):
            return turns[0].mark([messages for messages, _ in chats], None)
        return [turns[bool(tools)].mark([messages], tools)[0] for messages, tools in chats]

    def mark_completions(
        chats: list[tuple[list[Message], list[Tool] | None, int]],
    ) -> list[MarkedChat]:
        check([(messages, tools) for messages, tools, _ in chats])
        texts = [
            (render(messages[:n], tools, add_generation_prompt=True), render(messages, tools))
            for messages, tools, n in chats
        ]
        found = count_completions(tokenizer.encoder.encode_rendered, texts).tolist()
        return [
            MarkedChat(tokens, (shared, tokens) if shared < tokens else ())
            for tokens, shared in found
        ]

    # A template may write the special tokens, which come from the tokenizer's configuration.
    special = json.dumps(loaded.special_tokens_map, default=repr)
    kind = f"{type(loaded).__module__}.{type(loaded).__qualname__}"
    definition = json.dumps([tokenizer.digest, plain, with_tools, special, kind])
    renderers = f"transformers {version('transformers')}, jinja2 {version('jinja2')}"
    return replace(
        tokenizer,
        define=lambda: definition,
        library=f"{tokenizer.library}, {renderers}",
        special_tokens_per_sample=0,
        encode_chats=encode_chats,
        mark_chats=mark_chats,
        mark_completions=mark_completions,
        left_out=TemplateCoverage(render).left_out,
        made_by=(_with_templates, (tokenizer, plain, with_tools)),
    )


def _own_templates(tokenizer: Any) -> tuple[str, str]:
    """Return a tokenizer's templates for chats without and with tools; empty if it has none."""
    found = tokenizer.chat_template
    named = found if isinstance(found, dict) else {"default": found}
    plain = named.get("default") or ""
    templates = plain, named.get("tool_use") or plain
    if not all(isinstance(template, str) for template in templates):
        raise InputError(
            f"the chat template of {tokenizer.name_or_path!r} is not text: pass "
            "--chat-template FILE"
        )
    return templates


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InputError(f"chat template {file.as_posix()} cannot be read: {reason}") from None
