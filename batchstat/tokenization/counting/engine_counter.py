"""Count whole texts with fastokens, a faster engine for tokenizers that `engine_gate` admits.

Loading it takes as long as counting some megabytes without it, so it is loaded when so many are
known to come, or twice as many have come, on a thread of its own: reading goes on meanwhile. The
gate is asked only then: it reads the whole vocabulary of some tokenizers.
"""

import json
import threading
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import tokenizers

from batchstat.lengths.arrays import Ints
from batchstat.tokenization.chats.prompts import Surroundings, count_completions, shared_ids
from batchstat.tokenization.counting.count_check import RefusedError, encodings
from batchstat.tokenization.counting.engine_gate import engine_admits, texts_to_leave
from batchstat.tokenization.counting.long_texts import LongTexts
from batchstat.tokenization.counting.panics import panics_as_errors
from batchstat.tokenization.counting.shortcut import Shortcut
from batchstat.tokenization.threads import cores

if TYPE_CHECKING:
    from fastokens import Tokenizer as Engine

_LOADED_FOR_BYTES = 4 << 20
_LOADED_FOR_BYTES_PER_TOKEN = 20
"""The engine is loaded for so much text: more, by this for each core, for a large vocabulary, which
takes longer to load on one core, while others would count all the faster."""
_FIRST_TEXTS = 64
"""Texts of its first call: enough that every one of its threads takes part."""


class EngineCounter(Shortcut):
    """Counter of the texts of one run; may be called from several threads.

    It counts none as long as the engine is not loaded.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, special_tokens: bool = True) -> None:
        """Use a tokenizer without truncation and padding."""
        super().__init__(backend, "fastokens counts", special_tokens=special_tokens)
        self._splits_special_tokens: bool = backend.encode_special_tokens
        self._long_texts = LongTexts(backend)
        self._engine: Engine | None = None
        self._loading: threading.Thread | None = None
        self._bytes, self._noting = 0, threading.Lock()
        self._worth_loading = max(
            _LOADED_FOR_BYTES, _LOADED_FOR_BYTES_PER_TOKEN * cores() * backend.get_vocab_size()
        )

    def load(self) -> None:
        """Load the engine now.

        If it does not admit or refuses the tokenizer, `count` goes on returning None.
        """
        if not engine_admits(self._backend):
            return
        definition = self._backend.to_str()
        try:
            with panics_as_errors():
                self._engine = _load(definition)
        except Exception:  # not installed, or it refuses the definition, by any exception
            self._engine = None

    def expect(self, bytes_: int) -> None:
        """Begin to load the engine, unless begun before, if that pays for so much text."""
        with self._noting:
            begun = self._engine is not None or self._loading is not None
            if not begun and bytes_ >= self._worth_loading:
                self._loading = threading.Thread(target=self.load, name="loading fastokens")
                self._loading.start()

    def count_completions(
        self, prompts: pa.LargeStringArray, wholes: pa.LargeStringArray
    ) -> Ints | None:
        """Return (n, 2) tokens of texts, and how many each shares with its prompt: see `prompts`.

        None, and MiscountError, as in `count`.
        """
        special, sides = self._special[1], [prompts, wholes]
        if special is None or not self._is_taken(sides):
            return None
        around = Surroundings.find(self._backend, special)
        if around is None:
            return None
        try:
            texts = [side.to_pylist() for side in sides]
            first, second = map(self._checked_ids, sides, texts)
            shared, uncertain = shared_ids(first, second, around)
            found = np.stack([np.diff(second[1]) + special, shared], axis=1)
            again = {*np.flatnonzero(uncertain).tolist(), *chain(*map(texts_to_leave, texts))}
            if again:
                special_tokens = self._check.special_tokens
                encode = partial(encodings, self._backend, special_tokens=special_tokens)
                rows = sorted(again)
                found[rows] = count_completions(encode, [(texts[0][i], texts[1][i]) for i in rows])
        except RefusedError:
            return None
        return found

    def token_ids(self, column: pa.LargeStringArray) -> tuple[Ints, Ints, set[int]] | None:
        """Return the ids of texts, without special tokens and laid end to end, (n + 1,) where those
        of each begin, and the positions of texts whose ids may be wrong.

        None, and MiscountError, as in `count`.
        """
        if self._special[1] is None or not self._is_taken([column]):
            return None
        texts = column.to_pylist()
        try:
            return *self._checked_ids(column, texts), set(texts_to_leave(texts))
        except RefusedError:
            return None

    def _checked_ids(self, column: pa.LargeStringArray, texts: list[str]) -> tuple[Ints, Ints]:
        """Return the ids of texts, which the column has too, as `_ids` does.

        Raises:
            MiscountError: see `count`.
        """
        special = self._special[1]
        assert special is not None
        ids, offsets = self._ids(texts)
        counts = np.diff(offsets) + special
        # Else the check would take what the engine counts differently for a miscount.
        if texts_to_leave(texts):
            counts = self._recount([column])
        self._check.check([column], counts, self._recount)
        return ids, offsets

    def _is_taken(self, sides: Sequence[pa.LargeStringArray]) -> bool:
        """Return whether the engine is loaded, once texts are noted that are counted without."""
        if self._engine is None:
            self._note(sum(side.nbytes for side in sides))
            # Loading while others count would take twice as long on two cores.
            if self._loading is not None:
                self._loading.join()
        return self._engine is not None

    def _note(self, bytes_: int) -> None:
        """Note that so much is to be counted without the engine: as much may come again."""
        with self._noting:
            self._bytes += bytes_
            noted = self._bytes
        self.expect(noted // 2)

    def _side(self, column: pa.LargeStringArray) -> Ints:
        """Return (n,) tokens of texts, without special tokens."""
        texts = column.to_pylist()
        long = self._long_texts.positions(texts)
        cut = {i: self._long_texts.cut(texts[i]) for i in long}
        for i in long:
            texts[i] = ""
        counts = self._by_engine(texts)
        for i, (parts, repeated) in cut.items():
            counts[i] = self._by_engine(parts).sum() - self._by_engine(repeated).sum()
        if left := texts_to_leave(texts):
            encoded = encodings(self._backend, [texts[i] for i in left])
            counts[left] = list(map(len, encoded))
        return counts

    def _by_engine(self, texts: list[str]) -> Ints:
        return np.diff(self._ids(texts)[1])

    def _ids(self, texts: list[str]) -> tuple[Ints, Ints]:
        """Return the ids of texts, laid end to end, and (n + 1,) where those of each begin."""
        assert self._engine is not None
        try:
            with panics_as_errors():
                ids, ends = self._engine.encode_batch_flat(
                    texts, split_special_tokens=self._splits_special_tokens
                )
        except Exception as error:
            raise RefusedError from error
        return np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.uint64).astype(np.int64)


@lru_cache(maxsize=1)
def _load(definition: str) -> "Engine":
    """Load the engine for a tokenizer.json; the last one stays loaded for later runs."""
    from fastokens import Tokenizer as Engine

    # Special tokens are counted apart, and the engine refuses some post-processors. Parsing the
    # whole definition would take a fifth of the time; in a text inside it, quotes are escaped.
    before, key, rest = definition.partition('"post_processor":')
    _, end = json.JSONDecoder().raw_decode(rest)
    engine = Engine.from_json_str(f"{before}{key}null{rest[end:]}")
    # Its first call takes some 20 ms more than later ones, as it starts threads with their caches.
    engine.encode_batch_flat(["a"] * _FIRST_TEXTS)
    return engine
