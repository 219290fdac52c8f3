"""slime's arguments, for supervised training and for reinforcement learning, as JSON or YAML.

Checked against slime 624b824: `parse_args` and `slime_validate_args` of slime/utils/arguments.py,
`generate_rollout` of slime/rollout/sft_rollout.py, `build_dp_schedule` of
slime/utils/dp_schedule.py, `get_batch` of slime/backends/megatron_utils/data.py. Samples and steps
are in `slime_samples`, the work of balance_data in `slime_work`, the keys in `slime_keys`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from batchstat.errors import OptionError, short
from batchstat.frameworks.keys import refuse
from batchstat.frameworks.rollouts import WHICH_ROLLOUTS, Rollouts
from batchstat.frameworks.setup import Framework, TrainingSetup, TurnRules
from batchstat.frameworks.slime_keys import (
    DATA_SOURCE,
    KEYS,
    REFUSED,
    REFUSED_FOR_RL,
    REFUSED_FOR_SFT,
    RL_ROLLOUTS,
    SFT_ROLLOUT,
    UNUSED,
)
from batchstat.frameworks.slime_samples import SlimeSamples, SlimeSchedule
from batchstat.frameworks.slime_work import work_of_shape

_FORMATS = (".jsonl", ".parquet")
_TURN_BY_TURN = ("qwen", "qwen3")

_MODELLED: dict[str, Any] = {
    "use_dynamic_batch_size": True,
    "rollout_global_dataset": True,
    "data_source_path": DATA_SOURCE,
}
_MODELLED_OF_SFT: dict[str, Any] = {
    "loss_type": "sft_loss",
    "n_samples_per_prompt": 1,
    "calculate_per_token_loss": True,
}
"""The values whose batches are modelled."""


def read_config(
    values: Mapping[str, Any], where: str, given: frozenset[str], **facts: Any
) -> TrainingSetup:
    """Return the setup of slime's arguments."""
    del given  # defaults are slime's own
    is_sft = values["rollout_function_path"] == SFT_ROLLOUT
    _check(values, where, is_sft)
    size, steps_of_rollout = _sizes(values, where)
    ranks, context = _ranks(values, where), values["context_parallel_size"]
    max_steps = values["num_rollout"] and values["num_rollout"] * steps_of_rollout
    _check_warmup(values, where, max_steps)
    multiple = values["tensor_model_parallel_size"] * values["data_pad_size_multiplier"] * context
    return TrainingSetup(
        values=values,
        strategy=_strategy(values, where, size),
        settings={
            "tokens_per_batch": values["max_tokens_per_gpu"] * context,
            "order": "file",
            "world_size": ranks,
            "loss": "token-sum",
            "pad_to_multiple_of": multiple,
        },
        own_keys={
            "tokens_per_batch": "max_tokens_per_gpu",
            "samples_per_step": "global_batch_size",
        },
        max_length_of_corpus=True,
        schedule=SlimeSchedule(
            epochs=values["num_epoch"] or 1,
            max_steps=max_steps,
            warmup_fraction=values["lr_warmup_fraction"],
            warmup_given=values["lr_warmup_iters"],
            decay_steps=values["lr_decay_iters"],
            samples_per_step=size,
        ),
        ranks_from=(
            f"{ranks} data-parallel ranks are actor_num_nodes x actor_num_gpus_per_node / (tensor "
            "x pipeline x context parallelism), unless --world-size says otherwise"
        ),
        warnings=tuple(_warnings(values, is_sft)),
        **(_supervised(values) if is_sft else _of_rollouts(values)),
        **facts,
    )


