"""Counts for a program and by several threads; what happens where pieces would be wrong."""

import hashlib
import io
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tokenizers
from hypothesis import given, settings

import batchstat
from batchstat.corpus.content import Texts
from batchstat.errors import InputError
from batchstat.tokenization import builtin, threads
from batchstat.tokenization import token_lengths as token_lengths_module
from batchstat.tokenization.counting import count_check, engine_counter
from batchstat.tokenization.counting import piece_counter as piecewise
from batchstat.tokenization.counting.safe_cuts import find_cuts
from batchstat.tokenization.loading.load import backend_of, load_tokenizer
from conftest import SAMPLE_DATA, environment
from small_tokenizers import FAMILIES, trained
from tables import in_turn

LINES = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()


NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"a\xff")]
)


def own() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(builtin.definition())


def expected(texts) -> list[int]:
    return _expected(tuple(texts))


@cache
def _expected(texts: tuple[str, ...]) -> list[int]:
    return [len(each) for each in own().encode_batch_fast(list(texts))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        list,
        tuple,
        pd.Series,
        np.array,
        lambda texts: pd.Series(texts, index=np.arange(len(texts)) / 2),
        lambda texts: pd.Series(texts, index=range(len(texts), 0, -1)),
        lambda texts: pd.Series(texts, index=texts),
        lambda texts: pd.Series(texts, dtype="string[pyarrow]"),
        pa.array,
        lambda texts: pa.array(texts, pa.large_string()).slice(3, 700),
        lambda texts: pa.chunked_array([texts[:400], texts[400:]]),
        lambda texts: pa.array(texts).dictionary_encode(),
    ],
)
def test_token_lengths_of_texts_of_every_kind(kind):
    texts = kind(LINES)
    found = batchstat.token_lengths(texts)
    assert found.dtype == np.int64
    plain = texts.to_pylist() if hasattr(texts, "to_pylist") else texts
    assert found.tolist() == expected(plain)


def size_of_definition(folder: Path) -> int:
    return (folder / "tokenizer.json").stat().st_size


@pytest.mark.slow
def test_token_lengths_by_tokenizers_of_every_kind(real_data):
    import transformers

    folders = sorted((real_data / "tokenizers").iterdir(), key=size_of_definition)
    for place, folder in enumerate(folders):
        loaded = transformers.AutoTokenizer.from_pretrained(folder)
        lines = LINES[::8]
        wanted = [len(ids) for ids in loaded(lines)["input_ids"]]
        backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        before = backend.to_str()
        # The others differ in how they are found only, and large ones take seconds to load.
        others = (str(folder), folder / "tokenizer.json") if place < 3 else ()
        for given_as in (folder, loaded, backend, *others):
            assert batchstat.token_lengths(lines, given_as).tolist() == wanted
        assert backend.to_str() == before


def test_token_lengths_leave_the_tokenizer_as_it_was():
    tokenizer = own()
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=9)
    before = tokenizer.to_str()
    assert batchstat.token_lengths(LINES, tokenizer).tolist() == expected(LINES)
    assert tokenizer.to_str() == before


def test_token_lengths_by_a_tokenizer_that_takes_special_tokens_for_text():
    texts = ["<|endoftext|>", "a <|endoftext|> b"]
    tokenizer = own()
    special = expected(texts)
    tokenizer.encode_special_tokens = True
    spelled = [len(each) for each in tokenizer.encode_batch_fast(texts)]
    assert spelled != special
    assert batchstat.token_lengths(texts, tokenizer).tolist() == spelled
    tokenizer.enable_truncation(5)
    assert batchstat.token_lengths(texts, tokenizer).tolist() == spelled


def test_no_text_and_empty_texts():
    assert batchstat.token_lengths([]).tolist() == []
    assert batchstat.token_lengths(["", "a", ""]).tolist() == [0, 1, 0]


