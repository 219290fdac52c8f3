"""Count whole texts with fastokens, a faster engine for tokenizers that `engine_gate` admits, which
reads the whole vocabulary of some. Loading takes as long as counting some megabytes without it: so
it is loaded, on a thread, once that much text is known to come or twice as much was counted.
"""

import json
import string
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.tokenization.chats.prompts import Surroundings, count_completions, shared_ids
from batchstat.tokenization.counting.count_check import RefusedError, encodings, panics_as_errors
from batchstat.tokenization.counting.engine_gate import (
    engine_admits,
    merges_over_spaces,
    possibly_miscounted,
)
from batchstat.tokenization.counting.shortcut import Shortcut
from batchstat.tokenization.threads import cores

if TYPE_CHECKING:
    from fastokens import Tokenizer as Engine

_PART = 16 << 20
"""Characters in a part, at least. Shorter texts stay whole; no text read from a file is longer."""
_SEARCHED = 1 << 20  # characters among which a cut is searched before the rest stays whole
_SIGNS = frozenset(string.ascii_letters + string.digits)
_LOADED_FOR_BYTES = 4 << 20
_LOADED_FOR_BYTES_PER_TOKEN = 20
"""The engine is loaded for at least so much text, and so many bytes for each token of the
vocabulary and each core: a large vocabulary takes longer to load, on one core, and the more cores
there are, the more text they would count without the engine in that time."""


