"""Trainers whose configurations are recognised, to say that they are not read, and what answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NotRead:
    """A trainer whose configuration is not read."""

    title: str
    keys: frozenset[str]
    command: str = ""  # what trains with the file that follows, for `batchstat run`


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


NOT_READ: Mapping[str, NotRead] = {
    "torchtune": NotRead(
        "torchtune's configuration",
        _keys("dataset._component_ model._component_ tokenizer._component_"),
    ),
    "ms-swift": NotRead(
        "the arguments of ms-swift",
        _keys(
            "tuner_type train_type loss_scale split_dataset_ratio packing_length agent_template "
            "truncation_strategy lazy_tokenize dataset_shuffle attn_impl custom_dataset_info"
        ),
    ),
    "verl-ppo": NotRead("the configuration of verl's PPO trainer", _keys("actor_rollout_ref")),
    "verl": NotRead(
        "the configuration of verl's SFT trainer",
        _keys(
            "data.train_files data.train_batch_size data.micro_batch_size_per_gpu "
            "data.max_token_len_per_gpu"
        ),
    ),
    "slime": NotRead(
        "the arguments of slime",
        _keys(
            "rollout_batch_size rollout_max_response_len n_samples_per_prompt prompt_data "
            "max_tokens_per_gpu actor_num_nodes actor_num_gpus_per_node use_dynamic_batch_size"
        ),
    ),
    "axolotl": NotRead(
        "axolotl's configuration",
        _keys(
            "sequence_len micro_batch_size sample_packing pad_to_sequence_len eval_sample_packing "
            "dataset_prepared_path"
        ),
        "axolotl train",
    ),
    "llama-factory": NotRead(
        "LLaMA-Factory's training arguments",
        _keys("cutoff_len finetuning_type neat_packing"),
        "llamafactory-cli train",
    ),
}
"""By name; the first whose key is there: verl's PPO trainer has the keys of its SFT trainer too."""


def trainer_not_read(content: Mapping[Any, Any]) -> NotRead | None:
    """Return the trainer of `NOT_READ` whose configuration this is; None for any other."""
    # The names of all keys, and of those in a table also `table.key`, with _ for each -.
    keys = set[str]()
    for key, value in content.items():
        name = str(key).replace("-", "_")
        inner_keys = value if isinstance(value, Mapping) else ()
        keys |= {name, *(f"{name}.{str(each).replace('-', '_')}" for each in inner_keys)}
    return next((each for each in NOT_READ.values() if not keys.isdisjoint(each.keys)), None)
