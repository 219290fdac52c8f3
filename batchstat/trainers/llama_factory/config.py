"""LLaMA-Factory's training arguments, as `llamafactory-cli train` takes them.

Checked against LLaMA-Factory 0.9.5 with transformers 5.6: `get_train_args` of src/llamafactory/
hparams/parser.py and the arguments beside it, `run_sft` of train/sft/workflow.py,
`CustomSeq2SeqTrainer` of train/sft/trainer.py, and `SFTDataCollatorWith4DAttentionMask` of
data/collator.py, which pads to multiples of 8. What `TrainingArguments` decide is in
`transformers`, which data are read in `corpus`, and which samples are left of them in `samples`.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from batchstat.findings import Finding
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.trainers.base.rules import TrainingRules
from batchstat.trainers.base.setup import Framework
from batchstat.trainers.llama_factory import texts
from batchstat.trainers.llama_factory.corpus import TEXTS, corpus_of_chats, with_data
from batchstat.trainers.llama_factory.keys import LlamaFactoryArguments
from batchstat.trainers.llama_factory.samples import prepare_chats
from batchstat.trainers.transformers import config as base
from batchstat.trainers.transformers.keys import RANDOM, SEQUENTIAL, keys_of_version_4
from batchstat.words import short

_STAGES = ("sft", TEXTS)
"""Stages that are modelled."""

_PAD_TO = 8
"""The collator of stage sft pads to multiples of this."""


def read_config(config: LlamaFactoryArguments) -> TrainingRules:
    """Return what LLaMA-Factory's arguments mean: the rules of `TrainingArguments`, and its own for
    samples and rows.
    """
    of_texts = config.stage == TEXTS
    if of_texts:
        texts.check(config)
        # Before packing gets its default: the length depends on whether the file sets it.
        max_length, packing = texts.row_length(config), texts.packs(config)
        corpus_rules, prepare = texts.corpus_of, texts.prepare
    else:
        max_length, packing = config.cutoff_len, bool(config.packing) or config.neat_packing
        corpus_rules, prepare = corpus_of_chats, prepare_chats
    config = replace(config, packing=packing)
    if config.disable_shuffling:  # its own sampler replaces the Trainer's, grouped or not
        config = replace(config, train_sampling_strategy=SEQUENTIAL, group_by_length=False)
    _check(config)
    rules = base.read_arguments(config)
    settings = {**rules.batching.settings, "max_length": max_length}
    strategy = rules.batching.strategy
    if config.packing:
        strategy = _packing_strategy(config)
        # Texts are cut at the ends of rows; samples of chats are truncated.
        settings |= {"overflow": "split"} if of_texts else {}
    elif not of_texts:
        settings["pad_to_multiple_of"] = _PAD_TO
    if config.own_losses:
        settings["loss"] = None  # the weights of tokens are unknown, and not reported
    return replace(
        rules,
        corpus=with_data(config, corpus_rules(config)),
        batching=replace(
            rules.batching,
            strategy=strategy,
            settings=settings,
            prepare=partial(prepare, config),
        ),
        warnings=tuple(_warnings(config)),
    )


def _packing_strategy(config: LlamaFactoryArguments) -> StrategySpec:
    """Return the strategy of packing: true, which differs by what keeps samples of a row apart."""
    packing = "wrapped" if config.stage == TEXTS else "plain"
    if config.neat_packing:
        # For flash attention 2, the collator takes out the padding of a row, and gives no mask.
        packing = "unpadded" if config.flash_attn == "fa2" else "masked"
    return StrategySpec.of(
        "llama-factory",
        packing=packing,
        batch_size=config.per_device_train_batch_size,
        read_ahead=config.preprocessing_batch_size,
        preprocessing_num_workers=config.preprocessing_num_workers or 1,
    )


def _check(config: LlamaFactoryArguments) -> None:
    """Raise OptionError for keys that contradict each other, or that are not modelled."""
    if config.stage not in _STAGES:
        raise config.error(
            f"stage={short(config.stage)} is not modelled: only {' and '.join(_STAGES)} are"
        )
    if "warmup_ratio" in config.given_keys and config.warmup_steps:
        raise config.error(
            f"of warmup_ratio and warmup_steps={config.warmup_steps:g}, versions of "
            "transformers that LLaMA-Factory allows take one or the other: remove one"
        )
    if not config.do_train:
        raise config.error("do_train=false trains nothing: set do_train to true")
    config.check_modelled()
    for key, other in (("mask_history", "train_on_prompt"), ("val_size", "eval_dataset")):
        if getattr(config, key) and getattr(config, other):
            raise config.error(f"{key} contradicts {other}: remove one")
    # `Dataset.train_test_split` takes a float for a share below 1, and an int for a number.
    if config.val_size == 1 and isinstance(config.val_size, float):
        raise config.error("val_size=1.0 is neither a share nor a number: set 1 or more")
    if config.packing:
        _check_packing(config)


def _check_packing(config: LlamaFactoryArguments) -> None:
    """Raise OptionError for values that are not modelled together with packing."""
    base.check_even(config)
    sampling = base.sampling_strategy(config)
    if sampling != RANDOM:
        key = "disable_shuffling" if config.disable_shuffling else sampling
        raise config.error(f"packing with {key} is not modelled: remove one")
    if config.neat_packing and config.flash_attn == "fa3":
        raise config.error("neat_packing=true with flash_attn=fa3 is not modelled: use fa2 or auto")
    size = config.per_device_train_batch_size
    # For flash attention 2, its collator asserts that a batch is one row.
    if config.neat_packing and config.flash_attn == "fa2" and size != 1:
        raise config.error(
            f"neat_packing=true with flash_attn=fa2 takes one row per batch, but "
            f"per_device_train_batch_size={size}: set it to 1"
        )


def _warnings(config: LlamaFactoryArguments) -> Iterator[Finding]:
    """Yield the warnings of a report."""
    # From `given_keys`, those that the file sets, only one warning follows: that a key is one of
    # transformers 4. LLaMA-Factory runs with versions 4 and 5, and has some of these keys itself.
    yield from base.warnings_of(replace(config, given_keys=frozenset()))
    for key in config.own_losses:
        yield Finding(
            "loss/own-weights", f"{key} gives each token a weight of its own, which is not reported"
        )


def alternatives(config: LlamaFactoryArguments) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute: packing, or grouping by length."""
    one_row = config.per_device_train_batch_size == 1
    if config.stage == TEXTS:
        if not config.packing:
            yield {"packing": True}
        return
    if config.packing:
        if config.neat_packing and one_row and config.flash_attn != "fa2":
            yield {"flash_attn": "fa2"}  # takes one row per batch, without its padding
        return
    yield {"neat_packing": True}
    if not config.disable_shuffling:
        # `base.alternatives` concludes from keys of transformers 4 that this version is installed.
        # LLaMA-Factory has some of these itself, whatever the version, which say nothing about it.
        own_keys = keys_of_version_4() & config.recorded().keys
        yield from base.alternatives(replace(config, given_keys=config.given_keys - own_keys))


LLAMA_FACTORY = Framework(
    title="LLaMA-Factory's training arguments",
    config=LlamaFactoryArguments,
    own_keys={**base.OWN_KEYS, "max_length": "cutoff_len"},
    packing="packing",
    needed={"do_train": True},
    stands_for=("llama-factory",),
    checkpointing="",
    read=read_config,
    alternatives=alternatives,
)
