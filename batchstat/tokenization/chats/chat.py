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
    """Return the tokenizer prepared for chats.

    No generation prompt is added, and the only special tokens are those that the template writes.
    Tools are passed to the template, or to the tokenizer's separate one for them (`tool_use`).

    Args:
        tokenizer: the tokenizer.
        template_file: a chat template; None for the tokenizer's own.
        turn_ends: tokens that end a turn. With some, what carries loss is found as axolotl does:
            the content of an assistant's turn, and the first of these tokens after it.

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
    """Return the chat template of a file, or without a file the tokenizer's own for chats without
    tools; empty if it has none.

    Raises:
        InputError: the file cannot be read.
    """
    return _templates(tokenizer, template_file)[0]


def _with_templates(
    tokenizer: Tokenizer, plain: str, with_tools: str, turn_ends: tuple[str, ...]
) -> Tokenizer:
    """Return the tokenizer with its four functions for chats: see `Tokenizer`.

    Args:
        tokenizer: the tokenizer.
        plain: the template for chats without tools.
        with_tools: the template for chats with tools.
        turn_ends: see `with_chat_template`.
    """
    loaded = tokenizer.encoder.as_transformers()

    # Each pair: for chats without tools, and for chats with tools.
    templates = ChatTemplate(loaded, plain), ChatTemplate(loaded, with_tools)
    turns = [AssistantTurns(template) for template in templates]
    # What finds the tokens that carry loss, and its method.
    markers = [ContentTurns(each, turn_ends) for each in templates] if turn_ends else turns
    mark = ContentTurns.mark if turn_ends else AssistantTurns.mark
    render_chats = partial(_by_inputs, templates, ChatTemplate.render)

    # Everything that can change a count of chats. A template may write the special tokens, which
    # come from the tokenizer's configuration, and a class may render templates in its own way.
    special = json.dumps(loaded.special_tokens_map, default=repr)
    kind = f"{type(loaded).__module__}.{type(loaded).__qualname__}"
    definition = json.dumps([tokenizer.digest, plain, with_tools, special, kind, *turn_ends])
    renderers = f"transformers {version('transformers')}, jinja2 {version('jinja2')}"
    return replace(
        tokenizer,
        define=lambda: definition,
        library=f"{tokenizer.library}, {renderers}",
        load=lambda: tokenizer.encoder,
        special_tokens_per_sample=0,  # the template writes them
        render_chats=render_chats,
        mark_chats=partial(_by_inputs, markers, mark),
        split_chats=partial(_by_inputs, turns, AssistantTurns.split),
        # `chat` is the messages of one chat, and its inputs.
        left_out=TemplateCoverage(lambda *chat: render_chats([chat])[0]).left_out,
        made_by=(_with_templates, (tokenizer, plain, with_tools, turn_ends)),
    )


@contextmanager
def _explaining_errors(chats: Sequence[Any]) -> Iterator[None]:
    """Turn what goes wrong with chats in the `with` block into a TemplateError with a remedy.

    It is raised before the block if the tools or settings of a chat are wrong. It is raised after
    the block if the template raised and a message has no content, such as one that only calls a
    tool.
    """
    for _, inputs, *_ in chats:
        if inputs.wrong:
            raise TemplateError(inputs.wrong)
    try:
        yield
    except TemplateError:  # it says already what is wrong
        raise
    except Exception as error:  # a template may raise anything
        without_content = (
            i
            for messages, *_ in chats
            for i, message in enumerate(messages)
            if message.get("content") is None
        )
        # All messages have content: the template's own message says what is wrong.
        if (number := next(without_content, None)) is None:
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
    """Call a method for chats, once for each run of consecutive chats with the same inputs.

    Args:
        without_and_with_tools: two objects that have the method: the first is for chats without
            tools, the second for chats with tools.
        work: the method. It takes the messages of some chats, their common inputs, a list of each
            further column of the chats, and `more`; it returns one result for each chat.
        chats: for each chat its messages, its inputs, and perhaps further columns.
        more: further arguments of the method.

    Returns:
        The result of each chat.
    """
    results: list[Any] = []
    with _explaining_errors(chats):
        # apply_chat_template takes one set of tools and settings for all chats of a call.
        for inputs, group in groupby(chats, key=itemgetter(1)):
            messages, _, *columns = map(list, zip(*group, strict=True))
            owner = without_and_with_tools[inputs.tools is not None]
            results += work(owner, messages, inputs, *columns, *more)
    return results


def _templates(tokenizer: Tokenizer, file: Path | None) -> tuple[str, str]:
    """Return the template for chats without tools, and the one for chats with tools.

    Both are the template of the file if there is one, and otherwise the tokenizer's own; empty if
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
