"""The configuration of verl's PPO trainer, also for GRPO and others, as hydra writes it.

Checked against verl 0.9.1: `PPOTrainer` of verl/trainer/ppo/v1/trainer_base.py and, without
trainer.use_v1, `RayPPOTrainer` of verl/trainer/ppo/ray_trainer.py; `TrainingWorker` of
verl/workers/engine_workers.py; `prepare_micro_batches` of verl/workers/engine/utils.py, which the
engines fsdp and megatron share; `preprocess_thd_engine` of verl/models/mcore/util.py. The keys are
in `verl_ppo_keys`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchstat.errors import OptionError
from batchstat.frameworks.keys import refuse
from batchstat.frameworks.rollouts import WHICH_ROLLOUTS, GenerationSchedule, Rollouts
from batchstat.frameworks.setup import Framework, TrainingSetup
from batchstat.frameworks.verl_engine import ENGINES, data_parallel_ranks, fsdp_multiple
from batchstat.frameworks.verl_ppo_keys import (
    ACTOR,
    FSDP,
    KEYS,
    MEGATRON,
    MODEL,
    REFUSED,
    UNUSED,
    UNUSED_TABLES,
)
from batchstat.frameworks.verl_samples import VerlSchedule

_ULYSSES = "ulysses_sequence_parallel_size"
_MODELLED = {f"{ACTOR}.use_dynamic_bsz": True, f"{MODEL}.use_remove_padding": True}


def read_config(
    values: Mapping[str, Any], where: str, given: frozenset[str], **facts: Any
) -> TrainingSetup:
    """Return the setup of a configuration of verl's PPO trainer."""
    del given  # defaults are verl's own
    refuse(where, values, REFUSED, _MODELLED)
    is_v1 = values["trainer.use_v1"]
    if is_v1:
        refuse(where, values, {}, {"trainer.v1.trainer_mode": "sync"})
    engine = _engine(values, where)
    per_generation, size = _sizes(values, where)
    settings = {
        "tokens_per_batch": values[f"{ACTOR}.ppo_max_token_len_per_gpu"] * engine.shared_tokens,
        "order": "file",
        "world_size": engine.ranks,
        "loss": "token-sum",
    }
    if engine.multiple > 1:
        settings["pad_to_multiple_of"] = engine.multiple
    tokenizer = values[f"{MODEL}.tokenizer_path"] or values[f"{MODEL}.path"]
    total = values["trainer.total_training_steps"]
    steps, passes = per_generation // size, values[f"{ACTOR}.ppo_epochs"]
    return TrainingSetup(
        values=values,
        strategy=_strategy(values, per_generation, size, engine.of_sample),
        settings=settings,
        own_keys={
            "tokens_per_batch": f"{ACTOR}.ppo_max_token_len_per_gpu",
            "samples_per_step": f"{ACTOR}.ppo_mini_batch_size",
        },
        max_length_of_corpus=True,
        reading={"tokenizer": str(Path(tokenizer).expanduser())} if tokenizer else {},
        unreadable=WHICH_ROLLOUTS,
        schedule=GenerationSchedule(
            epochs=values["trainer.total_epochs"],
            max_steps=total and total * steps * passes,
            generations=VerlSchedule(
                epochs=values["trainer.total_epochs"],
                max_steps=total,
                warmup=values[f"{ACTOR}.optim.lr_warmup_steps_ratio"],
                warmup_given=values[f"{ACTOR}.optim.lr_warmup_steps"],
            ),
            steps_per_pass=steps,
            passes=passes,
            untrained=max(0, values["trainer.critic_warmup"] - 1),
        ),
        prepare=Rollouts(per_generation=per_generation, key="data.train_batch_size or rollout.n"),
        ranks_from=(
            f"{engine.ranks} data-parallel ranks are trainer.nnodes x trainer.n_gpus_per_node / "
            "the actor's parallelism, unless --world-size says otherwise"
        ),
        warnings=tuple(_warnings(values)),
        **facts,
    )


@dataclass(frozen=True, kw_only=True)
class _Engine:
    """What the actor's engine decides.

    Attributes:
        ranks: ranks that have batches of their own.
        shared_tokens: GPUs over which the tokens of a batch are divided.
        multiple: the tokens of a batch are padded to a multiple of it.
        of_sample: those of each sample are.
    """

    ranks: int
    shared_tokens: int
    multiple: int
    of_sample: int = 1


def _engine(values: Mapping[str, Any], where: str) -> _Engine:
    name = values["model_engine"]
    strategy = values[f"{ACTOR}.strategy"] or {"dp": "fsdp"}.get(name, name)
    if strategy == "megatron":
        return _megatron(values, where)
    if strategy not in ENGINES:
        raise OptionError(
            f"{where}: {ACTOR}.strategy={strategy!r} is an engine that is not modelled: only "
            f"{', '.join(ENGINES)} and megatron are"
        )
    others = values[f"{ACTOR}.{_ULYSSES}"]
    others = others if others > 1 else values[f"{FSDP}.{_ULYSSES}"]
    padded = {**values, f"{FSDP}.pad_to_length": _pads(values)}
    return _Engine(
        ranks=data_parallel_ranks(values, where, others, f"{FSDP}.{_ULYSSES}"),
        shared_tokens=others,
        multiple=fsdp_multiple(padded, where, FSDP, others),
    )


