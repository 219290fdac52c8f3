"""Lists of words, CoNLL and fastText, and what is recognised as none of plain text."""

import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors

import batchstat
from conftest import write_jsonl
from small_tokenizers import CONTENTS, MARKED, marked, random_tokenizer

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

CONLL = """-DOCSTART- -X- O O

Storms NNS I-NP O
hit VBD I-VP O
Oslo NNP I-NP I-LOC
. . O O

Nobody NN I-NP O
slept VBD I-VP O
. . O O
"""
CONLLU = """# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_
5.1\tnada\tnada\tNOUN\t_\t_\t_\t_\t_\t_

# sent_id = 2
1\tsí\tsí\tINTJ\t_\t_\t0\troot\t_\t_
"""


WORDS = st.sampled_from([*CONTENTS, "the", "The", "word", "42", "", "\u2581a"]) | st.text(
    max_size=6
)
WITH_SPECIALS = processors.TemplateProcessing(
    single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
)


def counted_by_tokenizers(tokenizer: Tokenizer, samples: list[list[str]]) -> list[int]:
    return [len(each.ids) for each in tokenizer.encode_batch(samples, is_pretokenized=True)]


@given(
    samples=st.lists(st.lists(WORDS, min_size=1, max_size=8), min_size=1, max_size=6),
    seed=st.integers(0, 5),
    kind=st.sampled_from(["bytes", *MARKED]),
    has_specials=st.booleans(),
)
def test_each_word_is_tokenized_by_itself(samples, seed, kind, has_specials):
    """As `is_pretokenized` does, which `is_split_into_words` of transformers calls."""
    tokenizer = random_tokenizer(seed) if kind == "bytes" else marked(kind, seed)[0]
    if has_specials:
        tokenizer.post_processor = WITH_SPECIALS
    frame = pd.DataFrame({"tokens": samples})
    profile = batchstat.profile(frame, words_column="tokens", tokenizer=tokenizer)
    assert profile.lengths.tolist() == counted_by_tokenizers(tokenizer, samples)


def words_of(path, **options) -> list[list[str]]:
    profile = batchstat.profile(path, **options)
    return [sample["words"] for sample in batchstat.read_samples(profile)]


def test_sentences_of_conll(tmp_path):
    (tmp_path / "dev.conll").write_text(CONLL)
    profile = batchstat.profile(tmp_path / "dev.conll", label_column="3")
    assert profile.lengths.tolist() == words_lengths(
        [["Storms", "hit", "Oslo", "."], ["Nobody", "slept", "."]]
    )
    assert {c.label: c.count for c in profile.classes} == {"O": 2, "I-LOC": 1}
    assert words_of(tmp_path / "dev.conll")[1] == ["Nobody", "slept", "."]
    # With a carriage return, several blank lines, and none at the end.
    apart = CONLL.replace("\n\n", "\n" * 4).strip().replace("\n", "\r\n")
    (tmp_path / "b.conll").write_bytes(apart.encode())
    assert words_of(tmp_path / "b.conll") == words_of(tmp_path / "dev.conll")


def test_forms_of_conllu(tmp_path):
    (tmp_path / "a.conllu").write_text(CONLLU)
    assert words_of(tmp_path / "a.conllu") == [["vamos", "nos", "a", "el", "mar"], ["sí"]]
    profile = batchstat.profile(tmp_path / "a.conllu", label_column="3")
    assert "VERB" in {c.label for c in profile.classes}


def test_a_word_may_be_a_hash(tmp_path):
    (tmp_path / "a.conll").write_text("# O\n1 O\n\nWe O\n")
    assert words_of(tmp_path / "a.conll") == [["#", "1"], ["We"]]


def test_conll_has_no_text_column(tmp_path):
    (tmp_path / "a.conll").write_text(CONLL)
    with pytest.raises(batchstat.InputError, match="name no column but those of labels"):
        batchstat.profile(tmp_path / "a.conll", text_column="0")
    with pytest.raises(batchstat.InputError, match="column '9' not in"):
        batchstat.profile(tmp_path / "a.conll", label_column="9")


def words_lengths(samples: list[list[str]]) -> list[int]:
    """Each word by itself: the built-in tokenizer adds no special tokens."""
    return [int(batchstat.token_lengths(words).sum()) for words in samples]


def test_fasttext(tmp_path):
    (tmp_path / "a.txt").write_text(
        "__label__pos __label__new a good film\n__label__neg bad\nno label\n"
    )
    with pytest.raises(batchstat.InputError, match='pass input_format="fasttext"'):
        batchstat.profile(written(tmp_path / "b.txt", "__label__pos a\n__label__neg b\n"))
    profile = batchstat.profile(tmp_path / "a.txt", input_format="fasttext", label_column="label")
    assert {c.label: c.count for c in profile.classes} == {"pos": 1, "new": 1, "neg": 1, None: 1}
    texts = [sample["text"] for sample in batchstat.read_samples(profile)]
    assert texts == ["a good film", "bad", "no label"]


def written(path, text):
    path.write_text(text)
    return path


TAGGED = "EU B-ORG\nrejects O\n\nPeter B-PER\nsmiles O\n\nYes O\nno O\n\nOf O\ncourse O\n"


