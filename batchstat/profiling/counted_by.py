"""The tokenizer of a profile again, and where its texts have a token that a trainer looks for."""

import json
from itertools import chain
from typing import Any

import numpy as np

from batchstat.corpus.content import Texts
from batchstat.corpus.splits import splits_of
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
        raise InputError("the corpus came with lengths, not with a tokenizer: pass its texts")
    return load_tokenizer(profile.tokenizer.name).encoder.as_transformers()


def tokens_other_than(profile: Profile, token: str, lengths: Ints, tokenizer: Any) -> TokenRanges:
    """Return, for each text, the ranges of its tokens that are not `token`. LLaMA-Factory gives no
    loss to the token that pads, not even where a text contains it.

    Only texts that may contain the token are tokenized again. In all others every token counts,
    but for the token at the end if it was appended.

    Args:
        profile: counted texts; what is appended to them may be the token.
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
        raise InputError("standard input cannot be read again: save the corpus to a file")
    token_id, appended = tokenizer.convert_tokens_to_ids(token), int(options.append == token)
    takes_all = _search_may_miss(tokenizer, token, token_id)
    # The texts that are tokenized again: their numbers in the corpus, with an empty array to join
    # if there are none, and their token ids; and how many texts were read before the block.
    retokenized, ids, texts_read = [np.zeros(0, dtype=np.int64)], list[list[int]](), 0
    for block in CorpusReader(splits_of(sources, options), options).blocks():
        if not isinstance(block.content, Texts):
            continue
        texts = block.content.first
        # More often than once where it is appended: then it stands inside, too.
        contains = pc.greater(pc.count_substring(texts, token), appended)
        places = np.flatnonzero(np.asarray(contains) | takes_all)
        if len(places):
            taken = texts.take(places).to_pylist()
            ids += tokenizer(taken, add_special_tokens=False, verbose=False)["input_ids"]
            retokenized.append(texts_read + places)
        texts_read += len(texts)
    samples, sizes = np.concatenate(retokenized), np.array(list(map(len, ids)), dtype=np.int64)
    if texts_read != len(lengths) or (lengths[samples] != sizes).any():
        raise InputError("the corpus has changed since it was counted: count it again")
    flat_ids = np.array(list(chain.from_iterable(ids)), dtype=np.int64)
    exact = TokenRanges.of_mask(flat_ids != token_id, offsets_from_sizes(sizes))
    # All tokens of a text, without the one appended.
    usual = TokenRanges.of_last(lengths - appended, lengths - appended)
    # The exact ranges stand behind the usual ones of all texts: take those where there are any.
    order = np.arange(len(lengths))
    order[samples] = len(lengths) + np.arange(len(samples))
    return TokenRanges.concatenate([usual, exact]).take(order)


def _search_may_miss(tokenizer: Any, token: str, token_id: int) -> bool:
    """Return whether a text may get the token without having its characters, or have these without
    getting the token: then a search for the characters does not find the texts that have it.
    """
    added = tokenizer.added_tokens_decoder.get(token_id)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    # Only an added token is found in a text as it is written; the model may make any other token of
    # other characters. `normalized` changes the text first, and with `single_word` characters that
    # touch a word are not the token.
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
