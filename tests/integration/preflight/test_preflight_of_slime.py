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
from batchstat.simulation.preflight_corpus import profile_keywords
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
            {"num-rollout": 5, "lr-warmup-iters": 5, "lr-warmup-fraction": None},
            "lr_warmup_iters=5 is not less than the 5 steps over which .* decays, at which Megatr",
        ),
        (
            {"lr-decay-iters": 3, "lr-warmup-iters": 5, "lr-warmup-fraction": None},
            "is not less than the 3 steps over which",
        ),
        ({"lr-warmup-fraction": 1}, "lr_warmup_fraction=1 is not below 1, at which Megatron stops"),
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


@pytest.mark.parametrize("size", [1, 3, 5, 16])
@pytest.mark.parametrize("rollouts", [100, 500])
@pytest.mark.parametrize("fraction", [0.07, 0.1, 0.55])
def test_a_share_of_the_samples_is_warmup(tmp_path, size, rollouts, fraction):
    """As in Megatron's OptimizerParamScheduler, which counts samples."""
    (tmp_path / "lengths.jsonl").write_text('{"tokens": 8}\n' * 20)
    profile = batchstat.profile(tmp_path / "lengths.jsonl", length_column="tokens")
    values = {"rollout-batch-size": size, "global-batch-size": size, "num-rollout": rollouts}
    values |= {"lr-warmup-fraction": fraction, "num-epoch": None, "actor-num-gpus-per-node": 1}
    values |= {"tensor-model-parallel-size": 1, "context-parallel-size": 1}
    report = batchstat.preflight(written(tmp_path, SCRIPT | values), profile, framework="slime")
    warmup = fraction * (rollouts * size)
    assert report.warmup_steps == sum(step * size < warmup for step in range(rollouts))


@pytest.mark.parametrize("mask", ["qwen", "qwen3"])
def test_a_message_that_slime_does_not_train_on_is_refused(tmp_path, tokenizer, mask):
    turns = [("user", "What is it?", 1), ("assistant", "It is 12.", 0)] * 2
    chat = {"messages": [{"role": r, "content": t, "step_loss_mask": m} for r, t, m in turns]}
    path = tmp_path / "chats.jsonl"
    path.write_text((json.dumps(chat) + "\n") * 16)
    config = written(tmp_path, configuration({"loss-mask-type": mask}, path, tokenizer))
    with pytest.raises(batchstat.InputError, match="a message has step_loss_mask, by which slime"):
        batchstat.preflight(config)


@pytest.mark.parametrize(("mask", "is_refused"), [("qwen", False), ("qwen3", True)])
def test_what_a_template_writes_before_the_first_message(tmp_path, tokenizer, mask, is_refused):
    """slime takes it away twice where its mask is qwen3."""
    template = (tokenizer / "chat_template.jinja").read_text(encoding="utf-8")
    path = tmp_path / "template.jinja"
    path.write_text("<|im_start|>system\nBe brief.<|im_end|>\n" + template)
    setup = read_setup(written(tmp_path, SCRIPT | {"loss-mask-type": mask}), "slime")
    given = {"corpus": "a.jsonl", "messages_column": "messages", "tokenizer": str(tokenizer)}
    profile_keywords(setup, **given)
    if is_refused:
        with pytest.raises(batchstat.InputError, match="before the first message, which the tr"):
            profile_keywords(setup, **given, chat_template=path)
    else:
        profile_keywords(setup, **given, chat_template=path)


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
