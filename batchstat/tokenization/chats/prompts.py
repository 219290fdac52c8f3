"""How many tokens a text shares with the prompt that it begins with: these carry no loss. The end
of a prompt and the beginning of a completion may merge into one token, so both are tokenized and
compared from the first token on. Source: TRL 1.16, SFTTrainer.
"""

from bisect import bisect
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
    """Return (n, 2): tokens of each text, and how many of them it shares with its prompt."""
    prompts, texts = (map(ids_of, encode(list(side))) for side in zip(*samples, strict=True))
    counts = [
        (len(text), n_shared(prompt, text)) for prompt, text in zip(prompts, texts, strict=True)
    ]
    return np.array(counts, dtype=np.int64)


def n_shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many items two sequences share before they differ or the shorter one ends."""
    # Search the size at which beginnings differ: Python compares slices much faster than items.
    sizes = range(1, min(len(one), len(other)) + 1)
    return bisect(sizes, 0, key=lambda size: one[:size] != other[:size])


def ids_of(encoded: Any) -> Sequence[int]:
    """Return the ids of one text, given what `encode` of `count_completions` returned for it."""
    ids: Sequence[int] = getattr(encoded, "ids", encoded)
    return ids


@dataclass(frozen=True)
class Surroundings:
    """The special tokens that a tokenizer puts around the tokens of every text."""

    before: int
    after: tuple[int, ...]  # ids of the special tokens after them

    @classmethod
    def find(cls, backend: tokenizers.Tokenizer, special: int) -> "Surroundings | None":
        """Find them by tokenizing a letter with and without them; None if that does not tell."""
        if special == 0:
            return cls(before=0, after=())
        plain_ids = backend.encode("a", add_special_tokens=False).ids
        ids = backend.encode("a").ids
        if not plain_ids or len(ids) != len(plain_ids) + special:
            return None
        for before in range(special + 1):
            if ids[before : before + len(plain_ids)] == plain_ids:
                return cls(before, tuple(ids[before + len(plain_ids) :]))
        return None


def shared_ids(
    prompts: tuple[Ints, Ints], texts: tuple[Ints, Ints], around: Surroundings
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Compare the ids of texts with those of their prompts. Returns (n,) how many tokens each text
    shares with its prompt, special ones included, and whether that is uncertain: where all of the
    shorter side is shared, the longer may go on with the id of a special token by chance.
    """
    (prompt_ids, prompt_offsets), (text_ids, text_offsets) = prompts, texts
    prompt_sizes, text_sizes = np.diff(prompt_offsets), np.diff(text_offsets)
    # Compare the first ids of both sides of each sample, as many as the shorter side has. These
    # pairs of ids lie end to end for all samples; those of sample i begin at pair begins[i].
    n_pairs = np.minimum(prompt_sizes, text_sizes)
    offsets, prompt_positions = expand_ranges(prompt_offsets[:-1], n_pairs)
    _, text_positions = expand_ranges(text_offsets[:-1], n_pairs)
    begins, n_all_pairs = offsets[:-1], offsets[-1]
    differing = np.flatnonzero(prompt_ids[prompt_positions] != text_ids[text_positions])
    # For each sample, the first pair from its begin on that differs. If it is in a later sample, or
    # there is none (`n_all_pairs`), all pairs of this sample are shared.
    first_differing = np.append(differing, n_all_pairs)[np.searchsorted(differing, begins)]
    shared = np.minimum(first_differing - begins, n_pairs)
    is_all_shared = shared == n_pairs
    is_same = is_all_shared & (prompt_sizes == text_sizes)
    is_uncertain = np.zeros(len(shared), dtype=bool)
    if around.after:
        # (n,) the id with which the longer side goes on after all of the shorter; -1 for none.
        next_ids = np.full(len(shared), -1, dtype=np.int64)
        prompt_goes_on = is_all_shared & (prompt_sizes > text_sizes)
        next_ids[prompt_goes_on] = prompt_ids[(prompt_offsets[:-1] + shared)[prompt_goes_on]]
        text_goes_on = is_all_shared & (text_sizes > prompt_sizes)
        next_ids[text_goes_on] = text_ids[(text_offsets[:-1] + shared)[text_goes_on]]
        is_uncertain = next_ids == around.after[0]
    # Sides that are the same share the special tokens after them, too.
    return around.before + shared + len(around.after) * is_same, is_uncertain
