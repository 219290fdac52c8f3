"""`preflight` of ms-swift's arguments against what it made itself: see make_ms_swift.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from make_ms_swift import arguments
from reports import sizes_of

import batchstat
from batchstat.frameworks import CONFIGURATIONS
from batchstat.frameworks.files import read_setup
from conftest import write_jsonl

MADE = json.loads((Path(__file__).parent / "ms_swift.json").read_text(encoding="utf-8"))


def counted(folder: Path, names: list[str]) -> batchstat.Profile:
    """Token ids and labels as ms-swift's template makes them, a file for each data set."""
    files = []
    for name in names:
        rows = []
        for runs in MADE["corpora"][name.partition("#")[0]]:
            labels = [-100 + 101 * (i % 2) for i, run in enumerate(runs) for _ in range(run)]
            rows.append({"input_ids": [1] * len(labels), "labels": labels})
        files.append(write_jsonl(folder / f"ids-{len(files)}.jsonl", rows))
    return batchstat.profile(files, tokens_column="input_ids", trained_column="labels")


def saved(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "ms_swift.yaml"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


@pytest.mark.parametrize("case", MADE["cases"], ids=lambda each: each["example"])
def test_its_batches_are_ms_swifts(tmp_path, case):
    profile = counted(tmp_path, case["datasets"])
    values = arguments(case["values"], case["datasets"], tmp_path)
    values |= {"model": "Qwen/Qwen2.5-7B-Instruct", "tuner_type": "lora"}
    report = batchstat.preflight(saved(tmp_path, values), profile, world_size=case["ranks"])
    assert report.setup.framework == "ms-swift"
    for epoch, ranks in enumerate(case["epochs"]):
        for rank, expected in enumerate(ranks):
            assert sizes_of(report, rank, epoch) == expected
    assert (report.total_steps, report.warmup_steps) == (case["steps"], case["warmup"])


def test_every_key_of_ms_swift_is_known():
    framework = CONFIGURATIONS["ms-swift"]
    of_command = {"ENV"}
    assert set(MADE["keys"].split()) | of_command == set(framework.keys) | framework.unused


ONE = {"gradient_accumulation_steps": 1, "max_length": 99}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_lenght": 9}, "unknown key 'max_lenght', which may decide batches: did you mean"),
        ({"gradient_accumulation_steps": None}, "has no gradient_accumulation_steps, which ms-sw"),
        ({"streaming": True}, "streaming=True is not modelled: remove it"),
        ({"group_by_length": True}, "group_by_length=True is not modelled"),
        ({"sequence_parallel_size": 2}, "sequence_parallel_size=2 is not modelled"),
        ({"deepspeed": {"tensor_parallel": {}}}, "deepspeed with tensor_parallel is not modelled"),
        ({"train_dataloader_shuffle": False}, "train_dataloader_shuffle=false is not modelled"),
        ({"truncation_strategy": "split"}, "truncation_strategy=split is only for pre-training"),
        ({"split_dataset_ratio": 1}, "split_dataset_ratio=1 leaves no sample"),
        ({"warmup_ratio": 0.1, "warmup_steps": 3}, "warmup_ratio contradicts warmup_steps=3"),
        ({"warmup_ratio": 1}, "warmup_ratio=1 must be below 1"),
        ({"packing": True}, "packing=true needs attn_impl, one of flash_attn"),
        ({"padding_free": True}, "padding_free=true needs attn_impl"),
        ({"task_type": "embedding"}, "task_type='embedding': must be one of causal_lm"),
        ({"dataset": [1]}, "dataset has 1: it must be text"),
        (
            {"packing": True, "attn_impl": "flash_attn", "lazy_tokenize": True},
            "packing=true contradicts lazy_tokenize=true",
        ),
        (
            {"packing": True, "attn_impl": "flash_attn", "max_length": None},
            "packing=true without max_length takes the model's",
        ),
        (
            {"packing": True, "attn_impl": "flash_attn", "packing_length": 9},
            "packing_length=9 is below max_length=99",
        ),
    ],
)
def test_what_is_not_modelled_is_refused(tmp_path, changes, message):
    values = {key: value for key, value in (ONE | changes).items() if value is not None}
    with pytest.raises(batchstat.OptionError, match=message):
        read_setup(saved(tmp_path, values), "ms-swift")


@pytest.mark.parametrize(
    ("values", "names", "message"),
    [
        ({"dataset": ["x#9", "y"]}, ["a"], "a part of each of 2 data sets, but the corpus has 1"),
        ({"dataset": ["x#99"]}, ["a"], "takes #99 samples of a file that has 45"),
        ({"dataset": ["x#1"], "split_dataset_ratio": 0.1}, ["a"], "holds out all 1 samples"),
        ({"max_length": 2}, ["a"], "all 45 samples are longer than max_length=2"),
        ({"lazy_tokenize": True}, ["a"], "ms-swift replaces it by a random one"),
        ({"strict": True}, ["a"], "at which ms-swift stops with strict=true: raise it, or set"),
        ({"dataset": ["x#0"]}, ["a"], "dataset takes #0 samples of a file: raise it"),
    ],
)
def test_a_corpus_of_which_the_samples_are_unknown(tmp_path, values, names, message):
    config = saved(tmp_path, ONE | values)
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.preflight(config, counted(tmp_path, names), framework="ms-swift")


def test_more_ranks_than_samples_and_no_corpus(tmp_path):
    config = saved(tmp_path, ONE | {"dataset": "c#5"})
    with pytest.raises(batchstat.InputError, match="ms-swift tokenizes with templates of its own"):
        batchstat.preflight(config, framework="ms-swift")
    config = saved(tmp_path, ONE | {"dataset": "c#5", "max_length": 9999})
    profile = counted(tmp_path, ["c"])
    with pytest.raises(batchstat.InputError, match="samples are fewer than 9 ranks"):
        batchstat.preflight(config, profile, framework="ms-swift", world_size=9)


def test_a_change_is_what_the_changed_file_gives(tmp_path):
    values = ONE | {"max_length": 400, "per_device_train_batch_size": 4}
    profile = counted(tmp_path, ["a", "b", "c"])
    report = batchstat.preflight(saved(tmp_path, values), profile, framework="ms-swift")
    assert [next(iter(change.keys)) for change in report.changes] == ["packing", "padding_free"]
    for change in report.changes:
        config = saved(tmp_path, {**values, **change.keys})
        again = batchstat.preflight(config, profile, framework="ms-swift")
        assert again.simulation.row.counts == change.simulation.row.counts


def test_texts_are_counted_with_a_warning(tmp_path):
    texts = write_jsonl(tmp_path / "texts.jsonl", [{"text": "some words"}] * 9)
    config = saved(tmp_path, ONE)
    report = batchstat.preflight(config, batchstat.profile(texts), framework="ms-swift")
    assert any("counts may differ" in warning.message for warning in report.warnings)
