"""One chat template, rendered by a transformers tokenizer."""

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

from batchstat.corpus.chat import Message, TemplateInputs

_MARKS = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")

# transformers compiles a template once per process, and keeps the marks of the chat that is being
# rendered with it: another thread would add its own.
_RENDERING = Lock()

Locate = Callable[[list[str]], Any]
"""Tokenizes texts, and returns their tokens with characters, like transformers' BatchEncoding."""


class TemplateError(Exception):
    """A chat that the template cannot render as needed."""


@dataclass(frozen=True, eq=False)
class ChatTemplate:
    """A chat template with the tokenizer that renders it."""

    tokenizer: Any  # a transformers tokenizer
    source: str

    @cached_property
    def has_marks(self) -> bool:
        """Whether it marks assistants' turns."""
        return bool(_MARKS.search(self.source))

    def render(
        self,
        chats: Sequence[list[Message]],
        inputs: TemplateInputs,
        *,
        generation_prompt: bool = False,
    ) -> list[str]:
        """Return the text of each chat."""
        if not chats:  # apply_chat_template raises on an empty list
            return []
        with _RENDERING:
            texts: list[str] = self.tokenizer.apply_chat_template(
                list(chats),
                tools=inputs.tools,
                chat_template=self.source,
                tokenize=False,
                add_generation_prompt=generation_prompt,
                **inputs.settings,
            )
        return texts

    def mask(
        self, chats: list[list[Message]], inputs: TemplateInputs, locate: Locate
    ) -> list[list[int]]:
        """Return a mask of each chat: 1 for a token that transformers finds marked."""
        # transformers itself decides which tokens a mark has, by a copy of the tokenizer that
        # tokenizes by `locate`: its own way is slower. Python looks up `__call__` in the class of
        # an object: so the copy gets a class of its own.
        kind, copied = type(self.tokenizer), copy.copy(self.tokenizer)
        copied.__class__ = type(
            kind.__name__, (kind,), {"__call__": lambda _, texts, **_options: locate(texts)}
        )
        with _RENDERING:
            encoded = copied.apply_chat_template(
                chats,
                tools=inputs.tools,
                chat_template=self.source,
                tokenize=True,
                return_dict=True,
                return_assistant_tokens_mask=True,
                **inputs.settings,
            )
        masks: list[list[int]] = encoded["assistant_masks"]
        return masks
