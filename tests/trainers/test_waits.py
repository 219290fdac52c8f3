"""Where ranks wait, by the keys of trainers, accelerate and DeepSpeed."""

import json
from pathlib import Path

import pytest
import yaml

import batchstat
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.base.waits import _OF_TRL, wait_of
from conftest import SAMPLE_DATA, needs

MICRO = "micro-batch"


def zero(stage: object, **more: object) -> dict[str, object]:
    return {"zero_optimization": {"stage": stage}, "train_batch_size": "auto", **more}


KEYS = [
    # transformers and TRL
    ({"per_device_train_batch_size": 4}, None),
    ({"fsdp": ""}, None),
    ({"fsdp": [], "fsdp_config": {"min_num_params": 0}}, None),
    ({"fsdp": True}, MICRO),
    ({"fsdp": "full_shard auto_wrap"}, MICRO),
    ({"fsdp": ["shard_grad_op", "auto_wrap"]}, MICRO),
    ({"fsdp": "no_shard"}, "step"),
    ({"fsdp": True, "fsdp_config": {"version": 1, "reshard_after_forward": "no_shard"}}, "step"),
    ({"deepspeed": zero(0)}, "step"),
    ({"deepspeed": zero(1)}, "step"),
    ({"deepspeed": zero(2)}, MICRO),
    ({"deepspeed": zero(3)}, MICRO),
    ({"deepspeed": zero("auto")}, None),
    ({"deepspeed": {"pipeline": {"stages": 2}}}, MICRO),
    ({"deepspeed": {"fp16": {"enabled": True}}}, "step"),
    ({"deepspeed": "nowhere.json"}, None),
    ({"deepspeed": {"zero_optimization": True}}, "step"),
    ({"deepspeed": ["zero2.json"]}, None),
    ({"fsdp": True, "fsdp_config": 3}, MICRO),
    # TRL
    ({"accelerate_config": "multi_gpu"}, "step"),
    ({"accelerate_config": "zero2"}, MICRO),
    ({"accelerate_config": "nowhere.yaml"}, None),
    ({"fsdp_config": {"fsdp_version": 2}}, None),
    # accelerate
    ({"distributed_type": "MULTI_GPU", "num_processes": 8}, "step"),
    ({"distributed_type": "NO"}, "step"),
    ({"distributed_type": "MEGATRON_LM"}, MICRO),
    ({"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": 1}}, MICRO),
    ({"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": "NO_SHARD"}}, "step"),
    ({"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": 3}}, "step"),
    ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 1}}, "step"),
    ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}, MICRO),
    # DeepSpeed's own
    (zero(2), MICRO),
    (zero(1), "step"),
]


@pytest.mark.parametrize(("keys", "wait"), KEYS)
def test_where_ranks_wait(keys, wait, tmp_path):
    assert wait_of(keys, tmp_path) == wait


@pytest.mark.torch
def test_the_profiles_of_trl_are_its_own_files():
    trl = needs("trl")
    folder = Path(trl.__file__).parent / "accelerate_configs"
    files = {file.stem: yaml.safe_load(file.read_text()) for file in folder.glob("*.yaml")}
    assert files.keys() == _OF_TRL.keys()
    assert {name: wait_of(keys, folder) for name, keys in files.items()} == _OF_TRL


@pytest.mark.parametrize(("name", "write"), [("a.json", json.dumps), ("a.yaml", yaml.safe_dump)])
def test_a_file_that_is_named_is_read_from_here_or_from_beside_the_configuration(
    name, write, tmp_path, monkeypatch
):
    (tmp_path / name).write_text(write(zero(2)))
    assert wait_of({"deepspeed": name}, tmp_path) == MICRO
    assert wait_of({"deepspeed_config": {"deepspeed_config_file": name}}, tmp_path) == MICRO
    assert wait_of({"accelerate_config": name}, tmp_path) == MICRO
    assert wait_of({"deepspeed": name}, Path("elsewhere")) is None
    monkeypatch.chdir(tmp_path)
    assert wait_of({"deepspeed": name}, Path("elsewhere")) == MICRO


def test_a_file_that_names_itself_is_read_once(tmp_path):
    (tmp_path / "a.yaml").write_text("accelerate_config: a.yaml\n")
    assert wait_of({"accelerate_config": "a.yaml"}, tmp_path) is None
    (tmp_path / "b.yaml").write_text("deepspeed_config_file: b.yaml\n")
    assert wait_of({"deepspeed_config": "b.yaml"}, tmp_path) == "step"


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "\xff", "just text"])
def test_a_file_without_keys_says_nothing(text, tmp_path):
    (tmp_path / "ds.json").write_text(text, encoding="latin-1")
    assert wait_of({"deepspeed": "ds.json"}, tmp_path) is None


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("args.json", {"per_device_train_batch_size": 2, "fsdp": "full_shard"}),
        ("sft.json", {"max_length": 64, "packing": False, "dataset_text_field": "text"}),
    ],
)
def test_it_is_a_setting_of_every_trainer(name, keys, tmp_path):
    given = {"deepspeed": zero(3)} if "fsdp" not in keys else {}
    (tmp_path / name).write_text(json.dumps(keys | given))
    assert read_setup(tmp_path / name).batching.settings["wait"] == MICRO


def test_the_report_waits_as_the_trainer_does_unless_it_is_told_otherwise(tmp_path):
    keys = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "fsdp": True}
    (tmp_path / "args.json").write_text(json.dumps(keys))

    def idle(**settings):
        corpus = SAMPLE_DATA / "corpus.txt"
        found = batchstat.preflight(tmp_path / "args.json", corpus, world_size=4, **settings)
        return found.simulation.row.counts.rank_idle

    assert idle() == idle(wait=MICRO) > 2 * idle(wait="step")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"distributed_type": "FSDP", "num_processes": 8, "fsdp_config": {}},
            "is accelerate's configuration, not a trainer's: name the trainer's, with "
            "--world-size 8 --wait micro-batch, as it says",
        ),
        (zero(1), "is DeepSpeed's configuration, not a trainer's: name the trainer's, with --wait"),
        (zero("auto"), "is DeepSpeed's configuration, not a trainer's: name the trainer's"),
    ],
)
def test_a_file_of_what_starts_a_trainer_says_what_to_pass(keys, message, tmp_path):
    (path := tmp_path / "launch.yaml").write_text(yaml.safe_dump(keys))
    with pytest.raises(batchstat.OptionError) as refused:
        read_setup(path)
    assert message in str(refused.value)
