"""`preflight` of verl's PPO configuration against what verl itself made: see make_verl_ppo.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from make_verl_ppo import configuration, rollouts_of
from reports import sampled
from rollouts import save_rollouts
from test_preflight_of_verl import written

import batchstat
from batchstat.frameworks import CONFIGURATIONS

MADE = json.loads((Path(__file__).parent / "verl_ppo.json").read_text(encoding="utf-8"))
ACTOR = "actor_rollout_ref.actor"
DYNAMIC = {f"{ACTOR}.use_dynamic_bsz": True}


def rollouts(folder: Path, lengths: list[int]) -> batchstat.Profile:
    return batchstat.profile(save_rollouts(folder, lengths), length_column="tokens")


@pytest.mark.parametrize("case", MADE["cases"], ids=lambda case: case["example"])
def test_its_batches_are_verls(tmp_path, case):
    profile = rollouts(tmp_path, rollouts_of(case["values"]))
    report = batchstat.preflight(written(tmp_path, configuration(case["values"])), profile)
    assert report.setup.framework == "verl-ppo"
    assert report.simulation.basis.world_size == case["ranks"]
    passes = configuration(case["values"]).get(f"{ACTOR}.ppo_epochs", 1)
    for rank, generations in enumerate(case["batches"]):
        found = [[batch.width, lengths] for batch, lengths in sampled(report, rank)]
        once = []
        for steps in generations:
            each = len(steps) // passes
            assert steps == steps[:each] * passes
            once += steps[:each]
        assert found == [batch for step in once for batch in step]
        assert report.steps_per_epoch == len(once)
        updates = len(generations[0])
        assert report.total_steps == case["generations"] * updates
        assert report.warmup_steps == case["warmup"] * updates


def test_no_key_of_verl_is_unknown():
    ppo = CONFIGURATIONS["verl-ppo"]
    unknown = [key for key in MADE["keys"] if key not in ppo.keys and not ppo.decides_nothing(key)]
    assert unknown == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({f"{ACTOR}.ppo_mini_batchsize": 4}, "unknown key 'actor_rollout_ref.actor.ppo_mini_batch"),
        ({f"{ACTOR}.use_dynamic_bsz": False}, "use_dynamic_bsz=False is not modelled: only true"),
        ({f"{ACTOR}.shuffle": True}, "shuffle=True is not modelled"),
        ({f"{ACTOR}.strategy": "veomni"}, "'veomni' is an engine that is not modelled"),
        ({"model_engine": "torchtitan"}, "'torchtitan' is an engine that is not modelled"),
        ({"trainer.v1.trainer_mode": "separate_async"}, "only sync is"),
        (
            {"model_engine": "megatron", "trainer.total_training_steps": 5}
            | {f"{ACTOR}.optim.lr_warmup_steps": 5},
            "optim.lr_warmup_steps is not below the steps in all, at which Megatron stops",
        ),
        (
            {"model_engine": "megatron", f"{ACTOR}.optim.lr_warmup_steps_ratio": 1.0},
            "optim.lr_warmup_steps_ratio is not below the steps in all",
        ),
        ({f"{ACTOR}.ppo_mini_batch_size": 3}, "is not a multiple of actor_rollout_ref.actor.ppo"),
        ({"critic.ppo_mini_batch_size": 3}, "is not a multiple of critic.ppo_mini_batch_size=3"),
        (
            {"trainer.use_v1": False, "data.gen_batch_size": 6},
            "data.gen_batch_size=6 is not a multiple",
        ),
        (
            {f"{ACTOR}.ulysses_sequence_parallel_size": 3},
            "ulysses_sequence_parallel_size=3 does not divide 8 GPUs",
        ),
        (
            {"model_engine": "megatron", f"{ACTOR}.megatron.context_parallel_size": 3},
            "x context parallel sizes=3 does not divide 8 GPUs",
        ),
        (
            {"model_engine": "megatron", f"{ACTOR}.megatron.pad_to_length": True},
            "pad_to_length=true is not modelled",
        ),
        (
            {f"{ACTOR}.megatron.virtual_pipeline_model_parallel_size": 2},
            "virtual_pipeline_model_parallel_size=2 is not modelled",
        ),
        (
            {f"{ACTOR}.fsdp_config.pad_to_length": "${oc.select:trainer.missing,True}"}
            | {f"{ACTOR}.fsdp_config.pad_to_length_bucket": 5}
            | {f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size": 2},
            "pad_to_length_bucket=5",
        ),
    ],
)
def test_what_is_not_modelled_is_refused(tmp_path, values, message):
    sizes = {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 4}
    path = written(tmp_path, {**DYNAMIC, **sizes, **values})
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.preflight(path, framework="verl-ppo")


def test_rollouts_have_to_be_passed(tmp_path):
    path = written(tmp_path, {**DYNAMIC, "data.train_files": "prompts.parquet"})
    with pytest.raises(batchstat.InputError, match=r"not rollouts: pass whole .* --length-column"):
        batchstat.preflight(path)


def test_fewer_rollouts_than_a_generation_are_refused(tmp_path):
    sizes = {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 8}
    path = written(tmp_path, {**DYNAMIC, **sizes, "actor_rollout_ref.rollout.n": 2})
    with pytest.raises(batchstat.InputError, match="15 rollouts are fewer than the 16 of a gen"):
        batchstat.preflight(path, rollouts(tmp_path, [9] * 15))


def test_a_rollout_longer_than_the_cap_is_refused(tmp_path):
    sizes = {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 8}
    path = written(tmp_path, {**DYNAMIC, **sizes, f"{ACTOR}.ppo_max_token_len_per_gpu": 40})
    with pytest.raises(batchstat.InputError, match="41 tokens.*tokens_per_batch is .*ppo_max"):
        batchstat.preflight(path, rollouts(tmp_path, [9] * 7 + [41]))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({f"{ACTOR}.ppo_epochs": 3}, "ppo_epochs=3 passes"),
        ({"trainer.balance_batch": False}, "balance_batch=false has no influence"),
        ({"algorithm.filter_groups.enable": True}, "filter_groups drops rollouts"),
        ({f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean"}, "loss_agg_mode=token-mean"),
    ],
)
def test_what_may_not_be_true_is_said(tmp_path, values, words):
    sizes = {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 8}
    profile = rollouts(tmp_path, [9] * 8)
    usual = batchstat.preflight(written(tmp_path, {**DYNAMIC, **sizes}), profile)
    report = batchstat.preflight(written(tmp_path, {**DYNAMIC, **sizes, **values}), profile)
    assert not any(words in warning.message for warning in usual.warnings)
    assert any(words in warning.message for warning in report.warnings)


def test_where_ranks_come_from_is_said_unless_they_are_given(tmp_path):
    sizes = {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 8}
    path, profile = written(tmp_path, {**DYNAMIC, **sizes}), rollouts(tmp_path, [9] * 8)
    own, given = (batchstat.preflight(path, profile, **each) for each in ({}, {"world_size": 2}))
    assert any("data-parallel ranks" in warning.message for warning in own.warnings)
    assert not any("data-parallel ranks" in warning.message for warning in given.warnings)


def test_balancing_is_proposed_where_it_is_off(tmp_path):
    values = {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 8}
    values |= {
        "trainer.use_v1": False,
        "trainer.balance_batch": False,
        "trainer.n_gpus_per_node": 2,
    }
    path = written(tmp_path, {**DYNAMIC, **values})
    report = batchstat.preflight(path, rollouts(tmp_path, [900] * 4 + [100] * 4))
    assert report.changes[0].keys == {"trainer.balance_batch": True}
    assert report.changes[0].simulation.row.counts.ranks.idle == 0


def test_a_configuration_for_supervised_training_is_not_taken_for_one_of_ppo(tmp_path):
    values: dict[str, Any] = {"data.train_batch_size": 4, "trainer.nnodes": 1}
    with pytest.raises(batchstat.InputError, match="names no corpus"):
        batchstat.preflight(written(tmp_path, values))


@pytest.mark.parametrize(
    ("value", "multiple"),
    [
        ("${oc.select:actor_rollout_ref.actor.pad_to_length,False}", 64),
        ("${oc.select:actor_rollout_ref.actor.missing,False}", 1),
        ("${oc.select:actor_rollout_ref.actor.missing, true}", 64),
        (False, 1),
    ],
)
def test_a_selected_key_stands_for_its_value_or_for_the_default(tmp_path, value, multiple):
    sizes = {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 8}
    padded = {f"{ACTOR}.pad_to_length": True, f"{ACTOR}.fsdp_config.pad_to_length": value}
    bucket = {f"{ACTOR}.fsdp_config.pad_to_length_bucket": 64}
    path = written(tmp_path, {**DYNAMIC, **sizes, **padded, **bucket})
    report = batchstat.preflight(path, rollouts(tmp_path, [9] * 8))
    assert report.simulation.basis.pad_to_multiple_of == multiple