class EngineCounter(Shortcut):
    """Counts the texts of one run, for several threads; None as long as no engine is loaded."""

    def __init__(self, backend: tokenizers.Tokenizer, *, special_tokens: bool = True) -> None:
        super().__init__(backend, "fastokens counts", special_tokens=special_tokens)
        self._splits_special_tokens: bool = backend.encode_special_tokens
        self._long_texts = LongTexts(backend)
        self._engine: Engine | None = None  # once it is loaded
        self._loading: threading.Thread | None = None  # the thread that loads it
        # Bytes that were counted without the engine so far; the lock guards them and `_loading`.
        self._bytes_without, self._lock = 0, threading.Lock()
        self._least_bytes = max(
            _LOADED_FOR_BYTES, _LOADED_FOR_BYTES_PER_TOKEN * cores() * backend.get_vocab_size()
        )

    def load(self) -> None:
        """Load the engine now, if the gate admits the tokenizer and the engine does not refuse."""
        if not engine_admits(self._backend):
            return
        definition = self._backend.to_str()
        # It is not installed, or refuses the definition, by any exception.
        with suppress(Exception), panics_as_errors():
            self._engine = _load(definition)

    def expect(self, bytes_: int) -> None:
        """Begin to load the engine, on a thread, if that pays for `bytes_` of text to come."""
        with self._lock:
            has_begun = self._engine is not None or self._loading is not None
            if not has_begun and bytes_ >= self._least_bytes:
                self._loading = threading.Thread(target=self.load, name="loading fastokens")
                self._loading.start()

    def count_completions(
        self, prompts: pa.LargeStringArray, wholes: pa.LargeStringArray
    ) -> Ints | None:
        """Return (n, 2): tokens of each text, and how many it shares with its prompt; None if the
        engine is not loaded, special tokens differ or a text is refused. Raises MiscountError.
        """
        special = self._special[1]  # of a text; None if their number is not fixed
        if special is None or not self._can_count_now([prompts, wholes]):
            return None
        around = Surroundings.find(self._backend, special)
        if around is None:
            return None
        try:
            prompt_texts, whole_texts = prompts.to_pylist(), wholes.to_pylist()
            # Pairs: the ids of all texts end to end, and (n + 1,) where those of each text begin.
            prompt_ids = self._checked_ids(prompts, prompt_texts)
            whole_ids = _, whole_offsets = self._checked_ids(wholes, whole_texts)
            shared, is_uncertain = shared_ids(prompt_ids, whole_ids, around)
            counts = np.stack([np.diff(whole_offsets) + special, shared], axis=1)
            # The tokenizer itself counts what is uncertain, or may be counted differently.
            unsure = possibly_miscounted(prompt_texts) + possibly_miscounted(whole_texts)
            rows = sorted({*unsure, *np.flatnonzero(is_uncertain).tolist()})
            if rows:
                special_tokens = self._check.special_tokens
                encode = partial(encodings, self._backend, special_tokens=special_tokens)
                samples = [(prompt_texts[i], whole_texts[i]) for i in rows]
                counts[rows] = count_completions(encode, samples)
        except RefusedError:  # the ordinary way then finds the text on which it raises
            return None
        return counts

    def token_ids(self, column: pa.LargeStringArray) -> tuple[Ints, Ints, set[int]] | None:
        """Return all ids of n texts, without special tokens; (n + 1,) where those of each begin;
        and which texts may be wrong. None as in `count_completions`. Raises MiscountError.
        """
        if self._special[1] is None or not self._can_count_now([column]):
            return None
        texts = column.to_pylist()
        try:
            return *self._checked_ids(column, texts), set(possibly_miscounted(texts))
        except RefusedError:
            return None

    def _checked_ids(self, column: pa.LargeStringArray, texts: list[str]) -> tuple[Ints, Ints]:
        """Return the ids of n texts, and (n + 1,) where those of each begin; check some counts."""
        ids, offsets = self._ids(texts)
        # The check needs the counts of `_count_sides`. Without texts that the engine may count
        # differently, the numbers of ids give the same, and nothing is counted again.
        if possibly_miscounted(texts):
            counts = self._count_sides([column])
        else:
            special = self._special[1]
            assert special is not None
            counts = np.diff(offsets) + special
        self._check.check([column], counts, self._count_sides)
        return ids, offsets

    def _can_count_now(self, sides: Sequence[pa.LargeStringArray]) -> bool:
        """Return whether the engine is loaded, and wait for it if it is being loaded."""
        if self._engine is None:
            self._note(sum(side.nbytes for side in sides))
            # Wait: loading while others count would take twice as long on two cores.
            if self._loading is not None:
                self._loading.join()
        return self._engine is not None

    def _note(self, bytes_: int) -> None:
        # How much text will come is not known: half of what came so far is expected.
        with self._lock:
            self._bytes_without += bytes_
            bytes_so_far = self._bytes_without
        self.expect(bytes_so_far // 2)

    def _count_side(self, column: pa.LargeStringArray) -> Ints:
        """Return (n,) tokens of texts, without special tokens."""
        texts = column.to_pylist()
        # Texts of many megabytes are counted by their parts, and are empty in the call for others.
        long_positions = self._long_texts.positions(texts)
        split_texts = {i: self._long_texts.split(texts[i]) for i in long_positions}
        for i in long_positions:
            texts[i] = ""
        counts = self._count_by_engine(texts)
        for i, (parts, repeated) in split_texts.items():
            # Each character in `repeated` ends one part and begins the next: it is counted twice.
            counts[i] = self._count_by_engine(parts).sum() - self._count_by_engine(repeated).sum()
        # The engine may count some texts differently: the tokenizer itself counts them.
        if unsure := possibly_miscounted(texts):
            encoded = encodings(self._backend, [texts[i] for i in unsure])
            counts[unsure] = list(map(len, encoded))
        return counts

    def _count_by_engine(self, texts: list[str]) -> Ints:
        return np.diff(self._ids(texts)[1])

    def _ids(self, texts: list[str]) -> tuple[Ints, Ints]:
        """Return the ids of n texts, end to end, and (n + 1,) where the ids of each begin."""
        assert self._engine is not None
        try:
            with panics_as_errors():
                ids, offsets = self._engine.encode_batch_flat(
                    texts, split_special_tokens=self._splits_special_tokens
                )
        except Exception as error:
            raise RefusedError from error
        return np.frombuffer(ids, np.uint32), np.frombuffer(offsets, np.uint64).astype(np.int64)


@lru_cache(maxsize=1)
def _load(definition: str) -> "Engine":
    """Load the engine for a tokenizer.json; the last one stays loaded for later runs."""
    from fastokens import Tokenizer as Engine

    # The post-processor is replaced by null: the engine refuses some of them, and special tokens
    # are counted without it. It is replaced in the text, because parsing and writing the whole
    # definition would take a fifth of the time of loading. Nothing else in the text looks like the
    # key: inside a string, its quotes would be escaped.
    before, key, value_and_rest = definition.partition('"post_processor":')
    _, value_size = json.JSONDecoder().raw_decode(value_and_rest)
    engine = Engine.from_json_str(f"{before}{key}null{value_and_rest[value_size:]}")
    # The first call takes some 20 ms more than later ones, because it starts the engine's threads.
    engine.encode_batch_flat(["a"] * 64)
    return engine


@dataclass(frozen=True, eq=False)
class LongTexts:
    """Splits long texts for SentencePiece BPE, which merges over a whole text at once. A cut is
    between two characters that are neighbours in no entry: no token spans them, and merges on one
    side do not depend on the other. The part after it begins with the character before it, so that
    the normalizer's mark is not put at the cut; its tokens, counted twice, are subtracted once.
    """

    backend: tokenizers.Tokenizer

    def positions(self, texts: list[str]) -> list[int]:
        """Return the positions of texts to split."""
        long = [i for i, text in enumerate(texts) if len(text) > _PART]
        return long if long and self._can_cut else []

    def split(self, text: str) -> tuple[list[str], list[str]]:
        """Return the parts of a text, and the characters that two share: `abcdef` cut before `d` ->
        `abc` and `cdef`, and `c`. Its tokens are those of all parts less those of all repeated.
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
