"""Render chats with a tokenizer's chat template, as transformers' `apply_chat_template` does."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any

from batchstat.errors import InputError
from batchstat.storage.addresses import read_bytes, unreadable
from batchstat.tokenization.chats.assistant_turns import AssistantTurns
from batchstat.tokenization.chats.chat_template import ChatTemplate, Locate, TemplateError
from batchstat.tokenization.chats.template_coverage import TemplateCoverage
from batchstat.tokenization.tokenizer import Tokenizer

_LOADING = Lock()  # held while a tokenizer is loaded: threads would load and import at once


def with_chat_template(tokenizer: Tokenizer, template_file: Path | None) -> Tokenizer:
    """Return the tokenizer for chats, with no special tokens but the template's; tools go to it, or
    to a separate one (`tool_use`). Raises InputError without a readable template.
    """
    without_tools, with_tools = _templates(tokenizer, template_file)
    if not without_tools:
        raise InputError(
            f"tokenizer {tokenizer.name!r} has no chat template", "pass --chat-template FILE"
        )
    return _with_templates(tokenizer, without_tools, with_tools)


def template_of(tokenizer: Tokenizer, template_file: Path | None) -> str:
    """Return the template of a file, or the tokenizer's for chats without tools, if any."""
    without_tools, _ = _templates(tokenizer, template_file)
    return without_tools


def _with_templates(tokenizer: Tokenizer, without_tools: str, with_tools: str) -> Tokenizer:
    """Return the tokenizer with its four functions for chats: see `Tokenizer`."""
    chats = _ChatsOf(tokenizer, (without_tools, with_tools))
    known = tokenizer.chat_facts
    # Everything that can change a count of chats.
    facts = [
        *(tokenizer.digest, without_tools, with_tools),
        *(known.special_tokens, known.class_name),
    ]
    renderers = f"transformers {version('transformers')}, jinja2 {version('jinja2')}"
    return replace(
        tokenizer,
        define=lambda: json.dumps(facts),
        library=f"{tokenizer.library}, {renderers}",
        load=lambda: tokenizer.encoder,
        special_tokens_per_sample=0,  # the template writes them
        render_chats=chats.render,
        mark_chats=chats.mark,
        split_chats=chats.split,
        # It renders one chat at a time; `chat` is its messages and its inputs.
        left_out=TemplateCoverage(lambda *chat: chats.render([chat])[0]).left_out,
        made_by=(_with_templates, (tokenizer, without_tools, with_tools)),
    )


@dataclass(frozen=True)
class _ChatsOf:
    """What a tokenizer makes of chats; it is loaded by the first of them."""

    tokenizer: Tokenizer
    sources: tuple[str, str]  # the templates for chats without tools and for chats with tools

    @cached_property
    def templates(self) -> list[ChatTemplate]:
        with _LOADING:
            loaded = self.tokenizer.encoder.as_transformers()
        return [ChatTemplate(loaded, source) for source in self.sources]

    @cached_property
    def turns(self) -> list[AssistantTurns]:
        return [AssistantTurns(template) for template in self.templates]

    def render(self, chats: list[Any]) -> list[str]:
        return _call_by_inputs([each.render for each in self.templates], chats)

    def mark(self, chats: list[Any], locate: Locate) -> list[bytes]:
        return _call_by_inputs([each.mark for each in self.turns], chats, locate)

    def split(self, chats: list[Any]) -> list[tuple[str, str]]:
        return _call_by_inputs([each.split for each in self.turns], chats)


@contextmanager
def _explaining_errors(chats: Sequence[Any]) -> Iterator[None]:
    """Raise a TemplateError with a remedy where chats cannot be rendered in the `with` block."""
    for _, inputs, *_ in chats:
        if inputs.wrong:
            raise TemplateError(inputs.wrong)
    try:
        yield
    except TemplateError:  # it says already what is wrong
        raise
    except Exception as error:  # a template may raise anything
        reason = " ".join(str(error).split())
        for i, message in chain.from_iterable(enumerate(messages) for messages, *_ in chats):
            if message.get("content") is None:
                raise TemplateError(
                    f"the chat template raises on message {i}, which has no content ({reason}): "
                    'write an empty one there, "content": "", or pass a template that takes none '
                    "with --chat-template"
                ) from error
        raise  # all messages have content: the template's own error says what is wrong


def _call_by_inputs(
    methods: Sequence[Callable[..., list[Any]]], chats: Sequence[Any], *arguments: Any
) -> list[Any]:
    """Call a method for chats, once for each run of them with the same inputs."""
    without_tools, with_tools = methods
    results: list[Any] = []
    with _explaining_errors(chats):
        # apply_chat_template takes one set of tools and settings for all chats of a call.
        for inputs, group in groupby(chats, key=itemgetter(1)):
            messages, _, *columns = map(list, zip(*group, strict=True))
            method = without_tools if inputs.tools is None else with_tools
            results += method(messages, inputs, *columns, *arguments)
    return results


def _templates(tokenizer: Tokenizer, file: Path | None) -> tuple[str, str]:
    """Return the template for chats without tools, and the one for chats with tools."""
    if file is not None:
        try:
            template = read_bytes(file).decode("utf-8")
        except OSError as error:
            raise unreadable(f"chat template {file.as_posix()}", error) from None
        except UnicodeDecodeError:
            raise InputError(f"chat template {file.as_posix()} is not UTF-8") from None
        return template, template
    # transformers keeps several templates by their names, and takes tool_use for chats with tools.
    by_name = tokenizer.chat_facts.template
    if not isinstance(by_name, Mapping):
        by_name = {"default": by_name or ""}
    without_tools = by_name.get("default") or ""
    templates = without_tools, by_name.get("tool_use") or without_tools
    if not all(isinstance(template, str) for template in templates):
        raise InputError(
            f"the chat template of tokenizer {tokenizer.name!r} is not text",
            "pass --chat-template FILE",
        )
    return templates