@in_turn(
    ("texts", "message"),
    [
        (["a", None], r"texts\[1\] is missing"),
        (["a", 5], r"texts\[0:\] contains values that are not strings"),
        (pd.Series(["a", None]), r"texts\[1\] is missing"),
        (pa.array([1, 2]), r"texts\[0:\] contains values that are not strings"),
        (["\ud800"], r"texts\[0:\] contains values that are not strings"),
        ("some words", "texts of type str: pass a list"),
        (b"some words", "texts of type bytes: pass a list"),
        ((text for text in ["a"]), "texts of type generator: pass a list"),
        ({"a"}, "texts of type set: pass a list"),
        ({"a": "b"}, "texts of type dict: pass a list"),
        (pd.DataFrame({"a": ["b"]}), "texts of type DataFrame: pass a list"),
        (np.array([["a"]]), "texts of type ndarray: pass a list"),
        (5, "texts of type int: pass a list"),
        (NOT_UTF8, r"texts\[0:\] contains values that are not strings: Invalid UTF8"),
    ],
)
def test_what_is_no_text(texts, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.token_lengths(texts)


@settings(max_examples=60)
@given(
    texts=st.lists(st.text("the cat's\n é<s>", max_size=30), max_size=6),
    family=st.sampled_from([*FAMILIES]),
    truncation=st.none() | st.integers(4, 9),
    is_padding=st.booleans(),
    splits_special_tokens=st.booleans(),
)
def test_few_texts_are_counted_as_many(
    texts, family, truncation, is_padding, splits_special_tokens
):
    """By the tokenizer itself, which stays as it is: it truncates and pads as before."""
    given_one = trained(*FAMILIES[family])
    given_one.encode_special_tokens = splits_special_tokens
    whole = [len(each) for each in given_one.encode_batch_fast(texts)]
    if truncation is not None:
        given_one.enable_truncation(truncation)
    if is_padding:
        given_one.enable_padding(length=40)
    before = given_one.to_str(), given_one.encode_special_tokens
    assert batchstat.token_lengths(texts, given_one).tolist() == whole
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(token_lengths_module, "_FEW_BYTES", -1)
        assert batchstat.token_lengths(texts, given_one).tolist() == whole
    assert (given_one.to_str(), given_one.encode_special_tokens) == before


class _ByBlanks:
    def pre_tokenize(self, text) -> None:
        text.split(lambda _, part: part.split(" ", "isolated"))


@pytest.mark.usefixtures("no_text_is_few")
def test_a_part_that_is_written_in_python():
    """It has no definition, by which its counts could be stored: the tokenizer itself is called."""
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(tokenizer_object=own())
    by_blanks = tokenizers.pre_tokenizers.PreTokenizer.custom(_ByBlanks())
    fast.backend_tokenizer.pre_tokenizer = by_blanks
    texts = ["the cat", "sat on  a mat"]
    whole = [len(ids) for ids in fast(texts)["input_ids"]]
    assert batchstat.token_lengths(texts, fast).tolist() == whole
    assert batchstat.profile(texts=texts, tokenizer=fast).lengths.tolist() == whole


@in_turn("name", ["added", "normal", "template", "own"])
def test_a_copy_has_the_definition_of_the_other(name):
    """Whatever tokens were added to it, and in which order; and keeps it when the other changes."""
    given_one = trained(*FAMILIES["gpt2, roberta"])
    if name == "added":
        given_one.add_tokens(["zz", tokenizers.AddedToken("y y", lstrip=True, normalized=False)])
        given_one.add_special_tokens(["<a>", "cat"])
        given_one.add_tokens(["after", "the"])
    elif name == "normal":
        given_one.normalizer = tokenizers.normalizers.Lowercase()
    elif name == "template":
        given_one.post_processor = tokenizers.processors.TemplateProcessing(
            single="<|end|> $A", special_tokens=[("<|end|>", given_one.token_to_id("<|end|>"))]
        )
    before = given_one.to_str()
    copied = backend_of(given_one)
    assert copied.to_str() == before
    given_one.add_tokens(["later"])
    given_one.normalizer = tokenizers.normalizers.NFD()
    given_one.enable_truncation(3)
    assert copied.to_str() == before


def test_what_is_no_tokenizer():
    with pytest.raises(batchstat.OptionError, match="unsupported tokenizer type int"):
        batchstat.token_lengths(["a"], 5)


@pytest.fixture
def _wrong_cuts(monkeypatch):
    """The cuts of byte-level BPE, and one in the middle of words."""

    def find(definition):
        found = find_cuts(definition)
        after = bytearray(found.right)
        after[ord("e")] |= 2
        return rules.Cuts(found.left, bytes(after))

    from batchstat.tokenization.counting import safe_cuts as rules

    monkeypatch.setattr(rules, "find_cuts", find)


@pytest.mark.usefixtures("_wrong_cuts")
def test_one_difference_and_everything_is_counted_whole():
    with pytest.warns(UserWarning, match="tokens, but its pieces .*: recounting without"):
        assert batchstat.token_lengths(LINES).tolist() == expected(LINES)
    with pytest.warns(UserWarning, match="recounting without shortcuts"):
        profile = batchstat.profile(SAMPLE_DATA / "corpus.txt")
    assert profile.lengths.tolist() == expected(line for line in LINES if line.strip())


class PassingBy(io.RawIOBase):
    """Bytes that can be read once, in bits."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        return self._data.readinto(memoryview(buffer)[:1000])


@pytest.fixture
def piped(monkeypatch):
    data = "".join(f"{line}\n" for line in LINES).encode()
    stdin = io.TextIOWrapper(io.BufferedReader(PassingBy(data)))
    monkeypatch.setattr(sys, "stdin", stdin)
    return hashlib.sha256(data).hexdigest()


@pytest.mark.usefixtures("_wrong_cuts")
def test_standard_input_too_is_counted_again(piped):
    with pytest.warns(UserWarning, match="recounting without shortcuts"):
        profile = batchstat.profile("-")
    assert profile.lengths.tolist() == expected(line for line in LINES if line.strip())
    assert profile.corpus.sources[0].digest == f"sha256:{piped}"


class Full(io.BytesIO):
    """A file on a full disk."""

    def write(self, _) -> int:
        raise OSError(28, "No space left on device")


def _no_file():
    raise FileNotFoundError(2, "No usable temporary directory")


@pytest.mark.usefixtures("piped")
@pytest.mark.parametrize("temporary", [Full, _no_file])
def test_standard_input_without_room_for_a_copy(temporary, monkeypatch, request):
    monkeypatch.setattr("batchstat.corpus.files.opening.tempfile.TemporaryFile", temporary)
    request.getfixturevalue("_wrong_cuts")
    with pytest.raises(InputError, match="no space for a copy of it: pass a file"):
        batchstat.profile("-")


@pytest.mark.usefixtures("piped")
@pytest.mark.parametrize("temporary", [Full, _no_file])
def test_no_room_for_a_copy_that_nobody_needs(temporary, monkeypatch):
    monkeypatch.setattr("batchstat.corpus.files.opening.tempfile.TemporaryFile", temporary)
    profile = batchstat.profile("-")
    assert profile.lengths.tolist() == expected(line for line in LINES if line.strip())


@pytest.mark.parametrize("workers", [0, -1, 1001, 1.5, True])
def test_workers_are_a_number_above_zero(workers):
    with pytest.raises(batchstat.OptionError, match="workers="):
        batchstat.token_lengths(LINES, workers=workers)
    with pytest.raises(batchstat.OptionError, match="workers="):
        batchstat.profile(SAMPLE_DATA / "corpus.txt", workers=workers)


@pytest.mark.slow
@pytest.mark.usefixtures("_wrong_cuts")
@pytest.mark.parametrize(
    ("size", "workers"), [(100, 3), (30_000, 1), (1_000_000, 1), (1_000_000, 3)]
)
def test_a_difference_is_found_whatever_the_texts_and_the_threads(size, workers, monkeypatch):
    """Texts of every size are checked, long ones in part, in every block."""
    monkeypatch.setattr(engine_counter, "_LOADED_FOR_BYTES", 1 << 40)
    whole = " ".join(LINES * 3)
    texts = [whole[i : i + size] for i in range(0, len(whole), size)]
    with pytest.warns(UserWarning, match="recounting without"):
        assert batchstat.token_lengths(texts, workers=workers).tolist() == expected(texts)


def test_every_block_is_looked_into(monkeypatch):
    """By chance, but the same of the same block whenever it is counted; not all of it."""
    looked: list[list[str]] = []
    encodings = count_check.encodings

    def counted(backend, texts, **options):
        looked.append(texts)
        return encodings(backend, texts, **options)

    monkeypatch.setattr(count_check, "encodings", counted)
    tokenizer = load_tokenizer("builtin")
    blocks = [pa.array(lines, pa.large_string()) for lines in (LINES, LINES[::-1], LINES)]
    for block in blocks:
        tokenizer.encoder.pieces.count(block)
    first, second, third = looked
    assert first == third != second
    assert first[0] == LINES[0]
    assert any(text in LINES[len(LINES) // 4 :] for text in first)
    assert 0 < sum(map(len, first)) < sum(map(len, LINES)) / 20


@pytest.mark.slow
def test_english_that_goes_on_in_numbers_is_counted_whole():
    """Whether pieces repeat is looked up in several places of a block."""
    rng = np.random.default_rng(0)
    letters = rng.integers(97, 123, (400_000, 12), dtype=np.uint8)
    spelt = letters.view("S12").ravel().astype(str).tolist()
    texts = [*LINES, *(" ".join(spelt[i : i + 10]) for i in range(0, len(spelt), 10))]
    tokenizer = load_tokenizer("builtin")
    assert tokenizer.encoder.pieces.count(pa.array(texts, pa.large_string())) is None
    assert batchstat.token_lengths(texts).tolist() == expected(texts)


@pytest.mark.parametrize("results", [[[1, 2]], [[1]] * 4])
def test_a_tokenizer_that_returns_another_number_of_results(results):
    """One result would otherwise stand for all samples."""
    loaded = load_tokenizer("builtin")
    encoder = replace(loaded.encoder, engine=None, pieces=None, encode=lambda _: results)
    other = replace(loaded, load=lambda: encoder)
    with pytest.raises(ValueError, match=f"{len(results)} results for 3 samples"):
        other.count(Texts(pa.array(["a", "b", "c"], pa.large_string())))


def test_a_chunk_of_many_bytes_is_cut_into_pieces_by_and_by(monkeypatch):
    """What Arrow hands over as one block may be far larger than what is read from a text file."""
    from batchstat.corpus.content import Texts
    from batchstat.tokenization import tokenizer as module

    monkeypatch.setattr(module, "TOGETHER_BYTES", 10_000)
    seen: list[int] = []
    count = piecewise.PieceCounter.count

    def counted(self, first, second=None):
        seen.append(len(first))
        return count(self, first, second)

    monkeypatch.setattr(piecewise.PieceCounter, "count", counted)
    counts, kept, _ = load_tokenizer("builtin").count(Texts(pa.array(LINES, pa.large_string())))
    assert counts.tolist() == expected(LINES)
    assert kept.tolist() == list(range(len(LINES)))
    assert len(seen) > 10
    assert sum(seen) == len(LINES)


def test_texts_that_do_not_repeat_are_counted_whole():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 26, (3000, 12)).astype(np.uint8) + ord("a")
    spelt = [bytes(word).decode() for word in words]
    texts = [" ".join(spelt[i : i + 10]) for i in range(0, len(spelt), 10)]
    pieces = load_tokenizer("builtin").encoder.pieces
    for _ in range(2):  # each block alone, whatever came before
        assert pieces.count(pa.array(texts, pa.large_string())) is None
        assert pieces.count(pa.array(LINES, pa.large_string())) is not None
    assert batchstat.token_lengths(texts).tolist() == expected(texts)


def test_a_tokenizer_that_raises_names_its_text(two_words, tmp_path):
    texts = ["some words"] * 500 + ["others"] + ["some"] * 500
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in texts))
    with pytest.raises(InputError, match=r"a.txt, line 501: tokenizer .* cannot count it"):
        batchstat.profile(tmp_path / "a.txt", tokenizer=str(two_words))
    skipped = batchstat.profile(tmp_path / "a.txt", tokenizer=str(two_words), on_error="skip")
    assert skipped.lengths.tolist() == [2] * 500 + [1] * 500


@pytest.mark.parametrize("workers", [1, 2])
def test_a_text_on_which_the_tokenizer_raises_is_named(two_words, workers):
    texts = ["some words"] * 10_500 + ["others"] + ["some"] * 500
    with pytest.raises(InputError, match=r"^texts\[10500\]: tokenizer .* cannot count it: .*out$"):
        batchstat.token_lengths(texts, two_words, workers=workers)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 20), max_size=40), st.integers(1, 5))
def test_results_come_in_order(numbers, workers):
    def work(number: int) -> int:
        time.sleep(number / 5000)
        return number

    assert list(threads.in_order(work, iter(numbers), workers)) == numbers


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_an_error_among_the_items_comes_in_its_turn(workers):
    def items():
        yield from range(5)
        raise InputError("the end")

    results = threads.in_order(lambda i: i, items(), workers)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="the end"):
        next(results)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_first_of_several_errors_is_raised(workers):
    def work(number: int) -> int:
        raise InputError(str(number))

    for items in (range(5), range(1)):
        with pytest.raises(InputError, match="0"):
            list(threads.in_order(work, iter(items), workers))


def test_no_more_is_read_than_is_worked_on():
    taken = 0

    def items():
        nonlocal taken
        for i in range(100):
            taken += 1
            yield i

    for done, _ in enumerate(threads.in_order(lambda i: i, items(), 3)):
        assert taken <= done + 3 + 1


def test_work_is_done_side_by_side():
    barrier = threading.Barrier(3, timeout=20)
    assert list(threads.in_order(lambda i: barrier.wait() * 0 + i, range(6), 3)) == list(range(6))


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_change_nothing_but_time(run, workers):
    arguments = ["profile", SAMPLE_DATA / "corpus.txt", "--json", "--no-plots"]
    result = json.loads(run(*arguments, "--workers", workers).stdout)
    other = json.loads(run(*arguments).stdout)
    assert result.pop("created") != other.pop("created")
    assert result == other
    assert run(*arguments, "--workers", 0).returncode == 2


def test_counting_writes_nothing(tmp_path):
    code = "import batchstat; print(batchstat.token_lengths(['some words'] * 3))"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), check=True)
    assert list(tmp_path.iterdir()) == []
