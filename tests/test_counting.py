"""Counts for a program and by several threads; what happens where pieces would be wrong."""

import hashlib
import io
import json
import subprocess
import sys
import threading
import time

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tokenizers
from hypothesis import given, settings

import batchstat
from batchstat import threads
from batchstat.errors import InputError
from batchstat.tokens import builtin, load_tokenizer, piecewise
from batchstat.tokens.pieces import find_cuts
from conftest import SAMPLE_DATA, environment

LINES = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()


def own() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(builtin.definition())


def expected(texts) -> list[int]:
    return [len(each) for each in own().encode_batch_fast(list(texts))]


@pytest.mark.parametrize(
    "kind",
    [
        list,
        tuple,
        pd.Series,
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


def test_token_lengths_by_tokenizers_of_every_kind(real_data):
    import transformers

    for folder in sorted((real_data / "tokenizers").iterdir()):
        loaded = transformers.AutoTokenizer.from_pretrained(folder)
        wanted = [len(ids) for ids in loaded(LINES)["input_ids"]]
        backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        before = backend.to_str()
        for given_as in (str(folder), folder, folder / "tokenizer.json", loaded, backend):
            assert batchstat.token_lengths(LINES, given_as).tolist() == wanted
        assert backend.to_str() == before


def test_token_lengths_leave_the_tokenizer_as_it_was():
    tokenizer = own()
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=9)
    before = tokenizer.to_str()
    assert batchstat.token_lengths(LINES, tokenizer).tolist() == expected(LINES)
    assert tokenizer.to_str() == before


def test_no_text_and_empty_texts():
    assert batchstat.token_lengths([]).tolist() == []
    assert batchstat.token_lengths(["", "a", ""]).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", None], r"texts\[1\] is missing"),
        (["a", 5], "texts 0 and on are no texts"),
        (pd.Series(["a", None]), r"texts\[1\] is missing"),
        (pa.array([1, 2]), "texts 0 and on are no texts"),
        (["\ud800"], "texts 0 and on are no texts"),
    ],
)
def test_what_is_no_text(texts, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.token_lengths(texts)


def test_what_is_no_tokenizer():
    with pytest.raises(batchstat.OptionError, match="a tokenizer of type int"):
        batchstat.token_lengths(["a"], 5)


@pytest.fixture
def _wrong_cuts(monkeypatch):
    """The cuts of byte-level BPE, and one in the middle of words."""

    def find(definition):
        found = find_cuts(definition)
        after = bytearray(found.after)
        after[ord("e")] |= 2
        return rules.Cuts(found.before, bytes(after))

    from batchstat.tokens import loading
    from batchstat.tokens import pieces as rules

    monkeypatch.setattr(loading, "find_cuts", find)


@pytest.mark.usefixtures("_wrong_cuts")
def test_one_difference_and_everything_is_counted_whole():
    with pytest.warns(UserWarning, match="tokens, and its pieces .*: everything is counted again"):
        assert batchstat.token_lengths(LINES).tolist() == expected(LINES)
    with pytest.warns(UserWarning, match="everything is counted again, whole"):
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
    with pytest.warns(UserWarning, match="everything is counted again, whole"):
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
    monkeypatch.setattr("batchstat.corpus.opening.tempfile.TemporaryFile", temporary)
    request.getfixturevalue("_wrong_cuts")
    with (
        pytest.raises(InputError, match="no room for a copy of it: name a file"),
        pytest.warns(UserWarning, match="everything is counted again"),
    ):
        batchstat.profile("-")


@pytest.mark.usefixtures("piped")
@pytest.mark.parametrize("temporary", [Full, _no_file])
def test_no_room_for_a_copy_that_nobody_needs(temporary, monkeypatch):
    monkeypatch.setattr("batchstat.corpus.opening.tempfile.TemporaryFile", temporary)
    profile = batchstat.profile("-")
    assert profile.lengths.tolist() == expected(line for line in LINES if line.strip())


@pytest.mark.parametrize("workers", [0, -1, 1001, 1.5, True])
def test_workers_are_a_number_above_zero(workers):
    with pytest.raises(batchstat.OptionError, match="workers="):
        batchstat.token_lengths(LINES, workers=workers)
    with pytest.raises(batchstat.OptionError, match="workers="):
        batchstat.profile(SAMPLE_DATA / "corpus.txt", workers=workers)


def test_a_difference_in_a_later_block_is_found_too(monkeypatch):
    """Whatever block it is in: with rare wrong counts nearly every block must be looked into."""
    looked: list[int] = []
    whole = piecewise.PieceCounter._whole

    def counted(self, texts):
        looked.append(len(texts))
        return whole(self, texts)

    monkeypatch.setattr(piecewise.PieceCounter, "_whole", counted)
    tokenizer = load_tokenizer("builtin")
    block = pa.array(LINES, pa.large_string())
    for _ in range(5):
        tokenizer.pieces.count(block)
    assert len(looked) == 5
    assert looked[0] > looked[1] > 0


def test_texts_that_do_not_repeat_are_counted_whole():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 26, (3000, 12)).astype(np.uint8) + ord("a")
    spelt = [bytes(word).decode() for word in words]
    texts = [" ".join(spelt[i : i + 10]) for i in range(0, len(spelt), 10)]
    tokenizer = load_tokenizer("builtin")
    assert tokenizer.pieces.count(pa.array(texts, pa.large_string())) is None
    assert batchstat.token_lengths(texts).tolist() == expected(texts)
    assert tokenizer.pieces.count(pa.array(LINES, pa.large_string())) is not None


def test_a_tokenizer_that_raises_names_its_text(two_words, tmp_path):
    texts = ["some words"] * 500 + ["others"] + ["some"] * 500
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in texts))
    with pytest.raises(InputError, match=r"a.txt, line 501: tokenizer .* cannot count it"):
        batchstat.profile(tmp_path / "a.txt", tokenizer=str(two_words))
    skipped = batchstat.profile(tmp_path / "a.txt", tokenizer=str(two_words), on_error="skip")
    assert skipped.lengths.tolist() == [2] * 500 + [1] * 500


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
