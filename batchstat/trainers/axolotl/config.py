"""axolotl's configuration, as YAML.

Checked against axolotl 0.19: the keys of `AxolotlInputConfig` in src/axolotl/utils/schemas,
`merge_datasets`, `handle_long_seq_in_dataset` and `create_train_validation_split` in
src/axolotl/utils/data, `HFCausalTrainerBuilder` in src/axolotl/core/builders/causal.py. Steps are
in `schedule`, data sets in `corpus`, the keys in `keys`.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from batchstat.findings import Finding
from batchstat.planning.frameworks.axolotl import Axolotl
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.trainers.axolotl.corpus import corpus_of, loading_of
from batchstat.trainers.axolotl.keys import ATTENTION, AxolotlConfig
from batchstat.trainers.axolotl.samples import AxolotlSchedule, prepare
from batchstat.trainers.base.rules import Batching, TrainingRules
from batchstat.trainers.base.setup import Framework
from batchstat.trainers.transformers.config import AUTO_FIND_WARNING, GROUPED_WARNING

_PAD_TO = 64
"""axolotl's default of `pad_to_multiple_of`."""
_SEED = 42
"""The Trainer's default of `seed`; axolotl itself shuffles unseeded unless the key is set."""

_LONG_ROWS = (
    "flash_attention_2",
    "flash_attention_3",
    "flash_attention_4",
    "flash_attention_torch",
    "flex_attention",
    "xformers",
    "sage",
    "kernels-community/flash-attn2",
    "kernels-community/flash-attn3",
    "kernels-community/sage-attention",
)
"""Attention that keeps any number of samples in a row apart: with these, axolotl packs one row of
micro_batch_size × sequence_len tokens per batch, instead of micro_batch_size rows."""

_PLUGINS = ("liger", "cut_cross_entropy", "spectrum", "lm_eval", "swanlab", "kernels")
"""Plugins of axolotl.integrations that leave samples, collator and trainer as they are."""


def read_config(config: AxolotlConfig) -> TrainingRules:
    """Return what axolotl's configuration means: corpus, strategy, settings and schedule."""
    _check(config)
    size, accumulation, samples_per_step = _batch_sizes(config)
    packing = bool(config.sample_packing)
    seed = _SEED if config.seed is None else config.seed
    corpus = corpus_of(config)
    settings = {
        "max_length": config.sequence_len,
        # Under drop and raise, `prepare` leaves no longer sample: it counts them with the reason.
        "overflow": "truncate" if config.excess_length_strategy == "truncate" else "drop",
        "gradient_accumulation_steps": accumulation,
        "seed": seed,
        # With packing, its batch sampler drops the last batch by rules of its own.
        "drop_last": bool(config.dataloader_drop_last) and not packing,
        "loss": "axolotl",
    }
    strategy = _packed_rows(config, size) if packing else _padded_rows(config, size)
    if config.curriculum_sampling and not packing:
        # Ranks get batches in turn, filled up by accelerate, as with `hf-trainer`, but unshuffled.
        settings |= {"order": "file", "distribute": "batches", "remainder": "fill"}
    multiple = _padding_multiple(config, packing)
    if multiple > 1:
        settings["pad_to_multiple_of"] = multiple
    # A single data set keeps its sequence for curriculum_sampling; several are merged and shuffled.
    merges = len(config.datasets or []) > 1
    shuffles = config.shuffle_merged_datasets and (merges or not config.curriculum_sampling)
    # axolotl cuts the texts of datasets of type completion, the only ones with a text column.
    cuts_texts = any("text_column" in columns for columns in corpus.columns)
    return TrainingRules(
        config=config,
        corpus=replace(corpus, loads=loading_of(config, corpus.reading.get("chat_template"))),
        batching=Batching(
            strategy=strategy,
            settings=settings,
            prepare=partial(prepare, config, seed if shuffles else None, cuts_texts),
        ),
        schedule=AxolotlSchedule(
            epochs=config.num_epochs,
            max_steps=config.max_steps or None,
            config=config,
            samples_per_step=samples_per_step,
        ),
        warnings=(*corpus.warnings, *_warnings(config)),
    )


