"""Which texts are counted both ways: it follows from the corpus alone."""

import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from batchstat.corpus.files.sources import find_sources
from batchstat.corpus.options import CorpusOptions
from batchstat.profiling.build import build
from batchstat.profiling.cache import CountCache
from batchstat.profiling.inputs import Corpus
from batchstat.profiling.run_options import RunOptions
from batchstat.tokenization.counting.count_check import CountCheck, counting_after
from batchstat.tokenization.loading.load import load_tokenizer
from batchstat.tokenization.tokenizer import Tokenizer
from tables import in_turn

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "runs"]


class Noting:
    """A tokenizer that writes down what it is asked for by a check, in any process."""

    def __init__(self, backend, log: str) -> None:
        self._backend, self._log = backend, log

    def encode_batch_fast(self, texts, **options):
        with Path(self._log).open("a", encoding="utf-8") as file:
            file.write("".join(f"{text}\n" for text in texts))
        return self._backend.encode_batch_fast(texts, **options)


def noting(log: str) -> Tokenizer:
    """The built-in tokenizer, whose checks are written down; can be sent to another process."""
    loaded = load_tokenizer("builtin")
    encoder = replace(loaded.encoder, engine=None)
    check = encoder.pieces._check
    encoder.pieces._check = replace(check, backend=Noting(check.backend, log))
    return replace(loaded, load=lambda: encoder, made_by=(noting, (log,)))


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> list[Path]:
    """Two files of several splits, and one of a single one."""
    monkeypatch.setattr("batchstat.corpus.files.splits.SPLIT_BYTES", 60_000)
    rng, files = random.Random(0), []
    for name, lines in (("a.txt", 4_000), ("b.txt", 3_000), ("c.txt", 500)):
        texts = (f"{name} {i} {' '.join(rng.choices(WORDS, k=8))}" for i in range(lines))
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
        files.append(tmp_path / name)
    return files


@pytest.mark.parametrize(
    ("executor", "workers", "seconds"),
    [
        ("threads", 1, 0.0),
        ("threads", 3, 0.001),
        pytest.param("processes", 2, 0.0, marks=pytest.mark.slow),
    ],
)
def test_the_same_texts_are_checked_by_every_executor(
    corpus, tmp_path, monkeypatch, executor, workers, seconds
):
    """In any order, whatever is cached, and however slow the machine is."""
    log = tmp_path / "log"

    def checked(files, **how) -> Counter[str]:
        log.write_text("")
        options = CorpusOptions()
        run = RunOptions(**how)
        build(Corpus(find_sources(files, options.input_format), options, noting(str(log))), run)
        return Counter(log.read_text().splitlines())

    expected = checked(corpus)
    assert len({text.split()[0] for text in expected}) == len(corpus)
    assert 20 < len(expected) < 200
    sleep, took = time.sleep, Noting.encode_batch_fast
    monkeypatch.setattr(
        Noting, "encode_batch_fast", lambda *a, **k: [sleep(seconds), took(*a, **k)][1]
    )
    assert checked(corpus[::-1], executor=executor, workers=workers) == expected
    cache = CountCache(str(tmp_path / "cache"))
    first = checked(corpus[:1], count_cache=cache, executor=executor, workers=workers)
    rest = checked(corpus, count_cache=cache, executor=executor, workers=workers)
    assert first + rest == expected


@pytest.fixture(scope="module")
def counted():
    """The built-in tokenizer, and texts with their counts."""
    backend = load_tokenizer("builtin").encoder.pieces._backend
    texts = [f"{i:06} {'some words ' * 20}"[:220] for i in range(4_000)]
    return backend, texts, np.array([len(each) for each in backend.encode_batch_fast(texts)])


@in_turn(
    ("first_byte", "record", "one_in"),
    [
        (0, 0, 100),
        (0, 30_000, 100),
        (8 << 20, 0, 200),
        (0, 40_000, 200),
        (7 << 20, 40_000, 200),
        (1 << 30, 0, 800),
        (1 << 29, 2_500_000, 800),
    ],
)
def test_a_part_of_every_block_is_checked(counted, tmp_path, first_byte, record, one_in):
    """More near the beginning of a file; other texts in equal blocks at other places."""
    log = tmp_path / "log"
    backend, texts, counts = counted
    column = pa.array(texts, pa.large_string())
    check = CountCheck(Noting(backend, str(log)), "it has")

    def checked(first_byte, record) -> list[str]:
        log.write_text("")
        with counting_after(record - 5), counting_after(5, first_byte=first_byte):
            check.check([column], counts, lambda _: pytest.fail("no text is long"))
        return log.read_text().splitlines()

    found = checked(first_byte, record)
    assert len(found) / len(texts) == pytest.approx(1 / one_in, rel=0.1, abs=1 / 4_000)
    assert found == checked(first_byte, record)
    assert found[0] == texts[0]
    assert set(found) != set(checked(first_byte + 1_000, record))


def test_a_list_is_cut_alike_for_any_number_of_workers(tmp_path):
    """Which texts of a list are checked does not depend on how many threads share it."""
    from batchstat.tokenization.token_lengths import _counts

    rng, found = random.Random(0), []
    texts = [f"{i} {' '.join(rng.choices(WORDS, k=8))}" for i in range(20_000)]
    for workers in (1, 2, 7):
        log = tmp_path / f"{workers}"
        _counts(noting(str(log)), texts, workers)
        found.append(Counter(log.read_text().splitlines()))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 32
