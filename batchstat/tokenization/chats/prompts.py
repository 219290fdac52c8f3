"""How many tokens a text shares with the prompt that it begins with.

What follows carries loss. Tokens may merge where a prompt ends, so both are tokenized, the prompt
alone and the whole text, and compared from the first token on. Source: TRL 1.16, SFTTrainer.
"""

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from batchstat.lengths.arrays import Ints, expand_ranges


def count_completions(
    encode: Callable[[list[Any]], Iterable[Sized]], samples: Sequence[tuple[str, str]]
) -> Ints:
    """Return (n, 2) tokens of each text, and how many of them it shares with its prompt.

    Args:
        encode: converts texts to one object each, which is its ids or has them as `ids`.
        samples: n prompts, each with the text that begins with it.
    """
    prompts, texts = (map(ids_of, encode(list(side))) for side in zip(*samples, strict=True))
    counts = [
        (len(text), _shared(prompt, text)) for prompt, text in zip(prompts, texts, strict=True)
    ]
    return np.array(counts, dtype=np.int64).reshape(-1, 2)


def _shared(prompt: Sequence[int], text: Sequence[int]) -> int:
    pairs = enumerate(zip(prompt, text, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(prompt), len(text)))


def ids_of(encoded: Any) -> Sequence[int]:
    """Return the ids of a text that `encode` converted."""
    ids: Sequence[int] = getattr(encoded, "ids", encoded)
    return ids


@dataclass(frozen=True)
class Surroundings:
    """Special tokens around the tokens of every text.

    Attributes:
        before: number of those before.
        after: ids of those after.
    """

    before: int
    after: tuple[int, ...]

    @classmethod
    def find(cls, backend: tokenizers.Tokenizer, special: int) -> "Surroundings | None":
        """Return those of a tokenizer that adds so many to every text; None if not found."""
        if special == 0:
            return cls(0, ())
        own = backend.encode("a", add_special_tokens=False).ids
        ids = backend.encode("a").ids
        if not own or len(ids) != len(own) + special:
            return None
        for before in range(special + 1):
            if ids[before : before + len(own)] == own:
                return cls(before, tuple(ids[before + len(own) :]))
        return None


def shared_ids(
    prompts: tuple[Ints, Ints], texts: tuple[Ints, Ints], around: Surroundings
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return (n,) tokens that texts share with their prompts, special ones counted, and where that
    is uncertain: where the special tokens after one may equal what the other has there.

    Args:
        prompts: (n_tokens,) ids of all prompts, without special tokens and laid end to end, and
            (n + 1,) where each begins.
        texts: the same of the texts.
        around: the special tokens.
    """
    (prompt_ids, prompt_offsets), (text_ids, text_offsets) = prompts, texts
    prompt_sizes, text_sizes = np.diff(prompt_offsets), np.diff(text_offsets)
    compared = np.minimum(prompt_sizes, text_sizes)
    offsets, ours = expand_ranges(prompt_offsets[:-1], compared)
    _, theirs = expand_ranges(text_offsets[:-1], compared)
    differing = np.flatnonzero(prompt_ids[ours] != text_ids[theirs])
    # The first difference at or after the begin of each sample, if it is before its end.
    first = np.append(differing, offsets[-1])[np.searchsorted(differing, offsets[:-1])]
    shared = np.minimum(first - offsets[:-1], compared)
    ended = shared == compared
    same = ended & (prompt_sizes == text_sizes)
    uncertain = np.zeros(len(shared), dtype=bool)
    if around.after:
        longer = ended & ~same
        of_prompt = longer & (prompt_sizes > text_sizes)
        of_text = longer & (text_sizes > prompt_sizes)
        next_ids = np.full(len(shared), -1, dtype=np.int64)
        next_ids[of_prompt] = prompt_ids[(prompt_offsets[:-1] + shared)[of_prompt]]
        next_ids[of_text] = text_ids[(text_offsets[:-1] + shared)[of_text]]
        uncertain = next_ids == around.after[0]
    return shared + around.before + len(around.after) * same, uncertain
