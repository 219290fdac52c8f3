import json
import pickle
import subprocess
import sys

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors

from batchstat import InputError
from batchstat.corpus.content import Texts
from batchstat.tokenization import builtin
from batchstat.tokenization.loading.load import load_tokenizer
from batchstat.tokenization.token_lengths import token_lengths
from conftest import environment, needs, two_words_definition
from tables import in_turn

BUILTIN = load_tokenizer("builtin")
BACKEND = Backend.from_str(builtin.definition())


@pytest.fixture(scope="module")
def word_tokenizer(tmp_path_factory):
    """A folder as transformers saves one, with truncation and padding stored in it."""
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3, "the": 4, "cat": 5}
    backend = Backend(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    backend.enable_truncation(4)
    backend.enable_padding(length=16, pad_id=3, pad_token="[PAD]")
    folder = tmp_path_factory.mktemp("tokenizer")
    backend.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def count(name: object, *texts: str) -> list[int]:
    counts, *_ = load_tokenizer(str(name)).count(Texts(pa.array(texts, pa.large_string())))
    return counts.tolist()


def test_truncation_and_padding_of_the_file_do_not_count(word_tokenizer):
    texts = ["the cat", "the cat " * 10]
    assert count(word_tokenizer, *texts) == [4, 22]
    assert count(word_tokenizer / "tokenizer.json", *texts) == [4, 22]


def test_a_folder_and_its_file_say_the_same_of_themselves(word_tokenizer):
    folder = load_tokenizer(str(word_tokenizer))
    file = load_tokenizer(str(word_tokenizer / "tokenizer.json"))
    assert (folder.max_length, file.max_length) == (8, 4)
    assert folder.special_tokens_per_sample == file.special_tokens_per_sample == 2
    assert folder.digest != load_tokenizer("builtin").digest


def test_a_digest_is_of_the_definition_without_truncation(word_tokenizer, tmp_path):
    backend = Backend.from_file(str(word_tokenizer / "tokenizer.json"))
    backend.enable_truncation(99)
    backend.no_padding()
    backend.save(str(tmp_path / "tokenizer.json"))
    digests = {load_tokenizer(str(f / "tokenizer.json")).digest for f in (tmp_path, word_tokenizer)}
    assert len(digests) == 1


@given(texts=st.lists(st.text(st.characters(exclude_categories=("Cs",))), max_size=20))
def test_counts_are_the_tokenizers_own(texts):
    counts, *_ = BUILTIN.count(Texts(pa.array(texts, pa.large_string())))
    assert counts.tolist() == [len(BACKEND.encode(text).ids) for text in texts]


def test_batches_of_many_and_of_long_texts(monkeypatch):
    texts = ["a b c " * n for n in (1, 50, 0, 3, 400, 1, 1, 7)]
    expected = [len(BACKEND.encode(text).ids) for text in texts]
    for chars, most in ((10, 10), (1000, 2), (10**6, 10**6)):
        monkeypatch.setattr("batchstat.tokenization.tokenizer._BATCH_BYTES", chars)
        monkeypatch.setattr("batchstat.tokenization.tokenizer._BATCH_SAMPLES", most)
        whole = pa.array(["skipped", *texts], pa.large_string())
        assert BUILTIN.count(Texts(whole.slice(1)))[0].tolist() == expected


def test_the_builtin_tokenizer_is_as_described():
    assert BACKEND.get_vocab_size() == 32_000
    assert (BUILTIN.max_length, BUILTIN.special_tokens_per_sample) == (512, 0)
    text = "Grüße, 世界! \u0085 <|endoftext|> \x00 tail  "
    assert BACKEND.decode(BACKEND.encode(text).ids, skip_special_tokens=False) == text


def test_other_processes_get_the_builtin_tokenizer_by_its_name():
    pickled = pickle.dumps(BUILTIN)
    assert len(pickled) < 1_000  # not its definition
    assert pickle.loads(pickled).digest == BUILTIN.digest  # noqa: S301 - it is our own


def test_the_builtin_tokenizer_can_be_trained_again(tmp_path):
    from make_tokenizer import train

    (tmp_path / "corpus.txt").write_text("the cat sat on the mat\n" * 50)
    backend = Backend.from_str(train(tmp_path / "corpus.txt"))
    assert len(backend.encode("the cat").ids) == 2


def test_a_tokenizer_written_in_python(tmp_path):
    from transformers import ByT5Tokenizer

    original = ByT5Tokenizer()
    original.save_pretrained(tmp_path)
    texts = ["abc", "", "é" * 2000]
    assert count(tmp_path, *texts) == [
        len(original(text, verbose=False)["input_ids"]) for text in texts
    ]
    loaded = load_tokenizer(str(tmp_path))
    assert loaded.special_tokens_per_sample == 1
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert loaded.digest == load_tokenizer(str(moved)).digest


@in_turn("name", ["./nowhere", "/nowhere/at/all", "nowhere.json", "a/b/c", "-x", ""])
def test_a_path_that_is_not_there(name):
    with pytest.raises(InputError, match="no such file or folder.*--tokenizer builtin"):
        load_tokenizer(name)


@pytest.mark.slow
def test_a_hub_name_without_a_network():
    """The failure as a user meets it, in a process that has never reached the hub."""
    code = (
        "from batchstat.tokenization.loading.load import load_tokenizer\n"
        "load_tokenizer('some-org/some-model')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    last = result.stderr.strip().splitlines()[-1]
    assert "tokenizer 'some-org/some-model' cannot be loaded" in last
    assert "hf download some-org/some-model" in last
    assert "--tokenizer builtin" in last
    assert "PyTorch" not in result.stderr


def test_a_folder_of_that_name_below_is_offered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "tokenizers" / "own"
    folder.mkdir(parents=True)
    with pytest.raises(InputError, match="hf download own"):
        load_tokenizer("own")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="pass --tokenizer data/tokenizers/own, a folder of that"):
        load_tokenizer("own")


def test_an_unreachable_hub_is_found_out_at_once():
    """Without the offline switch the hub is asked once, and not for most of a minute."""
    code = (
        "from batchstat.tokenization.loading.hub import hub_answers\n"
        "import huggingface_hub.constants as c\n"
        "print(hub_answers(), c.ENDPOINT)"
    )
    env = environment(HF_HUB_OFFLINE="0", HF_ENDPOINT="http://127.0.0.1:9")
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert result.stdout.split() == ["False", "http://127.0.0.1:9"]


def saved(folder, settings=None, **files):
    """A folder with a small tokenizer and these settings, or with other files."""
    written = files or {"tokenizer.json": two_words_definition()}
    for name, content in written.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | (settings or {})
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stated", "expected"),
    [(512, 512), (1, 1), (512.0, 512), (1e30, None), (10**30, None), (None, None)],
)
def test_a_maximum_that_is_stated(tmp_path, stated, expected):
    assert load_tokenizer(saved(tmp_path, {"model_max_length": stated})).max_length == expected


