"""One value per sample, as people have it in a notebook: lists, arrays and Series."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

import batchstat
from batchstat.errors import InputError, OptionError
from conftest import two_words_definition
from tables import in_turn

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=20)
TEXTS = st.lists(st.text("ab é漢\n").map("x{}".format), min_size=1, max_size=8)
CHAT = [{"role": "user", "content": "Pad?"}, {"role": "assistant", "content": "No."}]


@settings(max_examples=10)  # each in several forms
@given(LENGTHS)
def test_numbers_are_lengths(lengths):
    for values in (lengths, tuple(lengths), np.array(lengths), pd.Series(lengths, name="n")):
        assert batchstat.profile(values).lengths.tolist() == lengths


@settings(max_examples=10)  # each in several forms
@given(LENGTHS)
def test_lists_of_numbers_are_token_ids(lengths):
    ids = [[7] * each for each in lengths]
    for values in (ids, pd.Series(ids), [np.array(each) for each in ids]):
        assert batchstat.profile(values).lengths.tolist() == lengths


@settings(max_examples=10)  # each counts the texts four times
@given(TEXTS)
def test_texts_are_counted_as_those_of_a_table(texts):
    table = batchstat.profile(pd.DataFrame({"text": texts}), text_column="text")
    for found in (batchstat.profile(texts=texts), batchstat.profile(pd.Series(texts))):
        assert found.lengths.tolist() == table.lengths.tolist()
        assert found.records.tolist() == table.records.tolist()
    assert batchstat.profile(texts=iter(texts)).corpus.sources[0].path == "texts"


def test_messages_are_chats():
    table = pd.DataFrame({"messages": [CHAT, CHAT[:1]]})
    whole = batchstat.profile(table, messages_column="messages")
    for values in ([CHAT, CHAT[:1]], pd.Series([CHAT, CHAT[:1]])):
        assert batchstat.profile(values).lengths.tolist() == whole.lengths.tolist()


def test_a_named_column_is_that_of_the_series():
    ids = pd.Series([[1, 2], [3]], name="input_ids")
    found = batchstat.profile(ids, tokens_column="input_ids")
    assert found.lengths.tolist() == [2, 1]


def test_missing_values_are_skipped():
    missing = [None, "Pack it."]
    assert batchstat.profile(pd.Series(missing), on_error="skip").records.tolist() == [1]
    assert batchstat.profile(texts=missing, on_error="skip").records.tolist() == [1]
    with pytest.raises(InputError, match="texts, record 0: 'text' is null"):
        batchstat.profile(texts=missing)


@pytest.mark.parametrize("executor", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_tokenizer_object_counts_as_its_file(tmp_path, executor):
    """Of either library, in processes too, and what was set on it stays."""
    file = tmp_path / "tokenizer.json"
    file.write_text(two_words_definition())
    made = Tokenizer.from_file(str(file))
    made.enable_truncation(3)
    fast = PreTrainedTokenizerFast(tokenizer_object=made)
    corpus = tmp_path / "a.txt"
    corpus.write_text("some words\n\nwords some words some words\n" * 9)
    named = batchstat.profile(corpus, tokenizer=file)
    for tokenizer in (made, fast):
        found = batchstat.profile(corpus, tokenizer=tokenizer, executor=executor, workers=1)
        assert found.lengths.tolist() == named.lengths.tolist()
        assert found.lengths.max() > 3
    assert made.truncation["max_length"] == 3


def test_a_tokenizer_object_is_named_as_it_is_loaded_again(tmp_path):
    made = Tokenizer.from_str(two_words_definition())
    PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(tmp_path)
    loaded = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    found = batchstat.profile(texts=["some words"], tokenizer=loaded)
    assert found.tokenizer is not None
    assert Path(found.tokenizer.name) == tmp_path


@in_turn(
    ("call", "message"),
    [
        (lambda: batchstat.profile(), "pass a corpus, or its texts"),
        (lambda: batchstat.profile([5], texts=["a"]), "pass a corpus, or its texts"),
        (lambda: batchstat.profile(texts="Pack it."), "must be a list of texts"),
        (lambda: batchstat.profile(texts=["a", 1]), r"texts\[1\]=1: must be text"),
        (lambda: batchstat.profile([1.5]), "corpus of float"),
        (lambda: batchstat.profile(np.zeros((2, 2), int)), "one value per sample"),
        (lambda: batchstat.profile(["missing.txt"], tokenizer=5), "unsupported tokenizer type int"),
    ],
)
def test_what_is_no_corpus(call, message):
    with pytest.raises(OptionError, match=message):
        call()


def test_no_values():
    for values in (pd.Series([], dtype=object), np.array([], dtype=int)):
        with pytest.raises(InputError, match="no values"):
            batchstat.profile(values)