def _check(config: AxolotlConfig) -> None:
    """Raise OptionError for keys that contradict each other, or that are not modelled."""
    config.check_modelled()
    if config.sample_packing:
        _check_packing(config)
    # With these, several ranks share a batch.
    for key in ("context_parallel_size", "sequence_parallel_degree", "tensor_parallel_size"):
        if (getattr(config, key) or 1) > 1:
            raise config.error(
                f"{key}={getattr(config, key)} is not modelled: remove it, and pass the number of "
                "data-parallel ranks with --world-size"
            )
    for plugin in config.plugins or []:
        if not str(plugin).startswith(tuple(f"axolotl.integrations.{name}." for name in _PLUGINS)):
            raise config.error(
                f"plugins has {plugin!r}, which may change batches: remove it if it does not"
            )
    if config.val_set_size == 1:
        raise config.error("val_set_size=1 leaves no sample: give a share or a number")
    # axolotl refuses both at once.
    if config.attn_implementation and (flags := config.attention_flags):
        raise config.error(f"attn_implementation contradicts {flags[0]}: remove one")
    if config.ddp is False:
        raise config.error(
            "ddp=false is not modelled: axolotl counts the steps of one rank, however "
            "many there are: remove it"
        )
    if config.warmup_steps and config.warmup_ratio:
        raise config.error("warmup_ratio contradicts warmup_steps: remove one")


def _check_packing(config: AxolotlConfig) -> None:
    """Raise OptionError for values that are not modelled together with sample_packing."""
    if config.multipack_real_batches is False and attention_of(config) not in _LONG_ROWS:
        raise config.error(
            "multipack_real_batches=false is not modelled with this attention, for which "
            "axolotl counts steps as if it were true: remove it"
        )
    # To the strategy, 1 means "not set": it would pad rows to multiples of 64.
    if config.pad_to_multiple_of == 1 and config.sequence_len % _PAD_TO:
        raise config.error("pad_to_multiple_of=1 is not modelled with sample_packing: remove it")


def _batch_sizes(config: AxolotlConfig) -> tuple[int, int, int]:
    """Return the samples per batch, the batches per step, and the samples per step by which axolotl
    counts steps.

    The last two differ where the key batch_size, samples per step, is set: axolotl counts steps by
    it, but trains with gradient_accumulation_steps, which is then still 1.
    """
    size, step_size = config.micro_batch_size, config.batch_size
    if step_size is None:
        accumulation = config.gradient_accumulation_steps
        return size, accumulation, size * accumulation
    # axolotl refuses batch_size alone, and beside gradient_accumulation_steps.
    if "micro_batch_size" not in config.given_keys:
        raise config.error("batch_size needs micro_batch_size: add it")
    if "gradient_accumulation_steps" in config.given_keys:
        raise config.error("batch_size contradicts gradient_accumulation_steps: remove batch_size")
    if step_size % size:
        raise config.error(
            f"batch_size={step_size} is not a multiple of micro_batch_size={size}: change one"
        )
    return size, 1, step_size


def attention_of(config: AxolotlConfig) -> str | None:
    """Return the name of the attention, from attn_implementation or an old flag; None if neither is
    set. A kernel loses its suffix: `kernels-community/flash-attn2@v1:forward` is
    `kernels-community/flash-attn2`.
    """
    name = config.attn_implementation
    if name is None:
        return next((ATTENTION[key] for key in config.attention_flags), None)
    return str(name).split(":", 1)[0].split("@", 1)[0].strip()


def _packed_rows(config: AxolotlConfig, size: int) -> StrategySpec:
    """Return the strategy of sample_packing; `size` is micro_batch_size."""
    attention, real_batches = attention_of(config), config.multipack_real_batches
    parameters = {
        "read_ahead": config.sample_packing_group_size,
        "max_samples_per_row": config.sample_packing_bin_size,
        "sequential": bool(config.sample_packing_sequentially),
        # Without multipack_real_batches, axolotl decides by the attention.
        "real_batches": attention not in _LONG_ROWS if real_batches is None else real_batches,
        "curriculum": bool(config.curriculum_sampling),
        # Under these kinds of attention, the samples of a row do not see each other.
        "within_samples": attention in (*_LONG_ROWS, "sdpa", "eager"),
        # With sample_packing, axolotl sets null, the default, to true.
        "pad_to_sequence_len": config.pad_to_sequence_len is not False,
    }
    # Defaults are left out of the strategy's text. Those of the dataclass `Axolotl` are attributes
    # of the class; a field without one has no default, as None.
    changed = {key: v for key, v in parameters.items() if getattr(Axolotl, key, None) != v}
    return StrategySpec.of("axolotl", sample_packing=True, batch_size=size, **changed)