@pytest.mark.parametrize(
    ("content", "flag"),
    [
        (CONLL, "conll"),
        (TAGGED, "conll"),
        (TAGGED.replace(" ", "\t"), "conll"),
        (CONLLU * 3, "conll"),
        ("__label__1 great\n__label__2 bad\n", "fasttext"),
    ],
)
def test_what_is_no_plain_text_is_asked_about(tmp_path, content, flag):
    path = written(tmp_path / "train.txt", content)
    with pytest.raises(batchstat.InputError, match=f'pass input_format="{flag}", or txt if every'):
        batchstat.profile(path)
    as_lines = batchstat.profile(path, input_format="txt")
    assert len(batchstat.profile(path, input_format=flag)) <= len(as_lines)


@pytest.mark.parametrize(
    "content",
    [
        "two words\nor more\n\nhere two\nthere two\n\nand so\non then\n\nlast one\n",
        "a\tb\nc\td\n",
        "one\ttab\n" * 4 + "and none\n" * 4,
        "one\n\ntwo\n\nthree\n\nfour\n",
        "-- a dash\n\n__label is a word\n",
        "I O\n\nU O\n",
    ],
)
def test_plain_text_stays_plain(tmp_path, content):
    profile = batchstat.profile(written(tmp_path / "a.txt", content))
    assert len(profile) == len(list(filter(str.strip, content.splitlines())))


def test_an_ending_that_no_format_has_is_warned_of(tmp_path):
    found = []
    batchstat.profile(written(tmp_path / "a.weird", "one\n"), on_warning=found.append)
    assert [each.id for each in found] == ["corpus/read-as-lines"]
    assert ".weird" in found[0].message
    found.clear()
    batchstat.profile(tmp_path / "a.weird", input_format="txt", on_warning=found.append)
    batchstat.profile(written(tmp_path / "noending", "one\n"), on_warning=found.append)
    assert not found


def test_words_of_a_table_and_of_files(tmp_path):
    samples = [["Storms", "hit", "Oslo", "."], ["a"], ["ab", "", "c d"]]
    frame = pd.DataFrame({"tokens": samples, "n": range(3)})
    write_jsonl(tmp_path / "a.jsonl", json.loads(frame.to_json(orient="records")))
    frame.to_parquet(tmp_path / "a.parquet")
    for corpus in (tmp_path / "a.jsonl", tmp_path / "a.parquet", frame):
        profile = batchstat.profile(corpus, words_column="tokens")
        assert profile.lengths.tolist() == words_lengths(samples)
    with pytest.raises(batchstat.InputError, match="is text where a list of words is expected"):
        batchstat.profile(written(tmp_path / "b.jsonl", '{"tokens": "a"}\n'), words_column="tokens")
    with pytest.raises(batchstat.InputError, match="has a word that is not text"):
        batchstat.profile(
            written(tmp_path / "b.jsonl", '{"tokens": ["a", 1]}\n'), words_column="tokens"
        )
    with pytest.raises(batchstat.InputError, match="where lists of words are expected"):
        batchstat.profile(pd.DataFrame({"tokens": [[1, 2]]}), words_column="tokens")
    empty = batchstat.profile(
        written(tmp_path / "c.jsonl", '{"tokens": []}\n{"tokens": ["a"]}\n'), words_column="tokens"
    )
    assert empty.corpus.skipped["blank"] == 1
    assert empty.records.tolist() == [1]


def test_words_reach_every_command(run, tmp_path):
    """Counted, compared, balanced, checked and batched as texts are."""
    sentences = f"{CONLL.partition(chr(10) * 2)[2]}\n" * 20
    (tmp_path / "a.conll").write_text(sentences)
    assert run("profile", "a.conll", "--label-column", "3", "--no-plots").returncode == 0
    for command in ("compare", "balance"):
        result = run(command, "--batch-size", 4, "--no-plots")
        assert result.returncode == 0, result.stderr
        assert "text from words, labels from 3" in " ".join(result.stdout.split())
    checked = run("check", "a.conll", "--max-padding", "90%", "--batch-size", 4)
    assert checked.returncode == 0, checked.stderr
    assert "text from words" in checked.stdout
    profile = batchstat.profile(tmp_path / "a.conll")
    sampler = batchstat.BatchSampler(profile, "token-budget", tokens_per_batch=64)
    assert sorted(i for batch in sampler for i in batch) == list(range(40))
    assert run("recipe", "torch").returncode == 0


def test_values_of_another_kind_far_into_a_file(tmp_path):
    rows = ['{"text": "a", "y": "x"}\n'] * 20_000
    for line, message in (
        ('{"text": ["a"], "y": "x"}\n', "'text' is a list where text is expected"),
        ('{"text": {"a": "b"}, "y": "x"}\n', 'is an object where .*: pass text_column="text.a"'),
        ('{"text": "a", "y": {"a": 1}}\n', "label 'y' is an object"),
        ('{"text": "a", "y": [[1]]}\n', "label 'y' is a list"),
    ):
        path = written(tmp_path / "a.jsonl", "".join([*rows, line]))
        with pytest.raises(batchstat.InputError, match=f"line 20001: .*{message}"):
            batchstat.profile(path, text_column="text", label_column="y")