def _pads(values: Mapping[str, Any]) -> bool:
    """Return whether the FSDP engine pads batches to a bucket: by its own key, if it is there."""
    own = values[f"{FSDP}.pad_to_length"]
    return bool(values[f"{ACTOR}.pad_to_length"] if own is None else own)


def _megatron(values: Mapping[str, Any], where: str) -> _Engine:
    if values[f"{MEGATRON}.pad_to_length"]:
        raise OptionError(f"{where}: {MEGATRON}.pad_to_length=true is not modelled: remove it")
    if values[f"{ACTOR}.optim.lr_decay_steps"] is not None:
        raise OptionError(f"{where}: {ACTOR}.optim.lr_decay_steps is not modelled: remove it")
    warmup, total = values[f"{ACTOR}.optim.lr_warmup_steps"], values["trainer.total_training_steps"]
    ratio = values[f"{ACTOR}.optim.lr_warmup_steps_ratio"]
    if (total is not None and warmup >= total) or (warmup <= 0 and ratio >= 1):
        key = "lr_warmup_steps_ratio" if warmup <= 0 else "lr_warmup_steps"
        raise OptionError(
            f"{where}: {ACTOR}.optim.{key} is not below the steps in all, at which Megatron stops: "
            "lower it"
        )
    tensor = values[f"{MEGATRON}.tensor_model_parallel_size"]
    context = values[f"{MEGATRON}.context_parallel_size"]
    others = tensor * context * values[f"{MEGATRON}.pipeline_model_parallel_size"]
    return _Engine(
        ranks=data_parallel_ranks(
            values, where, others, f"{MEGATRON}: tensor x pipeline x context parallel sizes"
        ),
        shared_tokens=context,
        multiple=1,
        of_sample=tensor * context * (2 if context > 1 else 1),
    )


def _sizes(values: Mapping[str, Any], where: str) -> tuple[int, int]:
    """Return rollouts per generation, and per step."""
    n = values["actor_rollout_ref.rollout.n"]
    key = "data.train_batch_size"
    if not values["trainer.use_v1"] and values["data.gen_batch_size"]:
        key = "data.gen_batch_size"
    prompts = values[key]
    own = f"{ACTOR}.ppo_mini_batch_size"
    sizes = {own: values[own]}
    has_critic = values["critic.enable"]
    if has_critic is None:
        has_critic = values["algorithm.adv_estimator"] == "gae"
    if has_critic and values["critic.ppo_mini_batch_size"]:
        sizes["critic.ppo_mini_batch_size"] = values["critic.ppo_mini_batch_size"]
    for name, size in sizes.items():
        if prompts % size:
            raise OptionError(
                f"{where}: {key}={prompts} is not a multiple of {name}={size}, so that verl adds "
                "empty rollouts or stops, which is not modelled: change one"
            )
    return prompts * n, sizes[own] * n


def _strategy(values: Mapping[str, Any], per_generation: int, size: int, multiple: int) -> str:
    assign = "ordered"
    if not values["trainer.use_v1"]:
        assign = "balanced" if values["trainer.balance_batch"] else "chunks"
    found = f"verl:samples_per_step={size},samples_per_rollout={per_generation},assign={assign}"
    padded = f",document_multiple={multiple}" if multiple > 1 else ""
    return f"{found},keeps_budget=true{padded}"


def _warnings(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the report may not be true of."""
    yield (
        "an epoch is one pass over the rollouts of this corpus; steps in all take them for those "
        "of one epoch of data.train_files"
    )
    if (passes := values[f"{ACTOR}.ppo_epochs"]) > 1:
        yield f"steps in all have ppo_epochs={passes} passes over the rollouts of each generation"
    if values["trainer.use_v1"] and not values["trainer.balance_batch"]:
        yield "trainer.balance_batch=false has no influence with trainer.use_v1, which balances"
    if values["algorithm.filter_groups.enable"]:
        yield "algorithm.filter_groups drops rollouts: the corpus has to have those that it keeps"
    if values[f"{ACTOR}.loss_agg_mode"] == "seq-mean-token-mean":
        yield "weights of tokens are those of loss_agg_mode=token-mean"


def alternatives(setup: TrainingSetup) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute."""
    values = setup.values
    if _pads(values):
        yield {f"{FSDP}.pad_to_length": False}
    if not (values["trainer.use_v1"] or values["trainer.balance_batch"]):
        yield {"trainer.balance_batch": True}


VERL_PPO = Framework(
    title="the configuration of verl's PPO trainer",
    version="0.9.1",
    package="verl",
    keys=KEYS,
    unused=UNUSED,
    unused_tables=UNUSED_TABLES,
    is_nested=True,
    read=read_config,
    alternatives=alternatives,
)
