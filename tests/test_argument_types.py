"""What is passed in the place of an argument of another type is named with it, in one line."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import batchstat
from batchstat.errors import BatchstatError
from conftest import SAMPLE_DATA

LENGTHS = [3, 5, 9, 20]
CORPUS, CONFIG = SAMPLE_DATA / "corpus.txt", SAMPLE_DATA / "sft.yaml"
WRONG = {
    "number": 3.5,
    "bytes": b"x",
    "list": [[1, 2]],
    "table": {"a": 1},
    "array": np.zeros((2, 2)),
    "file": Path("nowhere.yaml"),
    "object": SimpleNamespace(a=1),
}
CALLS = {
    "order": lambda value: batchstat.Settings(order=value),
    "loss": lambda value: batchstat.compare(LENGTHS, batch_size=2, loss=value),
    "optimizer": lambda value: batchstat.estimate_memory("gpt2", optimizer=value),
    "strategies": lambda value: batchstat.compare(LENGTHS, strategies=value, batch_size=2),
    "strategy": lambda value: batchstat.compare(LENGTHS, strategies=[value], batch_size=2),
    "current": lambda value: batchstat.compare(LENGTHS, current=value, batch_size=2),
    "current of balance": lambda value: batchstat.balance(LENGTHS, labels="aabb", current=value),
    "samplers": lambda value: batchstat.balance(LENGTHS, labels="aabb", samplers=value),
    "labels": lambda value: batchstat.find_buckets(LENGTHS, labels=value),
    "per_rank": lambda value: batchstat.measure(None, LENGTHS, per_rank=value),
    "model": batchstat.load_model,
    "report": batchstat.show,
    "profile": batchstat.read_samples,
    "text_column": lambda value: batchstat.CorpusOptions(text_column=[value]),
    "tokens_column": lambda value: batchstat.CorpusOptions(tokens_column=value),
    "chat_format": lambda value: batchstat.CorpusOptions(chat_format=value),
    "label_column": lambda value: batchstat.CorpusOptions(label_column=value),
    "append": lambda value: batchstat.CorpusOptions(append=value),
    "tokenizer": lambda value: batchstat.profile(CORPUS, tokenizer=value),
    "executor": lambda value: batchstat.profile(CORPUS, executor=value),
    "corpus": lambda value: batchstat.profile([value]),
    "strategy of balance": lambda value: batchstat.balance(LENGTHS, labels="aabb", strategy=value),
    "sampler": lambda value: batchstat.Settings(sampler=value),
    "framework": lambda value: batchstat.preflight(CONFIG, framework=value),
    "subsample": lambda value: batchstat.compare(LENGTHS, batch_size=2, subsample=value),
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    """A path of another type may be one that is written to."""
    monkeypatch.chdir(tmp_path)


class Mute:
    """Raises where it is shown."""

    def __repr__(self) -> str:
        raise RuntimeError("mute")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_values_of_another_type_are_one_line(subtests, call):
    for kind, value in {**WRONG, "mute": Mute()}.items():
        with subtests.test(kind):
            with pytest.raises(BatchstatError) as error:
                call(value)
            assert "\n" not in str(error.value)


def test_a_cache_that_is_no_folder_is_one_line(subtests, monkeypatch):
    monkeypatch.delitem(WRONG, "file")  # which may become a folder
    test_values_of_another_type_are_one_line(
        subtests, lambda value: batchstat.profile(CORPUS, count_cache=value)
    )


@pytest.mark.parametrize("labels", [3.5, Path("a"), None])
def test_labels_that_are_no_list(labels):
    with pytest.raises(batchstat.OptionError, match="labels=.*must be a list"):
        batchstat.ClassBalancedSampler(labels)


def test_a_tokenizer_may_be_a_path(tmp_path):
    with pytest.raises(batchstat.InputError, match="no such file or folder"):
        batchstat.profile(CORPUS, tokenizer=tmp_path / "tokenizer.json")


@pytest.mark.parametrize("executor", [None, [], int, ThreadPoolExecutor(1)])
def test_what_is_no_executor_does_not_mean_processes(executor):
    with pytest.raises(batchstat.OptionError, match="executor=.*must be one of auto, dask"):
        batchstat.profile(CORPUS, executor=executor)
