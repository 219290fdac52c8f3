"""Which tokens of chats carry loss where only the assistants' turns do.

A chat template may mark these: `{% generation %}`. Otherwise an assistant's turn is what its
message adds to the text after the generation prompt, if the text before it and after it begins the
whole text. That is not so where a template renders a message differently because of later ones.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from batchstat.corpus.chat import Message, Tool

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

    @classmethod
    def of(cls, mask: npt.NDArray[np.bool_]) -> "MarkedChat":
        """Build from a mask of its tokens."""
        edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
        return cls(len(mask), tuple(edges.tolist()))


@dataclass(frozen=True, eq=False)
class AssistantTurns:
    """Finder of the assistants' turns in chats that one template renders.

    Attributes:
        tokenizer: a transformers tokenizer, which knows the characters of its tokens.
        template: the chat template.
        render: renders chats with it.
    """

    tokenizer: Any
    template: str
    render: Render

    def mark(self, chats: list[list[Message]], tools: list[Tool] | None) -> list[MarkedChat]:
        """Return the tokens of chats that have the same tools, and those of their assistants'
        turns.

        Raises:
            TemplateError: the template has no marks, and it is ambiguous what a turn adds.
        """
        if _MARKS.search(self.template):
            return self._by_marks(chats, tools)
        texts = [self.render(messages, tools) for messages in chats]
        turns = [
            list(self._turns(messages, tools, text))
            for messages, text in zip(chats, texts, strict=True)
        ]
        encoded = self.tokenizer(texts, add_special_tokens=False, verbose=False)
        return [
            _marked(len(ids), partial(encoded.char_to_token, i), turns[i])
            for i, ids in enumerate(encoded["input_ids"])
        ]

    def _by_marks(self, chats: list[list[Message]], tools: list[Tool] | None) -> list[MarkedChat]:
        found = self.render(
            chats,
            tools,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
            tokenizer_kwargs={"verbose": False},
        )
        return [MarkedChat.of(np.array(mask, dtype=bool)) for mask in found["assistant_masks"]]

    def _turns(
        self, messages: list[Message], tools: list[Tool] | None, text: str
    ) -> Iterator[tuple[int, int]]:
        """Yield where each assistant's turn begins and ends in the text of a chat."""
        for i, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            if i == 0:
                raise TemplateError(f"it begins with an assistant: {_REMEDY}")
            if not self._separates_turns:
                raise TemplateError(
                    f"the chat template has neither marks nor a generation prompt: {_REMEDY}"
                )
            before, after = self.render(messages[:i], tools, add_generation_prompt=True), text
            if i + 1 < len(messages):
                after = self.render(messages[: i + 1], tools)
            if not (text.startswith(after) and after.startswith(before)):
                raise TemplateError(
                    f"the chat template renders message {i} differently without those after it: "
                    f"{_REMEDY}"
                )
            yield len(before), len(after)

    @cached_property
    def _separates_turns(self) -> bool:
        """Whether what begins an assistant's turn is rendered before it: as a generation prompt, or
        with the message before.
        """
        asked, answered = {"role": "user", "content": "?"}, {"role": "assistant", "content": "zqxj"}
        try:
            alone, before, after = (
                self.render([asked], None),
                self.render([asked], None, add_generation_prompt=True),
                self.render([asked, answered], None),
            )
        except Exception:  # a template that expects other contents may raise anything
            return False
        added = after[len(before) :].lstrip() if after.startswith(before) else ""
        return bool(alone != before or added.startswith("zqxj"))


def _marked(
    tokens: int, token_of: Callable[[int], int | None], turns: list[tuple[int, int]]
) -> MarkedChat:
    """Return a chat of so many tokens with those that turns have, which are ranges of characters.

    A character that the normalizer removes is in no token.
    """
    mask = np.zeros(tokens, dtype=bool)
    for begin, end in turns:
        inside = range(begin, end)
        first, last = (
            next((token for token in map(token_of, each) if token is not None), None)
            for each in (inside, reversed(inside))
        )
        if first is not None and last is not None:
            mask[first : last + 1] = True
    return MarkedChat.of(mask)
