"""`preflight` of slime's reinforcement learning against slime's own schedule: make_slime_rl.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from make_slime_rl import MOONLIGHT, QWEN3_4B, SCRIPT, configuration, rollouts_of
from reports import sampled
from rollouts import save_rollouts
from test_preflight_of_slime import written

import batchstat

MADE = json.loads((Path(__file__).parent / "slime_rl.json").read_text(encoding="utf-8"))


def rollouts(folder: Path, lengths: list[int]) -> batchstat.Profile:
    return batchstat.profile(save_rollouts(folder, lengths), length_column="tokens")


@pytest.mark.parametrize("case", MADE["cases"], ids=lambda case: case["example"])
def test_its_batches_are_slimes(tmp_path, case):
    profile = rollouts(tmp_path, rollouts_of(case["values"]))
    report = batchstat.preflight(written(tmp_path, configuration(case["values"])), profile)
    assert report.setup.framework == "slime"
    assert report.simulation.basis.world_size == case["ranks"]
    for rank, expected in enumerate(case["batches"]):
        found = [[batch.width, lengths] for batch, lengths in sampled(report, rank)]
        assert found == [batch for step in expected for batch in step]
    assert report.steps_per_epoch == len(case["batches"][0])
    assert (report.total_steps, report.warmup_steps) == (case["steps"], case["warmup"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"rollout-function-path": "mine.generate"},
            "rollout_function_path='mine.generate' is",
        ),
        ({"loss-type": "sft_loss"}, "loss_type='sft_loss' goes with rollout_function_path=slime"),
        ({"num-critic-only-steps": 3}, "num_critic_only_steps=3 is not modelled: remove it"),
        ({"balance-by-flops": True}, "balance_by_flops=True is not modelled"),
        ({"global-batch-size": 24}, "rollout_batch_size x n_samples_per_prompt=8 is 64, which is"),
        ({"context-parallel-size": 3}, "context parallelism of 3 do not divide 8 GPUs"),
        ({"hidden-size": None}, "has no hidden_size, and balance_data estimates work by"),
        ({**MOONLIGHT, "kv-lora-rank": None}, "has no kv_lora_rank, and balance_data"),
        ({**MOONLIGHT, "moe-layer-freq": "[0]*3+[1]*24"}, "write a number, or a list of 0 and 1"),
    ],
)
def test_what_is_not_modelled_is_refused(tmp_path, values, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.preflight(written(tmp_path, configuration({**QWEN3_4B, **values})))


def test_a_list_of_layers_may_be_text(tmp_path):
    profile = rollouts(tmp_path, [9] * 64)
    text = MOONLIGHT | {"moe-layer-freq": json.dumps(MOONLIGHT["moe-layer-freq"])}
    found = [
        batchstat.preflight(written(tmp_path, configuration(values)), profile).setup.strategy
        for values in (MOONLIGHT, text)
    ]
    assert found[0] == found[1]


def test_rollouts_have_to_be_passed(tmp_path):
    path = written(tmp_path, SCRIPT | QWEN3_4B | {"prompt-data": "prompts.jsonl"})
    with pytest.raises(batchstat.InputError, match=r"not rollouts: pass whole .* --length-column"):
        batchstat.preflight(path)


def test_where_ranks_come_from_is_said_unless_they_are_given(tmp_path):
    path, profile = written(tmp_path, configuration(QWEN3_4B)), rollouts(tmp_path, [9] * 64)
    own, given = (batchstat.preflight(path, profile, **each) for each in ({}, {"world_size": 2}))
    assert any("data-parallel ranks" in warning.message for warning in own.warnings)
    assert not any("data-parallel ranks" in warning.message for warning in given.warnings)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"custom-generate-function-path": "mine.generate"}, "may do otherwise"),
        ({"num-rollout": None, "num-epoch": 2}, "one epoch of prompt_data"),
        ({"calculate-per-token-loss": False}, "averages the mean losses of rollouts"),
    ],
)
def test_what_may_not_be_true_is_said(tmp_path, values, words):
    profile = rollouts(tmp_path, [9] * 64)
    usual: dict[str, Any] = {**QWEN3_4B, "calculate-per-token-loss": True}

    def said(values: dict[str, Any]) -> bool:
        report = batchstat.preflight(written(tmp_path, configuration(values)), profile)
        return any(words in warning.message for warning in report.warnings)

    assert (said(usual), said(usual | values)) == (False, True)
