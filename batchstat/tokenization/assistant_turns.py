"""Which tokens of chats carry loss where only the assistants' turns do.

A chat template may mark these: `{% generation %}`. Otherwise an assistant's turn is what its
message adds to the text after the generation prompt, if the text before it and after it begins the
whole text. That is not so where a template renders a message differently because of later ones.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from batchstat.corpus.chat import Message, Tool
from batchstat.lengths.token_ranges import TokenRanges

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
        edges = TokenRanges.of_mask(mask, np.array([0, len(mask)])).edges
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

    def mark(self, messages: list[Message], tools: list[Tool] | None) -> MarkedChat:
        """Return the tokens of a chat, and those of its assistants' turns.

        Raises:
            TemplateError: the template has no marks, and it is ambiguous what a turn adds.
        """
        if _MARKS.search(self.template):
            return self._by_marks([messages], tools)[0]
        text = self.render(messages, tools)
        encoded = self.tokenizer(text, add_special_tokens=False, verbose=False)
        mask = np.zeros(len(encoded["input_ids"]), dtype=bool)
        for begin, end in self._turns(messages, tools, text):
            # A character that the normalizer removes is in no token.
            first = _first_token(encoded, range(begin, end))
            last = _first_token(encoded, range(end - 1, begin - 1, -1))
            if first is not None and last is not None:
                mask[first : last + 1] = True
        return MarkedChat.of(mask)

    def mark_all(self, chats: list[list[Message]]) -> list[MarkedChat]:
        """Do the same for chats without tools."""
        if _MARKS.search(self.template):
            return self._by_marks(chats, None)
        return [self.mark(messages, None) for messages in chats]

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


def _first_token(encoded: Any, characters: Iterable[int]) -> int | None:
    """Return the token of the first of these characters that is in one."""
    tokens = map(encoded.char_to_token, characters)
    return next((token for token in tokens if token is not None), None)
