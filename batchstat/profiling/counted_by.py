"""The tokenizer of a profile again, and where its texts have a token that a trainer looks for."""

import json
from itertools import chain
from typing import Any

import numpy as np

from batchstat.corpus.content import Texts
from batchstat.corpus.files.splits import splits_of
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.profiling.profile import Profile
from batchstat.tokenization.loading.load import load_tokenizer


def tokenizer_of(profile: Profile) -> Any:
    """Return the tokenizer of a profile as an object of transformers, loaded by its name.

    Raises:
        InputError: the profile came with lengths, or the tokenizer cannot be loaded.
    """
    if profile.tokenizer is None:
        raise InputError("the corpus came with lengths, not with a tokenizer", "pass its texts")
    return load_tokenizer(profile.tokenizer.name).encoder.as_transformers()


def tokens_other_than(profile: Profile, token: str, lengths: Ints, tokenizer: Any) -> TokenRanges:
    """Return, for each text, the ranges of its tokens that are not `token`: LLaMA-Factory gives no
    loss to the token that pads, not even where a text contains it.

    Only texts that may contain the token are tokenized again. In all others only a token that was
    appended to the text can be `token`.

    Args:
        profile: counted texts; `token` may have been appended to each of them.
        token: one token of the tokenizer.
        lengths: (n,) tokens of each text, without special tokens.
        tokenizer: what counted them, as an object of transformers.

    Raises:
        InputError: the texts cannot be read again, or have changed.
    """
    import pyarrow.compute as pc  # with the reader, more to load than a cached profile needs

    from batchstat.corpus.reader import CorpusReader

    sources, options = profile.corpus.sources, profile.corpus.options
    if any(source.is_standard_input for source in sources):
        raise InputError("standard input cannot be read again", "save the corpus to a file")
    token_id, n_appended = tokenizer.convert_tokens_to_ids(token), int(options.append == token)
    search_may_miss = _search_may_miss(tokenizer, token, token_id)
    # Of the texts that are tokenized again: their numbers in the corpus, a part for each block, and
    # their token ids. The empty part is there because np.concatenate raises without any array.
    number_parts, ids, texts_read = [np.zeros(0, dtype=np.int64)], list[list[int]](), 0
    for block in CorpusReader(splits_of(sources, options), options).blocks():
        if not isinstance(block.content, Texts):
            continue
        texts = block.content.first
        # A token that was appended is found once in every text.
        contains = pc.greater(pc.count_substring(texts, token), n_appended)
        in_block = np.flatnonzero(np.asarray(contains) | search_may_miss)
        if len(in_block):
            again = texts.take(in_block).to_pylist()
            ids += tokenizer(again, add_special_tokens=False, verbose=False)["input_ids"]
            number_parts.append(texts_read + in_block)
        texts_read += len(texts)
    numbers, sizes = np.concatenate(number_parts), np.array(list(map(len, ids)), dtype=np.int64)
    if texts_read != len(lengths) or (lengths[numbers] != sizes).any():
        raise InputError("the corpus has changed since it was counted", "count it again")
    # The ids of all these texts, end to end, give the ranges of their other tokens.
    flat_ids = np.array(list(chain.from_iterable(ids)), dtype=np.int64)
    ranges_by_ids = TokenRanges.of_mask(flat_ids != token_id, offsets_from_sizes(sizes))
    # For every text, all of its tokens but the one appended: right where the text has no `token`.
    all_but_appended = TokenRanges.of_last(lengths - n_appended, lengths - n_appended)
    # Joined, the ranges by ids stand after those of all texts, from position len(lengths) on: take
    # them for the texts that were tokenized again.
    positions = np.arange(len(lengths))
    positions[numbers] = len(lengths) + np.arange(len(numbers))
    return TokenRanges.concatenate([all_but_appended, ranges_by_ids]).take(positions)


def _search_may_miss(tokenizer: Any, token: str, token_id: int) -> bool:
    """Return whether a search of texts for the characters of `token` may miss texts that have the
    token once they are tokenized, or find some that do not.
    """
    added = tokenizer.added_tokens_decoder.get(token_id)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    # A search is reliable only for an added token: it is found in the text as it is written, while
    # the model may make other tokens of other characters. But `normalized` changes the text before,
    # and with `single_word` the characters are not the token where they touch a word.
    if backend is None or added is None or added.normalized or added.single_word:
        return True
    # The model gives the same id to another piece of text.
    if backend.model.id_to_token(token_id) not in (None, token):
        return True
    # The token of unknown characters stands for any of them: WordPiece and BPE name it, and
    # Unigram has its id.
    model = json.loads(backend.to_str())["model"]
    unknown = model.get("unk_token")
    if model.get("unk_id") is not None:
        unknown = model["vocab"][model["unk_id"]][0]
    return bool(token == unknown)
