"""Which tokens of chats carry loss where only the assistants' turns do.

A chat template may mark these: `{% generation %}`. Otherwise an assistant's turn is what its
message adds to the text after the generation prompt, if the text before it and after it begins the
whole text. That is not so where a template renders a message differently because of later ones.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchstat.corpus.chat import Message, Tool
from batchstat.lengths.trained import TrainedTokens

_REMEDY = "mark assistants' turns with {% generation %} in a --chat-template"
_MARKS = re.compile(r"\{%-?\s*generation\s*-?%\}")

Render = Callable[..., Any]
"""Called with messages, tools, and arguments of transformers' `apply_chat_template`."""


class TemplateError(Exception):
    """A chat that the template cannot render as needed."""


@dataclass(frozen=True, slots=True)
class MarkedChat:
    """Tokens of a chat, and where ranges of those that carry loss begin and end, in turn."""

    tokens: int
    edges: tuple[int, ...]


def mark_assistant_turns(
    tokenizer: Any, template: str, render: Render, messages: list[Message], tools: list[Tool] | None
) -> MarkedChat:
    """Return the tokens of a chat that its assistants' turns have.

    Args:
        tokenizer: a transformers tokenizer, which knows the characters of its tokens.
        template: the chat template of the chat.
        render: renders chats with this template.
        messages: the chat.
        tools: the tools it may call.

    Raises:
        TemplateError: the template has no marks, and it is ambiguous what a turn adds.
    """
    if _MARKS.search(template):
        found = render(
            messages,
            tools,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
            tokenizer_kwargs={"verbose": False},
        )
        mask = np.array(found["assistant_masks"], dtype=bool)
    else:
        text = render(messages, tools)
        encoded = tokenizer(text, add_special_tokens=False, verbose=False)
        mask = np.zeros(len(encoded["input_ids"]), dtype=bool)
        for begin, end in _turns(render, messages, tools, text):
            # A character that the normalizer removes is in no token.
            first = _first_token(encoded, range(begin, end))
            last = _first_token(encoded, range(end - 1, begin - 1, -1))
            if first is not None and last is not None:
                mask[first : last + 1] = True
    edges = TrainedTokens.of_mask(mask, np.array([0, len(mask)])).edges
    return MarkedChat(len(mask), tuple(edges.tolist()))


def _first_token(encoded: Any, characters: Iterable[int]) -> int | None:
    """Return the token of the first of these characters that is in one."""
    tokens = map(encoded.char_to_token, characters)
    return next((token for token in tokens if token is not None), None)


def _turns_begin_with_content(render: Render) -> bool:
    """Return whether an assistant's message adds nothing before its content, as where templates
    put the generation prompt after each message of a user.
    """
    asked, answered = {"role": "user", "content": "?"}, {"role": "assistant", "content": "zqxj"}
    try:
        before, after = render([asked], None), render([asked, answered], None)
    except Exception:  # a template that expects other contents may raise anything
        return False
    begins: bool = after.startswith(before) and after[len(before) :].lstrip().startswith("zqxj")
    return begins


def _turns(
    render: Render, messages: list[Message], tools: list[Tool] | None, text: str
) -> list[tuple[int, int]]:
    """Return where the assistants' turns begin and end in the text of a chat."""
    found = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        if i == 0:
            raise TemplateError(f"it begins with an assistant: {_REMEDY}")
        alone, before, after = (
            render(messages[:i], tools),
            render(messages[:i], tools, add_generation_prompt=True),
            render(messages[: i + 1], tools),
        )
        if alone == before and not _turns_begin_with_content(render):
            raise TemplateError(
                f"the chat template has neither marks nor a generation prompt: {_REMEDY}"
            )
        if not (text.startswith(after) and after.startswith(before)):
            raise TemplateError(
                f"the chat template renders message {i} differently without those after it: "
                f"{_REMEDY}"
            )
        found.append((len(before), len(after)))
    return found
