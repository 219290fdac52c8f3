"""Where ranks wait for each other, by the keys that say how a model is spread over them: of a
trainer, of accelerate, or of DeepSpeed. Sharded weights (FSDP, ZeRO-3) are gathered in each
forward, and ZeRO-2 reduces the gradients of each backward, so that ranks meet in every micro-batch,
whatever is accumulated. DDP, ZeRO-1 and FSDP with NO_SHARD meet where a step ends. Checked against
transformers 5.24 (`TrainingArguments._process_fsdp_args`), accelerate 1.15
(`FullyShardedDataParallelPlugin`) and DeepSpeed 0.19.8 (`DeepSpeedEngine.allreduce_gradients`).
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from batchstat.errors import BatchstatError
from batchstat.trainers.base.key_files import read_keys

_UNSHARDED = {"no_shard", "3"}  # FSDP that is DDP: its name, and its number in accelerate's files

_OF_TRL = {
    **dict.fromkeys(("single_gpu", "multi_gpu", "zero1"), "step"),
    **dict.fromkeys(("fsdp1", "fsdp2", "zero2", "zero3"), "micro-batch"),
}
"""Files of accelerate that TRL has, by the names that its `accelerate_config` takes."""


def wait_of(values: Mapping[str, Any], folder: Path) -> str | None:
    """Return where ranks wait, the setting `wait`; None where the keys or their file do not say."""
    if profile := values.get("accelerate_config"):  # TRL's: a name, or a file of accelerate
        if str(profile) in _OF_TRL:
            return _OF_TRL[str(profile)]
        values = _table(profile, folder)
    kind = str(values.get("distributed_type", "")).upper()  # accelerate's
    deepspeed = _table(values.get("deepspeed") or values.get("deepspeed_config"), folder)
    if "zero_optimization" in values:
        deepspeed = values
    if deepspeed:
        return _wait_of_deepspeed(deepspeed, folder)
    if values.get("fsdp") or kind == "FSDP":
        fsdp, keys = values.get("fsdp"), _table(values.get("fsdp_config"), folder)
        options = fsdp if isinstance(fsdp, list) else str(fsdp).split()
        names = ("sharding_strategy", "reshard_after_forward")
        strategies = [keys.get(prefix + name) for prefix in ("", "fsdp_") for name in names]
        is_unsharded = _UNSHARDED & {str(each).lower() for each in [*options, *strategies]}
        return "step" if is_unsharded else "micro-batch"
    if kind:
        return "micro-batch" if kind == "MEGATRON_LM" else "step"
    return None


def _wait_of_deepspeed(keys: Mapping[str, Any], folder: Path) -> str | None:
    """Return where ranks of DeepSpeed wait, by its own keys or by accelerate's."""
    # accelerate's table has either a stage, or the name of a file of DeepSpeed.
    if named := keys.get("deepspeed_config_file"):
        keys = _table(named, folder)
    if not keys:
        return None
    if "pipeline" in keys:
        return "micro-batch"
    zero = keys.get("zero_optimization")
    stage = keys.get("zero_stage", zero.get("stage") if isinstance(zero, Mapping) else None)
    if stage is None:  # without ZeRO, as stage 0
        return "step"
    if not isinstance(stage, int):  # such as "auto": the command decides
        return None
    return "micro-batch" if stage >= 2 else "step"  # from ZeRO-2 on, in each backward


def _table(value: object, folder: Path) -> Mapping[str, Any]:
    """Return a table of keys, or read its file, in the current folder or beside the setup."""
    if isinstance(value, Mapping):
        return value
    for file in (Path(value), folder / value) if isinstance(value, str) and value else ():
        with suppress(BatchstatError):  # a file that another machine has
            return read_keys(file)
    return {}