def _supervised(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is particular to supervised training."""
    reading, unreadable = _corpus(values)
    return {
        "reading": reading,
        "corpus_key": "prompt_data",
        "unreadable": unreadable,
        "columns": ({"messages_column": values["input_key"], "assistant_only_loss": True},),
        "prepare": SlimeSamples(
            seed=values["rollout_seed"] if values["rollout_shuffle"] else None,
            samples_per_rollout=values["rollout_batch_size"],
            turn_by_turn=values["loss_mask_type"] in _TURN_BY_TURN,
        ),
        "turns": (
            TurnRules(adds_no_system=values["loss_mask_type"] == "qwen3")
            if values["loss_mask_type"] in _TURN_BY_TURN
            else None
        ),
    }


def _of_rollouts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is particular to reinforcement learning."""
    return {
        "reading": _tokenizer(values),
        "unreadable": WHICH_ROLLOUTS,
        "prepare": Rollouts(
            per_generation=values["rollout_batch_size"] * values["n_samples_per_prompt"],
            key="rollout_batch_size or n_samples_per_prompt",
        ),
    }


def _strategy(values: Mapping[str, Any], where: str, size: int) -> str:
    found = f"slime:samples_per_step={size}"
    if values["balance_data"]:
        token, pair = work_of_shape(values, where)
        found += f",token_work={token},pair_work={pair}"
    if (context := values["context_parallel_size"]) > 1:
        found += f",document_multiple={2 * context}"
    return found


def _check(values: Mapping[str, Any], where: str, is_sft: bool) -> None:
    """Raise OptionError for what is not modelled, or missing."""
    own, only = (REFUSED_FOR_SFT, _MODELLED_OF_SFT) if is_sft else (REFUSED_FOR_RL, {})
    refuse(where, values, REFUSED | own, _MODELLED | only)
    function = values["rollout_function_path"]
    if not is_sft and function not in RL_ROLLOUTS:
        raise OptionError(
            f"{where}: rollout_function_path={short(function)} is not modelled: only "
            f"{', '.join((SFT_ROLLOUT, *RL_ROLLOUTS))} are"
        )
    if not is_sft and values["loss_type"] == "sft_loss":
        raise OptionError(
            f"{where}: loss_type='sft_loss' goes with rollout_function_path={SFT_ROLLOUT}: add it"
        )
    for key in ("rollout_batch_size", "max_tokens_per_gpu"):
        if values[key] is None:
            raise OptionError(f"{where} has no {key}, which slime needs: add it")
    if values["num_rollout"] is None and values["num_epoch"] is None:
        raise OptionError(f"{where} has neither num_epoch nor num_rollout: add one")


def _check_warmup(values: Mapping[str, Any], where: str, max_steps: int | None) -> None:
    """Raise OptionError for a warm-up that Megatron refuses: one not shorter than the decay."""
    fraction, given = values["lr_warmup_fraction"], values["lr_warmup_iters"]
    decay = values["lr_decay_iters"] or max_steps
    if fraction is None and decay is not None and given >= decay:
        raise OptionError(
            f"{where}: lr_warmup_iters={given} is not less than the {decay} steps over which the "
            "learning rate decays, at which Megatron stops: lower it"
        )
    if fraction is not None and fraction >= 1:
        raise OptionError(
            f"{where}: lr_warmup_fraction={fraction:g} is not below 1, at which Megatron stops: "
            "lower it"
        )


def _sizes(values: Mapping[str, Any], where: str) -> tuple[int, int]:
    """Return samples per step, and steps per rollout."""
    n, size = values["n_samples_per_prompt"], values["global_batch_size"]
    rollout = values["rollout_batch_size"] * n
    key = f"rollout_batch_size x n_samples_per_prompt={n}" if n > 1 else "rollout_batch_size"
    steps = values["num_steps_per_rollout"]
    if steps is not None:
        if size not in (None, rollout // steps):
            raise OptionError(
                f"{where}: global_batch_size={size} is not {key} / "
                f"num_steps_per_rollout={steps}: remove one"
            )
        size = rollout // steps
    if not size:
        raise OptionError(f"{where} has no global_batch_size: add it")
    if rollout % size:
        raise OptionError(
            f"{where}: {key} is {rollout}, which is not a multiple of global_batch_size={size}, so "
            "that slime drops samples of each rollout, which is not modelled: change one"
        )
    return size, rollout // size


def _ranks(values: Mapping[str, Any], where: str) -> int:
    """Return the number of data-parallel ranks."""
    gpus = values["actor_num_nodes"] * values["actor_num_gpus_per_node"]
    others = values["tensor_model_parallel_size"] * values["pipeline_model_parallel_size"]
    others *= values["context_parallel_size"]
    if gpus % others:
        raise OptionError(
            f"{where}: tensor x pipeline x context parallelism of {others} do not divide {gpus} "
            "GPUs: change actor_num_gpus_per_node"
        )
    return int(gpus // others)


def _tokenizer(values: Mapping[str, Any]) -> dict[str, Any]:
    named = values["hf_checkpoint"]
    return {"tokenizer": str(Path(named).expanduser())} if named else {}


def _corpus(values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return keywords of `profile`, and why the corpus cannot be read, with the remedy."""
    reading = _tokenizer(values)
    with_ids = "pass the files as CORPUS, with token ids: --tokens-column"
    if values["loss_mask_type"] == "distill_qwen":
        return reading, f"has loss_mask_type='distill_qwen', not read here: {with_ids}"
    if values["tool_key"] != "tools":
        return reading, f"has tool_key={values['tool_key']!r}, not read here: call it 'tools'"
    named = values["prompt_data"]
    if named and PurePath(named).suffix not in _FORMATS:
        return reading, f"has prompt_data={named!r}, not read here: pass its rows as CORPUS"
    if named:
        reading["corpus"] = (named,)
    return reading, ""


def _warnings(values: Mapping[str, Any], is_sft: bool) -> Iterator[str]:
    """Yield what the report may not be true of."""
    if not is_sft:
        yield from _warnings_of_rollouts(values)
        return
    if values["rollout_shuffle"]:
        yield "batches are those of the first epoch: slime shuffles the others otherwise"
    if values["loss_mask_type"] == "qwen":
        yield (
            "chats are counted as loss_mask_type=qwen tokenizes them, which differs where the "
            "tokenizer has the added token <｜Assistant｜>"
        )


def _warnings_of_rollouts(values: Mapping[str, Any]) -> Iterator[str]:
    if values["num_rollout"] is None:
        yield "steps in all take these rollouts for those of one epoch of prompt_data"
    if not values["calculate_per_token_loss"]:
        yield (
            "weights of tokens are those of calculate_per_token_loss; without it, slime averages "
            "the mean losses of rollouts"
        )
    if values["custom_generate_function_path"]:
        yield "each rollout is one sample, which custom_generate_function_path may do otherwise"


SLIME = Framework(
    title="slime's arguments",
    version="624b824",
    keys=KEYS,
    unused=UNUSED,
    has_dashes=True,
    read=read_config,
)
