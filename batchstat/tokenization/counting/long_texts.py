"""Cut texts of many megabytes for SentencePiece BPE, which merges over a whole text at once.

No token spans two characters that are neighbours in no entry of the vocabulary, and what BPE merges
on one side of them does not depend on the other side. So a text is cut between two such characters.
A part begins with the character before its cut, because the normalizer puts a mark before the first
one: its own tokens are counted twice, and subtracted.
"""

import string
from dataclasses import dataclass
from functools import cached_property

import tokenizers

from batchstat.tokenization.counting.engine_gate import merges_over_spaces

_PART = 16 << 20
"""Characters of a part: no text of a file is longer."""
_SEARCHED = 1 << 20
_SIGNS = frozenset(string.ascii_letters + string.digits)


@dataclass(frozen=True, eq=False)
class LongTexts:
    """What may be cut for one tokenizer.

    Attributes:
        backend: the tokenizer.
    """

    backend: tokenizers.Tokenizer

    def positions(self, texts: list[str]) -> list[int]:
        """Return the positions of texts to cut."""
        long = [i for i, text in enumerate(texts) if len(text) > _PART]
        return long if long and self._can_cut else []

    def cut(self, text: str) -> tuple[list[str], list[str]]:
        """Return parts, and characters counted twice: tokens of the parts less theirs are those of
        the text.
        """
        cuts: list[int] = []
        while (cut := self._next_cut(text, (cuts[-1] if cuts else 0) + _PART)) is not None:
            cuts.append(cut)
        begins, ends = [0, *(cut - 1 for cut in cuts)], [*cuts, len(text)]
        parts = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        return parts, [text[cut - 1] for cut in cuts]

    def _next_cut(self, text: str, near: int) -> int | None:
        for cut in range(near, min(near + _SEARCHED, len(text))):
            pair = text[cut - 1 : cut + 1]
            if pair not in self._neighbours and self._known.issuperset(pair):
                return cut
        return None

    @cached_property
    def _can_cut(self) -> bool:
        added = self.backend.get_added_tokens_decoder().values()
        return (
            merges_over_spaces(self.backend)
            and not self.backend.model.ignore_merges
            # At the end of a part, such a token would seem to be a whole word.
            and not any(token.single_word for token in added)
        )

    @cached_property
    def _neighbours(self) -> set[str]:
        """Each two characters that are neighbours in an entry or an added token."""
        return {
            entry[i : i + 2] for entry in self.backend.get_vocab() for i in range(len(entry) - 1)
        }

    @cached_property
    def _known(self) -> frozenset[str]:
        """Letters and digits that are entries: neither normalized nor counted as bytes."""
        return _SIGNS.intersection(self.backend.get_vocab())
