"""Split texts of many megabytes for SentencePiece BPE, which merges over a whole text at once.

A text is cut between two characters that are neighbours in no entry of the vocabulary: no token
spans them, and what BPE merges on one side of them does not depend on the other side. The part
after a cut begins with the character before the cut, so that the mark that the normalizer puts
before each text is not put at the cut. The tokens of this character are then counted twice, and
have to be subtracted once, with its mark.
"""

import string
from dataclasses import dataclass
from functools import cached_property

import tokenizers

from batchstat.tokenization.counting.engine_gate import merges_over_spaces

_PART = 16 << 20
"""Characters in a part, at least. Shorter texts stay whole; no text read from a file is longer."""
_SEARCHED = 1 << 20  # characters among which a cut is searched before the rest stays whole
_SIGNS = frozenset(string.ascii_letters + string.digits)


@dataclass(frozen=True, eq=False)
class LongTexts:
    """Splits long texts of one tokenizer, so that the tokens of the parts add up."""

    backend: tokenizers.Tokenizer

    def positions(self, texts: list[str]) -> list[int]:
        """Return the positions of texts to split."""
        long = [i for i, text in enumerate(texts) if len(text) > _PART]
        return long if long and self._can_cut else []

    def split(self, text: str) -> tuple[list[str], list[str]]:
        """Return the parts of a text whose token counts give its own, and characters repeated.

        Neighbouring parts share one character: `abcdef` cut before `d` -> parts `abc` and `cdef`,
        and `c` repeated. Tokens of the text = tokens of all parts - tokens of all repeated texts.
        """
        cuts: list[int] = []
        # Each cut is _PART characters after the one before it, or a little more.
        cut = self._next_cut(text, _PART)
        while cut is not None:
            cuts.append(cut)
            cut = self._next_cut(text, cut + _PART)
        # Each part but the first begins one character before its cut.
        begins, ends = [0, *(cut - 1 for cut in cuts)], [*cuts, len(text)]
        parts = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        return parts, [text[cut - 1] for cut in cuts]

    def _next_cut(self, text: str, first: int) -> int | None:
        """Return the first position from `first` on to cut a text at; None if none is near."""
        for cut in range(first, min(first + _SEARCHED, len(text))):
            # The characters before and after a cut are neighbours in no entry, and both are known.
            pair = text[cut - 1 : cut + 1]
            if pair not in self._neighbours and self._known.issuperset(pair):
                return cut
        return None

    @cached_property
    def _can_cut(self) -> bool:
        """Whether texts may be cut between known characters that no entry has together."""
        added = self.backend.get_added_tokens_decoder().values()
        return (
            merges_over_spaces(self.backend)
            # With ignore_merges, a whole word that is an entry is not merged at all.
            and not self.backend.model.ignore_merges
            # A token that must be a whole word may seem to be one at the end of a part.
            and not any(token.single_word for token in added)
        )

    @cached_property
    def _neighbours(self) -> set[str]:
        return {
            entry[i : i + 2] for entry in self.backend.get_vocab() for i in range(len(entry) - 1)
        }

    @cached_property
    def _known(self) -> frozenset[str]:
        return _SIGNS.intersection(self.backend.get_vocab())
