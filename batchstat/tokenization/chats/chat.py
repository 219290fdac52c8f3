"""Render chats with a tokenizer's chat template, as transformers' `apply_chat_template` does."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from batchstat.errors import InputError
from batchstat.storage.addresses import read_bytes
from batchstat.storage.shown import one_line
from batchstat.tokenization.chats.assistant_turns import AssistantTurns
from batchstat.tokenization.chats.chat_template import ChatTemplate, TemplateError
from batchstat.tokenization.chats.content_turns import ContentTurns
from batchstat.tokenization.chats.template_coverage import TemplateCoverage
from batchstat.tokenization.tokenizer import Tokenizer


def with_chat_template(
    tokenizer: Tokenizer, template_file: Path | None, turn_ends: tuple[str, ...] = ()
) -> Tokenizer:
    """Return the tokenizer prepared for chats, with the template of a file or its own.

    No generation prompt is added, and the only special tokens are those that the template writes.
    Tools are passed to the template, or to the tokenizer's separate one for them (`tool_use`).
    With `turn_ends`, only the content of an assistant's turn carries loss, and the first of these.

    Raises:
        InputError: the file cannot be read; the tokenizer has no template of its own.
    """
    plain, with_tools = _templates(tokenizer, template_file)
    if not plain:
        raise InputError(
            f"tokenizer {tokenizer.name!r} has no chat template: pass --chat-template FILE"
        )
    return _with_templates(tokenizer, plain, with_tools, turn_ends)


def template_of(tokenizer: Tokenizer, template_file: Path | None) -> str:
    """Return the template for chats without tools, of a file or of the tokenizer; empty if it has
    none.

    Raises:
        InputError: the file cannot be read.
    """
    return _templates(tokenizer, template_file)[0]


def _with_templates(
    tokenizer: Tokenizer, plain: str, with_tools: str, turn_ends: tuple[str, ...]
) -> Tokenizer:
    """Add one template for chats without tools and one for chats with tools."""
    loaded = tokenizer.encoder.as_transformers()

    templates = ChatTemplate(loaded, plain), ChatTemplate(loaded, with_tools)
    turns = [AssistantTurns(template) for template in templates]
    marking = [ContentTurns(each, turn_ends) for each in templates] if turn_ends else turns

    render_chats = partial(_by_inputs, templates, ChatTemplate.render)
    mark = ContentTurns.mark if turn_ends else AssistantTurns.mark

    # A template may write the special tokens, which come from the tokenizer's configuration.
    special = json.dumps(loaded.special_tokens_map, default=repr)
    kind = f"{type(loaded).__module__}.{type(loaded).__qualname__}"
    definition = json.dumps([tokenizer.digest, plain, with_tools, special, kind, *turn_ends])
    renderers = f"transformers {version('transformers')}, jinja2 {version('jinja2')}"
    return replace(
        tokenizer,
        define=lambda: definition,
        library=f"{tokenizer.library}, {renderers}",
        load=lambda: tokenizer.encoder,
        special_tokens_per_sample=0,
        render_chats=render_chats,
        mark_chats=partial(_by_inputs, marking, mark),
        split_chats=partial(_by_inputs, turns, AssistantTurns.split),
        left_out=TemplateCoverage(lambda *chat: render_chats([chat])[0]).left_out,
        made_by=(_with_templates, (tokenizer, plain, with_tools, turn_ends)),
    )


@contextmanager
def _explained(chats: Sequence[Any]) -> Iterator[None]:
    """Say what is wrong with what a template gets; and where it raises, as it may on a call of a
    tool, which message has no content.
    """
    for _, inputs, *_ in chats:
        if inputs.wrong:
            raise TemplateError(inputs.wrong)
    try:
        yield
    except TemplateError:
        raise
    except Exception as error:  # a template may raise anything
        without = (
            i
            for messages, *_ in chats
            for i, each in enumerate(messages)
            if each.get("content") is None
        )
        if (number := next(without, None)) is None:
            raise
        reason = " ".join(str(error).split())
        raise TemplateError(
            f"the chat template raises on message {number}, which has no content ({reason}): write "
            'an empty one there, "content": "", or pass a template that takes none with '
            "--chat-template"
        ) from error


def _by_inputs(
    without_and_with_tools: Sequence[Any],
    work: Callable[..., list[Any]],
    chats: Sequence[Any],
    *more: Any,
) -> list[Any]:
    """Return what a method makes of chats, of those at once that have the same inputs.

    Args:
        without_and_with_tools: whose method it is, for chats without tools and for others.
        work: the method; it takes messages of chats, inputs, what else these have, and `more`.
        chats: each its messages, its inputs, and what else it has.
        more: what the method takes beside.
    """
    made: list[Any] = []
    with _explained(chats):
        # apply_chat_template takes one set of tools and settings for all chats of a call.
        for inputs, group in groupby(chats, key=itemgetter(1)):
            messages, _, *numbers = map(list, zip(*group, strict=True))
            owner = without_and_with_tools[inputs.tools is not None]
            made += work(owner, messages, inputs, *numbers, *more)
    return made


def _templates(tokenizer: Tokenizer, file: Path | None) -> tuple[str, str]:
    """Return the templates for chats without and with tools, of a file or of a tokenizer; empty if
    it has none.
    """
    if file is not None:
        try:
            template = read_bytes(file).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = one_line(error) if isinstance(error, OSError) else "not UTF-8"
            raise InputError(f"chat template {file.as_posix()} cannot be read: {reason}") from None
        return template, template
    loaded = tokenizer.encoder.as_transformers()
    # transformers keeps several templates by their names, and takes tool_use for chats with tools.
    by_name = loaded.chat_template
    if not isinstance(by_name, dict):
        by_name = {"default": by_name}
    plain = by_name.get("default") or ""
    templates = plain, by_name.get("tool_use") or plain
    if not all(isinstance(template, str) for template in templates):
        raise InputError(
            f"the chat template of {loaded.name_or_path!r} is not text: pass --chat-template FILE"
        )
    return templates
