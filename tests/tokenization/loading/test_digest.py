"""A tokenizer's digest: another wherever a count is another, whatever it was that changed."""

import json
import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pyarrow as pa
import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

import batchstat
from batchstat.corpus.chat import NO_INPUTS
from batchstat.corpus.content import Chats, Texts
from batchstat.tokenization.chats.chat import with_chat_template
from batchstat.tokenization.loading.load import load_tokenizer
from batchstat.tokenization.loading.state_digest import state_digest
from conftest import environment, needs
from tables import in_turn

TEXTS = [
    *("hello world", "Hello  WORLD <y> <|end|>a <s>b</s>", "<|end|> <|end|>", " lead and trail  "),
    *(
        "é É \u0301 世界",
        "a.b,c 123",
        "[UNK] [CLS] x",
        "the cat's hat",
        "\n\t x",
        "<mask> token",
        "",
    ),
]
ONE, OTHER = (pa.array(texts, pa.large_string()) for texts in (TEXTS, TEXTS[::-1]))
CHAT = [{"role": "user", "content": "hello <y>"}, {"role": "assistant", "content": "ok"}]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def backend() -> Tokenizer:
    """A byte-level BPE with a few merges, special tokens and an added one."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("Ġ", "w"), ("t", "h"), ("th", "e")]
    entries = [*alphabet, *("".join(pair) for pair in merges)]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|end|>", "<s>", "</s>", "<mask>"])
    tokenizer.add_tokens(["cat"])
    return tokenizer


CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "chat_template": "{{ bos_token }}{{ messages[0].content }}",
}
FAST = {"tokenizer.json": json.loads(backend().to_str()), "tokenizer_config.json": CONFIG}


def write(folder: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def found(folder: Path) -> dict[str, tuple[str, list[int]]]:
    """The digests and counts of texts, of pairs and of chats."""
    tokenizer = load_tokenizer(str(folder))
    texts, pairs = (tokenizer.count(each)[0] for each in (Texts(ONE), Texts(ONE, OTHER)))
    own = {"texts": (tokenizer.digest, [*texts.tolist(), *pairs.tolist()])}
    if tokenizer.encoder.as_transformers().chat_template:
        chats = with_chat_template(tokenizer, None)
        own["chats"] = (chats.digest, chats.count(Chats([CHAT], [NO_INPUTS]))[0].tolist())
    return own


def assert_told_apart(one, other) -> bool:
    """Different digests wherever counts differ; whether any do."""
    differing = [kind for kind in one.keys() & other.keys() if one[kind][1] != other[kind][1]]
    for kind in differing:
        assert one[kind][0] != other[kind][0], kind
    return bool(differing)


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    return found(write(tmp_path_factory.mktemp("fast"), FAST))


def settings_of(**settings: object) -> dict[str, object]:
    return {"tokenizer_config.json": CONFIG | settings}


def definition_with(path: str, value: object) -> dict[str, object]:
    definition = json.loads(json.dumps(FAST["tokenizer.json"]))
    *parents, last = path.split(".")
    place = definition
    for name in parents:
        place = place[int(name) if name.isdecimal() else name]
    place[int(last) if last.isdecimal() else last] = value
    return {"tokenizer.json": definition}


def token(text: str, **options: bool) -> dict[str, object]:
    plain = dict.fromkeys(["lstrip", "rstrip", "normalized", "single_word", "special"], False)
    return {"content": text, **plain, **options}


TEMPLATE = processors.TemplateProcessing(
    single="<s> $A $A", pair="<s> $A $B $B", special_tokens=[("<s>", 263)]
)
MUTATIONS = {
    "split": settings_of(split_special_tokens=True),
    "bos": settings_of(bos_token="<y>"),
    "no bos": settings_of(bos_token=None),
    "mask that strips": settings_of(
        added_tokens_decoder={"264": token("<mask>", lstrip=True, rstrip=True, special=True)}
    ),
    "additional": settings_of(additional_special_tokens=["<y>"]),
    "extra": settings_of(extra_special_tokens={"y_token": "<y>"}),
    "another class": settings_of(tokenizer_class="RobertaTokenizer"),
    "a class that adds a space": settings_of(
        tokenizer_class="GPT2Tokenizer", add_prefix_space=True
    ),
    "template": settings_of(chat_template="{{ bos_token }}x{{ messages[0].content }}"),
    "named templates": settings_of(chat_template=[{"name": "default", "template": "x y z"}]),
    "template file": {"chat_template.jinja": "{{ messages[0].content }}"},
    "template file for tools": {
        "chat_template.jinja": "{{ messages[0].content }}",
        "additional_chat_templates/tool_use.jinja": "x {{ messages[0].content }}",
    },
    "added": {"added_tokens.json": {"world": 900}},
    "map": {"special_tokens_map.json": {"bos_token": "hello"}},
    "model type": {"tokenizer_config.json": {}, "config.json": {"model_type": "roberta"}},
    "merges": definition_with("model.merges", [["h", "e"]]),
    "ignored merges": definition_with("model.ignore_merges", True),
    "prefix": definition_with("pre_tokenizer.add_prefix_space", True),
    "regex": definition_with("pre_tokenizer.use_regex", False),
    "normalizer": definition_with("normalizer", {"type": "Lowercase"}),
    "post-processor": definition_with("post_processor", json.loads(TEMPLATE.__getstate__())),
    "an added token's text": definition_with("added_tokens.4.content", "hat"),
    "an added token's word": definition_with("added_tokens.4.single_word", True),
    "an added token's space": definition_with("added_tokens.4.lstrip", True),
}


def test_the_same_folder_elsewhere_has_the_same_digest(fast, tmp_path):
    assert found(write(tmp_path, FAST)) == fast


def test_a_setting_that_is_in_no_definition_is_counted_anew(run, tmp_path):
    """The whole way: the counts that are kept are not those of another tokenizer."""
    (tmp_path / "a.txt").write_text("<|end|> <|end|>\n")
    folder = write(tmp_path / "t", FAST)
    arguments = ("profile", "a.txt", "--tokenizer", "t", "--json", "--no-plots")
    before = json.loads(run(*arguments).stdout)
    write(folder, MUTATIONS["split"])
    after = json.loads(run(*arguments).stdout)
    assert before["lengths"]["sum"] == 3
    assert after["lengths"]["sum"] == 15
    assert before["tokenizer"]["digest"] != after["tokenizer"]["digest"]
    write(folder, FAST)
    assert "wrote profile.json" in run("compare", "a.txt", *arguments[2:4], "--no-plots").stderr


CTRL = {
    "vocab.json": {
        entry: number
        for number, entry in enumerate(
            ["<unk>", *LETTERS, *(f"{c}@@" for c in LETTERS), "hello", "he@@", "hell@@", "the"]
        )
    },
    "merges.txt": "#version\nh e\nl l\nhe ll\nt h\nth e</w>\n",
    "tokenizer_config.json": {"tokenizer_class": "CTRLTokenizer"},
}
SLOW = {
    "a merge less": {"merges.txt": "#version\nh e\nl l\nt h\nth e</w>\n"},
    "merges in another order": {"merges.txt": "#version\nl l\nh e\nt h\nhe ll\nth e</w>\n"},
    "another vocabulary": {"vocab.json": {"<unk>": 0, "hello": 1}},
    "an unknown token of two": {
        "tokenizer_config.json": CTRL["tokenizer_config.json"] | {"unk_token": "hello"}
    },
    "template file for tools": {
        "chat_template.jinja": "{{ messages[0].content }}",
        "additional_chat_templates/tool_use.jinja": "x {{ messages[0].content }}",
    },
    "added": {"added_tokens.json": {"he": 900}},
    "another class": {"tokenizer_config.json": {"tokenizer_class": "ByT5Tokenizer"}},
}


TELLING = ("split", "no bos", "template", "named templates", "template file", "merges", "prefix")
"""The changes that change counts: the digest of the others may be another, or not."""


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    return found(write(tmp_path_factory.mktemp("slow"), CTRL))


@in_turn("name", MUTATIONS)
def test_a_change_that_changes_counts_changes_the_digest(fast, tmp_path, name):
    folder = write(tmp_path, FAST | MUTATIONS[name])
    assert assert_told_apart(fast, found(folder)) or name not in TELLING


@in_turn("name", SLOW)
def test_files_of_a_tokenizer_written_in_python(slow, tmp_path, name):
    folder = write(tmp_path, CTRL | SLOW[name])
    assert assert_told_apart(slow, found(folder)) or name != "a merge less"


@pytest.mark.slow
def test_one_written_in_python_has_one_digest_everywhere(slow, tmp_path):
    """In another folder, after counting, and in processes whose sets have another sequence."""
    code = (
        "import sys; from batchstat.tokenization.loading.load import load_tokenizer\n"
        "print(load_tokenizer(sys.argv[1]).digest)"
    )
    folder = write(tmp_path / "elsewhere", CTRL)
    digests = {
        subprocess.run(
            [sys.executable, "-c", code, str(folder)],
            env=environment(PYTHONHASHSEED=seed),
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert digests == {slow["texts"][0]}


def test_scores_of_a_sentencepiece_model_are_in_the_digest(tmp_path):
    trainer = needs("sentencepiece").SentencePieceTrainer
    words_of = {
        "one": "hello world the cat",
        "again": "hello world the cat",
        "other": "hello he he",
    }
    made = []
    for name, words in words_of.items():
        lines = [words, "the cat and the world", " ".join(LETTERS)] * 20
        model = tmp_path / f"{name}.model"
        with model.open("wb") as file:
            trainer.train(
                sentence_iterator=iter(lines), model_writer=file, vocab_size=34, minloglevel=5
            )
        config = {"tokenizer_class": "BertGenerationTokenizer"}
        files = {"spiece.model": model.read_bytes(), "tokenizer_config.json": config}
        made.append(found(write(tmp_path / name, files)))
    one, again, other = made
    assert one == again
    assert assert_told_apart(one, other)


class Plain:
    def __init__(self, **attributes: object) -> None:
        vars(self).update(attributes)


def looped(*items: object) -> list[object]:
    items_and_itself = list(items)
    items_and_itself.append(items_and_itself)
    return items_and_itself


DIFFERENT = [
    *(None, True, 1, 1.0, "1", b"1", (1,), [1], {1}, {1: 1}, [[1]], [1, 1], "", [], (), {}),
    *({1: 2, 2: 1}, {1: {2: 1}}, ["ab", "c"], ["a", "bc"], [["a"], "b"], [["a", "b"]]),
    *(re.compile("a"), re.compile("a", re.I), AddedToken("a"), AddedToken("a", lstrip=True)),
    *(Plain(a=1), Plain(a=2), Plain(b=1), [Plain(a=1)], OrderedDict(a=1), len, str, json.dumps),
    *(
        looped(1),
        looped(2),
        lambda: 1,
        lambda: 2,
        Plain(a=backend()),
        2**70,
        float("nan"),
        "\ud800",
    ),
]


def test_different_states_have_different_digests():
    assert len({state_digest(each) for each in DIFFERENT}) == len(DIFFERENT)
    assert [state_digest(each) for each in DIFFERENT] == [state_digest(each) for each in DIFFERENT]


def test_what_shows_no_state_equals_nothing():
    opaque = Plain(generator=(each for each in "ab"))
    assert state_digest(opaque) != state_digest(opaque)
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert state_digest(deep) != state_digest(deep)


def test_special_tokens_split_are_part_of_a_nested_tokenizer():
    split = backend()
    split.encode_special_tokens = True
    assert state_digest(Plain(a=split)) != state_digest(Plain(a=backend()))


def test_where_files_lie_is_no_state():
    one, other = Plain(file="/a/b/vocab.json"), Plain(file="/c/vocab.json")
    assert state_digest(one) != state_digest(other)
    assert state_digest(one, ["/a/b/"]) == state_digest(other, ["/c/"])


def test_a_profile_is_not_reused_for_another_template(tmp_path, run):
    (tmp_path / "a.jsonl").write_text(json.dumps({"m": CHAT}) + "\n")
    for number, template in enumerate(["x", "{{ messages[0].content }}"]):
        (tmp_path / "t.jinja").write_text(template)
        options = ("--messages-column", "m", "--chat-template", "t.jinja", "--no-plots")
        assert "wrote profile.json" in run("compare", "a.jsonl", *options).stderr, number
    assert batchstat.profile(tmp_path / "a.jsonl", messages_column="m").lengths.tolist() != [1]
