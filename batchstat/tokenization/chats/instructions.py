"""Tokens of prompts and of completions that are tokenized apart from them.

Source: `InstructionPromptTokenizingStrategy` of src/axolotl/prompt_tokenizers.py, axolotl 0.19. An
empty text has no tokens, not even special ones.
"""

import json
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.tokenization.chats.prompts import ids_of
from batchstat.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class InstructionCounter:
    """Counter of prompts with completions.

    Attributes:
        begin: id of the token that begins a sequence, which completions lose; None if there is
            none.
        end: id of the token that ends a sequence, with which completions end.
    """

    begin: int | None
    end: int

    def count(
        self, encode: Callable[[list[Any]], Iterable[Sized]], samples: Sequence[tuple[str, str]]
    ) -> Ints:
        """Return (n, 2) tokens of prompts with their completions, and of the prompts.

        Args:
            encode: converts texts to one object each, which is its ids or has them as `ids`.
            samples: n prompts, each with its completion.
        """
        prompts, completions = (
            [ids_of(each) if text else () for text, each in zip(side, encode(side), strict=True)]
            for side in map(list, zip(*samples, strict=True))
        )
        asked = [len(ids) for ids in prompts]
        answered = [self._completed(ids) for ids in completions]
        return np.array([np.add(asked, answered), asked], dtype=np.int64).T

    def _completed(self, ids: Sequence[int]) -> int:
        if not len(ids):
            return 0
        return len(ids) + (ids[-1] != self.end) - (ids[0] == self.begin)


def with_instructions(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer prepared for prompts and completions that are tokenized apart.

    Raises:
        InputError: it has no token that ends a sequence.
    """
    loaded = tokenizer.encoder.as_transformers()
    begin, end = loaded.bos_token_id, loaded.eos_token_id
    if end is None:
        raise InputError(
            f"tokenizer {tokenizer.name!r} has no end-of-sequence token, with which completions "
            "end: pass the tokenizer that you train with"
        )
    definition = json.dumps([tokenizer.digest, begin, end])
    return replace(
        tokenizer,
        define=lambda: definition,
        load=lambda: tokenizer.encoder,
        count_instructions=InstructionCounter(begin, end).count,
        made_by=(with_instructions, (tokenizer,)),
    )
