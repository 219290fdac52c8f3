"""`preflight` of slime's arguments against what slime itself made: see make_slime.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from make_slime import SCRIPT, configuration
from reports import steps_of
from verl_corpora import save_answering_tokenizer, save_chats

import batchstat
from batchstat.frameworks import CONFIGURATIONS
from batchstat.frameworks.files import read_setup
from conftest import needs

MADE = json.loads((Path(__file__).parent / "slime.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> Path:
    needs("transformers")
    return save_answering_tokenizer(tmp_path_factory.mktemp("slime-tokenizer"))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    needs("pyarrow")
    return save_chats(tmp_path_factory.mktemp("slime-corpus"), all_answered=True)


def written(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "slime.yaml"
    path.write_text(json.dumps(values))
    return path


@pytest.mark.parametrize("case", MADE["cases"], ids=lambda case: case["example"])
def test_its_batches_are_slimes(tmp_path, tokenizer, corpus, case):
    report = batchstat.preflight(
        written(tmp_path, configuration(case["values"], corpus, tokenizer))
    )
    assert report.setup.framework == "slime"
    assert report.simulation.basis.world_size == case["ranks"]
    left = sum(report.samples.dropped.values())
    assert len(report.samples.profile) + left == case["samples"]
    for rank, expected in enumerate(case["batches"]):
        assert steps_of(report, rank) == [batch for step in expected for batch in step]
    assert report.steps_per_epoch == len(case["batches"][0])
    assert (report.total_steps, report.warmup_steps) == (case["steps"], case["warmup"])


def test_no_argument_of_slime_is_unknown():
    slime = CONFIGURATIONS["slime"]
    named = slime.named({flag.removeprefix("--"): None for flag in MADE["keys"]})
    assert len(named) > 200
    assert [key for key in named if key not in slime.keys and not slime.decides_nothing(key)] == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max-tokens-per-gpus": 4}, "unknown key 'max_tokens_per_gpus'"),
        ({"use-dynamic-batch-size": False}, "use_dynamic_batch_size=False is not modelled"),
        ({"calculate-per-token-loss": False}, "only true is"),
        ({"balance-data": True}, "has no num_layers, and balance_data estimates work"),
        ({"loss-type": "policy_loss"}, "loss_type='policy_loss' is not modelled: only sft_loss"),
        ({"global-batch-size": 5}, "rollout_batch_size is 16, which is not a multiple of"),
        ({"num-steps-per-rollout": 2}, "global_batch_size=16 is not rollout_batch_size / num"),
        ({"tensor-model-parallel-size": 3}, "do not divide 8 GPUs"),
        ({"num-epoch": None}, "neither num_epoch nor num_rollout"),
        ({"max-tokens-per-gpu": None}, "has no max_tokens_per_gpu"),
        (
            {"max-tokens-per-gpu": 4608, "max_tokens_per_gpu": 4000},
            "max-tokens-per-gpu=4608 and max_tokens_per_gpu=4000 are one key: remove one",
        ),
    ],
)
def test_what_is_not_modelled_is_refused(tmp_path, values, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.preflight(written(tmp_path, SCRIPT | values), framework="slime")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss-mask-type": "distill_qwen"}, "with token ids: --tokens-column"),
        ({"tool-key": "functions"}, "call it 'tools'"),
        ({"prompt-data": "a.jsonl@[0:9]"}, "not read here: pass its rows as CORPUS"),
        ({}, "names no corpus"),
    ],
)
def test_a_corpus_that_is_not_read_can_be_passed(tmp_path, values, message):
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.preflight(written(tmp_path, SCRIPT | values), framework="slime")


def test_a_key_may_be_written_twice_alike(tmp_path):
    size = SCRIPT["max-tokens-per-gpu"]
    setup = read_setup(written(tmp_path, SCRIPT | {"max_tokens_per_gpu": size}), "slime")
    assert setup.settings["tokens_per_batch"] == size


def test_a_chat_without_an_answer_is_refused_as_by_slime(tmp_path, tokenizer):
    chats = save_chats(tmp_path)
    with pytest.raises(batchstat.InputError, match="has no trained token, at which slime stops"):
        batchstat.preflight(written(tmp_path, configuration({}, chats, tokenizer)))


def test_too_few_samples_for_a_rollout_are_refused(tmp_path):
    (tmp_path / "lengths.jsonl").write_text('{"tokens": 8}\n' * 15)
    profile = batchstat.profile(tmp_path / "lengths.jsonl", length_column="tokens")
    with pytest.raises(batchstat.InputError, match="lower rollout_batch_size=16"):
        batchstat.preflight(written(tmp_path, SCRIPT), profile)


def test_a_chat_with_the_result_of_a_tool_is_refused(tmp_path, tokenizer):
    turns = [("user", "What is it?"), ("tool", "12"), ("assistant", "It is 12.")]
    chat = {"messages": [{"role": role, "content": text} for role, text in turns]}
    path = tmp_path / "chats.jsonl"
    path.write_text((json.dumps(chat) + "\n") * 16)
    with pytest.raises(batchstat.InputError, match="tools or their results, which slime tokenizes"):
        batchstat.preflight(written(tmp_path, configuration({}, path, tokenizer)))
