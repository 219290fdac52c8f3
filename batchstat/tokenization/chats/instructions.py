"""Count prompts and completions that are tokenized separately, as axolotl does.

Source: `InstructionPromptTokenizingStrategy` of src/axolotl/prompt_tokenizers.py, axolotl 0.19. An
empty text has no tokens there, not even special ones.
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
    """Return (n, 2): tokens of each prompt with its completion, and of the prompt alone.

    Args:
        encode: tokenizes texts, and returns for each its ids, or an object that has them as `ids`.
        samples: n pairs of a prompt and its completion.
        begin: id of the token that begins a sequence, which is removed from completions; None if
            the tokenizer has none.
        end: id of the token that ends a sequence, which is added to completions without it.
    """

    def ids_of_each(texts: tuple[str, ...]) -> list[Sequence[int]]:
        pairs = zip(texts, encode(list(texts)), strict=True)
        return [ids_of(encoded) if text else () for text, encoded in pairs]

    prompts, completions = map(ids_of_each, zip(*samples, strict=True))
    prompt_counts = list(map(len, prompts))
    # One token more if the end must be added, and one less if the begin must be removed.
    completion_counts = [
        len(ids) + (ids[-1] != end) - (ids[0] == begin) if len(ids) else 0 for ids in completions
    ]
    return np.array([np.add(prompt_counts, completion_counts), prompt_counts], dtype=np.int64).T


def with_instructions(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer prepared for prompts and completions that are tokenized separately.

    Raises:
        InputError: it has no token that ends a sequence.
    """
    loaded = tokenizer.encoder.as_transformers()
    begin, end = loaded.bos_token_id, loaded.eos_token_id
    if end is None:
        raise InputError(
            f"tokenizer {tokenizer.name!r} has no end-of-sequence token, with which completions "
            "end",
            "pass the tokenizer that you train with",
        )
    definition = json.dumps([tokenizer.digest, begin, end])  # what can change a count
    return replace(
        tokenizer,
        define=lambda: definition,
        load=lambda: tokenizer.encoder,
        count_instructions=partial(count_instructions, begin=begin, end=end),
        made_by=(with_instructions, (tokenizer,)),
    )