@in_turn(
    "stated", ["512", "many", [512], {"a": 1}, -1, 0, -1e30, 0.5, 512.5, True, False, float("nan")]
)
def test_a_maximum_that_is_none(tmp_path, stated):
    folder = saved(tmp_path, {"model_max_length": stated})
    with pytest.raises(InputError) as refusal:
        load_tokenizer(folder)
    message = str(refusal.value)
    assert message.startswith(f"{folder}/tokenizer_config.json: model_max_length is {stated!r}")
    assert "not an integer of at least 1: correct or remove it there" in message
    assert "\n" not in message


def test_a_maximum_of_a_file_that_is_none(tmp_path):
    definition = json.loads(builtin.definition())
    cut = {"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 0}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(definition | {"truncation": cut}))
    with pytest.raises(InputError, match="t.json: max_length of its truncation is 0, not an"):
        load_tokenizer(str(path))


EMPTY = ["GPT2Tokenizer", "BertTokenizer", "T5Tokenizer", "LlamaTokenizer", "Qwen2Tokenizer"]


@pytest.mark.parametrize("kind", EMPTY)
def test_a_folder_without_a_vocabulary_is_no_tokenizer(tmp_path, kind):
    """Of which transformers makes one that counts nothing, or unknown tokens."""
    folder = saved(tmp_path, {"tokenizer_class": kind}, added_tokens__json='{"<x>": 7}')
    with pytest.raises(InputError, match=f"{kind} finds no vocabulary there .looks for .*json"):
        load_tokenizer(folder)


@pytest.mark.parametrize("kind", ["T5Tokenizer", "LlamaTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize(
    ("model", "hidden", "packages"),
    [
        (b"\n\x0e\n\x05<unk>", ("sentencepiece", "google.protobuf"), "sentencepiece protobuf"),
        (b"\n\x0e\n\x05<unk>", ("google.protobuf",), "protobuf"),
        (b"IQ== 0\nbroken\n", ("tiktoken",), "tiktoken"),
    ],
)
def test_what_to_install_for_a_folder_with_a_model_alone(
    tmp_path, monkeypatch, kind, model, hidden, packages
):
    from batchstat.tokenization.loading import load_errors as refusals

    monkeypatch.setattr(refusals, "_is_there", lambda module: module not in hidden)
    name = "spiece__model" if kind == "T5Tokenizer" else "tokenizer__model"
    folder = saved(tmp_path, {"tokenizer_class": kind}, **{name: model})
    with pytest.raises(InputError) as refusal:
        load_tokenizer(folder)
    assert f"pip install {packages}:" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_folder_with_a_sentencepiece_model_alone(tmp_path):
    trainer = needs("sentencepiece").SentencePieceTrainer
    needs("google.protobuf")
    with (tmp_path / "spiece.model").open("wb") as file:
        lines = ["hello world the cat", "the cat and the world"] * 20
        trainer.train(
            sentence_iterator=iter(lines), model_writer=file, vocab_size=18, minloglevel=5
        )
    from transformers import AutoTokenizer

    saved(tmp_path, {"tokenizer_class": "T5Tokenizer"}, README__md="")
    texts = ["hello world", "the cat  and", ""]
    own = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert count(tmp_path, *texts) == [len(ids) for ids in own(texts)["input_ids"]]


def test_a_tokenizer_whose_class_changes_texts_counts_by_being_called():
    from transformers import PreTrainedTokenizerFast

    class Doubling(PreTrainedTokenizerFast):
        def _encode_plus(self, text, *given, **options):
            return super()._encode_plus([each + each for each in text], *given, **options)

    texts = ["some words", "the cat"]
    plain, doubling = (
        kind(tokenizer_object=Backend.from_str(builtin.definition()))
        for kind in (PreTrainedTokenizerFast, Doubling)
    )
    for own in (plain, doubling):
        expected = [len(ids) for ids in own(texts)["input_ids"]]
        assert token_lengths(texts, own).tolist() == expected
    assert token_lengths(texts, plain).tolist() != token_lengths(texts, doubling).tolist()


def test_a_post_processor_that_panics_is_refused(tmp_path):
    """The tokenizers library has two templates in a row not implemented."""
    backend = Backend.from_str(builtin.definition())
    special = [("<|endoftext|>", backend.token_to_id("<|endoftext|>"))]
    template = processors.TemplateProcessing(
        single="<|endoftext|> $A", pair="<|endoftext|> $A $B", special_tokens=special
    )
    backend.post_processor = processors.Sequence([template, template])
    (tmp_path / "tokenizer.json").write_text(backend.to_str())
    for name in (tmp_path, tmp_path / "tokenizer.json"):
        with pytest.raises(InputError, match="cannot be loaded: .*panics"):
            load_tokenizer(str(name))
