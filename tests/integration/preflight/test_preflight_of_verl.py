"""`preflight` of the configuration of verl's SFT trainer against what verl made: make_verl.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from make_verl import configuration
from reports import steps_of
from verl_corpora import save_answering_tokenizer, save_chats

import batchstat
from batchstat.frameworks import CONFIGURATIONS
from conftest import needs

MADE = json.loads((Path(__file__).parent / "verl.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> Path:
    needs("transformers")
    return save_answering_tokenizer(tmp_path_factory.mktemp("verl-tokenizer"))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    needs("pyarrow")
    return save_chats(tmp_path_factory.mktemp("verl-corpus"))


def written(folder: Path, values: dict[str, Any]) -> Path:
    """A file with keys by their full names in tables."""
    content: dict[str, Any] = {}
    for name, value in values.items():
        *tables, key = name.split(".")
        inside = content
        for table in tables:
            inside = inside.setdefault(table, {})
        inside[key] = value
    path = folder / "config.yaml"
    path.write_text(json.dumps(content))
    return path


def of_equal_lengths(folder: Path, samples: int) -> batchstat.Profile:
    """Samples of 8 tokens."""
    (folder / "lengths.jsonl").write_text('{"tokens": 8}\n' * samples)
    return batchstat.profile(folder / "lengths.jsonl", length_column="tokens")


@pytest.mark.parametrize("case", MADE["cases"], ids=lambda case: f"{case['example']}")
def test_its_batches_are_verls(tmp_path, tokenizer, corpus, case):
    config = written(tmp_path, configuration(case["values"], corpus, tokenizer))
    report = batchstat.preflight(config, world_size=case["ranks"])
    assert report.setup.framework == "verl"
    assert len(report.samples.profile) == case["samples"]
    for epoch, ranks in enumerate(case["epochs"]):
        for rank, expected in enumerate(ranks):
            flat = [batch for step in expected for batch in step]
            assert steps_of(report, rank, epoch) == flat
    assert report.steps_per_epoch == case["per_epoch"]
    assert report.warmup_steps == case["warmup"]
    epochs = CONFIGURATIONS["verl"].keys["trainer.total_epochs"].default
    epochs = case["values"].get("trainer.total_epochs", epochs)
    assert report.total_steps == min(case["planned"], epochs * case["per_epoch"])


def test_no_key_of_verl_is_unknown():
    verl = CONFIGURATIONS["verl"]
    assert [
        key for key in MADE["keys"] if key not in verl.keys and not verl.decides_nothing(key)
    ] == []


def test_a_reference_is_the_value_of_another_key(tmp_path):
    values = {"data.train_batch_size": 4, "data.max_token_len_per_gpu": "${data.max_length}"}
    profile = of_equal_lengths(tmp_path, 12)
    report = batchstat.preflight(written(tmp_path, values | {"data.max_length": 16}), profile)
    assert report.simulation.basis.tokens_per_batch == 16
    assert report.simulation.row.counts.batches == 6


def test_ranks_are_the_gpus_over_sequence_parallelism(tmp_path):
    sizes = {"trainer.nnodes": 2, "trainer.n_gpus_per_node": 4, "data.train_batch_size": 8}
    values = {**sizes, "engine.ulysses_sequence_parallel_size": 2}
    profile = of_equal_lengths(tmp_path, 16)
    report = batchstat.preflight(written(tmp_path, values), profile)
    assert report.simulation.basis.world_size == 4
    assert any("4 data-parallel ranks" in warning.message for warning in report.warnings)
    given = batchstat.preflight(written(tmp_path, values), profile, world_size=4)
    assert not any("data-parallel ranks" in warning.message for warning in given.warnings)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"actor_rollout_ref.rollout.n": 8}, "has no actor.*, but of verl-ppo"),
        ({"data.max_lengt": 4}, "unknown key 'data.max_lengt'"),
        (
            {"data.use_dynamic_bsz": False},
            "data.use_dynamic_bsz=False is not modelled: only true is",
        ),
        ({"data.pad_mode": "right"}, "data.pad_mode='right' is not modelled"),
        ({"model.use_remove_padding": False}, "model.use_remove_padding=False is not modelled"),
        ({"engine.strategy": "megatron"}, "engine.strategy='megatron' is of an engine"),
        (
            {"engine._target_": "verl.workers.config.McoreEngineConfig"},
            "McoreEngineConfig' is of an",
        ),
        ({"engine.context_parallel_size": 1}, "engine.context_parallel_size is a key of an engine"),
        ({"data.custom_cls.path": "mine.py"}, "data.custom_cls.path='mine.py' is not modelled"),
        ({"data.max_length": "${oc.env:LENGTH}"}, "refers to what is not in this file"),
        ({"data.train_max_samples": 3, "data.shuffle": True}, "set data.seed"),
        ({"trainer.n_gpus_per_node": 3, "engine.ulysses_sequence_parallel_size": 2}, "divide"),
        (
            {"engine.pad_to_length": True, "engine.pad_to_length_bucket": 5}
            | {"engine.ulysses_sequence_parallel_size": 2},
            "engine.pad_to_length_bucket=5",
        ),
    ],
)
def test_what_is_not_modelled_is_refused(tmp_path, values, message):
    path = written(tmp_path, {"data.train_batch_size": 4, **values})
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.preflight(path, framework="verl")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"data.ignore_input_ids_mismatch": True}, "with token ids: --tokens-column"),
        ({"model.custom_chat_template": "x"}, "pass its text with --chat-template"),
        ({"data.tools_key": "functions"}, "call it 'tools'"),
        ({"data.train_files": "hdfs://a/b.parquet"}, "not local: pass the files as CORPUS"),
        ({}, "names no corpus"),
    ],
)
def test_a_corpus_that_is_not_read_can_be_passed(tmp_path, values, message):
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.preflight(written(tmp_path, values), framework="verl")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"data.train_batch_size": 13}, "verl trains no step on 12 samples"),
        ({"data.max_length": 7, "data.train_batch_size": 4}, "which data.truncation=error refuses"),
    ],
)
def test_samples_that_verl_refuses_are_named(tmp_path, values, message):
    profile = of_equal_lengths(tmp_path, 12)
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.preflight(written(tmp_path, values), profile, framework="verl")


@pytest.mark.parametrize(
    ("values", "ranks", "keys"),
    [
        ({"data.max_token_len_per_gpu": 7}, 1, ("data.max_token_len_per_gpu", "data.max_length")),
        ({"data.train_batch_size": 3}, 2, ("data.train_batch_size",)),
    ],
)
def test_what_does_not_go_together_is_named_by_verls_keys(tmp_path, values, ranks, keys):
    profile = of_equal_lengths(tmp_path, 12)
    config = written(tmp_path, {"data.train_batch_size": 4} | values)
    with pytest.raises(batchstat.BatchstatError) as caught:
        batchstat.preflight(config, profile, framework="verl", world_size=ranks)
    end = str(caught.value).partition(f"; in {config.as_posix()}, ")[2]
    assert [each.partition(" is ")[2] for each in end.split(" and ")] == list(keys)
