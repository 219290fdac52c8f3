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
"""Returns the tokens of texts and their characters, as a BatchEncoding of transformers does."""


class TemplateError(Exception):
    """A chat that the template cannot render as needed."""


@dataclass(frozen=True, eq=False)
class ChatTemplate:
    """A chat template with the tokenizer that renders it.

    Attributes:
        tokenizer: a transformers tokenizer.
        source: the template.
    """

    tokenizer: Any
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
        """Return the texts of chats that have the same template inputs."""
        if not chats:
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
        """Return 1 for each token of chats that the template marks, and 0 for others.

        Args:
            chats: chats that have the same template inputs.
            inputs: these inputs.
            locate: returns the tokens of their texts.
        """
        with _RENDERING:
            found = _called(self.tokenizer, locate).apply_chat_template(
                chats,
                tools=inputs.tools,
                chat_template=self.source,
                tokenize=True,
                return_dict=True,
                return_assistant_tokens_mask=True,
                **inputs.settings,
            )
        masks: list[list[int]] = found["assistant_masks"]
        return masks


def _called(tokenizer: Any, call: Locate) -> Any:
    """Return a copy of a tokenizer that makes of texts what `call` does.

    So transformers itself decides what a mark means, without its tokens of the texts.
    """
    kind = type(tokenizer)
    made = copy.copy(tokenizer)
    made.__class__ = type(
        kind.__name__, (kind,), {"__call__": lambda _, texts, **_options: call(texts)}
    )
    return made
