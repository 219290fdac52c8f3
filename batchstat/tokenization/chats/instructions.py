"""Tokens of prompts and of completions that are tokenized apart from them.

Source: `InstructionPromptTokenizingStrategy` of src/axolotl/prompt_tokenizers.py, axolotl 0.19. An
empty text has no tokens, not even special ones.
"""

import json
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.tokenization.chats.prompts import ids_of
from batchstat.tokenization.tokenizer import Tokenizer


def count_instructions(
    encode: Callable[[list[Any]], Iterable[Sized]],
    samples: Sequence[tuple[str, str]],
    *,
    begin: int | None,
    end: int,
) -> Ints:
    """Return (n, 2) tokens of prompts with their completions, and of the prompts.

    Args:
        encode: converts texts to one object each, which is its ids or has them as `ids`.
        samples: n prompts, each with its completion.
        begin: id of the token that begins a sequence, which completions lose; None if there is
            none.
        end: id of the token that ends a sequence, with which completions end.
    """
    prompts, completions = (
        [ids_of(each) if text else () for text, each in zip(side, encode(side), strict=True)]
        for side in map(list, zip(*samples, strict=True))
    )
    asked = [len(ids) for ids in prompts]
    answered = [
        len(ids) + (ids[-1] != end) - (ids[0] == begin) if len(ids) else 0 for ids in completions
    ]
    return np.array([np.add(asked, answered), asked], dtype=np.int64).T


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
        count_instructions=partial(count_instructions, begin=begin, end=end),
        made_by=(with_instructions, (tokenizer,)),
    )