def _padded_rows(config: AxolotlConfig, size: int) -> StrategySpec:
    """Return the strategy of one sample per row, as the Trainer has it; `size` is micro_batch_size.
    Under curriculum_sampling, samples keep the sequence of the data, which is a setting of static.
    """
    if config.curriculum_sampling:
        return StrategySpec.of("static", batch_size=size)
    name = "hf-group-by-length" if config.group_by_length else "hf-trainer"
    return StrategySpec.of(name, batch_size=size)


def _padding_multiple(config: AxolotlConfig, packing: bool) -> int:
    """Return the number to a multiple of which widths are padded; 1 for no padding beyond the
    longest sample.

    pad_to_sequence_len has three values: true pads to sequence_len, null, the default, to a
    multiple of pad_to_multiple_of, and false does not pad.
    """
    if config.pad_to_sequence_len is False:
        return 1
    if packing:  # the strategy itself pads rows to sequence_len
        return config.pad_to_multiple_of or 1
    multiple = config.pad_to_multiple_of or _PAD_TO
    if config.pad_to_sequence_len is None:
        return multiple
    # sequence_len, rounded up to a multiple: no sample is longer, so that all widths are this one.
    return -(-config.sequence_len // multiple) * multiple


def _warnings(config: AxolotlConfig) -> Iterator[Finding]:
    """Yield the warnings of a report."""
    if "seed" not in config.given_keys:
        yield Finding(
            "order/unseeded-shuffle",
            "without seed, axolotl shuffles the data set differently in each run: which samples "
            "meet, and are held out, is of one such run",
        )
    if config.sample_packing and not config.max_steps:
        yield Finding(
            "schedule/estimated-steps",
            "axolotl estimates the number of steps from unseeded orders of the samples: it may "
            "differ by a few from the one here",
        )
    if config.batch_size is not None:
        yield Finding(
            "schedule/other-steps",
            "axolotl counts steps of batch_size samples, but takes them with "
            "gradient_accumulation_steps=1: give that in place of batch_size",
        )
    packs_held_out = config.val_set_size and config.eval_sample_packing is not False
    may_have_no_step = config.dataloader_drop_last or config.num_epochs < 1
    if config.sample_packing and packs_held_out and may_have_no_step:
        yield Finding(
            "schedule/evaluation",
            "axolotl fails when evaluation has no step, which can happen with dataloader_drop_last "
            "or less than an epoch: eval_sample_packing=false avoids it",
        )
    if config.sample_packing and attention_of(config) is None:
        yield Finding(
            "packing/shared-attention",
            "sample_packing without attn_implementation: samples of a row see each other, and a "
            "batch is micro_batch_size rows",
        )
    if config.group_by_length and not config.sample_packing:
        yield Finding("order/unseeded-groups", GROUPED_WARNING)
    if set(config.special_tokens or {}) - {"pad_token"}:
        yield Finding(
            "tokenizer/special-tokens",
            "chat templates are rendered with the tokenizer's own special tokens",
        )
    if config.auto_find_batch_size:
        yield Finding("config/batch-size-search", AUTO_FIND_WARNING)


def alternatives(config: AxolotlConfig) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute."""
    if config.sample_packing:
        if config.pad_to_sequence_len is not False:  # packed rows are padded unless it is false
            yield {"pad_to_sequence_len": False}
        return
    packing: dict[str, Any] = {"sample_packing": True}
    if attention_of(config) not in _LONG_ROWS:
        # Packed samples need an attention that keeps them apart; old flags would contradict it.
        packing["attn_implementation"] = "flash_attention_2"
        packing |= dict.fromkeys(config.attention_flags, False)
    yield packing
    if not config.group_by_length and not config.curriculum_sampling:
        yield {"group_by_length": True}
    if config.pad_to_sequence_len:  # without packing, null does not pad to sequence_len
        yield {"pad_to_sequence_len": False}


AXOLOTL = Framework(
    title="axolotl's configuration",
    config=AxolotlConfig,
    own_keys={
        "max_length": "sequence_len",
        "batch_size": "micro_batch_size",
        "drop_last": "dataloader_drop_last",
    },
    packing="sample_packing",
    stands_for=("axolotl",),
    read=read_config,
    drops_unknown=True,
    alternatives=alternatives,
)
