"""Tokenizers that a trainer loads by a class of its choice, against what that class counts."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import batchstat
from batchstat.tokenization.loading.loaded_alike import check_added, check_class
from conftest import needs, write_jsonl

transformers = needs("transformers")

TEXTS = ["two  words", "a b c", "one-two"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A tokenizer of single letters that splits at spaces alone, saved without a class of its own.

    GPT-2's class splits before each space instead."""
    folder = tmp_path_factory.mktemp("saved")
    letters = {each: i for i, each in enumerate("abcdefghijklmnopqrstuvwxyz -Ġ")}
    backend = Tokenizer(models.BPE(letters, []))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    made.add_special_tokens({"eos_token": "<end>"})
    made.add_tokens([transformers.AddedToken("<wide>", lstrip=True, normalized=False)])
    made.save_pretrained(folder)
    return folder


def sizes(tokenizer) -> list[int]:
    return [len(tokenizer.encode(text)) for text in TEXTS]


@pytest.mark.parametrize("kind", ["AutoTokenizer", "PreTrainedTokenizerFast"])
def test_a_class_that_makes_the_same_tokens_is_taken(saved, kind):
    check_class(str(saved), kind, {})
    assert sizes(getattr(transformers, kind).from_pretrained(saved)) == sizes(
        transformers.AutoTokenizer.from_pretrained(saved)
    )


def test_a_class_that_makes_other_tokens_is_refused(saved):
    if not transformers.__version__.startswith("5"):
        pytest.skip("classes of transformers 4 take tokenizer.json as it is")
    other, own = transformers.GPT2Tokenizer, transformers.AutoTokenizer
    assert sizes(other.from_pretrained(saved)) != sizes(own.from_pretrained(saved))
    with pytest.raises(batchstat.InputError, match="by GPT2Tokenizer, which makes other tokens"):
        check_class(str(saved), "GPT2Tokenizer", {})


def test_what_is_saved_as_the_message_says_is_what_the_class_makes(saved, tmp_path):
    made = transformers.GPT2Tokenizer.from_pretrained(str(saved))
    made.save_pretrained(tmp_path)
    check_class(str(tmp_path), "GPT2Tokenizer", {})
    assert sizes(made) == sizes(transformers.AutoTokenizer.from_pretrained(tmp_path))


def test_a_class_that_does_not_exist(saved):
    with pytest.raises(batchstat.InputError, match="cannot be loaded by NoTokenizer"):
        check_class(str(saved), "NoTokenizer", {})


@pytest.mark.parametrize(("token", "is_there"), [("<end>", True), ("<new>", False), ("<wide>", 0)])
def test_an_added_token_must_be_there_as_it_is_added(saved, token, is_there):
    own = transformers.AutoTokenizer.from_pretrained(saved)
    text = f"a {token} b"
    before = own.encode(text)
    own.add_tokens([transformers.AddedToken(token, normalized=False)])
    if is_there:
        check_added(str(saved), [token])
        assert own.encode(text) == before
    else:
        with pytest.raises(batchstat.InputError, match=f"adds '{token}' to tokenizer"):
            check_added(str(saved), [token])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"tokenizer_type": "GPT2Tokenizer"}, "by GPT2Tokenizer, which makes other tokens"),
        ({"special_tokens": {"bos_token": "<new>"}}, "adds '<new>' to tokenizer"),
        ({"special_tokens": {"additional_special_tokens": ["<new>"]}}, "adds '<new>'"),
        ({"tokens": ["<end>", "<new>"]}, "adds '<new>'"),
        ({"tokens": ["<end>"], "special_tokens": {"pad_token": "<pad>"}}, None),
        ({"tokenizer_type": "AutoTokenizer", "tokenizer_use_fast": False}, None),
    ],
)
def test_the_keys_of_axolotl(saved, tmp_path, keys, message):
    if "tokenizer_type" in keys and message and not transformers.__version__.startswith("5"):
        pytest.skip("classes of transformers 4 take tokenizer.json as it is")
    corpus = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in TEXTS])
    datasets = [{"path": str(corpus), "type": "completion"}]
    values = {"base_model": str(saved), "sequence_len": 64, "datasets": datasets, **keys}
    config = tmp_path / "axolotl.json"
    config.write_text(json.dumps(values))
    if message is None:
        assert len(batchstat.preflight(config, framework="axolotl").samples.profile) == len(TEXTS)
        return
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.preflight(config, framework="axolotl")
