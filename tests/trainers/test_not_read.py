"""Files of trainers that are not read are recognised, and answered in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

import batchstat
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.base.not_read import NOT_READ
from batchstat.trainers.registry import CONFIGURATIONS
from conftest import SAMPLE_DATA, Run
from tables import in_turn

CORPUS = SAMPLE_DATA / "corpus.txt"

FILES: dict[str, list[dict[str, Any]]] = {
    "torchtune": [
        {
            "tokenizer": {"_component_": "torchtune.models.llama3.llama3_tokenizer"},
            "dataset": {"_component_": "torchtune.datasets.alpaca_dataset", "packed": False},
            "seed": None,
            "shuffle": True,
            "batch_size": 4,
            "epochs": 1,
        },
    ],
    "ms-swift": [
        {
            "model": "Qwen/Qwen2.5-7B-Instruct",
            "tuner_type": "lora",
            "max_length": 2048,
            "dataset": ["AI-ModelScope/alpaca-gpt4-data-zh#500"],
            "torch_dtype": "bfloat16",
            "num_train_epochs": 1,
            "per_device_train_batch_size": 1,
            "learning_rate": 1e-4,
            "gradient_accumulation_steps": 16,
            "warmup_ratio": 0.05,
            "eval_steps": 50,
        },
        # All but one of its keys are those of transformers.
        {"per_device_train_batch_size": 1, "seed": 3, "warmup_steps": 1, "loss_scale": "default"},
    ],
    "verl": [
        {
            "data": {"train_files": "train.parquet", "max_length": 512, "train_batch_size": 256},
            "model": {"partial_pretrain": "Qwen/Qwen2.5-0.5B-Instruct"},
            "trainer": {"total_epochs": 4, "n_gpus_per_node": 8},
        },
    ],
    "verl-ppo": [
        {
            "data": {"train_files": "train.parquet", "train_batch_size": 1024},
            "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 256}, "rollout": {"n": 5}},
            "trainer": {"total_epochs": 15, "n_gpus_per_node": 8},
        },
    ],
    "slime": [
        {"hf-checkpoint": "/root/Qwen3-4B", "rollout-batch-size": 32, "global-batch-size": 256},
        {"max_tokens_per_gpu": 9216, "rollout_batch_size": 16, "n_samples_per_prompt": 8},
    ],
    "axolotl": [
        {
            "base_model": "NousResearch/Llama-3.2-1B",
            "datasets": [{"path": "teknium/GPT4-LLM-Cleaned", "type": "alpaca"}],
            "val_set_size": 0.1,
            "sequence_len": 2048,
            "sample_packing": True,
            "adapter": "lora",
            "gradient_accumulation_steps": 2,
            "micro_batch_size": 2,
            "num_epochs": 1,
            "learning_rate": 2e-4,
        },
        # All but one of its keys are those of transformers and TRL.
        {"datasets": [], "micro_batch_size": 2, "gradient_accumulation_steps": 4, "seed": 1},
    ],
    "llama-factory": [
        {
            "model_name_or_path": "meta-llama/Meta-Llama-3-8B-Instruct",
            "stage": "sft",
            "do_train": True,
            "finetuning_type": "lora",
            "dataset": "identity,alpaca_en_demo",
            "template": "llama3",
            "cutoff_len": 2048,
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": 8,
            "num_train_epochs": 3.0,
        },
        {"stage": "pt", "do_train": True, "per_device_train_batch_size": 1, "cutoff_len": 512},
    ],
}
"""Configurations as their examples have them."""

RUNS = {"axolotl": "axolotl train", "llama-factory": "llamafactory-cli train"}
"""Those whose commands were recorded."""


def saved(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "config.yaml"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_every_trainer_has_a_case_and_none_of_its_keys_is_one_that_is_read():
    assert set(FILES) == set(NOT_READ)
    for trainer in NOT_READ.values():
        tops = {key.partition(".")[0] for key in trainer.keys}
        for framework in CONFIGURATIONS.values():
            assert not any(framework.knows(key) for key in trainer.keys)
            # A table of that name is not theirs either, but for a data set.
            assert not any(framework.knows(key) for key in tops - {"dataset"})


@in_turn(("name", "values"), [(name, values) for name, files in FILES.items() for values in files])
def test_its_file_is_recognised(tmp_path, name, values):
    with pytest.raises(batchstat.OptionError) as caught:
        read_setup(saved(tmp_path, values))
    message = str(caught.value)
    assert f"config.yaml is {NOT_READ[name].title}, which batchstat does not read" in message
    assert all(each.title in message for each in CONFIGURATIONS.values())
    if name in RUNS:
        command = f"batchstat run --dry-run {RUNS[name]} {(tmp_path / 'config.yaml').as_posix()}"
        assert message.endswith(f": record its batches: `{command}`")
    else:
        assert "--current static:batch_size=8" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", NOT_READ)
def test_its_name_is_recognised(tmp_path, name):
    with pytest.raises(batchstat.OptionError, match="which batchstat does not read; it reads"):
        read_setup(saved(tmp_path, {"seed": 1}), name)


def test_the_name_of_another_trainer_does_not_hide_whose_file_it_is(tmp_path):
    config = saved(tmp_path, FILES["ms-swift"][1])
    with pytest.raises(batchstat.OptionError, match="arguments of ms-swift, which batchstat does"):
        read_setup(config, "transformers")


@pytest.mark.parametrize("name", ["torchtune", "axolotl", "llama-factory"])
@pytest.mark.parametrize("command", ["compare", "check", "init", "preflight"])
def test_every_command_answers_in_one_line(run: Run, tmp_path, command, name):
    config = saved(tmp_path, FILES[name][0])
    words = (config.name, CORPUS) if command == "preflight" else (CORPUS, "--current", config.name)
    for flags in ((), ("--framework", name)):
        done = run(command, *words, *flags)
        assert (done.returncode, done.stdout) == (2, "")
        [line] = done.stderr.splitlines()
        assert line.startswith(
            f"error: config.yaml is {NOT_READ[name].title}, which batchstat does"
        )
        assert ("`batchstat run --dry-run " in line) == (name in RUNS)


def test_the_configuration_of_checks_may_name_it(run: Run, tmp_path):
    config = saved(tmp_path, FILES["axolotl"][0])
    (tmp_path / "batchstat.toml").write_text(f'current = "{config.name}"\n')
    done = run("check", CORPUS)
    assert done.returncode == 2
    assert "`batchstat run --dry-run axolotl train config.yaml`" in done.stderr


def test_a_name_with_spaces_is_quoted(tmp_path):
    config = saved(tmp_path, FILES["axolotl"][0]).rename(tmp_path / "my config.yaml")
    with pytest.raises(batchstat.OptionError, match="axolotl train '.*/my config.yaml'`$"):
        batchstat.preflight(config)
